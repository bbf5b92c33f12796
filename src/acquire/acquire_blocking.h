/* acquire_blocking.h - an acquire by a blocked thread, which does its own I/O. */
#ifndef HLK_ACQUIRE_ACQUIRE_BLOCKING_H
#define HLK_ACQUIRE_ACQUIRE_BLOCKING_H

#include "acquire/acquire_terms.h"

/* With checked options. terms->with is the operation's from now on, also if none is made. Blocks; a cancellation point
 * in its sleeps. Sets the thread's error. */
enum hlk_status hlk_acquire_on(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                               struct hlk_thread *self);

#endif
