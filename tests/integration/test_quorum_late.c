/* test_quorum_late.c - a majority of connected masters is enough to begin. One that hangs, or is started later, is not
 * waited for, and gets the hold when it connects. The ttl is so long that no renewal brings it there. */
/* Shows: P34 */
#include "net/pipeline_up.h"
#include "quorum_fixture.h"

#include "client.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { N = 3, LATE = 2 };

#define LONG_TTL "&ttl_ms=600000"
#define LONG_LOOK "&ttl_ms=600000&node_timeout_ms=40000" /* who waits for LATE here does not end in time */

static void start(void)
{
    quorum_begin(0);
}

static void start_proxied(void)
{
    quorum_begin(STAGE_PROXY);
}

static void stop(void)
{
    if (masters[LATE]->pid)
        server_resume(masters[LATE]); /* so that it can be asked what is left */
    quorum_end();
}

TestSuite(quorum_late, .init = start, .fini = stop, .timeout = 90);
TestSuite(quorum_late_proxied, .init = start_proxied, .fini = quorum_end, .timeout = 90);

/* Its socket takes connections: only the answers are missing. */
static void hang(int i)
{
    quorum_forget_view(i);
    server_pause(masters[i]);
}

static void go_on(int i)
{
    server_resume(masters[i]);
    views[i] = raw_open(masters[i]);
}

static struct hlk_client_opts lazily(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_LAZY;
    return opts;
}

static hlk_client *open_lazily(const char *options)
{
    struct hlk_client_opts opts = lazily();
    return quorum_open_url(N, options, &opts);
}

/* Connected to a majority, as hlk_client_open returns it. */
static hlk_client *open_eagerly(const char *options)
{
    struct hlk_client_opts opts = fixture_opts();
    return quorum_open_url_at_once(N, options, &opts);
}

static void is_acquired(hlk_lock *lock, int64_t wait_ms)
{
    cr_assert_eq(hlk_lock_acquire(lock, wait_ms), HLK_OK, "%s", hlk_last_error());
}

static void is_released(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

static const char *id_of(hlk_lock *lock)
{
    static char id[192];
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK, "%s", hlk_last_error());
    return id;
}

static bool has(int i, const char *name, const char *hold_id)
{
    return strcmp(raw_holder(views[i], name), hold_id) == 0;
}

static struct hlk_lock_opts of_kind(int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    return opts;
}

static const int kinds[] = { HLK_LOCK_PLAIN, HLK_LOCK_STRING };

/* --- nobody waits for a master that hangs --- */

Test(quorum_late, hung_master_delays_no_open)
{
    hang(LATE);
    int64_t began = test_now_ms();
    hlk_lock *lock = quorum_lock(open_eagerly(LONG_TTL), "t", NULL);
    is_acquired(lock, HLK_NOWAIT);
    cr_assert_lt(running_ms(began), 900, "a second was for the last master once");
    is_released(lock);
}

Test(quorum_late, hung_master_delays_no_short_wait_of_a_new_client)
{
    hang(LATE);
    for (size_t k = 0; k < 2; k++) {
        struct hlk_lock_opts opts = of_kind(kinds[k]);
        hlk_lock *lock = quorum_lock(open_lazily(LONG_TTL), "t", &opts);
        int64_t began = test_now_ms();
        is_acquired(lock, 1000);
        cr_assert_lt(running_ms(began), 900, "at the end of the wait");
        is_released(lock);
    }
}

Test(quorum_late, hung_master_delays_no_try_of_a_new_client)
{
    hang(LATE);
    int64_t began = test_now_ms();
    hlk_lock *lock = quorum_lock(open_lazily(LONG_TTL), "t", NULL);
    is_acquired(lock, HLK_NOWAIT);
    cr_assert_lt(running_ms(began), 2500, "3 s were for the last master once");
    is_released(lock);
}

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    atomic_store((atomic_int *)ctx, status);
}

Test(quorum_late, hung_master_delays_no_completion)
{
    hang(LATE);
    hlk_client *client = open_lazily(LONG_TTL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    atomic_int done = 1000;
    lock_opts.owner = owner;
    opts.wait_ms = 1000;
    hlk_lock *lock = quorum_lock(client, "t", &lock_opts);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, on_done, &done), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(atomic_load(&done) != 1000);
    cr_assert_eq(atomic_load(&done), HLK_OK);
    cr_assert_lt(running_ms(began), 900, "at the end of the wait");
    is_released(lock);
    hlk_owner_destroy(owner);
}

static int count_listed(const struct hlk_listed *listed, void *ctx)
{
    (void)listed;
    ++*(int *)ctx;
    return 0;
}

Test(quorum_late, hung_master_delays_no_query_list_or_break)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    int listed = 0;
    hang(LATE);
    hlk_lock *held = quorum_lock(open_lazily(LONG_TTL), "t", NULL);
    is_acquired(held, 1000);
    int64_t began = test_now_ms();
    hlk_lock *lock = quorum_lock(open_lazily(LONG_LOOK), "t", NULL);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert(state.held);
    cr_assert_eq(hlk_lock_list(open_lazily(LONG_LOOK), &opts, count_listed, &listed), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(listed, 1);
    cr_assert_eq(hlk_lock_break(quorum_lock(open_lazily(LONG_LOOK), "t", NULL)), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_not(state.held);
    cr_assert_lt(running_ms(began), WAIT_MS);
}

/* --- a master that connects later gets the hold --- */

static void gets_the_hold(hlk_client *client, int kind)
{
    struct hlk_lock_opts opts = of_kind(kind);
    hlk_lock *lock = quorum_lock(client, "t", &opts), *leased;
    opts.lease_ms = 600000;
    leased = quorum_lock(client, "leased", &opts);
    is_acquired(lock, WAIT_MS);
    is_acquired(leased, WAIT_MS);
    go_on(LATE);
    WAIT_FOR(has(LATE, "t", id_of(lock)));
    WAIT_FOR(has(LATE, "leased", id_of(leased)));
    cr_assert_leq(raw_pttl(views[LATE], "leased"), 600000);
    cr_assert_geq(raw_pttl(views[LATE], "leased"), hlk_lock_left_ms(leased) - 1000);
    cr_assert_eq(fixture_counters(client).renewals, 0u);
    is_released(lock);
    is_released(leased);
    WAIT_FOR(quorum_keys("t") + quorum_keys("leased") == 0);
}

Test(quorum_late, master_that_goes_on_gets_what_a_new_client_holds)
{
    for (size_t k = 0; k < 2; k++) {
        hang(LATE);
        gets_the_hold(open_lazily(LONG_TTL), kinds[k]);
    }
}

Test(quorum_late, master_that_goes_on_gets_a_hold_of_an_eager_client)
{
    for (size_t k = 0; k < 2; k++) {
        hang(LATE);
        gets_the_hold(open_eagerly(LONG_TTL), kinds[k]);
    }
}

Test(quorum_late, master_that_is_started_later_gets_what_is_held)
{
    quorum_forget_view(LATE);
    server_kill(masters[LATE]);
    hlk_client *client = open_lazily(LONG_TTL);
    struct hlk_quorum_opts opts = quorum_opts();
    opts.ttl_ms = 600000;
    char id[192];
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    hlk_quorum *q = quorum_make(client, "tq", &opts);
    is_acquired(lock, WAIT_MS);
    cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_hold_id(q, id, sizeof id), HLK_OK);
    server_restart(masters[LATE], false);
    views[LATE] = raw_open(masters[LATE]);
    WAIT_FOR(has(LATE, "t", id_of(lock)));
    WAIT_FOR(has(LATE, "tq", id));
    is_released(lock);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") + quorum_keys("tq") == 0);
}

/* A lock that was released, or is another's there, is not taken. */
Test(quorum_late, master_that_goes_on_gets_nothing_that_is_not_held)
{
    (void)raw(views[LATE], "HSET other b983c153-7421-469a-addb-44fb92259a1b:1 1");
    hang(LATE);
    hlk_client *client = open_lazily(LONG_TTL);
    hlk_lock *released = quorum_lock(client, "t", NULL), *other = quorum_lock(client, "other", NULL);
    hlk_lock *held = quorum_lock(client, "th", NULL);
    is_acquired(released, WAIT_MS);
    is_released(released);
    is_acquired(other, WAIT_MS);
    is_acquired(held, WAIT_MS);
    go_on(LATE);
    WAIT_FOR(has(LATE, "th", id_of(held))); /* the last one that was acquired */
    cr_assert_str_eq(raw_holder(views[LATE], "other"), "b983c153-7421-469a-addb-44fb92259a1b:1");
    cr_assert_str_eq(raw_holder(views[LATE], "t"), "");
    is_released(other);
    is_released(held);
    (void)raw(views[LATE], "DEL other");
    WAIT_FOR(quorum_keys("th") == 0);
}

/* With the one that hangs another client may have had the lock since: the holder gets to know that. */
Test(quorum_late, master_that_goes_on_shows_that_one_lost_the_hold)
{
    hang(LATE);
    hlk_lock *lock = quorum_lock(open_lazily(LONG_TTL), "t", NULL);
    is_acquired(lock, WAIT_MS);
    (void)raw(views[1], "DEL t");
    go_on(LATE);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert(strstr(lost.why, "does not know"), "%s", lost.why);
    cr_assert_eq(raw_int(views[LATE], "EXISTS t"), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* Connected after it was passed over, and before the others have answered. */
Test(quorum_late_proxied, master_connecting_during_acquire_gets_the_hold)
{
    proxy_refuse(proxies[LATE], true);
    hlk_client *client = open_eagerly(LONG_TTL "&node_timeout_ms=40000");
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    proxy_arm(proxies[0], PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    struct actor *actor = actor_start(lock, NULL);
    proxy_wait_struck(proxies[0]);
    WAIT_FOR(raw_int(views[1], "EXISTS t") == 1); /* LATE comes after it */
    struct hlk_error error;
    proxy_refuse(proxies[LATE], false);
    WAIT_FOR(hlk_pipeline_health(client->nodes[LATE].pipeline, &error) == HLK_OK);
    cr_assert_eq(raw_int(views[LATE], "EXISTS t"), 0);
    proxy_deliver(proxies[0], false);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    WAIT_FOR(raw_int(views[LATE], "EXISTS t") == 1);
    cr_assert_eq(actor_end(actor), HLK_OK);
    WAIT_FOR(quorum_keys("t") == 0);
}

/* One master has the key of a holder that died. With the last one, which connects a moment later, the other one is a
 * majority. */
Test(quorum_late_proxied, master_that_a_try_needs_is_waited_for_a_moment)
{
    enum { TRIES = 5, MOMENT_MS = 100 };
    int got = 0;
    (void)raw(views[0], "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    proxy_delay(proxies[LATE], 0, MOMENT_MS);
    for (int i = 0; i < TRIES && !got; i++) {
        hlk_client *client = open_lazily(LONG_TTL);
        hlk_lock *lock = quorum_lock(client, "t", NULL);
        got += hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK && hlk_lock_release(lock) == HLK_OK;
    }
    cr_assert(got, "%s", hlk_last_error());
    (void)raw(views[0], "DEL t");
    WAIT_FOR(quorum_keys("t") == 0);
}

/* What is left on one master is in the way of the next holder. */
Test(quorum_late_proxied, master_that_connects_a_moment_later_is_broken_too)
{
    enum { TRIES = 5, MOMENT_MS = 50 };
    proxy_delay(proxies[LATE], 0, MOMENT_MS);
    for (int i = 0; i < TRIES && (i == 0 || quorum_keys("t") > 0); i++) {
        for (int k = 0; k < N; k++)
            (void)raw(views[k], "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
        cr_assert_eq(hlk_lock_break(quorum_lock(open_lazily(LONG_TTL), "t", NULL)), HLK_OK, "%s", hlk_last_error());
    }
    cr_assert_eq(quorum_keys("t"), 0);
}

static void *list(void *client)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    static int listed;
    enum hlk_status status = hlk_lock_list(client, &opts, count_listed, &listed);
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    return &listed;
}

/* The keys of one master cannot be read, so those of the last one have to be. */
Test(quorum_late_proxied, master_that_a_list_needs_is_waited_for)
{
    struct hlk_client_opts opts = lazily();
    opts.reply_timeout_ms = WAIT_MS;
    for (int i = 0; i < N; i++)
        (void)raw(views[i], "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    (void)raw(views[0], "ACL SETUSER default -scan");
    proxy_freeze(proxies[LATE], true);
    uint64_t before = proxy_count(proxies[1], PROXY_SCRIPTS);
    pthread_t thread;
    void *listed;
    pthread_create(&thread, NULL, list, quorum_open_url(N, "&ttl_ms=600000&node_timeout_ms=20000", &opts));
    WAIT_FOR(proxy_count(proxies[1], PROXY_SCRIPTS) >= before + 2); /* the probe, and a step of the list */
    proxy_freeze(proxies[LATE], false);
    pthread_join(thread, &listed);
    cr_assert_eq(*(int *)listed, 1);
    (void)raw(views[0], "ACL SETUSER default +scan");
    for (int i = 0; i < N; i++)
        (void)raw(views[i], "DEL t");
}

/* --- words --- */

Test(quorum_late_proxied, answers_after_the_wait_are_no_masters_fault)
{
    hlk_client *client = quorum_open_url(N, "&node_timeout_ms=20000", NULL);
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    for (int i = 0; i < N; i++)
        proxy_freeze(proxies[i], true);
    cr_assert_eq(hlk_lock_acquire(lock, 20), HLK_TIMEOUT);
    cr_assert_null(strstr(hlk_last_error(), "no answer in"), "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "no time for the answers of 3"), "%s", hlk_last_error());
    for (int i = 0; i < N; i++)
        proxy_freeze(proxies[i], false);
    WAIT_FOR(quorum_keys("t") == 0);
}
