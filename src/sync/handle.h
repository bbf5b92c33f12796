/* handle.h - a lock handle and an owner, from inside. */
#ifndef HLK_SYNC_HANDLE_H
#define HLK_SYNC_HANDLE_H

#include "client.h"

#include <string.h>

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
    struct hlk_session *session;        /* NULL: a fair lock that threads hold; each call has a seat (seat.c) */
    hlk_owner *_Atomic owner;           /* NULL: threads hold. Given back by destroy: holds do not keep owners */
    struct hlk_holder holder;           /* the owner's, id 0 without */
    int64_t lease_ms, max_hold_ms;
    int64_t token_floor;
    bool fenced;
    bool fair;
    char name[];                        /* where there is no session that has it */
};

static inline const char *hlk_lock_text(const hlk_lock *lock)
{
    return lock->session ? hlk_session_name(lock->session) : lock->name;
}

static inline size_t hlk_lock_text_len(const hlk_lock *lock)
{
    return lock->session ? hlk_session_len(lock->session) : strlen(lock->name);
}

/* The handle a call works with: the lock itself; of a fair lock that threads hold, the calling thread's seat, a handle
 * of its own with a session of its own. NULL: no memory, the thread's error is set. */
hlk_lock *hlk_lock_seat(hlk_lock *lock, const char *operation);
void hlk_lock_unseat(const hlk_lock *lock, hlk_lock *seat);
/* *view is zero before. */
void hlk_lock_view(const hlk_lock *lock, struct hlk_self *self, struct hlk_view *view);

/* Who holds through this handle when `self` calls. */
static inline struct hlk_holder hlk_lock_holder(const hlk_lock *lock, struct hlk_self *self)
{
    return lock->holder.id ? lock->holder : (struct hlk_holder){ self->id, &self->holds };
}

/* The thread's error, as `operation "name" at endpoint: what`. Returns status. */
enum hlk_status hlk_lock_fails(const hlk_lock *lock, const char *operation, enum hlk_status status,
                               const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Of a holder that holds nothing: HLK_NOT_HOLDER; HLK_E_CLOSED when it is close that released it meanwhile. */
enum hlk_status hlk_lock_not_held(const hlk_lock *lock, const char *operation);

/* HLK_LOST of an acquire, and why. */
enum hlk_status hlk_lock_lost_before(const hlk_lock *lock, struct hlk_holder holder);

/* The owner's label, if the handle has an owner still: of a handle that may be destroyed just now. "": none. */
void hlk_lock_owner_label(struct hlk_via *via, char *buf, size_t size);

/* NULL, forked, closed: checked at the edge of every call on a handle. */
enum hlk_status hlk_lock_check(const hlk_lock *lock, const char *operation);

struct hlk_patience {           /* how long a short question may take. All 0: as patience_ms and reply_ms say */
    int64_t most_ms;
    struct hlk_cancel *cancel;  /* ends it: HLK_INTERRUPTED */
    bool once;                  /* not repeated when its connection breaks: HLK_E_UNSURE */
};

/* Asks `question` (script and arguments are set) and gives the answer to `read`. patience NULL: all 0. Faults set the
 * thread's error. Blocks. */
enum hlk_status hlk_lock_ask(hlk_lock *lock, const char *operation, const struct hlk_question *question,
                             const struct hlk_patience *patience,
                             void (*read)(const struct hlk_question *q, void *ctx), void *ctx);

/* Writes count and lease (0: as it is) of a held hold. watchdog: it is renewed from now on. HLK_OK, HLK_LOST (told),
 * HLK_NOT_HOLDER (its owner's other thread has released it meanwhile), or a fault, with the thread's error set. */
enum hlk_status hlk_lock_reacquire(hlk_lock *lock, const char *operation, uint64_t h, int64_t count, int64_t lease_ms,
                                   bool watchdog, const struct hlk_patience *patience);
/* An end has its outcome: what that is to who released. Counted; a loss that it found out is told; why is in *error. */
enum hlk_status hlk_lock_released(hlk_client *client, const struct hlk_undo *undo, struct hlk_session *s,
                                  const struct hlk_via *via, enum hlk_undo_outcome outcome, struct hlk_error *error);
/* The count alone, without waiting: it is there for people to see. If the server does not know the hold any more, the
 * loss is told. */
void hlk_lock_write_count(hlk_lock *lock, uint64_t h, int64_t count);

#endif
