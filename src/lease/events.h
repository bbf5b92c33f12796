/* events.h - the events thread: runs user callbacks, so that none stalls a renewal. In order, one at a time. */
#ifndef HLK_LEASE_EVENTS_H
#define HLK_LEASE_EVENTS_H

#include "base/error.h"
#include "base/log.h"
#include "base/list.h"
#include "base/mutex.h"
#include "hasplock/client.h"

#include <semaphore.h>
#include <stdbool.h>

struct hlk_job {                        /* embedded in what is to be told; its memory is run's to free */
    struct hlk_list link;
    void (*run)(struct hlk_job *job);
    const void *of;                     /* of an event: which handle's hook is told it; else NULL */
};

struct hlk_events {
    pthread_t thread;
    bool running;
    const struct hlk_log *log;          /* borrowed; what nobody hooked is logged */
    sem_t ready;                        /* one count per job, one more for the end */

    struct hlk_mutex mu;                /* rank EVENTS; guards: */
    struct hlk_list jobs;
    const void *telling;                /*   `of` of the job that runs */
    pthread_cond_t told;                /*   telling has changed, or a flush is through */
    bool stopping;
};

/* Who is told of a loss besides the log: the handle's hook, then the client's. */
struct hlk_hook { hlk_event_fn *fn; void *ctx; };

void hlk_events_init(struct hlk_events *events, const struct hlk_log *log);
enum hlk_status hlk_events_start(struct hlk_events *events, struct hlk_error *error);
void hlk_events_stop(struct hlk_events *events);        /* runs what is queued, ends and joins the thread */
void hlk_events_fini(struct hlk_events *events);

void hlk_events_post(struct hlk_events *events, struct hlk_job *job);   /* any thread, never blocks */
/* All that was posted until now has run, or at_ms has come. Blocks; not from the events thread. */
void hlk_events_flush(struct hlk_events *events, int64_t at_ms);

/* Tells `kind` of lock `name`; hooks[0] is `of`'s. Copies what it needs. False: no memory, nothing is told (log it). */
bool hlk_events_tell(struct hlk_events *events, int kind, const char *name, const char *holder, int64_t until_ms,
                     const char *why, const struct hlk_hook hooks[2], const void *of);
/* The hook of `of` is not told what was posted until now, and does not run any more: its context may be freed. Blocks
 * while it runs, but not in itself. */
void hlk_events_silence(struct hlk_events *events, const void *of);

#endif
