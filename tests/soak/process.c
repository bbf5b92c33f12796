/* process.c - a client process of the soak: opens its client, starts its threads, plays tricks on them from its main
 * thread (cancels, signals), copies its counters out, and closes in the end. */
#include "worker.h"

#include "support/wait.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void on_signal(int signal)
{
    (void)signal;
}

/* Close logs it when a release was not answered. */
static void on_log(int level, const char *line, void *ctx)
{
    (void)level;
    const struct process *process = ctx;
    if (strstr(line, "close: releases that are not answered"))
        atomic_store(&process->slot->leaves, true);
    if (getenv("SOAK_LOG"))
        fprintf(stderr, "soak: slot %d %.3f: %s\n", process->number, (double)soak_now() / 1e6, line);
}

/* LOST: from here on its holder knows. */
static void on_event(const struct hlk_event *event, void *ctx)
{
    struct process *process = ctx;
    int64_t now = soak_now(), none = 0;
    if (event->kind != HLK_EVENT_LOST)
        return;
    const char *colon = strrchr(event->holder, ':');
    uint64_t h = colon ? strtoull(colon + 1, NULL, 10) : 0;
    for (int i = 0; i < LOCKS * HOLDERS; i++) {
        struct soak_hold *hold = atomic_load(&process->current[i / HOLDERS][i % HOLDERS]);
        if (hold && hold->h == h && strcmp(event->lock, soak_lock_name(i / HOLDERS)) == 0)
            atomic_compare_exchange_strong(&hold->lost, &none, now);
    }
}

static bool open_client(struct process *process)
{
    static const int passes[] = { 0, 0, -1, 4, 1000 };
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.label = "soak";
    opts.watchdog_ms = 400 + (int64_t)soak_draw(&process->rng, LONGEST_LEASE_MS - 400);
    opts.reply_timeout_ms = 100 + (int64_t)soak_draw(&process->rng, 300);
    opts.reconnect_timeout_ms = 500 + (int64_t)soak_draw(&process->rng, 2000);
    opts.local_passes = passes[soak_draw(&process->rng, sizeof passes / sizeof *passes)];
    opts.flags = soak_chance(&process->rng, 60) ? HLK_OPEN_NO_SPIN : 0;
    opts.on_event = on_event;
    opts.event_ctx = process;
    opts.log = on_log;
    opts.log_ctx = process;
    if (soak_chance(&process->rng, 30))
        opts.flags |= HLK_OPEN_DISPATCH;
    if (process->soak->quiet) {
        opts.reply_timeout_ms = 3000;
        opts.watchdog_ms = 3000;
    }
    enum hlk_status status = HLK_E_CONNECT;
    while (!atomic_load(&process->soak->stop)) {
        status = hlk_client_open(&process->client, process->soak->urls[process->number], &opts);
        if (status == HLK_OK)
            return true;
        if (status != HLK_E_CONNECT && status != HLK_E_SERVER) {
            soak_wrong(process->soak, "open: %s: %s", hlk_status_name(status), hlk_last_error());
            return false;
        }
    }
    return false;
}

hlk_lock *make_lock(struct process *process, int i, hlk_owner *owner)
{
    struct hlk_lock_opts opts = soak_lock_opts(i);
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(process->client, soak_lock_name(i), &opts);
    if (!lock)
        test_give_up("lock: %s", hlk_last_error());
    return lock;
}

static void start_worker(struct process *process, int i)
{
    struct worker *worker = &process->workers[i];
    worker->process = process;
    worker->number = i;
    worker->rng = soak_rng(process->soak, (uint64_t)process->number, (uint64_t)process->incarnation, (uint64_t)i + 1);
    worker->owner = hlk_owner_create(process->client, "worker");
    worker->cancel = hlk_cancel_create(process->client);
    worker->at = &process->slot->threads[i];
    pthread_mutex_init(&worker->mu, NULL);
    pthread_cond_init(&worker->done, NULL);
    for (int j = 0; j < LOCKS; j++)
        worker->owned[j] = make_lock(process, j, worker->owner);
    if (!worker->owner || !worker->cancel)
        test_give_up("no owner or cancel");
    begin_work(worker);
}

static void copy_counters(struct process *process)
{
    struct hlk_counters counters = { .size = sizeof counters };
    if (hlk_client_counters(process->client, &counters) != HLK_OK)
        return;
    process->slot->counters = counters;
    atomic_store(&process->slot->done, 1);
}

/* The main thread's time: in dispatch mode completions run here. */
static void wait_ms(struct process *process, int64_t ms)
{
    struct pollfd set = { hlk_client_fd(process->client), POLLIN, 0 };
    int64_t until = test_now_ms() + ms;
    if (set.fd < 0)
        test_sleep_ms(ms);
    while (set.fd >= 0 && test_now_ms() < until)
        if (poll(&set, 1, 2) > 0)
            (void)hlk_client_dispatch(process->client, (int)soak_draw(&process->rng, 8));
}

static void play_tricks(struct process *process)
{
    while (!atomic_load(&process->soak->stop)) {
        wait_ms(process, 2 + (int64_t)soak_draw(&process->rng, 30));
        struct worker *worker = &process->workers[soak_draw(&process->rng, (uint64_t)process->threads)];
        uint64_t trick = soak_draw(&process->rng, 100);
        pthread_mutex_lock(&worker->mu);
        if (trick < 3)
            pthread_cancel(worker->thread);
        else if (trick < 50)
            hlk_cancel_trigger(worker->cancel);
        else
            pthread_kill(worker->thread, SIGUSR1);
        pthread_mutex_unlock(&worker->mu);
        copy_counters(process);
    }
}

/* Close comes while threads hold and wait, which do not count any more: it releases what they have. */
static void close_beneath(struct process *process)
{
    atomic_store(&process->closing, true);
    for (int i = 0; i < LOCKS * HOLDERS; i++) {
        struct soak_hold *hold = atomic_load(&process->current[i / HOLDERS][i % HOLDERS]);
        if (hold)
            end_hold(process, hold);
    }
    hlk_client_close(process->client);
}

static void destroy_others(struct worker *worker)
{
    hlk_lock_destroy(worker->multilock);
    hlk_semaphore_destroy(worker->semaphore);
}

static void end_process(struct process *process)
{
    bool beneath = soak_chance(&process->rng, 40);
    if (beneath)
        close_beneath(process);
    while (atomic_load(&process->working) > 0)
        if (beneath)
            test_sleep_ms(1);
        else
            wait_ms(process, 1);
    soak_doing(&process->slot->threads[THREADS], DOING_CLOSE, 0, 0);
    pthread_join(process->burst_thread, NULL);
    pthread_join(process->counter_thread, NULL);
    if (!beneath)
        copy_counters(process);
    for (int j = 0; j < LOCKS; j++) {
        for (int i = 0; i < process->threads; i++)
            hlk_lock_destroy(process->workers[i].owned[j]);
        for (int i = 0; i < BURST; i++)
            hlk_lock_destroy(process->burst[i].locks[j]);
        hlk_lock_destroy(process->locks[j]);
    }
    destroy_counted(process);
    for (int i = 0; i < process->threads; i++)
        destroy_others(&process->workers[i]);
    for (int i = 0; i < process->threads; i++)
        hlk_owner_destroy(process->workers[i].owner);
    for (int i = 0; i < BURST; i++)
        hlk_owner_destroy(process->burst[i].owner);
    if (!beneath)
        hlk_client_close(process->client);
    for (int i = 0; i < process->threads; i++)
        hlk_cancel_destroy(process->workers[i].cancel);
    soak_doing(&process->slot->threads[THREADS], DOING_NOTHING, 0, 0);
}

static void start_burst(struct process *process)
{
    for (int i = 0; i < BURST; i++) {
        struct member *member = &process->burst[i];
        member->process = process;
        member->owner = hlk_owner_create(process->client, "member");
        for (int j = 0; j < LOCKS; j++)
            member->locks[j] = make_lock(process, j, member->owner);
    }
    atomic_fetch_add(&process->working, 1);
    if (pthread_create(&process->burst_thread, NULL, burst_main, process) != 0)
        test_give_up("no thread");
}

int process_main(struct soak *soak, int number)
{
    static struct process process;
    struct sigaction action = { .sa_handler = on_signal };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != soak->parent)
        return 1;
    sigaction(SIGUSR1, &action, NULL);
    process.soak = soak;
    process.number = number;
    process.slot = &soak->slot[number];
    process.incarnation = atomic_load(&process.slot->incarnation);
    process.threads = soak->threads;
    process.rng = soak_rng(soak, (uint64_t)number, (uint64_t)process.incarnation, 0);
    if (!open_client(&process))
        return 0;
    atomic_store(&process.slot->leaves, false);
    snprintf(process.slot->client_id, sizeof process.slot->client_id, "%s", hlk_client_id(process.client));
    for (int i = 0; i < LOCKS; i++)
        process.locks[i] = make_lock(&process, i, NULL);
    make_counted(&process);
    for (int i = 0; i < process.threads; i++)
        start_worker(&process, i);
    start_burst(&process);
    atomic_fetch_add(&process.working, 1);
    if (pthread_create(&process.counter_thread, NULL, counter_main, &process) != 0)
        test_give_up("no thread");
    play_tricks(&process);
    end_process(&process);
    return 0;
}
