/* owner.h - a holder that is not a thread: a request, a coroutine, a connection, a job that moves between threads.
 *
 * A lock handle made with an owner acquires and releases for that owner, from any thread. Two owners exclude each other
 * even on one thread. One owner is reentrant even across threads. An owner does nothing else: it does not serialise
 * threads that act for it at the same time.
 *
 *     hlk_owner *request = hlk_owner_create(client, "order-4711");
 *     struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
 *     opts.owner = request;
 *     hlk_lock *stock = hlk_lock_create(client, "stock:9", &opts);
 *     ...acquire in one callback, release in another, on any thread...
 *     hlk_lock_destroy(stock);
 *     hlk_owner_destroy(request);
 *
 * Async calls (async.h) need an owner, because a completion has no thread of its own.
 */
#ifndef HASPLOCK_OWNER_H
#define HASPLOCK_OWNER_H

#include "client.h"

HLK_BEGIN_DECLS

typedef struct hlk_owner hlk_owner;         /* opaque, counted; any number of threads at once */

/* Creates an owner. It is unique, and exists inside this process only. `label` appears in error texts of those who wait
 * behind it: 0 to 64 printable bytes, copied, not necessarily unique. NULL: no label. No I/O. Any thread.
 * Returns NULL on failure; hlk_last_status(): HLK_E_NOMEM, HLK_E_INVALID (bad label, no client), HLK_E_FORKED,
 * HLK_E_CLOSED. */
HLK_API HLK_MUST_USE hlk_owner *hlk_owner_create(hlk_client *client, const char *label);

/* Drops the caller's reference. Locks made with the owner keep references of their own; the last reference frees it. If
 * it still holds a lock then, nobody could release that any more: renewal stops, and HLK_EVENT_ORPHANED is reported. No
 * I/O. NULL does nothing. */
HLK_API void hlk_owner_destroy(hlk_owner *owner);

/* The owner's label, "" if it has none; NULL for NULL. Valid as long as the owner. Redis does not see owners: a hold
 * there has a number of its own (hlk_lock_hold_id). Any thread. */
HLK_API const char *hlk_owner_label(const hlk_owner *owner);

HLK_END_DECLS

#endif
