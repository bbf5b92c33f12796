/* The server refuses for now: it is full, lacks replicas, is a replica, is stopped. If a refusal lasts until the
 * deadline, it is the result. No attempt is sent so late that the result would become "sent, not answered". And what
 * was sent and may have run is never reported as not sent: HLK_E_CONNECT is only for what was not sent at all. */
#include "fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    fault_up(0);
}

TestSuite(refused, .init = start, .fini = fixture_end, .timeout = 60);

static const struct refusal {
    const char *begin, *end, *word;
    bool by_a_try_at_once;
} refusals[] = {
    { "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM", true },
    { "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS", true },
    { "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY", false },
};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

/* What a hold needs too: a full server still raises its lease, and releases it. */
static const struct refusal *const lasting[] = { &refusals[1], &refusals[2] };
enum { LASTING = sizeof lasting / sizeof *lasting };

static hlk_client *open_patient(int64_t reconnect_timeout_ms)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    opts.reply_timeout_ms = 300;
    opts.reconnect_timeout_ms = reconnect_timeout_ms;
    return fixture_open(&opts);
}

#define assert_says(word, text) cr_assert_not_null(strstr((text), (word)), "no %s in: %s", (word), (text))

/* --- refused until the deadline */

Test(refused, until_its_deadline_a_wait_is_told_why)
{
    static const int64_t waits[] = { 150, 400 };
    hlk_client *client = open_patient(10000);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (int i = 0; i < REFUSALS; i++) {
        raw(fixture.redis, refusals[i].begin);
        for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
            int64_t began = test_now_ms();
            enum hlk_status status = hlk_lock_acquire(lock, waits[k]);
            cr_assert_eq(status, HLK_E_SERVER, "wait %d: %s", (int)waits[k], hlk_last_error());
            assert_says(refusals[i].word, hlk_last_error());
            cr_assert_geq(test_now_ms() - began, waits[k], "all of it");
        }
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_SERVER, "%s", hlk_last_error());
        assert_says(refusals[i].word, hlk_last_error());
        raw(fixture.redis, refusals[i].end);
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
}

struct completion {
    atomic_int done;
    enum hlk_status status;
    int64_t at_ms;
    char error[512];
};

static void complete(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct completion *completion = ctx;
    (void)lock;
    completion->status = status;
    completion->at_ms = test_now_ms();
    snprintf(completion->error, sizeof completion->error, "%s", status == HLK_OK ? "" : hlk_last_error());
    atomic_store(&completion->done, 1);
}

static void acquire_async_with(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct completion *completion)
{
    memset(completion, 0, sizeof *completion);
    cr_assert_eq(hlk_lock_acquire_async(lock, opts, complete, completion), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(atomic_load(&completion->done));
}

static void acquire_async(hlk_lock *lock, int64_t wait_ms, struct completion *completion)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    acquire_async_with(lock, &opts, completion);
}

Test(refused, until_its_deadline_a_completion_is_told_why)
{
    static const int64_t waits[] = { 150, 400 };
    static struct completion completion;
    hlk_client *client = open_patient(10000);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    for (int i = 0; i < REFUSALS; i++) {
        raw(fixture.redis, refusals[i].begin);
        for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
            int64_t began = test_now_ms();
            acquire_async(lock, waits[k], &completion);
            cr_assert_eq(completion.status, HLK_E_SERVER, "wait %d: %s", (int)waits[k], completion.error);
            assert_says(refusals[i].word, completion.error);
            cr_assert_geq(completion.at_ms - began, waits[k], "all of it");
        }
        acquire_async(lock, HLK_NOWAIT, &completion);
        cr_assert_eq(completion.status, HLK_E_SERVER, "%s", completion.error);
        assert_says(refusals[i].word, completion.error);
        raw(fixture.redis, refusals[i].end);
        acquire_async(lock, 5000, &completion);
        cr_assert_eq(completion.status, HLK_OK, "%s", completion.error);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    hlk_owner_destroy(owner);
}

/* A wait during which a refusal begins and ends continues. */
Test(refused, for_a_while_only_delays_a_wait)
{
    hlk_lock *lock = fixture_lock(open_patient(10000), "t", NULL);
    for (int i = 0; i < REFUSALS; i++) {
        raw(fixture.redis, refusals[i].begin);
        int64_t refused = raw_stat(fixture.redis, "total_error_replies");
        struct actor *waiter = actor_start_wait(lock, WAIT_MS);
        WAIT_FOR(raw_stat(fixture.redis, "total_error_replies") > refused);
        cr_assert_not(actor_answered(waiter));
        raw(fixture.redis, refusals[i].end);
        cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
}

/* --- a nested hold whose lease is raised */

static struct hlk_acquire_opts raise_in(int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    opts.lease_ms = 60000;
    return opts;
}

static void raises_blocked(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct completion *out)
{
    out->status = hlk_lock_acquire_with(lock, opts);
    snprintf(out->error, sizeof out->error, "%s", out->status == HLK_OK ? "" : hlk_last_error());
    out->at_ms = test_now_ms();
}

/* The outer hold stays as it was. */
static void refuse_raises(void (*raises)(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct completion *out))
{
    static struct completion completion; /* of a raise that may outlive a test that fails */
    hlk_client *client = open_patient(10000);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    struct hlk_acquire_opts wait = raise_in(400), once = raise_in(HLK_NOWAIT), patient = raise_in(WAIT_MS);
    for (int i = 0; i < LASTING; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        raw(fixture.redis, lasting[i]->begin);
        int64_t began = test_now_ms();
        raises(lock, &wait, &completion);
        cr_assert_eq(completion.status, HLK_E_SERVER, "%s", completion.error);
        assert_says(lasting[i]->word, completion.error);
        cr_assert_geq(completion.at_ms - began, 400, "all of it");
        raises(lock, &once, &completion);
        cr_assert_eq(completion.status, HLK_E_SERVER, "%s", completion.error);
        cr_assert_eq(hlk_lock_holds(lock), 1);
        raw(fixture.redis, lasting[i]->end);
        raises(lock, &patient, &completion);
        cr_assert_eq(completion.status, HLK_OK, "%s", completion.error);
        cr_assert_eq(hlk_lock_holds(lock), 2);
        cr_assert_gt(raw_pttl(fixture.redis, "t"), 30000);
        for (int k = 0; k < 2; k++)
            cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    hlk_owner_destroy(owner);
}

Test(refused, until_its_deadline_a_raise_is_told_why)
{
    refuse_raises(raises_blocked);
}

Test(refused, until_its_deadline_an_async_raise_is_told_why)
{
    refuse_raises(acquire_async_with);
}

Test(refused, for_a_while_only_delays_a_raise)
{
    hlk_client *client = open_patient(10000);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    struct hlk_acquire_opts opts = raise_in(WAIT_MS);
    for (int i = 0; i < LASTING; i++) {
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        raw(fixture.redis, lasting[i]->begin);
        int64_t refused = raw_stat(fixture.redis, "total_error_replies");
        struct actor *raising = actor_start(lock, &opts);
        WAIT_FOR(raw_stat(fixture.redis, "total_error_replies") > refused);
        cr_assert_not(actor_answered(raising));
        raw(fixture.redis, lasting[i]->end);
        cr_assert_eq(actor_status(raising), HLK_OK, "%s", actor_error(raising));
        cr_assert_eq(actor_end(raising), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    hlk_owner_destroy(owner);
}

/* --- releases */

/* Each attempt was refused: that is the result, not "sent, may have run". The release is repeated, and succeeds in the
 * end. */
Test(refused, a_release_is_told_why_and_is_done_later)
{
    for (int i = 0; i < LASTING; i++) {
        hlk_client *client = open_patient(10000);
        hlk_lock *lock = fixture_lock(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        raw(fixture.redis, lasting[i]->begin);
        for (int k = 0; k < 2; k++) { /* the same for each further call */
            int64_t began = test_now_ms();
            enum hlk_status status = hlk_lock_release(lock);
            cr_assert_eq(status, HLK_E_SERVER, "%s: %s", hlk_status_name(status), hlk_last_error());
            assert_says(lasting[i]->word, hlk_last_error());
            assert_says("repeated", hlk_last_error());
            cr_assert_geq(test_now_ms() - began, 300 - 1);
            cr_assert_eq(hlk_lock_left_ms(lock), 0);
        }
        cr_assert_not(is_free("t"));
        raw(fixture.redis, lasting[i]->end);
        WITHIN(WAIT_MS, is_free("t"));
        enum hlk_status status;
        WAIT_FOR((status = hlk_lock_release(lock)) != HLK_E_SERVER && status != HLK_E_UNSURE);
        cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
        fixture_close(client);
    }
}

/* It is no lock's: called again it would give back twice. So a release that goes on is never "nothing was changed". */
Test(refused, a_semaphores_release_is_unsure_and_is_done_once)
{
    hlk_client *client = open_patient(10000);
    hlk_semaphore *semaphore = hlk_semaphore_create(client, "t");
    cr_assert_eq(hlk_semaphore_try_set(semaphore, 5, 0), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < LASTING; i++) {
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        raw(fixture.redis, lasting[i]->begin);
        enum hlk_status status = hlk_semaphore_release(semaphore, 1);
        cr_assert_eq(status, HLK_E_UNSURE, "%s: %s", hlk_status_name(status), hlk_last_error());
        assert_says(lasting[i]->word, hlk_last_error());
        assert_says("repeated in the background, and happens once", hlk_last_error());
        cr_assert_eq(raw_int(fixture.redis, "GET t"), 4);
        raw(fixture.redis, lasting[i]->end);
        WAIT_FOR(raw_int(fixture.redis, "GET t") == 5);
    }
    hlk_semaphore_destroy(semaphore);
    fixture_close(client);
    cr_assert_eq(raw_int(fixture.redis, "GETDEL t"), 5);
}

Test(refused, an_async_release_is_told_why_when_its_lease_ends)
{
    static struct completion completion;
    struct hlk_client_opts opts = fault_opts();
    hlk_client *client = fixture_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = fixture_owned(client, "t", owner);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, lasting[0]->begin);
    cr_assert_eq(hlk_lock_release_async(lock, complete, &completion), HLK_OK);
    WAIT_FOR(atomic_load(&completion.done));
    cr_assert_eq(completion.status, HLK_E_SERVER, "%s", completion.error);
    assert_says(lasting[0]->word, completion.error);
    raw(fixture.redis, lasting[0]->end);
    WAIT_FOR(is_free("t"));
    hlk_owner_destroy(owner);
}

/* --- after a release of its own process that is refused */

enum { TRY_MS = 1000, PAUSES = TRY_MS / 50, OTHERS = 30 }; /* the release itself, every 50 or 100 ms; renewals */

static hlk_client *open_for_tries(void)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    opts.reply_timeout_ms = TRY_MS;
    return fixture_open(&opts);
}

static void try_behind_its_own_end(const char *name, int kind)
{
    hlk_client *client = open_for_tries();
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    hlk_lock *lock = fixture_lock(client, name, &opts);
    struct actor *holder = actor_start_wait(lock, HLK_NOWAIT);
    cr_assert_eq(actor_status(holder), HLK_OK, "%s", actor_error(holder));
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 1");
    cr_assert_eq(actor_end(holder), HLK_E_SERVER, "%s", hlk_last_error());
    uint64_t before = fixture_counters(client).commands;
    int64_t began = test_now_ms();
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT);
    cr_assert_eq(status, HLK_BUSY, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, TRY_MS - 1, "it may be free any moment");
    cr_assert_leq(fixture_counters(client).commands - before, (uint64_t)(PAUSES + OTHERS));
    before = fixture_counters(client).commands;
    struct actor *trier = actor_start_wait(lock, HLK_NOWAIT);
    WAIT_FOR(fixture_counters(client).commands >= before + 4);
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 0");
    cr_assert_eq(actor_status(trier), HLK_OK, "%s", actor_error(trier));
    cr_assert_eq(actor_end(trier), HLK_OK, "%s", hlk_last_error());
}

Test(refused, behind_its_own_end_a_try_is_busy_and_rarely_asks)
{
    try_behind_its_own_end("t", HLK_LOCK_PLAIN);
    try_behind_its_own_end("t2", HLK_LOCK_FAIR);
}

Test(refused, behind_its_own_end_an_async_try_also_rarely_asks)
{
    static struct completion released, tried;
    hlk_client *client = open_for_tries();
    hlk_owner *owner = hlk_owner_create(client, "order"), *second = hlk_owner_create(client, "next");
    hlk_lock *lock = fixture_owned(client, "t", owner), *other = fixture_owned(client, "t", second);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 1");
    cr_assert_eq(hlk_lock_release_async(lock, complete, &released), HLK_OK);
    uint64_t before = fixture_counters(client).commands;
    int64_t began = test_now_ms();
    acquire_async(other, HLK_NOWAIT, &tried);
    cr_assert_eq(tried.status, HLK_BUSY, "%s", tried.error);
    cr_assert_geq(tried.at_ms - began, TRY_MS - 20);
    cr_assert_leq(fixture_counters(client).commands - before, (uint64_t)(PAUSES + OTHERS));
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 0");
    WAIT_FOR(atomic_load(&released.done));
    cr_assert_eq(released.status, HLK_OK, "%s", released.error);
    hlk_owner_destroy(owner);
    hlk_owner_destroy(second);
}

/* --- renewals */

/* The lease expires in Redis, so the holder's ends too: reported before that, and in time. */
Test(refused, a_renewal_is_none)
{
    for (int i = 1; i < REFUSALS; i++) { /* a full server renews */
        char name[] = { 't', (char)('0' + i), '\0' };
        struct hlk_client_opts opts = fault_opts();
        hlk_lock *lock = fixture_lock(fixture_open(&opts), name, NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        raw(fixture.redis, refusals[i].begin);
        struct fixture_event risk = fixture_wait_event(HLK_EVENT_AT_RISK, name);
        struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, name);
        cr_assert_leq(risk.reported_at_ms, lost.reported_at_ms);
        WAIT_FOR(is_free(name));
        raw(fixture.redis, refusals[i].end);
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    }
}

/* --- an attempt that may have run: an extension may have happened. An acquire is rolled back */

enum {
    SHORT_MS = 500
}; /* longer than a connection may be silent: the attempt breaks, and no new connection
                          * succeeds */

Test(refused, never_of_an_extend_that_may_have_run)
{
    hlk_lock *lock = fixture_lock(open_patient(SHORT_MS), "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 20000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    server_pause(fixture.server);
    enum hlk_status status = hlk_lock_extend(lock, 600000);
    cr_assert_eq(status, HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert_leq(hlk_lock_left_ms(lock), 20000, "held for as long as before");
    status = hlk_lock_extend(lock, 700000); /* the connection is known to be broken, so this one is not sent */
    cr_assert_eq(status, HLK_E_CONNECT, "%s", hlk_last_error());
    server_resume(fixture.server);
    int64_t left; /* by a socket it runs; by TCP the reset may come first */
    WAIT_FOR((left = raw_pttl(fixture.redis, "t")) > 590000 || fixture.server->acl);
    cr_assert_leq(left, 600000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

static const struct {
    int64_t wait_ms;
    enum hlk_status first;
} unanswered[] = {
    { HLK_NOWAIT, HLK_BUSY }, { SHORT_MS / 2, HLK_TIMEOUT }, { 5000, HLK_E_CONNECT }, { HLK_FOREVER, HLK_E_CONNECT }
};
enum { UNANSWERED = sizeof unanswered / sizeof *unanswered };

/* At its own deadline the result is HLK_TIMEOUT or HLK_BUSY. After its reconnect timeout it is HLK_E_CONNECT. Never
 * "unsure". */
Test(refused, never_of_an_acquire_that_may_have_run)
{
    for (size_t k = 0; k < UNANSWERED; k++) {
        hlk_client *client = open_patient(SHORT_MS);
        hlk_lock *lock = fixture_lock(client, "t", NULL);
        server_pause(fixture.server);
        int64_t began = test_now_ms();
        enum hlk_status first = hlk_lock_acquire(lock, unanswered[k].wait_ms), second;
        cr_assert_eq(first, unanswered[k].first, "wait %d: %s", (int)unanswered[k].wait_ms, hlk_last_error());
        if (first != HLK_E_CONNECT)
            assert_says("has not answered; what was sent is taken back", hlk_last_error());
        cr_assert_geq(test_now_ms() - began, first == HLK_TIMEOUT ? SHORT_MS / 2 : 300 - 1);
        /* The first may end just when its connection counts as broken, before that is known for the next one. */
        WAIT_FOR((second = hlk_lock_acquire(lock, unanswered[k].wait_ms)) == HLK_E_CONNECT || second != first);
        cr_assert_eq(second, HLK_E_CONNECT, "wait %d: %s", (int)unanswered[k].wait_ms, hlk_last_error());
        server_resume(fixture.server);
        WITHIN(WAIT_MS, is_free("t")); /* it is rolled back */
        fixture_close(client);
    }
}

Test(refused, never_of_a_completion_that_may_have_run)
{
    static struct completion first, second;
    for (size_t k = 0; k < UNANSWERED; k++) {
        hlk_client *client = open_patient(SHORT_MS);
        hlk_owner *owner = hlk_owner_create(client, "order");
        hlk_lock *lock = fixture_owned(client, "t", owner);
        server_pause(fixture.server);
        acquire_async(lock, unanswered[k].wait_ms, &first);
        WAIT_FOR((acquire_async(lock, unanswered[k].wait_ms, &second), second.status == HLK_E_CONNECT));
        server_resume(fixture.server);
        cr_assert_eq(first.status, unanswered[k].first, "wait %d: %s", (int)unanswered[k].wait_ms, first.error);
        WITHIN(WAIT_MS, is_free("t"));
        hlk_owner_destroy(owner);
        fixture_close(client);
    }
}
