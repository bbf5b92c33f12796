/* acquire_op.h - one acquire on its way, whoever drives it: a blocked thread (sync/lock.c) or completions
 * (sync/async.c).
 *
 * It has a place in the process's line, a command to Redis, an ear at the lock's channel, and a cancel to mind.
 * Leaving undoes all of it in the order that owes nothing: end(h) goes into the stream before the next in line may
 * ask. */
#ifndef HLK_SYNC_ACQUIRE_OP_H
#define HLK_SYNC_ACQUIRE_OP_H

#include "node/replicas.h"
#include "script/engine.h"
#include "sync/acquire_machine.h"
#include "sync/handle.h"

struct hlk_acquire_op {                    /* heap; the command's call may outlive the caller */
    struct hlk_local_waiter waiter;
    struct hlk_command cmd;
    struct hlk_listener inbox_listener, listener; /* at the client's inbox; where foreign clients call, behind one
                                                   * (script/format.h) */
    struct hlk_cancel_wait cancel_wait;
    struct hlk_wait_entry closing_wait;
    struct hlk_acquire_machine machine;
    hlk_lock *lock;                     /* its handle is referenced */
    struct hlk_node *node;              /* that keeps the lock's entry, */
    struct hlk_node *server;            /* and whose channels it has joined: where the lock was when it last asked */
    struct hlk_cancel *cancel;
    struct hlk_thread *self;            /* the blocked thread; or NULL, and: */
    void (*wake)(struct hlk_acquire_op *op, unsigned bit);  /* any thread, under any mutex of rank below POST */
    void *driver;                       /* its own */
    int64_t started_ns;
    int64_t lease_ms;                   /* > 0 */
    bool fixed, eintr;
    bool in_flight;                     /* the command's call is in the stream */
    bool won;                           /* the answer was "yours" */
    bool asked_again;                   /* one try, or one that polls: it found a hold of our own process's, or no end
                                         * was on its way */
    bool waits;                         /* counted in `waiting`, registered for close and cancel */
    bool raising;                       /* not an acquire: a nested hold whose lease is being raised */
    bool raises;                        /* another thread of its owner had it first, with a lease to be raised */
    bool unanswered;                    /* its time was over before the server said anything */
    unsigned late;                      /* answers "yours" that came when the lease was over: end(h) is owed */
    bool inbox_retained;                /* the inbox, while it is in line behind others of this process; */
    struct hlk_listener retained;       /* the lock's own inbox, with sharded pub/sub */
    bool unconfirmed;                   /* it holds the lock, and replicas have not confirmed that yet */
    struct hlk_replica_wait *confirmation;
    int acknowledged;                   /* so many replicas have; < 0: not known */
    char holder[HLK_FIELD_MAX];         /* who held it when last asked; "" unknown */
    int64_t told_ms;                    /* when that was */
    struct hlk_busy busy;
    struct hlk_error error;
};

/* Any thread, under any mutex of rank below POST. */
static inline void hlk_acquire_op_wake(struct hlk_acquire_op *op, unsigned bit)
{
    if (op->self)
        hlk_park_wake(&op->self->park, bit);
    else
        op->wake(op, bit);
}

/* Reads opts. HLK_OK, or HLK_E_INVALID with the thread's error set. */
enum hlk_status hlk_acquire_op_read_opts(hlk_lock *lock, const char *operation, const struct hlk_acquire_opts *given,
                                         struct hlk_acquire_opts *opts);

/* NULL: no memory. */
struct hlk_acquire_op *hlk_acquire_op_make(hlk_lock *lock, const struct hlk_acquire_opts *opts,
                                           struct hlk_holder holder);

/* HLK_E_CLOSED: close began first, and does not wait for it. With a cancel object also as hlk_acquire_op_wait. */
enum hlk_status hlk_acquire_op_begin(struct hlk_acquire_op *op);

/* The wait becomes one that may last: told of close and cancel from now on. HLK_INTERRUPTED or HLK_E_CLOSED:
 * already. */
enum hlk_status hlk_acquire_op_wait(struct hlk_acquire_op *op);

/* The same, in line behind others of this process. */
enum hlk_status hlk_acquire_op_queue(struct hlk_acquire_op *op);

/* The turn is ours: the command is about r->turn.h, its hold id, from now on. HLK_ACQUIRE_ON_HEAD. */
enum hlk_acquire_event hlk_acquire_op_become_head(struct hlk_acquire_op *op);
/* It holds the lock without an answer: by a grant, or from its predecessor. HLK_ACQUIRE_ON_ACQUIRED. */
enum hlk_acquire_event hlk_acquire_op_acquired(struct hlk_acquire_op *op);
/* Before each command: HLK_ACQUIRE_ON_HEAD, ask; HLK_ACQUIRE_ON_ACQUIRED, it has got it meanwhile;
 * HLK_ACQUIRE_ON_ABORT with r->error. */
enum hlk_acquire_event hlk_acquire_op_prepare(struct hlk_acquire_op *op);
/* Its time is over, and it is still in line. HLK_ACQUIRE_ON_TIME; HLK_ACQUIRE_ON_ABORT with r->error: there is no
 * connection, and it is not known that anybody holds the lock: nobody of this process, and the first in line, who
 * asks for all, was not told of somebody else. */
enum hlk_acquire_event hlk_acquire_op_queue_timeout(struct hlk_acquire_op *op);
/* The same, while it asks. OVER: no attempt of its command was ever sent, as there is no connection. */
enum hlk_acquire_event hlk_acquire_op_timeout(struct hlk_acquire_op *op);
/* Since when the server refuses for now (cmd.limits.refused_ms) goes from one head waiter to the next: got before an
 * attempt ends, set after it. */
void hlk_acquire_op_get_refused(struct hlk_acquire_op *op);
void hlk_acquire_op_set_refused(const struct hlk_acquire_op *op);
/* An answer is in q.call.reply (dropped here): what it means for the machine; r->busy for HLK_ACQUIRE_ON_BUSY. */
enum hlk_acquire_event hlk_acquire_op_answer(struct hlk_acquire_op *op);
/* acquire_confirm.c. Held: begins to confirm it by replicas, for machine.until_ms at most. HLK_ACQUIRE_ON_JOINED: the
 * outcome comes with HLK_WAKE_SETTLED. */
enum hlk_acquire_event hlk_acquire_op_confirm(struct hlk_acquire_op *op);
/* HLK_ACQUIRE_ON_JOINED: not known yet; ON_CONFIRMED; ON_UNCONFIRMED; HLK_ACQUIRE_ON_ABORT with op->error. */
enum hlk_acquire_event hlk_acquire_op_confirmed(struct hlk_acquire_op *op);

/* Out of line, channels, cancel and close list; an acquire that is queued, or of which an attempt may run yet, is
 * undone, a lock that it got meanwhile is given back. The call may still fly. */
void hlk_acquire_op_leave(struct hlk_acquire_op *op);
/* After leave, when no call flies. */
void hlk_acquire_op_free(struct hlk_acquire_op *op);

#endif
