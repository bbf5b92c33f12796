/* request.h - one acquire on its way, whoever drives it: a blocked thread (sync/lock.c) or completions (sync/async.c).
 *
 * It has a place in the process's line, a question to Redis, an ear at the lock's channel, and a cancel to mind.
 * Leaving undoes all of it in the order that owes nothing: end(h) goes into the stream before the next in line may
 * ask. */
#ifndef HLK_SYNC_REQUEST_H
#define HLK_SYNC_REQUEST_H

#include "sync/acquire.h"
#include "sync/handle.h"

struct hlk_request {                    /* heap; the question's call may outlive the caller */
    struct hlk_turn turn;
    struct hlk_question q;
    struct hlk_listener inbox_ear, ear; /* at the client's inbox; at the lock's channel, behind a foreign client */
    struct hlk_cancel_wait cancel_wait;
    struct hlk_wait_entry closing_wait;
    struct hlk_acquire machine;
    hlk_lock *lock;                     /* its via is referenced */
    struct hlk_cancel *cancel;
    struct hlk_self *self;              /* the blocked thread, or NULL */
    struct hlk_async *async;            /* or its completion */
    int64_t started_ns;
    int64_t lease_ms;                   /* > 0 */
    bool fixed, eintr;
    bool queued;                        /* fair: asked for a place in Redis' queue */
    bool flies;                         /* the question's call is in the stream */
    bool won;                           /* the answer was "yours" */
    bool asked_again;                   /* one try: it found a hold of our own process's, or no end was on its way */
    bool waits;                         /* counted in `waiting`, registered for close and cancel */
    bool raises;                        /* another thread of its owner had it first, with a lease to be raised */
    unsigned late;                      /* answers "yours" that came when the lease was over: end(h) is owed */
    bool attends;                       /* the inbox, while it is in line behind others of this process */
    char holder[HLK_FIELD_MAX];         /* who held it when last asked; "" unknown */
    int64_t told_ms;                    /* when that was */
    struct hlk_busy busy;
    struct hlk_error error;
};

/* Reads opts. HLK_OK, or HLK_E_INVALID with the thread's error set. */
enum hlk_status hlk_request_read_opts(hlk_lock *lock, const char *operation, const struct hlk_acquire_opts *given,
                                      struct hlk_acquire_opts *opts);

/* NULL: no memory. */
struct hlk_request *hlk_request_make(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder);

/* HLK_E_CLOSED: close began first, and does not wait for it. With a cancel object also as hlk_request_waits. */
enum hlk_status hlk_request_begins(struct hlk_request *r);

/* The wait becomes one that may last: told of close and cancel from now on. HLK_INTERRUPTED or HLK_E_CLOSED:
 * already. */
enum hlk_status hlk_request_waits(struct hlk_request *r);

/* The same, in line behind others of this process. */
enum hlk_status hlk_request_lines_up(struct hlk_request *r);

/* The turn is ours: the question is about r->turn.h, its hold id, from now on. HLK_HAS_TURN. */
enum hlk_happened hlk_request_takes_turn(struct hlk_request *r);
/* It holds the lock without an answer: by a grant, or from its predecessor. HLK_IS_YOURS. */
enum hlk_happened hlk_request_got(struct hlk_request *r);
/* Before each question: HLK_HAS_TURN, ask; HLK_IS_YOURS, it has got it meanwhile; HLK_IS_OVER with r->error. */
enum hlk_happened hlk_request_asks(struct hlk_request *r);
/* An answer is in q.call.reply (dropped here): what it means for the machine; r->busy for HLK_IS_BUSY. */
enum hlk_happened hlk_request_answer(struct hlk_request *r);
/* Joins the inbox, for a fair lock the waiter's own channel; the lock's channel. HLK_HEARS, HLK_JOINED, or HLK_IS_OVER
 * with r->error. */
enum hlk_happened hlk_request_join(struct hlk_request *r);
enum hlk_happened hlk_request_hark(struct hlk_request *r);
/* The subscription was refused: error is filled. */
void hlk_request_deaf(struct hlk_request *r);

/* Out of line, channels, cancel and close list; an acquire that is queued, or of which a copy may run yet, is undone, a
 * lock that it got meanwhile is given back. The call may still fly. */
void hlk_request_leave(struct hlk_request *r);
/* After leave, when no call flies. */
void hlk_request_free(struct hlk_request *r);

/* Counts and, unless HLK_OK, tells the thread's error. */
enum hlk_status hlk_request_report(struct hlk_request *r, enum hlk_status status);

#endif
