/* acquire_op.h - one acquire on its way, driven by a blocked thread (acquire/acquire_blocking.c) or by completions
 * (acquire/async_acquire.c).
 *
 * It has a waiter in the local queue, a command to Redis, listeners at the lock's channels, and a cancel object.
 * Leaving rolls all of it back. The release of its hold id is queued before the next waiter may send.
 *
 *   state     waiter            true                 Next
 *   QUEUED    linked, h == 0    waits, if it parks   HEAD; WON (passed on within the process); LEFT
 *   HEAD      linked, h != 0                         SENT; PARKED; LEFT
 *   SENT      the same          in_flight            HEAD, by any reply but "acquired"; WON; LEFT
 *   PARKED    the same          waits                SENT; WON (a grant); LEFT
 *   RAISING   not linked        raising, in_flight   LEFT, with `raised` if the reply was that it is
 *   WON       not linked, got   won                  LEFT; with wait_replicas it is `unconfirmed` meanwhile
 *   LEFT      not linked        none of these        freed with the last of `users`: the driver, and take_back if a
 *                                                    hold, a ticket or an attempt was left behind */
#ifndef HLK_ACQUIRE_ACQUIRE_OP_H
#define HLK_ACQUIRE_ACQUIRE_OP_H

#include "acquire/acquire_terms.h"
#include "base/mem.h"
#include "lease/raise.h"
#include "node/replicas.h"
#include "script/engine.h"
#include "script/pending_release.h"
#include "wait/acquire_machine.h"
#include "wait/wait_for.h"

struct hlk_acquire_op {                    /* heap; the command's call may outlive the caller */
    struct hlk_local_waiter waiter;
    struct hlk_command cmd;
    struct hlk_listener inbox_listener, listener; /* at the client's inbox; where foreign clients call, behind one
                                                   * (script/format.h) */
    struct hlk_cancel_wait cancel_wait;
    struct hlk_wait_entry closing_wait;
    struct hlk_acquire_machine machine;
    hlk_lock *lock;                     /* its handle is referenced */
    struct hlk_entry *entry;            /* in which it waits; referenced */
    const struct hlk_acquire_hooks *hooks;
    void *with;                         /* the hooks'; freed with it */
    struct hlk_node *node;              /* that keeps the lock's entry, */
    struct hlk_node *server;            /* and whose channels it has joined: where the lock was at the last attempt */
    struct hlk_cancel *cancel;
    struct hlk_waker *waker;            /* the driver's; not used any more once the operation has left */
    enum hlk_progress (*send)(struct hlk_acquire_op *op);   /* the driver's: sends an attempt, and sets in_flight */
    struct hlk_wait_for wait_for;       /* set by each step (acquire/acquire_step.h) */
    void *driver;                       /* struct hlk_async of a driver without a thread */
    int64_t started_ns;
    int64_t lease_ms;                   /* > 0 */
    bool fixed, eintr;
    atomic_bool stopped;                /* its driver ends it, as a cancel does */
    bool in_flight;                     /* the command's call is in the stream */
    bool won;                           /* the reply was "acquired" */
    bool retried;                       /* one try, or one that polls: it has been sent again because a hold of this
                                         * process was found whose release is under way */
    bool waits;                         /* counted in `waiting`, registered for close and cancel */
    bool shared;                        /* other threads may have, or have had, a pointer to it */
    bool raising;                       /* not an acquire: it makes the lease of a nested hold longer */
    bool raised;                        /* and the reply was that it is */
    struct hlk_raise raise;             /* for that */
    uint64_t closings;                  /* for hlk_shared_begin: when the last attempt was sent */
    bool unanswered;                    /* its deadline passed before any reply */
    unsigned late;                      /* replies "acquired" that came after the lease's end: a release is due */
    bool inbox_retained;                /* the inbox stays subscribed while it is behind others in the local queue; */
    struct hlk_listener retained;       /* the lock's own inbox, with sharded pub/sub */
    bool unconfirmed;                   /* it holds the lock, and replicas have not confirmed that yet */
    struct hlk_replica_wait *confirmation;
    int acknowledged;                   /* number of replicas that have confirmed it; < 0: not known */
    char holder[HLK_FIELD_MAX];         /* its holder by the last reply; "": unknown */
    int64_t holder_ms;                  /* when that reply came */
    struct hlk_busy busy;
    struct hlk_release take_back;       /* of the hold, or the ticket, that it leaves behind. It must not lack memory,
                                         * so it is a part of the operation */
    bool gives_back;                    /* hooks->give_back, when take_back has ended its ticket */
    atomic_uint users;                  /* the driver, and take_back until it is settled: the last one frees it all */
    struct hlk_error error;
};

/* terms->with is the operation's from now on. NULL: no memory. */
struct hlk_acquire_op *hlk_acquire_op_make(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts);

/* HLK_E_CLOSED: close began first, and does not wait for it. With a cancel object also as hlk_acquire_op_wait. */
enum hlk_status hlk_acquire_op_begin(struct hlk_acquire_op *op);

/* From now on close and cancel end the wait. HLK_INTERRUPTED or HLK_E_CLOSED: one of them already has. */
enum hlk_status hlk_acquire_op_wait(struct hlk_acquire_op *op);

/* The same, behind others in the local queue. */
enum hlk_status hlk_acquire_op_queue(struct hlk_acquire_op *op);

/* It is the head waiter: from now on the command is about its hold id, waiter.h. HLK_ACQUIRE_ON_HEAD. */
enum hlk_acquire_event hlk_acquire_op_become_head(struct hlk_acquire_op *op);
/* It holds the lock without a reply: by a grant, or passed on within the process. HLK_ACQUIRE_ON_ACQUIRED. */
enum hlk_acquire_event hlk_acquire_op_acquired(struct hlk_acquire_op *op);
/* Called before each command. HLK_ACQUIRE_ON_HEAD: send it. HLK_ACQUIRE_ON_ACQUIRED: it holds the lock already.
 * HLK_ACQUIRE_ON_ABORT: see op->error. */
enum hlk_acquire_event hlk_acquire_op_prepare(struct hlk_acquire_op *op);
/* Its deadline has passed, and it is in the local queue, not its head. HLK_ACQUIRE_ON_TIME: another client holds the
 * lock, or there is a connection. HLK_ACQUIRE_ON_ABORT: there is no connection, and no holder is known: none in this
 * process, and no reply to the head waiter has named one; see op->error. */
enum hlk_acquire_event hlk_acquire_op_queue_timeout(struct hlk_acquire_op *op);
/* The same for the head waiter. HLK_ACQUIRE_ON_ABORT: there is no connection, and no attempt was sent. */
enum hlk_acquire_event hlk_acquire_op_timeout(struct hlk_acquire_op *op);
/* The moment since which the server refuses commands for now (cmd.limits.refused_ms) goes from one head waiter to the
 * next: get it before an attempt ends, set it afterwards. */
void hlk_acquire_op_get_refused(struct hlk_acquire_op *op);
void hlk_acquire_op_set_refused(const struct hlk_acquire_op *op);
/* Reads the reply in cmd.call.reply, and frees it. Returns the event for the machine; HLK_ACQUIRE_ON_BUSY: see
 * op->busy. */
enum hlk_acquire_event hlk_acquire_op_answer(struct hlk_acquire_op *op);

/* Leaves the local queue, the channels, the cancel object and the client's list of waits. A ticket, an attempt that may
 * run yet, and a lock acquired meanwhile are released. The command may still be in flight. */
void hlk_acquire_op_leave(struct hlk_acquire_op *op);
/* After leave, when no command is in flight. */
void hlk_acquire_op_free(struct hlk_acquire_op *op);
/* op->users */
static inline void hlk_acquire_op_drop_user(struct hlk_acquire_op *op)
{
    if (atomic_fetch_sub(&op->users, 1) > 1)
        return;
    if (op->with)
        op->hooks->free(op->with);
    hlk_mem_free(op);
}

#endif
