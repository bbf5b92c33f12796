/* demo_run.h - one phase of the demo, for the parent: starts the worker processes, causes the accidents, updates the
 * view, and reaps all its children in any case. */
#ifndef HLK_DEMO_RUN_H
#define HLK_DEMO_RUN_H

#include "demo_masters.h"
#include "demo_shared.h"
#include "demo_view.h"

#include <signal.h>

struct demo_run {
    struct demo_shared *shared;         /* owned by the caller; its order is filled in */
    int shared_fd;
    struct demo_view *view;             /* borrowed, as the next one */
    struct demo_masters *masters;       /* NULL: one server. Else the last one is killed after the first holder */
    const volatile sig_atomic_t *signal;        /* != 0: end everything; set by the caller's handlers */
    int64_t limit_ns;                   /* after so long no new orders are taken */

    int64_t began_ns, ended_ns;         /* set by demo_run */
    int first_pid[DEMO_MAX_PROCESSES];  /* the killed process is restarted under another pid */
    int64_t master_killed_ns;           /* 0: not yet */
    int not_taken_over;                 /* accidents after which no other holder got the lock: a bit for each kind */
    int shown;                           /* how much of the accidents was shown */
};

/* 0: the phase is over, its figures are in `shared`. Else the exit code; the reason is printed, except for a signal
 * (then 1). No worker is left in any case. */
int demo_run(struct demo_run *run);

#endif
