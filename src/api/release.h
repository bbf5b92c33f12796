/* release.h - releases of several locks by one thread, all at once. */
#ifndef HLK_API_RELEASE_H
#define HLK_API_RELEASE_H

#include "handle/handle.h"

struct hlk_releasing;

/* The next release by this thread, or the lock's owner, settles one before that was not answered. */
bool hlk_release_is_unsure(const hlk_lock *lock, struct hlk_thread *self);

/* hlk_lock_release of a lock on one server, or its first part. *begun set, HLK_OK: it is on its way, HLK_WAKE_SETTLED
 * wakes `self` when it is settled, and hlk_release_end must follow. Else it is over, with the thread's error set. */
enum hlk_status hlk_release_begin(hlk_lock *lock, struct hlk_thread *self, struct hlk_releasing **begun);
bool hlk_release_is_settled(const struct hlk_releasing *release);
/* If it is not settled by now: HLK_E_UNSURE, or the server's refusal, and it goes on in the background. */
enum hlk_status hlk_release_end(hlk_lock *lock, struct hlk_thread *self, struct hlk_releasing *release);

/* Turns the outcome of a release into the status for the releaser, with the reason in *error. Counts it, and reports a
 * loss that it has revealed. */
enum hlk_status hlk_lock_released(hlk_client *client, const struct hlk_release *pending, struct hlk_entry *e,
                                  const struct hlk_handle *handle, enum hlk_release_outcome outcome,
                                  struct hlk_error *error);

#endif
