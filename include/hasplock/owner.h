/* owner.h - a holder that is not a thread: a request, a coroutine, a connection, a job that moves between threads.
 *
 * A lock handle made with an owner acquires and releases in its name, from whatever thread. Two owners exclude each
 * other even on one thread; one owner is reentrant even across threads. That is all an owner does: it does not
 * serialise the threads that act for it at the same time, as a thread id would not.
 *
 *     hlk_owner *request = hlk_owner_create(client, "order-4711");
 *     struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
 *     opts.owner = request;
 *     hlk_lock *stock = hlk_lock_create(client, "stock:9", &opts);
 *     ...acquire in one callback, release in another, on any thread...
 *     hlk_lock_destroy(stock);
 *     hlk_owner_destroy(request);
 *
 * Async calls (async.h) need one: a completion has no thread of its own.
 */
#ifndef HASPLOCK_OWNER_H
#define HASPLOCK_OWNER_H

#include "client.h"

HLK_BEGIN_DECLS

typedef struct hlk_owner hlk_owner;         /* opaque, counted; any number of threads at once */

/* `label` is for people (error texts of those who wait behind it): 0 to 64 printable bytes, copied, need not be unique;
 * NULL: none. The owner itself is unique and known inside this process only. NULL, see hlk_last_status():
 * HLK_E_NOMEM, HLK_E_INVALID (a bad label, no client), HLK_E_FORKED, HLK_E_CLOSED. No I/O. Any thread. */
HLK_API HLK_MUST_USE hlk_owner *hlk_owner_create(hlk_client *client, const char *label);

/* Gives the caller's reference back; the last one (locks made with it keep their own) frees it. If it still holds
 * something then, nobody could release it any more: renewal stops, HLK_EVENT_ORPHANED tells. No I/O. NULL is fine. */
HLK_API void hlk_owner_destroy(hlk_owner *owner);

/* The label it was made with, "" if none. Lives as long as the owner. Redis never sees an owner: a hold there is named
 * by a number of its own (hlk_lock_hold_id). NULL for NULL. Any thread. */
HLK_API const char *hlk_owner_label(const hlk_owner *owner);

HLK_END_DECLS

#endif
