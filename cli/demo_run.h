/* demo_run.h - one phase of the demo, seen by the parent: starts the worker processes, lets the accidents happen,
 * keeps the view going, and buries its children whatever happens. */
#ifndef HLK_CLI_DEMO_RUN_H
#define HLK_CLI_DEMO_RUN_H

#include "demo_shared.h"
#include "demo_view.h"

#include <signal.h>

struct demo_run {
    struct demo_shared *shared;         /* owned by the caller; its order is filled in */
    int shared_fd;
    struct demo_view *view;             /* borrowed */
    const volatile sig_atomic_t *signal;        /* != 0: end everything; set by the caller's handlers */
    int64_t limit_ns;                   /* no new orders after so long */

    int64_t began_ns, ended_ns;         /* set by demo_run */
    int first_pid[DEMO_MAX_PROCESSES];  /* the killed process is started again under another one */
    int not_taken_over;                 /* accidents after which nobody got the lock: bit per kind */
    int told;                           /* of the accidents' story: how far the view has been told */
};

/* 0: the phase is over, its figures are in `shared`. Else the exit code; why was said, but not for a signal (then 1).
 * No worker is left in any case. */
int demo_run(struct demo_run *run);

#endif
