/* test_quorum_retake.c - masters that have not granted a hold, or have lost it, are asked again while it lasts. */
/* Shows: P34 */
#include "quorum_fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 3, LATE = 2, LONG_MS = 600000 }; /* LATE: the master that the hold does not have at first */

static const int formats[] = { HLK_QUORUM_STRING, HLK_QUORUM_HASH };

static void start(void)
{
    quorum_begin(STAGE_PROXY);
}

TestSuite(quorum_retake, .init = start, .fini = quorum_end, .timeout = 120);

static struct hlk_quorum_opts opts_of(int format, int64_t ttl_ms)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.format = format;
    opts.ttl_ms = ttl_ms;
    opts.node_timeout_ms = ttl_ms / 2; /* a slow machine: a majority answers in time */
    return opts;
}

static void down(int i)
{
    quorum_forget_view(i);
    server_kill(masters[i]);
}

static void up(int i)
{
    server_restart(masters[i], false);
    views[i] = raw_open(masters[i]);
}

static bool has(int i, const char *hold_id)
{
    return strcmp(raw_holder(views[i], "t"), hold_id) == 0;
}

static const char *id_of(hlk_quorum *q)
{
    static char id[192];
    cr_assert_eq(hlk_quorum_hold_id(q, id, sizeof id), HLK_OK, "%s", hlk_last_error());
    return id;
}

/* It is renewed twice more. */
static void goes_on(hlk_client *client, hlk_quorum *q)
{
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewals + 2);
    cr_assert_gt(hlk_quorum_left_ms(q), 0);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

static void is_released(hlk_quorum *q)
{
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

static hlk_quorum *held(hlk_client *client, const struct hlk_quorum_opts *opts)
{
    hlk_quorum *q = quorum_make(client, "t", opts);
    cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    return q;
}

/* By another holder, until this is deleted. */
static void block(int i, int format)
{
    (void)raw(views[i], format == HLK_QUORUM_STRING ? "SET t else" : "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
}

static void unblock(int i)
{
    (void)raw(views[i], "DEL t");
}

/* Held by the other masters. LATE has refused it. */
static hlk_quorum *held_without(hlk_client *client, const struct hlk_quorum_opts *opts)
{
    block(LATE, opts->format);
    hlk_quorum *q = held(client, opts);
    quorum_read(client, LATE);
    return q;
}

/* Extends it; how many commands that took: one for each connected master, and one for each that was asked again. A
 * command that another thread sends is counted a moment later. */
static unsigned extend(hlk_client *client, hlk_quorum *q)
{
    uint64_t commands = fixture_counters(client).commands;
    cr_assert_eq(hlk_quorum_extend(q, LONG_MS), HLK_OK, "%s", hlk_last_error());
    return (unsigned)(fixture_counters(client).commands - commands);
}

static bool extend_and_look(hlk_client *client, hlk_quorum *q)
{
    (void)extend(client, q);
    return has(LATE, id_of(q));
}

/* All masters have it, and nobody is asked again. */
static bool is_complete(hlk_client *client, hlk_quorum *q)
{
    for (int i = 0; i < 3; i++)
        if (extend(client, q) != N)
            return false;
    return quorum_keys("t") == N;
}

/* --- masters that come back --- */

/* asks: a hold by two of three masters survives the loss of one of them when the third is back */
static void survives(int format)
{
    struct hlk_quorum_opts opts = opts_of(format, 3000);
    down(LATE);
    hlk_client *client = quorum_open(N, NULL);
    hlk_quorum *q = held(client, &opts);
    up(LATE);
    WAIT_FOR(has(LATE, id_of(q)));
    down(0);
    goes_on(client, q);
    is_released(q);
}

Test(quorum_retake, of_a_returned_master_replaces_a_dead_one_string)
{
    survives(HLK_QUORUM_STRING);
}

Test(quorum_retake, of_a_returned_master_replaces_a_dead_one_hash)
{
    survives(HLK_QUORUM_HASH);
}

Test(quorum_retake, is_for_locks_of_a_client_too)
{
    char id[192];
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000;
    down(LATE);
    hlk_client *client = quorum_open_url(N, PATIENT, &opts);
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK);
    up(LATE);
    WAIT_FOR(has(LATE, id));
    cr_assert_eq(raw_int(views[LATE], "HGET t %s", id), 1);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

/* One of the two dies before the third is back. The validity that is left is enough. */
Test(quorum_retake, of_a_returned_master_saves_a_hold_without_majority)
{
    struct hlk_quorum_opts opts = opts_of(HLK_QUORUM_STRING, 12000);
    down(LATE);
    hlk_client *client = quorum_open(N, NULL);
    hlk_quorum *q = held(client, &opts);
    uint64_t renewals = fixture_counters(client).renewals;
    down(0);
    up(LATE);
    WAIT_FOR(fixture_counters(client).renewals > renewals);
    cr_assert(has(LATE, id_of(q)));
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    is_released(q);
}

static void is_taken_after_the_delay(int format)
{
    enum { DELAY_MS = 1500 };
    struct hlk_quorum_opts opts = opts_of(format, 3000);
    opts.restart_delay_ms = DELAY_MS; /* the servers have just started: held() waits */
    hlk_client *client = quorum_open(N, NULL);
    hlk_quorum *q = held(client, &opts);
    WAIT_FOR(quorum_keys("t") == N);
    down(LATE);
    int64_t began = test_now_ms();
    up(LATE);
    WAIT_FOR(has(LATE, id_of(q)));
    cr_assert_geq(test_now_ms() - began, DELAY_MS);
    down(0);
    goes_on(client, q);
    is_released(q);
}

Test(quorum_retake, of_an_emptied_master_awaits_restart_delay_string)
{
    is_taken_after_the_delay(HLK_QUORUM_STRING);
}

Test(quorum_retake, of_an_emptied_master_awaits_restart_delay_hash)
{
    is_taken_after_the_delay(HLK_QUORUM_HASH);
}

/* --- when, and how often --- */

static uint64_t scripts(int i)
{
    return proxy_count(proxies[i], PROXY_SCRIPTS);
}

Test(quorum_retake, costs_nothing_when_all_masters_have_it)
{
    for (size_t f = 0; f < 2; f++) {
        struct hlk_quorum_opts opts = opts_of(formats[f], 3000);
        hlk_client *client = quorum_open(N, NULL);
        uint64_t before[N];
        for (int i = 0; i < N; i++)
            before[i] = scripts(i);
        hlk_quorum *q = held(client, &opts);
        WAIT_FOR(fixture_counters(client).renewals >= 2);
        is_released(q);
        uint64_t renewals = fixture_counters(client).renewals;
        for (int i = 0; i < N; i++)
            cr_assert_leq(scripts(i) - before[i], 1 + renewals + 2 + 1, "acquire, renewals, some late ones, release");
    }
}

Test(quorum_retake, asks_a_master_others_hold_at_most_once_per_renewal)
{
    struct hlk_quorum_opts opts = opts_of(HLK_QUORUM_STRING, 3000);
    hlk_client *client = quorum_open(N, NULL);
    hlk_quorum *q = held_without(client, &opts);
    uint64_t before = scripts(LATE), renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewals + 2);
    cr_assert_leq(scripts(LATE) - before, 2 * (fixture_counters(client).renewals - renewals + 2));
    cr_assert(has(LATE, "else"));
    unblock(LATE);
    WAIT_FOR(has(LATE, id_of(q)));
    is_released(q);
}

Test(quorum_retake, follows_an_extension_at_once_until_it_is_complete)
{
    for (size_t f = 0; f < 2; f++) {
        struct hlk_quorum_opts opts = opts_of(formats[f], 10000);
        hlk_client *client = quorum_open(N, NULL);
        hlk_quorum *q = held_without(client, &opts);
        WAIT_FOR(extend(client, q) == N + 1);
        unblock(LATE);
        WAIT_FOR(extend_and_look(client, q));
        int64_t left = hlk_quorum_left_ms(q), ttl = raw_pttl(views[LATE], "t"); /* the key ends with the others */
        cr_assert(left > LONG_MS / 2 && ttl >= left && ttl <= LONG_MS, "%lld, %lld", (long long)left, (long long)ttl);
        WAIT_FOR(is_complete(client, q));
        is_released(q);
    }
}

/* It does not know the scripts any more. Nothing else is sent to it until it has it. */
Test(quorum_retake, is_sent_again_if_it_was_not_run)
{
    for (size_t f = 0; f < 2; f++) {
        struct hlk_quorum_opts opts = opts_of(formats[f], LONG_MS);
        hlk_client *client = quorum_open(N, NULL);
        hlk_quorum *q = held_without(client, &opts);
        unblock(LATE);
        (void)raw(views[LATE], "SCRIPT FLUSH");
        (void)extend(client, q);
        WAIT_FOR(has(LATE, id_of(q)));
        is_released(q);
    }
}

/* The master has run the acquire, and its answer was lost. Asked again it says that this hold has it. */
Test(quorum_retake, of_a_master_that_has_it_already_is_a_yes)
{
    for (size_t f = 0; f < 2; f++) {
        struct hlk_quorum_opts opts = opts_of(formats[f], 10000);
        hlk_client *client = quorum_open(N, NULL);
        hlk_quorum *q = quorum_make(client, "t", &opts);
        proxy_arm(proxies[LATE], PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_OK, "%s", hlk_last_error());
        proxy_wait_struck(proxies[LATE]);
        WAIT_FOR(has(LATE, id_of(q)));
        WAIT_FOR(is_complete(client, q));
        is_released(q);
    }
}

/* One master lost it, one is silent: somebody else may have held it by these two. Then nobody is asked again, and the
 * answer of the silent one makes it LOST. */
/* Shows: S36 */
Test(quorum_retake, waits_for_a_majority_when_a_master_has_lost_it)
{
    struct hlk_client_opts client_opts = fixture_opts();
    struct hlk_quorum_opts opts = opts_of(HLK_QUORUM_STRING, 6000);
    client_opts.reply_timeout_ms = WAIT_MS;
    hlk_client *client = quorum_open(N, &client_opts);
    hlk_quorum *q = held_without(client, &opts);
    WAIT_FOR(quorum_keys("t") == N);
    proxy_freeze(proxies[LATE], true);
    unblock(LATE);
    unblock(1);
    uint64_t seen = scripts(1);
    WAIT_FOR(scripts(1) >= seen + 3); /* renewals without a majority */
    cr_assert_str_eq(raw_holder(views[1], "t"), "");
    cr_assert_gt(hlk_quorum_left_ms(q), 0, "too late to show anything");
    proxy_freeze(proxies[LATE], false);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert(strstr(lost.why, "does not know"), "%s", lost.why);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* --- releases --- */

/* The master is asked again, behind an extension, and that request, or its answer, is on its way. The ttl is long, so
 * that nothing else is sent to this master, and so that no key ends by itself. */
static hlk_quorum *held_and_asking(hlk_client *client, int format, enum proxy_fault fault)
{
    struct hlk_quorum_opts opts = opts_of(format, LONG_MS);
    hlk_quorum *q = held_without(client, &opts);
    unblock(LATE);
    proxy_arm(proxies[LATE], fault, PROXY_SCRIPTS, 2);
    cr_assert_eq(hlk_quorum_extend(q, LONG_MS), HLK_OK, "%s", hlk_last_error());
    proxy_wait_struck(proxies[LATE]);
    return q;
}

static hlk_client *opened(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = WAIT_MS;
    return quorum_open(N, &opts);
}

static const enum proxy_fault late[] = { PROXY_HOLD, PROXY_HOLD_REPLY };

static void is_released_behind(int format)
{
    for (size_t i = 0; i < 2; i++) {
        hlk_quorum *q = held_and_asking(opened(), format, late[i]);
        cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
        proxy_deliver(proxies[LATE], false);
        WAIT_FOR(quorum_keys("t") == 0);
    }
}

Test(quorum_retake, that_is_on_its_way_is_released_behind_it_string)
{
    is_released_behind(HLK_QUORUM_STRING);
}

Test(quorum_retake, that_is_on_its_way_is_released_behind_it_hash)
{
    is_released_behind(HLK_QUORUM_HASH);
}

static void *close_client(void *client)
{
    quorum_close(client);
    return NULL;
}

Test(quorum_retake, that_is_on_its_way_is_released_by_close)
{
    for (size_t i = 0; i < 4; i++) {
        hlk_client *client = opened();
        pthread_t closer;
        (void)held_and_asking(client, formats[i / 2], late[i % 2]);
        uint64_t seen = scripts(0);
        pthread_create(&closer, NULL, close_client, client);
        WAIT_FOR(scripts(0) > seen); /* the release */
        proxy_deliver(proxies[LATE], false);
        pthread_join(closer, NULL);
        WAIT_FOR(quorum_keys("t") == 0);
    }
}

Test(quorum_retake, that_is_on_its_way_is_released_by_destroy)
{
    for (size_t i = 0; i < 4; i++) {
        hlk_quorum *q = held_and_asking(opened(), formats[i / 2], late[i % 2]);
        quorum_destroy(q);
        proxy_deliver(proxies[LATE], false);
        WAIT_FOR(quorum_keys("t") == 0);
    }
}

/* The connection breaks beneath it, before or after it has run. */
Test(quorum_retake, whose_answer_is_lost_is_released)
{
    static const enum proxy_fault cuts[] = { PROXY_CUT_BEFORE, PROXY_CUT_AFTER };
    for (size_t i = 0; i < 4; i++) {
        hlk_client *client = opened();
        is_released(held_and_asking(client, formats[i / 2], cuts[i % 2]));
        quorum_close(client);
    }
}

/* The client gives up the connection on which the master was asked again, asks anew, and releases. The first request
 * arrives after that. */
Test(quorum_retake, that_arrives_after_the_release_takes_nothing_hash)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 500;
    hlk_client *client = quorum_open(N, &opts);
    hlk_quorum *q = held_and_asking(client, HLK_QUORUM_HASH, PROXY_HOLD);
    WAIT_FOR(extend_and_look(client, q));
    is_released(q);
    proxy_deliver(proxies[LATE], true);
    cr_assert_eq(quorum_keys("t"), 0);
}

/* It is a loss, though the renewals have found one of them before. */
Test(quorum_retake, release_counts_a_master_that_has_lost_it)
{
    struct hlk_quorum_opts opts = opts_of(HLK_QUORUM_STRING, 10000);
    hlk_client *client = quorum_open(N, NULL);
    hlk_quorum *q = held(client, &opts);
    WAIT_FOR(is_complete(client, q));
    (void)raw(views[LATE], "SET t else");
    WAIT_FOR(extend(client, q) == N + 1);
    quorum_read(client, LATE);
    unblock(1);
    cr_assert_eq(hlk_quorum_release(q), HLK_LOST, "%s", hlk_last_error());
    unblock(LATE);
    WAIT_FOR(quorum_keys("t") == 0);
}

static void *release_in_thread(void *q)
{
    return (void *)(intptr_t)hlk_quorum_release(q);
}

/* Another thread extends, and so asks the master again, at any moment of the release. */
Test(quorum_retake, beside_a_release_leaves_nothing)
{
    enum { ROUNDS = 50 };
    hlk_client *client = opened();
    for (int i = 0; i < ROUNDS; i++) {
        struct hlk_quorum_opts opts = opts_of(formats[i % 2], 10000);
        hlk_quorum *q = held_without(client, &opts);
        pthread_t thread;
        void *status;
        unblock(LATE); /* the extension takes it */
        pthread_create(&thread, NULL, release_in_thread, q);
        enum hlk_status extended = hlk_quorum_extend(q, LONG_MS);
        cr_assert(extended == HLK_OK || extended == HLK_NOT_HOLDER, "%s", hlk_last_error());
        pthread_join(thread, &status);
        cr_assert_eq((int)(intptr_t)status, HLK_OK);
        WAIT_FOR(quorum_keys("t") == 0);
        quorum_destroy(q);
    }
}
