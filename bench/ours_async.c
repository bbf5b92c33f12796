/* ours_async.c - use by a server with an event loop: poll on hlk_client_fd, then dispatch; completions start what
 * follows. Without HLK_OPEN_DISPATCH everything runs on the client's events thread.
 *
 * Each pair in flight has its own owner and lock. It is counted when its release has completed, or, without a
 * completion, when the release was accepted. */
#include "ours.h"

#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct run;

struct flight {
    struct run *run;
    hlk_owner *owner;
    hlk_lock *lock;
    int64_t begin_ns;
};

struct run {
    struct bench_worker *worker;
    bool await_release;
    atomic_int flying;      /* pairs in flight */
    sem_t landed;           /* posted with the last of them */
    struct flight *flights; /* owned */
};

static void on_acquired(hlk_lock *lock, enum hlk_status status, void *ctx);

static void land(struct run *run)
{
    if (atomic_fetch_sub(&run->flying, 1) == 1)
        sem_post(&run->landed);
}

static void crash(struct flight *flight, const char *what, enum hlk_status status)
{
    bench_fail(flight->run->worker, "%s: %s: %s", what, hlk_status_name(status), hlk_last_error());
    land(flight->run);
}

static void take_off(struct flight *flight)
{
    flight->begin_ns = bench_now_ns();
    enum hlk_status status = hlk_lock_acquire_async(flight->lock, NULL, on_acquired, flight);
    if (status != HLK_OK)
        crash(flight, "acquire", status);
}

static void count_and_go_on(struct flight *flight)
{
    struct bench_worker *worker = flight->run->worker;
    int64_t now = bench_now_ns();
    bench_hist_add(&worker->pair, now - flight->begin_ns);
    worker->ops++;
    if (now < worker->end_ns && worker->error[0] == '\0')
        take_off(flight);
    else
        land(flight->run);
}

static void on_released(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct flight *flight = ctx;
    (void)lock;
    if (status == HLK_OK)
        count_and_go_on(flight);
    else
        crash(flight, "release", status);
}

static void on_acquired(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct flight *flight = ctx;
    if (status != HLK_OK) {
        crash(flight, "acquire", status);
        return;
    }
    bench_hist_add(&flight->run->worker->acquire, bench_now_ns() - flight->begin_ns);
    status = hlk_lock_release_async(lock, flight->run->await_release ? on_released : NULL, flight);
    if (status != HLK_OK)
        crash(flight, "release", status);
    else if (!flight->run->await_release)
        count_and_go_on(flight);
}

static int prepare(hlk_client *client, struct run *run)
{
    struct bench_worker *worker = run->worker;
    run->flights = calloc((size_t)worker->in_flight, sizeof *run->flights);
    for (int i = 0; run->flights && i < worker->in_flight; i++) {
        struct flight *flight = &run->flights[i];
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        char name[64];
        snprintf(name, sizeof name, "bench:own:%d:%d", worker->options->process, i);
        flight->run = run;
        flight->owner = hlk_owner_create(client, NULL);
        opts.owner = flight->owner;
        flight->lock = flight->owner ? hlk_lock_create(client, name, &opts) : NULL;
        if (!flight->lock)
            return bench_fail(worker, "create: %s", hlk_last_error());
    }
    return run->flights ? 0 : bench_fail(worker, "no memory");
}

static void clean_up(struct run *run)
{
    for (int i = 0; run->flights && i < run->worker->in_flight; i++) {
        hlk_lock_destroy(run->flights[i].lock);
        hlk_owner_destroy(run->flights[i].owner);
    }
    free(run->flights);
}

static int silent(struct run *run)
{
    return bench_fail(run->worker, "%d pairs did not end within 5 s", run->flying);
}

static int turn_loop(hlk_client *client, struct run *run, int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    while (run->flying > 0) {
        if (poll(&ready, 1, 5000) == 0)
            return silent(run);
        hlk_client_dispatch(client, 0);
    }
    hlk_client_dispatch(client, 0); /* sends the last releases now, not in the next round */
    return 0;
}

static int wait_for_events_thread(struct run *run)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5 + (run->worker->end_ns - bench_now_ns()) / 1000000000;
    return sem_timedwait(&run->landed, &until) == 0 ? 0 : silent(run);
}

int ours_async_run(hlk_client *client, struct bench_worker *worker, bool await_release)
{
    static struct run run; /* after a failure, late completions may still use it */
    int fd = hlk_client_fd(client);
    run = (struct run){ .worker = worker, .await_release = await_release, .flying = worker->in_flight };
    sem_init(&run.landed, 0, 0);
    int failed = prepare(client, &run);
    if (!failed) {
        for (int i = 0; i < worker->in_flight; i++)
            take_off(&run.flights[i]);
        failed = fd >= 0 ? turn_loop(client, &run, fd) : wait_for_events_thread(&run);
        if (failed)
            return failed;
    }
    clean_up(&run);
    return failed;
}
