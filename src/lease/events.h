/* events.h - the events thread. It runs user callbacks one at a time, in order, so that none delays a renewal. */
#ifndef HLK_LEASE_EVENTS_H
#define HLK_LEASE_EVENTS_H

#include "base/error.h"
#include "base/log.h"
#include "base/list.h"
#include "base/mutex.h"
#include "hasplock/client.h"

#include <semaphore.h>
#include <stdbool.h>

struct hlk_job {                        /* embedded; its memory belongs to `run` */
    struct hlk_list link;
    void (*run)(struct hlk_job *job);
    const void *of;                     /* of an event: the handle whose callback it calls; else NULL */
};

struct hlk_events {
    pthread_t thread;
    bool running;
    const struct hlk_log *log;          /* borrowed; events without a callback are logged */
    sem_t ready;                        /* one count for each job, and one for the end */

    struct hlk_mutex mu;                /* rank EVENTS; guards: */
    struct hlk_list jobs;
    const void *calling;                /*   `of` of the job that runs */
    pthread_cond_t called;              /* calling has changed, or a flush is complete */
    bool stopping;
};

/* The receivers of a loss besides the log: the handle's callback, then the client's. */
struct hlk_callback { hlk_event_fn *fn; void *ctx; };

void hlk_events_init(struct hlk_events *events, const struct hlk_log *log);
enum hlk_status hlk_events_start(struct hlk_events *events, struct hlk_error *error);
void hlk_events_stop(struct hlk_events *events);        /* runs what is queued, ends and joins the thread */
void hlk_events_fini(struct hlk_events *events);

void hlk_events_post(struct hlk_events *events, struct hlk_job *job);   /* any thread, never blocks */
/* Waits until everything that was posted before has run, or until at_ms. Not from the events thread. */
void hlk_events_flush(struct hlk_events *events, int64_t at_ms);

/* Reports `kind` of lock `name`; callbacks[0] belongs to `of`. Copies what it needs. False: no memory, nothing is
 * reported (log it). */
bool hlk_events_notify(struct hlk_events *events, int kind, const char *name, const char *holder, int64_t until_ms,
                       const char *why, const struct hlk_callback callbacks[2], const void *of);
/* Drops what was posted so far for the callback of `of`, and waits while it runs, unless called from it. Afterwards its
 * context may be freed. */
void hlk_events_silence(struct hlk_events *events, const void *of);

#endif
