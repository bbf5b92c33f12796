/* lost_lease.c - a job that stops in time when its lock is lost, and goes on when it has it again. lost_lease [URL]
 *
 * A lock with a lease can be lost: the server forgets it, an operator breaks it, this process stands still for longer
 * than the lease. The library calls on_event, on a thread of its own, and the holder asks before each effect on the
 * outside world how much of the lease is left. Here an operator breaks the lock after the third batch of the first
 * hold.
 *
 * An event can come late, when the job holds the lock anew. So the job compares: event->holder is the name in Redis of
 * the hold that was lost, hlk_lock_hold_id gives that of the present hold. A plain flag would end the second hold. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WRITE_TAKES_MS 50 /* the longest that one batch can take */
#define BREAK_AFTER 3
#define BATCHES 100

struct job {
    const char *url;
    hlk_lock *nightly;
    char hold[192]; /* of the job's thread: its present hold */
    int batch;
    pthread_mutex_t mu;
    char lost[192]; /* guarded by mu: the hold that was lost last */
};

static void on_event(const struct hlk_event *event, void *ctx)
{
    struct job *job = ctx;
    if (event->kind != HLK_EVENT_LOST)
        return;
    printf("event: \"%s\" is lost: %s\n", event->lock, event->why);
    pthread_mutex_lock(&job->mu);
    snprintf(job->lost, sizeof job->lost, "%s", event->holder);
    pthread_mutex_unlock(&job->mu);
}

static bool is_lost(struct job *job)
{
    pthread_mutex_lock(&job->mu);
    bool lost = strcmp(job->lost, job->hold) == 0;
    pthread_mutex_unlock(&job->mu);
    return lost;
}

static void write_out(int batch)
{
    nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000000L }, NULL);
    printf("batch %d is written\n", batch);
}

/* What `hasplock break --now nightly` does in another terminal. */
static bool operator_breaks(const char *url)
{
    hlk_client *client;
    if (hlk_client_open(&client, url, NULL) != HLK_OK)
        return false;
    hlk_lock *nightly = hlk_lock_create(client, "nightly", NULL);
    bool broken = hlk_lock_break(nightly) == HLK_OK;
    puts("an operator breaks the lock");
    hlk_lock_destroy(nightly);
    hlk_client_close(client);
    return broken;
}

/* A hold: writes batches for as long as it is allowed to. The release's answer, or that of the acquire. */
static enum hlk_status hold(struct job *job, int break_after)
{
    enum hlk_status status = hlk_lock_acquire(job->nightly, 5000);
    if (status != HLK_OK)
        return status;
    (void)hlk_lock_hold_id(job->nightly, job->hold, sizeof job->hold); /* lost by now: then nothing is left, either */
    while (job->batch < BATCHES && !is_lost(job) && hlk_lock_left_ms(job->nightly) > WRITE_TAKES_MS) {
        write_out(++job->batch);
        if (job->batch == break_after && !operator_breaks(job->url))
            break;
    }
    status = hlk_lock_release(job->nightly);
    printf("%d batches so far, the release answers %s\n", job->batch, hlk_status_name(status));
    return status;
}

int main(int argc, char **argv)
{
    struct job job = { .url = argc > 1 ? argv[1] : "local:", .mu = PTHREAD_MUTEX_INITIALIZER };
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    copts.watchdog_ms = 3000; /* renewed every second, and the renewal notices the break. Default: 30 s */
    hlk_client *client;
    if (hlk_client_open(&client, job.url, &copts) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = on_event;
    opts.event_ctx = &job;
    job.nightly = hlk_lock_create(client, "nightly", &opts);

    int result = 1;
    if (hold(&job, BREAK_AFTER) == HLK_LOST && hold(&job, 0) == HLK_OK && job.batch == BATCHES)
        result = 0;
    else
        fprintf(stderr, "%s\n", hlk_last_error());
    hlk_lock_destroy(job.nightly);
    hlk_client_close(client);
    return result;
}
