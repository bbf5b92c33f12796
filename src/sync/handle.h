/* handle.h - a lock handle and an owner, from inside. */
#ifndef HLK_SYNC_HANDLE_H
#define HLK_SYNC_HANDLE_H

#include "client.h"

struct hlk_owner {
    atomic_int refs;
    struct hlk_holder holder;           /* holder.holds points to holds */
    atomic_uint holds;
    hlk_client *client;
    char label[65];
};

struct hlk_lock {
    struct hlk_via via;                 /* counts the references: handle, holds, waits */
    hlk_client *client;                 /* referenced, like session and owner */
    struct hlk_session *session;
    hlk_owner *owner;                   /* NULL: threads hold. Given back by destroy: holds do not keep owners */
    struct hlk_holder holder;           /* the owner's, id 0 without */
    int64_t lease_ms, max_hold_ms;
    int64_t token_floor;
    bool fenced;
};

static inline const char *hlk_lock_text(const hlk_lock *lock) { return hlk_session_name(lock->session); }

/* Who holds through this handle when `self` calls. */
static inline struct hlk_holder hlk_lock_holder(const hlk_lock *lock, struct hlk_self *self)
{
    return lock->owner || lock->holder.id ? lock->holder : (struct hlk_holder){ self->id, &self->holds };
}

/* The thread's error, as `operation "name" at endpoint: what`. Returns status. */
enum hlk_status hlk_lock_fails(const hlk_lock *lock, const char *operation, enum hlk_status status,
                               const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Of a holder that holds nothing: HLK_NOT_HOLDER; HLK_E_CLOSED when it is close that released it meanwhile. */
enum hlk_status hlk_lock_not_held(const hlk_lock *lock, const char *operation);

/* NULL, forked, closed: checked at the edge of every call on a handle. */
enum hlk_status hlk_lock_check(const hlk_lock *lock, const char *operation);

/* Asks `question` (script and arguments are set) and gives the answer to `read`. once: not repeated when its connection
 * breaks (HLK_E_UNSURE). most_ms 0: as patience and reply_ms say. Faults set the thread's error. Blocks. */
enum hlk_status hlk_lock_ask(hlk_lock *lock, const char *operation, const struct hlk_question *question,
                             int64_t most_ms, bool once,
                             void (*read)(const struct hlk_question *q, void *ctx), void *ctx);

/* Writes count and lease (0: as it is) of a held hold. watchdog: it is renewed from now on. HLK_OK, HLK_LOST (told),
 * or a fault, with the thread's error set. */
enum hlk_status hlk_lock_reacquire(hlk_lock *lock, const char *operation, uint64_t h, int64_t count, int64_t lease_ms,
                                   bool watchdog, int64_t most_ms);

#endif
