/* batch.h - commands about many locks in one run of one script, lua/lock_batch.lua.
 *
 * Only simple cases are batchable: an acquire that takes no ticket, and a release. If one turns out not to be simple (a
 * waiter or a tombstone exists), its reply says so, and it is sent again unbatched. */
#ifndef HLK_SCRIPT_BATCH_H
#define HLK_SCRIPT_BATCH_H

#include "net/pipeline.h"

#define HLK_BATCH_ACQUIRE 'a'        /* its keys: lock and queue; its arguments: lease and hold */
#define HLK_BATCH_RELEASE 'e'        /* the same keys; hold and channel */
#define HLK_BATCH_YIELD_RELEASE 'o'  /* with a yield window, if the channel has subscribers */

/* For a pipeline owner's `build_batch`. */
bool hlk_batch_build(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n, bool whole);

#endif
