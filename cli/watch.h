/* watch.h - looks after COMMAND while it runs: passes signals on, and stops it before its lock can be another's.
 *
 * One loop over descriptors and one timer on the library's clock; nothing in it blocks. SIGKILL does not wait for the
 * library's events: the loop wakes by itself when the lease as it was known is over, and asks.
 *
 *     stage      next
 *     GOING      ASKED by at-risk or --max-hold (--on-lost term: SIGTERM sent); KILLED by loss
 *     ASKED      KILLED when the grace is over or the lock is lost. Final: a lock that is safe again changes nothing
 *     KILLED     none
 * Stopping is over when COMMAND and all of its group are gone. */
#ifndef HLK_CLI_WATCH_H
#define HLK_CLI_WATCH_H

#include "child.h"
#include "options.h"

#include <hasplock/hasplock.h>

struct watch_fds {              /* opened while failing is still cheap: before anything is held */
    int event_read, event_write;        /* from the library's events thread to the loop */
    int timer;
};

int watch_open(struct watch_fds *fds);          /* 0 or errno */
void watch_close(struct watch_fds *fds);        /* after the client is closed */
void watch_on_event(const struct hlk_event *event, void *fds);      /* hlk_event_fn */

struct watch_result {
    bool stopped;               /* hasplock ended COMMAND: lock lost, or --max-hold over */
    bool lost;                  /* the loss was seen, and said */
};

/* Runs until COMMAND has ended. `signal_fd` of signals_open; the calling thread holds `lock`. */
void watch_run(struct watch_result *result, const struct options *options, hlk_lock *lock, struct child *child,
               int signal_fd, const struct watch_fds *fds);

#endif
