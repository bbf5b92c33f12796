#include "lease/events.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

struct notification {
    struct hlk_job job;
    struct hlk_events *events;
    struct hlk_event event;
    struct hlk_callback callbacks[2];
    char text[]; /* lock, holder, why, each ended by NUL */
};

/* The handle's callback has returned; the client's may still run. */
static void callback_done(struct hlk_events *events)
{
    hlk_mutex_lock(&events->mu);
    events->calling = NULL;
    pthread_cond_broadcast(&events->called);
    hlk_mutex_unlock(&events->mu);
}

static void log_notification(const struct notification *notification)
{
    static const char *const words[] = { "", "is at risk", "is safe again", "is lost", "is orphaned", "is asked for" };
    const struct hlk_event *event = &notification->event;
    bool hooked = (notification->callbacks[0].fn && notification->job.of) || notification->callbacks[1].fn;
    int level = hooked || event->kind == HLK_EVENT_SAFE ? HLK_LOG_INFO : HLK_LOG_WARN;
    hlk_log(notification->events->log, level, "lock \"%s\" held by %s %s: %s", event->lock, event->holder,
            words[event->kind], event->why);
}

static void run_notification(struct hlk_job *job)
{
    hlk_mutex_assert_none();
    struct notification *notification = HLK_CONTAINER(job, struct notification, job);
    log_notification(notification);
    if (job->of && notification->callbacks[0].fn)
        notification->callbacks[0].fn(&notification->event, notification->callbacks[0].ctx);
    callback_done(notification->events);
    if (notification->callbacks[1].fn)
        notification->callbacks[1].fn(&notification->event, notification->callbacks[1].ctx);
    hlk_mem_free(notification);
}

static char *events_put(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *here = memcpy(*at, text, size);
    *at += size;
    return here;
}

bool hlk_events_notify(struct hlk_events *events, int kind, const char *name, const char *holder, int64_t until_ms,
                       const char *why, const struct hlk_callback callbacks[2], const void *of)
{
    HLK_DEBUG_ASSERT(kind >= HLK_EVENT_AT_RISK && kind <= HLK_EVENT_ASKED);
    HLK_DEBUG_ASSERT(name && holder && why);
    struct notification *notification =
        hlk_mem_zalloc(sizeof *notification + strlen(name) + strlen(holder) + strlen(why) + 3);
    if (!notification)
        return false;
    char *at = notification->text;
    notification->event.size = sizeof notification->event;
    notification->event.kind = kind;
    notification->event.lock = events_put(&at, name);
    notification->event.holder = events_put(&at, holder);
    notification->event.held_until_at_ms = until_ms;
    notification->event.why = events_put(&at, why);
    notification->callbacks[0] = callbacks[0];
    notification->callbacks[1] = callbacks[1];
    notification->events = events;
    notification->job.run = run_notification;
    notification->job.of = of;
    hlk_events_post(events, &notification->job);
    return true;
}

void hlk_events_silence(struct hlk_events *events, const void *of)
{
    hlk_mutex_lock(&events->mu);
    for (struct hlk_list *n = events->jobs.next; n != &events->jobs; n = n->next) {
        struct hlk_job *job = HLK_CONTAINER(n, struct hlk_job, link);
        if (job->of == of)
            job->of = NULL;
    }
    int old = hlk_nocancel_begin();
    while (events->calling == of && !pthread_equal(pthread_self(), events->thread))
        pthread_cond_wait(&events->called, &events->mu.mu);
    hlk_nocancel_end(old);
    hlk_mutex_unlock(&events->mu);
}

static void *events_thread_main(void *arg)
{
    struct hlk_events *events = arg;
    for (;;) {
        while (sem_wait(&events->ready) != 0 && errno == EINTR)
            ;
        hlk_mutex_lock(&events->mu);
        struct hlk_list *node = hlk_list_pop(&events->jobs);
        struct hlk_job *job = node ? HLK_CONTAINER(node, struct hlk_job, link) : NULL;
        bool end = !job && events->stopping;
        events->calling = job ? job->of : NULL;
        hlk_mutex_unlock(&events->mu);
        if (end)
            return NULL;
        if (job)
            job->run(job);
    }
}

void hlk_events_init(struct hlk_events *events, const struct hlk_log *log)
{
    memset(events, 0, sizeof *events);
    events->log = log;
    hlk_mutex_init(&events->mu, HLK_RANK_EVENTS);
    hlk_list_init(&events->jobs);
    pthread_cond_init(&events->called, NULL);
    sem_init(&events->ready, 0, 0);
}

enum hlk_status hlk_events_start(struct hlk_events *events, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(!events->running);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&events->thread, NULL, events_thread_main, events);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return hlk_error_set(error, HLK_E_OS, "no events thread: %s", strerror(rc));
    events->running = true;
    return HLK_OK;
}

/* Jobs that were posted after the thread had ended. */
static void run_rest(struct hlk_events *events)
{
    for (;;) {
        hlk_mutex_lock(&events->mu);
        struct hlk_list *node = hlk_list_pop(&events->jobs);
        hlk_mutex_unlock(&events->mu);
        if (!node)
            return;
        struct hlk_job *job = HLK_CONTAINER(node, struct hlk_job, link);
        job->run(job);
    }
}

void hlk_events_stop(struct hlk_events *events)
{
    if (!events->running)
        return;
    hlk_mutex_lock(&events->mu);
    events->stopping = true;
    hlk_mutex_unlock(&events->mu);
    sem_post(&events->ready);
    pthread_join(events->thread, NULL);
    events->running = false;
    run_rest(events);
}

void hlk_events_fini(struct hlk_events *events)
{
    run_rest(events);
    sem_destroy(&events->ready);
    pthread_cond_destroy(&events->called);
    hlk_mutex_fini(&events->mu);
}

void hlk_events_post(struct hlk_events *events, struct hlk_job *job)
{
    HLK_DEBUG_ASSERT(job->run);
    hlk_mutex_lock(&events->mu);
    hlk_list_push_back(&events->jobs, &job->link);
    hlk_mutex_unlock(&events->mu);
    sem_post(&events->ready);
}

struct flush {
    struct hlk_job job;
    struct hlk_events *events;
    bool through; /* complete; under the events' mutex */
};

static void run_flush(struct hlk_job *job)
{
    hlk_mutex_assert_none();
    struct flush *flush = HLK_CONTAINER(job, struct flush, job);
    struct hlk_events *events = flush->events;
    hlk_mutex_lock(&events->mu);
    flush->through = true;
    pthread_cond_broadcast(&events->called);
    hlk_mutex_unlock(&events->mu);
}

void hlk_events_flush(struct hlk_events *events, int64_t at_ms)
{
    hlk_mutex_assert_none();
    struct flush flush = { .job = { .run = run_flush }, .events = events };
    struct timespec at = hlk_clock_monotonic_at(at_ms);
    hlk_events_post(events, &flush.job);
    hlk_mutex_lock(&events->mu);
    while (!flush.through) {
        int rc = pthread_cond_clockwait(&events->called, &events->mu.mu, CLOCK_MONOTONIC, &at);
        if (rc == ETIMEDOUT && hlk_list_linked(&flush.job.link)) { /* else it is running now */
            hlk_list_remove(&flush.job.link);
            break;
        }
    }
    hlk_mutex_unlock(&events->mu);
}
