/* What the server does not do now: it is full, has no replicas, is one, is stopped. A refusal that lasts until the
 * deadline is the answer, and no copy of the question is sent so late that it would turn into "sent, not answered".
 * And what was sent, and may have run, is never told as if nothing had happened: HLK_E_CONNECT is for what was not sent
 * at all. */
#include "trouble.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    trouble_up(0);
}

TestSuite(refused, .init = start, .fini = stage_down, .timeout = 60);

static const struct refusal {
    const char *begin, *end, *word;
    bool by_a_try_at_once;
} refusals[] = {
    { "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM", true },
    { "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS", true },
    { "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY", false },
};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

static hlk_client *open_patient(int64_t patience_ms)
{
    struct hlk_client_opts opts = trouble_opts();
    opts.watchdog_ms = 30000;
    opts.reply_ms = 300;
    opts.patience_ms = patience_ms;
    return stage_open(&opts);
}

#define assert_says(word, text) cr_assert_not_null(strstr((text), (word)), "no %s in: %s", (word), (text))

/* --- refused until the deadline */

Test(refused, until_its_deadline_a_wait_is_told_why)
{
    static const int64_t waits[] = { 150, 400 };
    hlk_client *client = open_patient(10000);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    for (int i = 0; i < REFUSALS; i++) {
        raw(stage.redis, refusals[i].begin);
        for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
            int64_t began = test_now_ms();
            enum hlk_status status = hlk_lock_acquire(lock, waits[k]);
            cr_assert_eq(status, HLK_E_SERVER, "wait %d: %s", (int)waits[k], hlk_last_error());
            assert_says(refusals[i].word, hlk_last_error());
            cr_assert_geq(test_now_ms() - began, waits[k], "all of it");
        }
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_SERVER, "%s", hlk_last_error());
        assert_says(refusals[i].word, hlk_last_error());
        raw(stage.redis, refusals[i].end);
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

static void acquire_async(hlk_lock *lock, int64_t wait_ms, struct completion *completion)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    memset(completion, 0, sizeof *completion);
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, complete, completion), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(atomic_load(&completion->done));
}

Test(refused, until_its_deadline_a_completion_is_told_why)
{
    static const int64_t waits[] = { 150, 400 };
    static struct completion completion;
    hlk_client *client = open_patient(10000);
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *lock = stage_owned(client, "t", owner);
    for (int i = 0; i < REFUSALS; i++) {
        raw(stage.redis, refusals[i].begin);
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
        raw(stage.redis, refusals[i].end);
        acquire_async(lock, 5000, &completion);
        cr_assert_eq(completion.status, HLK_OK, "%s", completion.error);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    hlk_owner_destroy(owner);
}

/* A wait that a refusal and its end fall into goes on. */
Test(refused, for_a_while_only_delays_a_wait)
{
    hlk_lock *lock = stage_lock(open_patient(10000), "t", NULL);
    for (int i = 0; i < REFUSALS; i++) {
        raw(stage.redis, refusals[i].begin);
        int64_t refused = raw_stat(stage.redis, "total_error_replies");
        struct actor *waiter = actor_start_wait(lock, WAIT_MS);
        WAIT_FOR(raw_stat(stage.redis, "total_error_replies") > refused);
        cr_assert_not(actor_answered(waiter));
        raw(stage.redis, refusals[i].end);
        cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
}

/* --- renewals */

/* The lease runs out in Redis, so it runs out for its holder: told before, and in time. */
Test(refused, a_renewal_is_none)
{
    for (int i = 1; i < REFUSALS; i++) { /* a full server renews */
        char name[] = { 't', (char)('0' + i), '\0' };
        struct hlk_client_opts opts = trouble_opts();
        hlk_lock *lock = stage_lock(stage_open(&opts), name, NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        raw(stage.redis, refusals[i].begin);
        struct stage_event risk = stage_wait_event(HLK_EVENT_AT_RISK, name);
        struct stage_event lost = stage_wait_event(HLK_EVENT_LOST, name);
        cr_assert_leq(risk.told_at_ms, lost.told_at_ms);
        WAIT_FOR(is_free(name));
        raw(stage.redis, refusals[i].end);
        cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    }
}

/* --- a copy that may have run */

enum { SHORT_MS = 500 }; /* longer than a connection's silence: the copy breaks, and no new connection comes */

Test(refused, never_of_an_extend_that_may_have_run)
{
    hlk_lock *lock = stage_lock(open_patient(SHORT_MS), "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 20000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    server_pause(stage.server);
    enum hlk_status status = hlk_lock_extend(lock, 600000);
    cr_assert_eq(status, HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert_leq(hlk_lock_left_ms(lock), 20000, "held for as long as before");
    status = hlk_lock_extend(lock, 700000); /* the connection is known to be dead: this one is not sent */
    cr_assert_eq(status, HLK_E_CONNECT, "%s", hlk_last_error());
    server_resume(stage.server);
    int64_t left; /* by a socket it runs; by TCP the reset may be faster */
    WAIT_FOR((left = raw_pttl(stage.redis, "t")) > 590000 || stage.server->acl);
    cr_assert_leq(left, 600000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

static void assert_unsure_then_connect(const char *how, enum hlk_status first, enum hlk_status second)
{
    cr_assert_eq(first, HLK_E_UNSURE, "%s: %s", how, hlk_status_name(first));
    cr_assert_eq(second, HLK_E_CONNECT, "%s: %s", how, hlk_status_name(second));
}

Test(refused, never_of_an_acquire_that_may_have_run)
{
    static const int64_t waits[] = { HLK_NOWAIT, 5000, HLK_FOREVER };
    for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
        hlk_client *client = open_patient(SHORT_MS);
        hlk_lock *lock = stage_lock(client, "t", NULL);
        server_pause(stage.server);
        enum hlk_status first = hlk_lock_acquire(lock, waits[k]), second;
        /* The first may end in the very moment in which its connection counts as dead, and not yet for the next one. */
        WAIT_FOR((second = hlk_lock_acquire(lock, waits[k])) != HLK_E_UNSURE);
        assert_unsure_then_connect("blocking", first, second);
        server_resume(stage.server);
        WITHIN(WAIT_MS, is_free("t")); /* it is taken back */
        stage_close(client);
    }
}

Test(refused, never_of_a_completion_that_may_have_run)
{
    static const int64_t waits[] = { HLK_NOWAIT, 5000, HLK_FOREVER };
    static struct completion first, second;
    for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
        hlk_client *client = open_patient(SHORT_MS);
        hlk_owner *owner = hlk_owner_create(client, "order");
        hlk_lock *lock = stage_owned(client, "t", owner);
        server_pause(stage.server);
        acquire_async(lock, waits[k], &first);
        WAIT_FOR((acquire_async(lock, waits[k], &second), second.status != HLK_E_UNSURE));
        server_resume(stage.server);
        assert_unsure_then_connect("async", first.status, second.status);
        WITHIN(WAIT_MS, is_free("t"));
        hlk_owner_destroy(owner);
        stage_close(client);
    }
}
