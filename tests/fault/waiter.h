/* waiter.h - processes that wait for a lock, to be killed or stopped meanwhile.
 *
 * They are forked before the test has threads, and execute one order at a time: acquire, release, end. Their statuses
 * and holds are in memory that all share. */
#ifndef HLK_FAULT_WAITER_H
#define HLK_FAULT_WAITER_H

#include "fixture.h"

#include "support/history.h"

#include <stdatomic.h>
#include <sys/types.h>

struct waiter {
    pid_t          pid;
    int            to;              /* for orders */
    int            who;             /* in the history */
    int64_t        lease_ms;        /* 0: the watchdog's */
    atomic_bool    answered;        /* its acquire has returned; then: */
    enum hlk_status status;
    int64_t        answered_at_ms;
    int64_t        left_ms;         /* the result of its first call after that */
    char           hold[192];
    int64_t        token;
    atomic_bool    let_go;          /* its release has returned; then: */
    enum hlk_status released;
    atomic_ullong  handed_back, granted;
};

/* Forks `n` waiters for the lock `name`, each with a client of its own at the server. */
struct waiter *waiters_fork(int n, const char *name, const int64_t *lease_ms, struct history *history);
void waiter_acquire(struct waiter *waiter);             /* sends the order; does not wait */
void waiter_acquire_fenced(struct waiter *waiter);      /* the same, with a token */
enum hlk_status waiter_answer(struct waiter *waiter);
enum hlk_status waiter_release(struct waiter *waiter);  /* waits for its return */
void waiter_signal(struct waiter *waiter, int signal);  /* SIGKILL, SIGSTOP: returns when it has taken effect */
void waiters_end(struct waiter *waiters, int n);        /* the live ones close their clients */

/* Tickets in the queue of `name`, also of dead clients. */
int64_t in_queue(const char *name);

#endif
