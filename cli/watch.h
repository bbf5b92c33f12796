/* watch.h - watches COMMAND while it runs: passes signals on, and stops it before another client can get the lock.
 *
 * One loop over descriptors and one timer on the library's clock; nothing in it blocks. SIGKILL does not depend on the
 * library's events: the loop wakes up when the known lease is over, and checks. If this process is stopped at that
 * time, the helper kills COMMAND (helper.h).
 *
 *     stage      next
 *     GOING      ASKED (SIGTERM sent) by at-risk with --on-lost term, --max-hold, hasplock break; KILLED by loss
 *     ASKED      KILLED when the grace is over or the lock is lost. Final: a lock that is safe again changes nothing
 *     KILLED     none
 *
 * It is over when COMMAND has ended by itself: what it left in the background runs on without the lock. It is over when
 * no descendant of it is left if hasplock has stopped it, if a signal has ended it, or with --all. */
#ifndef HLK_CLI_WATCH_H
#define HLK_CLI_WATCH_H

#include "child.h"
#include "options.h"

#include <hasplock/hasplock.h>

struct watch_fds {              /* opened before anything is held, while a failure is harmless */
    int event_read, event_write;        /* from the library's events thread to the loop */
    int timer;
};

int watch_open(struct watch_fds *fds);          /* 0 or errno */
void watch_close(struct watch_fds *fds);        /* after the client is closed */
void watch_on_event(const struct hlk_event *event, void *fds);      /* hlk_event_fn */

struct watch_result {
    bool stopped;               /* hasplock ended COMMAND: lock lost or at risk, --max-hold over, or the helper died */
    bool at_risk;               /* at risk when the last event came */
    bool lost;                  /* the loss was seen and reported */
    bool asked;                 /* a signal asked COMMAND to end, TERM for example: from us, or it died of it; or
                                 * hasplock break asked for the lock */
};

/* Sets the time at which the helper kills COMMAND, as far as it is known now. First called before COMMAND is
 * started. */
void watch_order_kill(const struct options *options, const hlk_lock *lock);

/* Runs until it is over. `signal_fd` is from signals_open. The calling thread holds `lock`. */
void watch_run(struct watch_result *result, const struct options *options, hlk_lock *lock, struct child *child,
               int signal_fd, const struct watch_fds *fds);

/* Reads what watch_run has left: has somebody asked for the lock's release? */
bool watch_was_asked(const struct watch_fds *fds);

#endif
