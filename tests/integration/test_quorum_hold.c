/* test_quorum_hold.c - a hold over five masters: renewals, losses, waits, and masters that answer late. */
/* Shows: P32 */
#include "quorum_fixture.h"

#include "support/history.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(void)
{
    quorum_begin(STAGE_PROXY);
}

TestSuite(quorum_hold, .init = start, .fini = quorum_end, .timeout = 120);

static struct hlk_quorum_opts with_ttl(int64_t ttl_ms)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.ttl_ms = ttl_ms;
    opts.node_timeout_ms = 900; /* a twentieth of 3 s is too short on a busy machine */
    return opts;
}

static hlk_quorum *held(hlk_client *client, const struct hlk_quorum_opts *opts)
{
    hlk_quorum *q = quorum_make(client, "t", opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    return q;
}

/* --- renewal, extension --- */

Test(quorum_hold, is_renewed_by_a_majority_until_it_is_released)
{
    struct hlk_quorum_opts opts = with_ttl(3000);
    hlk_client *client = quorum_open(MASTERS, NULL);
    hlk_quorum *q = held(client, &opts);
    int64_t first = hlk_quorum_held_until(q);
    server_pause(masters[0]);
    server_pause(masters[1]);
    WAIT_FOR(hlk_now_ms() > first + 3000);
    cr_assert_gt(hlk_quorum_left_ms(q), 0);
    cr_assert_geq(fixture_counters(client).renewals, 2u);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    server_resume(masters[0]);
    server_resume(masters[1]);
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_hold, is_renewed_no_more_often_than_max_renewals)
{
    struct hlk_quorum_opts opts = with_ttl(3000);
    opts.max_renewals = 2;
    hlk_client *client = quorum_open(MASTERS, NULL);
    hlk_quorum *q = held(client, &opts);
    struct fixture_event event = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(fixture_counters(client).renewals, 2u);
    cr_assert(strstr(event.why, "no renewal is left"), "%s", event.why);
    cr_assert_eq(fixture_events(HLK_EVENT_AT_RISK, "t"), 1u);
    cr_assert_eq(hlk_quorum_is_lost(q), 1);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST);
    cr_assert_eq(hlk_quorum_is_lost(q), 0);
    cr_assert_eq(hlk_quorum_release(q), HLK_NOT_HOLDER);
}

Test(quorum_hold, lasts_no_longer_than_max_hold_ms)
{
    struct hlk_quorum_opts opts = with_ttl(3000);
    opts.max_hold_ms = 7000;
    int64_t began = hlk_now_ms();
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts);
    struct fixture_event event = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert(strstr(event.why, "max_hold_ms"), "%s", event.why);
    cr_assert_geq(event.reported_at_ms, began + 6960);
    cr_assert_eq(hlk_quorum_extend(q, 3000), HLK_LOST);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* The drift is the holder's time to stop: it has released nothing. */
Test(quorum_hold, is_nobody_elses_before_the_drift_is_over)
{
    struct hlk_quorum_opts opts = with_ttl(4000), plain = with_ttl(4000);
    opts.max_hold_ms = 500;
    opts.clock_drift_factor = 0.2;
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts);
    hlk_quorum *theirs = quorum_make(quorum_open(MASTERS, NULL), "t", &plain);
    cr_assert_eq(hlk_quorum_acquire(theirs, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    int64_t got_at = test_now_ms(), until = fixture_wait_event(HLK_EVENT_LOST, "t").held_until_at_ms;
    cr_assert_geq(got_at, until + 802);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST);
    cr_assert_eq(hlk_quorum_release(theirs), HLK_OK);
}

Test(quorum_hold, with_a_lease_of_its_own_runs_out)
{
    hlk_client *client = quorum_open(MASTERS, NULL);
    hlk_quorum *q = quorum_make(client, "t", NULL);
    struct hlk_acquire_opts acquire = HLK_ACQUIRE_OPTS_INIT;
    acquire.lease_ms = 1500;
    cr_assert_eq(hlk_quorum_acquire_with(q, &acquire), HLK_OK, "%s", hlk_last_error());
    cr_assert_leq(hlk_quorum_left_ms(q), 1500 - 17);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(fixture_counters(client).renewals, 0u);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST);
}

Test(quorum_hold, is_extended_by_a_majority_and_never_shortened)
{
    struct hlk_quorum_opts opts = with_ttl(20000);
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts);
    int64_t until = hlk_quorum_held_until(q);
    cr_assert_eq(hlk_quorum_extend(q, 100), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(hlk_quorum_held_until(q), until);
    cr_assert_eq(hlk_quorum_extend(q, 60000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_quorum_left_ms(q), 58000);
    for (int i = 0; i < MAJORITY; i++)
        server_pause(masters[i]);
    cr_assert_eq(hlk_quorum_extend(q, 90000), HLK_E_UNSURE, "%s", hlk_last_error());
    for (int i = 0; i < MAJORITY; i++)
        server_resume(masters[i]);
    cr_assert_lt(hlk_quorum_left_ms(q), 60000);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- losses --- */

/* No renewal comes between. */
static void is_lost_before_its_end(hlk_quorum *q, bool others_are_away)
{
    for (int i = 0; i < MASTERS; i++)
        proxy_freeze(proxies[i], true);
    for (int i = 0; i < MAJORITY; i++)
        (void)raw(views[i], "DEL t");
    for (int i = MAJORITY; i < MASTERS && others_are_away; i++) {
        server_kill(masters[i]);
        quorum_forget_view(i);
    }
    for (int i = 0; i < MASTERS; i++)
        proxy_freeze(proxies[i], false);
    int64_t until = hlk_quorum_held_until(q);
    struct fixture_event event = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_lt(event.reported_at_ms, until);
    cr_assert(strstr(event.why, "does not know"), "%s", event.why);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST);
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_hold, is_lost_as_soon_as_a_majority_does_not_know_it)
{
    struct hlk_quorum_opts opts = with_ttl(3000);
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts);
    WAIT_FOR(quorum_keys("t") == MASTERS);
    (void)raw(views[0], "DEL t");
    (void)raw(views[1], "DEL t");
    WAIT_FOR(quorum_keys("t") == MASTERS); /* a minority is no loss, and is given it again */
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    is_lost_before_its_end(q, false);
}

/* Their answers come when it is decided already that no majority has renewed it. */
Test(quorum_hold, is_lost_when_a_majority_forgot_and_others_are_away)
{
    struct hlk_quorum_opts opts = with_ttl(3000);
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts);
    WAIT_FOR(quorum_keys("t") == MASTERS);
    is_lost_before_its_end(q, true);
}

/* asks: LOST before another client can hold */
/* Shows: S38 */
Test(quorum_hold, is_lost_as_validity_ends_if_a_majority_is_cut_off)
{
    struct hlk_quorum_opts opts = with_ttl(3000);
    opts.clock_drift_factor = 0.1; /* so that 302 ms lie between the two ends: a slow machine tells them apart */
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.reply_timeout_ms = 20000;
    hlk_quorum *q = held(quorum_open(MASTERS, &client_opts), &opts);
    WAIT_FOR(quorum_keys("t") == MASTERS); /* a majority has answered; the others have it a moment later */
    for (int i = 0; i < MAJORITY; i++)
        proxy_freeze(proxies[i], true);
    struct fixture_event risk = fixture_wait_event(HLK_EVENT_AT_RISK, "t");
    int64_t over_at_ms = INT64_MAX; /* until then nobody else has a majority: no renewal has come for a while */
    for (int i = 0; i < MAJORITY; i++) {
        int64_t now = test_now_ms(), end = now + raw_int(views[i], "PTTL t");
        over_at_ms = end < over_at_ms ? end : over_at_ms;
    }
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_lt(risk.reported_at_ms, lost.reported_at_ms);
    cr_assert_lt(lost.reported_at_ms, over_at_ms);
    cr_assert_eq(hlk_quorum_left_ms(q), 0);
    cr_assert_eq(hlk_quorum_is_lost(q), 1);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST);
    for (int i = 0; i < MAJORITY; i++)
        proxy_freeze(proxies[i], false);
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_hold, counts_from_before_the_first_send)
{
    struct hlk_quorum_opts opts = with_ttl(10000);
    opts.node_timeout_ms = 10000;
    for (int i = 0; i < MASTERS; i++)
        proxy_delay(proxies[i], 0, 500);
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, NULL), "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_leq(hlk_quorum_left_ms(q), 10000 - 500 - 102); /* the drift of 10 s */
    (void)hlk_quorum_release(q);
    for (int i = 0; i < MASTERS; i++)
        proxy_delay(proxies[i], 0, 0);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- waits --- */

static void *acquire_in_thread(void *q)
{
    return (void *)(intptr_t)hlk_quorum_acquire(q, WAIT_MS);
}

static int64_t listeners(const char *name)
{
    int64_t n = 0;
    for (int i = 0; i < MASTERS; i++)
        n += raw_listeners(views[i], name) > 0;
    return n;
}

/* Woken by messages: no poll is due for a minute. */
static void wakes(int format)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.format = format;
    opts.retry_delay_ms = 60000;
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts),
               *waiter = quorum_make(quorum_open(MASTERS, NULL), "t", &opts);
    pthread_t thread;
    void *status;
    pthread_create(&thread, NULL, acquire_in_thread, waiter);
    char channel[128];
    raw_channel(channel, sizeof channel, "t");
    for (int i = 0; i < MASTERS; i++)
        WAIT_FOR(strstr(raw(views[i], "PUBSUB NUMSUB %s", channel), ":1"));
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    pthread_join(thread, &status);
    cr_assert_eq((int)(intptr_t)status, HLK_OK);
    cr_assert_eq(hlk_quorum_release(waiter), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0 && listeners("t") == 0);
}

Test(quorum_hold, wait_is_woken_by_the_release_of_a_string)
{
    wakes(HLK_QUORUM_STRING);
}

Test(quorum_hold, wait_is_woken_by_the_release_of_a_hash)
{
    wakes(HLK_QUORUM_HASH);
}

/* Shows: S40 */
Test(quorum_hold, wait_polls_without_messages)
{
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.flags = HLK_OPEN_NO_PUBSUB;
    struct hlk_quorum_opts opts = quorum_opts();
    opts.retry_delay_ms = 10;
    opts.retry_jitter_ms = 10;
    hlk_client *client = quorum_open(MASTERS, &client_opts);
    hlk_quorum *waiter = quorum_make(client, "t", &opts);
    for (int i = 0; i < MASTERS; i++)
        (void)raw(views[i], "SET t redsync's PX 300");
    cr_assert_eq(hlk_quorum_acquire(waiter, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(waiter), HLK_OK, "%s", hlk_last_error());
}

Test(quorum_hold, retry_count_bounds_the_tries)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.retry_delay_ms = opts.retry_jitter_ms = 10;
    hlk_quorum *q = held(quorum_open(MASTERS, NULL), &opts);
    hlk_client *elsewhere = quorum_open(MASTERS, NULL);
    opts.retry_count = 2;
    cr_assert_eq(hlk_quorum_acquire(quorum_make(elsewhere, "t", &opts), HLK_FOREVER), HLK_TIMEOUT);
    cr_assert(strstr(hlk_last_error(), "others hold "), "%s", hlk_last_error());
    opts.retry_count = -1;
    cr_assert_eq(hlk_quorum_acquire(quorum_make(elsewhere, "t", &opts), HLK_FOREVER), HLK_TIMEOUT);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK);
}

struct cancelled {
    hlk_quorum *quorum;
    hlk_cancel *cancel;
};

static void *acquire_until_cancelled(void *arg)
{
    struct cancelled *c = arg;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = c->cancel;
    return (void *)(intptr_t)hlk_quorum_acquire_with(c->quorum, &opts);
}

Test(quorum_hold, wait_is_cancelled_in_queue_and_at_the_masters)
{
    hlk_client *client = quorum_open(MASTERS, NULL), *elsewhere = quorum_open(MASTERS, NULL);
    hlk_quorum *q = held(client, NULL);
    for (int i = 0; i < 2; i++) {
        hlk_client *whose = i ? elsewhere : client;
        struct cancelled c = { quorum_make(whose, "t", NULL), hlk_cancel_create(whose) };
        pthread_t thread;
        void *status;
        pthread_create(&thread, NULL, acquire_until_cancelled, &c);
        if (i)
            WAIT_FOR(listeners("t") == MASTERS);
        hlk_cancel_trigger(c.cancel);
        pthread_join(thread, &status);
        cr_assert_eq((int)(intptr_t)status, HLK_INTERRUPTED);
        cr_assert_eq(hlk_quorum_acquire(c.quorum, HLK_NOWAIT), HLK_BUSY);
        hlk_cancel_destroy(c.cancel);
    }
    cr_assert_eq(hlk_quorum_release(q), HLK_OK);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- many --- */

enum { THREADS = 8, PROCESSES = 2, HOLDS = 25 };

struct workers {
    hlk_client *client;
    struct history *history;
    int process, format;
};

struct turn {
    const struct workers *workers;
    int who;
};

static void *take_turns(void *arg)
{
    const struct turn *turn = arg;
    const struct workers *workers = turn->workers;
    struct hlk_quorum_opts opts = quorum_opts();
    opts.format = workers->format;
    hlk_quorum *q = hlk_quorum_create(workers->client, "t", &opts);
    for (int i = 0; i < HOLDS; i++) {
        if (hlk_quorum_acquire(q, 60000) != HLK_OK)
            test_give_up("%s", hlk_last_error());
        history_released(history_acquired(workers->history, turn->who, 0, hlk_quorum_held_until(q)));
        if (hlk_quorum_release(q) != HLK_OK)
            test_give_up("%s", hlk_last_error());
    }
    hlk_quorum_destroy(q);
    return NULL;
}

static void run_workers(struct history *history, int process, int format)
{
    const char *urls[MASTERS];
    pthread_t threads[THREADS];
    struct turn turns[THREADS];
    struct workers workers = { .history = history, .process = process, .format = format };
    for (int i = 0; i < MASTERS; i++)
        urls[i] = hlk_test_url(masters[i]);
    if (hlk_quorum_open(&workers.client, urls, MASTERS, NULL) != HLK_OK)
        test_give_up("%s", hlk_last_error());
    for (int i = 0; i < THREADS; i++)
        turns[i] = (struct turn){ &workers, process * THREADS + i };
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_turns, &turns[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hlk_client_close(workers.client);
}

struct process_thread {
    struct history *history;
    int process, format;
};

static void *run_process_thread(void *arg)
{
    const struct process_thread *workers = arg;
    run_workers(workers->history, workers->process, workers->format);
    return NULL;
}

/* Two clients of this process are strangers to each other, too. */
static void run_processes_as_threads(struct history *history, int format)
{
    pthread_t threads[PROCESSES];
    struct process_thread processes[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        processes[i] = (struct process_thread){ history, i, format };
        pthread_create(&threads[i], NULL, run_process_thread, &processes[i]);
    }
    for (int i = 0; i < PROCESSES; i++)
        pthread_join(threads[i], NULL);
}

static void run_processes(struct history *history, int format)
{
    pid_t others[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        others[i] = fork();
        if (others[i] == 0) {
            run_workers(history, i, format);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        cr_assert_eq(waitpid(others[i], &status, 0), others[i]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* asks: no livelock of split votes */
static void excludes(int format)
{
    struct history *history = history_create(THREADS * PROCESSES * HOLDS);
    if (STAGE_UNDER_TSAN || STAGE_UNDER_ASAN)
        run_processes_as_threads(history, format);
    else
        run_processes(history, format);
    cr_assert_eq(history_count(history), (size_t)(THREADS * PROCESSES * HOLDS));
    cr_assert(history_check(history));
    history_destroy(history);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* Shows: S39 */
Test(quorum_hold, is_one_at_a_time_for_16_threads_of_2_processes)
{
    excludes(HLK_QUORUM_STRING);
}

Test(quorum_hold, is_one_at_a_time_for_16_threads_by_hashes)
{
    excludes(HLK_QUORUM_HASH);
}
