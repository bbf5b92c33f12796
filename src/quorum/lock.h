/* lock.h - the calls of hasplock/lock.h for a lock over several masters (handle/handle.h). What one holder has of such
 * a lock is a struct hlk_quorum, which is found by kind, name and holder. It lives while that holder has the lock, has
 * lost it, or is in a call. */
#ifndef HLK_QUORUM_LOCK_H
#define HLK_QUORUM_LOCK_H

#include "quorum/quorum.h"

/* What `holder` has of the lock, for one call, which ends with leave. NULL: there is nothing; with `make`: no
 * memory. */
struct hlk_quorum *hlk_quorum_enter(const hlk_lock *lock, struct hlk_holder holder, bool make);
void hlk_quorum_leave(struct hlk_quorum *quorum);
enum hlk_status hlk_quorum_lock_no_memory(const hlk_lock *lock, const char *operation);
struct hlk_quorum_terms hlk_quorum_lock_terms(hlk_lock *lock, const struct hlk_quorum *quorum,
                                              const struct hlk_acquire_opts *opts);

#endif
