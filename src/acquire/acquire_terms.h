/* acquire_terms.h - what an acquire asks for: of which entry, for which holder, on which terms.
 *
 * The options of a call (struct hlk_acquire_opts) say how long it waits and for how long it holds. The handle says the
 * rest: the kind of the lock, and defaults. A type whose acquires differ from those of a lock (a semaphore, a barrier)
 * says where, by hooks. */
#ifndef HLK_ACQUIRE_ACQUIRE_TERMS_H
#define HLK_ACQUIRE_ACQUIRE_TERMS_H

#include "handle/handle.h"

struct hlk_acquire_op;

/* All on the driver's thread, without a mutex, unless it says otherwise. */
struct hlk_acquire_hooks {
    /* From now on its command is about another hold id. */
    void (*begin)(struct hlk_acquire_op *op);
    /* Its commands take no ticket: if they are answered BUSY it goes to another entry, by `join`. */
    bool (*tries)(const struct hlk_acquire_op *op);
    /* Returns what that entry says: HEAD, QUEUED, NOMEM. */
    enum hlk_enter (*join)(struct hlk_acquire_op *op);
    /* False: an attempt that was not answered may have taken what it asks for, and another one might take it again. See
     * op->error. */
    bool (*may_repeat)(struct hlk_acquire_op *op);
    /* When it leaves: since when Redis may have a note that it has taken. 0: it has none. */
    int64_t (*taken_ms)(const struct hlk_acquire_op *op);
    /* It has what it asked for. HLK_OK, or another status with op->error. */
    enum hlk_status (*keep)(struct hlk_acquire_op *op);
    /* Another call has passed on to it what it asked for, and it ends without: that is given back in the background.
     * op->take_back is the release; it has ended the ticket before, if there was one. */
    void (*give_back)(struct hlk_acquire_op *op);
    /* It is over, however it ended; before the status is reported. */
    void (*over)(struct hlk_acquire_op *op);
    /* The last use of `with` is over. Any thread. */
    void (*free)(void *with);
};

struct hlk_acquire_terms {
    hlk_lock *lock;             /* the handle: its kind and its defaults. Losses are reported to it; it is in errors */
    struct hlk_entry *entry;    /* of this holder, or of all holders of the process */
    struct hlk_holder holder;
    int64_t permits;            /* how many it takes, of a semaphore; else 0 */
    struct hlk_seen seen;       /* of a kind that holds nothing: what its waits have seen so far */
    int64_t count;              /* cmd->count; 0: the handle's number, or `permits` */
    const struct hlk_acquire_hooks *hooks;      /* NULL: it differs in nothing */
    void *with;                 /* the hooks': the operation frees it by hooks->free, also if it is not made */
};

/* Reads the options of a call. HLK_OK, or HLK_E_INVALID with the thread's error set. */
enum hlk_status hlk_acquire_read_opts(hlk_lock *lock, const char *operation, const struct hlk_acquire_opts *given,
                                      struct hlk_acquire_opts *opts);

/* The terms of a lock's holder when `self` calls. *out: hlk_acquire_terms_end must follow. False: no memory; the
 * thread's error is set. */
bool hlk_acquire_terms_of(hlk_lock *lock, struct hlk_thread *self, struct hlk_acquire_terms *out);
/* Its holder may have a hold that others of the process have too (lease/shared_hold.h). */
bool hlk_acquire_shares(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts);
/* Frees `with`: no operation was made of them. */
static inline void hlk_acquire_terms_drop(const struct hlk_acquire_terms *terms)
{
    if (terms->with)
        terms->hooks->free(terms->with);
}
static inline void hlk_acquire_terms_end(const struct hlk_acquire_terms *terms)
{
    hlk_lock_drop_entry(terms->lock, terms->entry);
}

#endif
