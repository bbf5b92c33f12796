/* waiting.h - shows what a wait waits for, while the main thread waits.
 *
 *     on a terminal    a line after a second, updated each second: holder, position in the queue, time waited; or
 *                      that no server answers
 *     with -v, --json  one line, or event, a tenth of a second after the wait has begun
 *     within a run     that holds the same lock: the wait would never end, so it is ended at once
 *
 * A thread of its own queries the server, so the wait is the same with and without it. */
#ifndef HLK_CLI_WAITING_H
#define HLK_CLI_WAITING_H

#include "json.h"
#include "locks.h"
#include "options.h"

#include <hasplock/hasplock.h>

#include <pthread.h>

struct waiting {
    const struct options *options;
    hlk_client *client;
    const struct locks *locks;
    hlk_cancel *cancel;         /* triggered if the lock is held by a run around this one */
    int64_t asked_at_ms;
    bool terminal, nested;
    bool started;
    pthread_t thread;

    pthread_mutex_t mu;         /* guards: */
    pthread_cond_t changed;
    bool over;                  /* the wait has ended, nothing more is shown */
    bool itself;                /* a run around this one holds the lock */
    unsigned looks;             /* so far, each at a queue that it was not in */
    bool reported;              /* the line or event of -v and --json was written */
    bool shown;                 /* a line is on the terminal */
    const char *lock;           /* which lock was waited for, as last seen, */
    char holder[192];           /*   and by whom it was held; "": not seen */
};

/* Starts the thread, if there is anything to show. The caller has blocked all signals, which the thread inherits. */
void waiting_begin(struct waiting *waiting, const struct options *options, hlk_client *client,
                   const struct locks *locks, hlk_cancel *cancel);
/* The wait has ended. When this returns, the terminal's line is removed. */
void waiting_end(struct waiting *waiting);
/* After the client was closed. Joins the thread. */
void waiting_join(struct waiting *waiting);

/* After waiting_end: the wait was ended because a run around this one holds the lock. */
bool waiting_for_itself(struct waiting *waiting);
/* After waiting_end: which lock that is, or "". */
const char *waiting_lock(struct waiting *waiting);

/* Adds the holder as last seen, if there was one. */
void waiting_holder_json(struct waiting *waiting, struct json *fields);

#endif
