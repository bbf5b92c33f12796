/* waiter.h - processes that wait for a lock, to be killed or stopped while they do.
 *
 * They are forked before the test has threads of its own, and do what they are told, one thing at a time: acquire,
 * release, end. What they were answered, and their holds, are in memory that all share. */
#ifndef HLK_FAULT_WAITER_H
#define HLK_FAULT_WAITER_H

#include "trouble.h"

#include "support/history.h"

#include <stdatomic.h>
#include <sys/types.h>

struct waiter {
    pid_t          pid;
    int            to;              /* its orders */
    int            who;             /* in the history */
    int64_t        lease_ms;        /* 0: the watchdog's */
    atomic_bool    answered;        /* its acquire has returned: */
    enum hlk_status status;
    int64_t        answered_at_ms;
    int64_t        left_ms;         /* the first thing it asked then */
    char           hold[192];
    atomic_bool    let_go;          /* its release has returned: */
    enum hlk_status released;
    atomic_ullong  handed_back, granted;
};

/* `n` of them for the lock `name`, each with a client of its own at the server. */
struct waiter *waiters_fork(int n, const char *name, const int64_t *lease_ms, struct history *history);
void waiter_acquire(struct waiter *waiter);             /* tells it; not waited for */
enum hlk_status waiter_answer(struct waiter *waiter);
enum hlk_status waiter_release(struct waiter *waiter);  /* waited for */
void waiter_signal(struct waiter *waiter, int signal);  /* SIGKILL, SIGSTOP: returns when it is so */
void waiters_end(struct waiter *waiters, int n);        /* those that live close their clients */

/* In the queue of `name`, the dead too. */
int64_t in_line(const char *name);

#endif
