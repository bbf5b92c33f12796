/* debug.h - an assertion of debug builds (HLK_DEBUG) only. A release build does not evaluate it. A plain assert stays
 * in a release build: it is for invariants without which a client could end the lock of another one. */
#ifndef HLK_BASE_DEBUG_H
#define HLK_BASE_DEBUG_H

#ifdef HLK_DEBUG
#include <assert.h>
#define HLK_DEBUG_ASSERT(condition) assert(condition)
#else
#define HLK_DEBUG_ASSERT(condition) ((void)(0 && (condition)))
#endif

#endif
