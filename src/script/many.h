/* many.h - questions about many locks in one run of one script, lua/lock_many.lua.
 *
 * Two kinds, and only as long as they are simple: an acquire that takes no place in line, and a release. What turns out
 * not to be simple (somebody waits, or a void entry is there) is answered "by itself", and asked again so. */
#ifndef HLK_SCRIPT_MANY_H
#define HLK_SCRIPT_MANY_H

#include "net/mux.h"

#define HLK_PART_ACQUIRE 'a'        /* its keys: lock and queue; its arguments: lease and hold */
#define HLK_PART_END 'e'            /* the same keys; hold and channel */
#define HLK_PART_OPEN_END 'o'       /* with an open window, if somebody listens on the channel */

/* A mux owner's `combine`. */
bool hlk_many_combine(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n, bool whole);

#endif
