/* inspect.h - the state of a lock on the server, and the counters of the client. */
#ifndef HLK_API_INSPECT_H
#define HLK_API_INSPECT_H

#include "handle/handle.h"

/* Query on one server. at: one of several, with a time-out, and where a fault goes; or NULL, 0, NULL: the lock's own
 * server, and the thread's error. */
enum hlk_status hlk_lock_query_at(hlk_lock *lock, hlk_pipeline *at, int64_t max_ms, struct hlk_lock_state *out,
                                  struct hlk_error *error);

#endif
