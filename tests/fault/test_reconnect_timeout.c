/* How long calls wait while the server is away or refuses: reconnect_timeout_ms from their own start or from the loss
 * of the connection, whichever is later. Waiters in the local queue do not add their timeouts. Their error says that
 * there is no server, not that another client holds the lock. */
#include "fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE = 1000, SLACK = 900, MANY = 8 }; /* less than a second reconnect timeout */

static void start(void)
{
    fault_up(0);
}

TestSuite(reconnect_timeout, .init = start, .fini = fixture_end, .timeout = 90);

static hlk_client *open_patient(void)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    opts.reply_timeout_ms = 300;
    opts.reconnect_timeout_ms = PATIENCE;
    return fixture_open(&opts);
}

static void server_goes(void)
{
    redisFree(fixture.redis);
    fixture.redis = NULL;
    server_kill(fixture.server);
}

static void server_comes(void)
{
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
}

static void assert_between(int64_t ms, int64_t least, int64_t most, const char *what)
{
    cr_assert(ms >= least && ms <= most, "%s: %d ms, not %d to %d", what, (int)ms, (int)least, (int)most);
}

/* Waits until it has noticed that the server is away. */
static void notices(hlk_client *client)
{
    hlk_lock *lock = fixture_lock(client, "t-notice", NULL);
    WAIT_FOR(hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_E_CONNECT);
}

Test(reconnect_timeout, of_a_line_is_that_of_each_call_in_it)
{
    static const struct {
        int64_t wait_ms, least, most;
    } waits[] = { { HLK_FOREVER, PATIENCE, PATIENCE + SLACK },
                  { 4 * PATIENCE, PATIENCE, PATIENCE + SLACK },
                  { PATIENCE / 2, PATIENCE / 2, PATIENCE / 2 + SLACK },
                  { HLK_NOWAIT, 300, 300 + SLACK } };
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_goes();
    notices(client);
    for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
        struct actor *actors[MANY];
        for (int i = 0; i < MANY; i++)
            actors[i] = actor_start_wait(lock, waits[k].wait_ms);
        for (int i = 0; i < MANY; i++) {
            enum hlk_status status = actor_status(actors[i]);
            cr_assert_eq(status, HLK_E_CONNECT, "wait %d: %s", (int)waits[k].wait_ms, actor_error(actors[i]));
            assert_between(actor_took_ms(actors[i]), waits[k].least - 1, waits[k].most, actor_error(actors[i]));
        }
        for (int i = 0; i < MANY; i++)
            (void)actor_end(actors[i]);
    }
    server_comes();
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

Test(reconnect_timeout, of_completions_in_queue_is_that_of_each)
{
    static const int64_t waits[] = { HLK_FOREVER, 4 * PATIENCE, HLK_NOWAIT };
    static struct completion completions[MANY];
    hlk_client *client = open_patient();
    hlk_owner *owners[MANY];
    server_goes();
    notices(client);
    for (int i = 0; i < MANY; i++)
        owners[i] = hlk_owner_create(client, "order");
    for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.wait_ms = waits[k];
        memset(completions, 0, sizeof completions);
        int64_t began = test_now_ms(), least = waits[k] ? PATIENCE : 300;
        for (int i = 0; i < MANY; i++) {
            hlk_lock *lock = fixture_owned(client, "t", owners[i]);
            cr_assert_eq(hlk_lock_acquire_async(lock, &opts, complete, &completions[i]), HLK_OK);
        }
        for (int i = 0; i < MANY; i++) {
            WAIT_FOR(atomic_load(&completions[i].done));
            cr_assert_eq(completions[i].status, HLK_E_CONNECT, "wait %d: %s", (int)waits[k], completions[i].error);
            assert_between(completions[i].at_ms - began, least - 20, least + SLACK, completions[i].error);
        }
    }
    for (int i = 0; i < MANY; i++)
        hlk_owner_destroy(owners[i]);
    server_comes();
}

/* They have waited longer than their reconnect timeout when the server goes away. */
Test(reconnect_timeout, of_waiters_counts_from_the_loss_of_the_server)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    (void)held_by_bystander(bystander(), "t", 60000);
    struct actor *actors[MANY];
    for (int i = 0; i < MANY; i++)
        actors[i] = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, MANY);
    test_sleep_ms(PATIENCE + 200);
    int64_t gone_at = test_now_ms();
    server_goes();
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(actor_status(actors[i]), HLK_E_CONNECT, "%s", actor_error(actors[i]));
        assert_between(actor_answered_at_ms(actors[i]) - gone_at, PATIENCE - 1, PATIENCE + SLACK, "since the loss");
    }
    for (int i = 0; i < MANY; i++)
        (void)actor_end(actors[i]);
    server_comes();
}

Test(reconnect_timeout, at_a_refusing_server_does_not_add_up_in_the_queue)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 1");
    struct actor *actors[MANY];
    for (int i = 0; i < MANY; i++)
        actors[i] = actor_start(lock, NULL);
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(actor_status(actors[i]), HLK_E_SERVER, "%s", actor_error(actors[i]));
        cr_assert_not_null(strstr(actor_error(actors[i]), "NOREPLICAS"), "%s", actor_error(actors[i]));
        assert_between(actor_took_ms(actors[i]), PATIENCE - 1, PATIENCE + SLACK, "refused");
    }
    for (int i = 0; i < MANY; i++)
        (void)actor_end(actors[i]);
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 0");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error()); /* the next call succeeds */
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 1");
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_E_SERVER, "%s", hlk_last_error());
    assert_between(test_now_ms() - began, PATIENCE - 1, PATIENCE + SLACK, "refused anew");
    raw(fixture.redis, "CONFIG SET min-replicas-to-write 0");
}

/* Another holder of this process has it: that needs no server, and is the result. */
Test(reconnect_timeout, behind_a_holder_of_this_process_is_not_needed)
{
    hlk_client *client = open_patient();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    server_goes();
    notices(client);
    struct actor *trier = actor_start_wait(lock, HLK_NOWAIT), *waiter = actor_start_wait(lock, 200);
    cr_assert_eq(actor_status(trier), HLK_BUSY, "%s", actor_error(trier));
    cr_assert_eq(actor_status(waiter), HLK_TIMEOUT, "%s", actor_error(waiter));
    cr_assert_not_null(strstr(actor_error(waiter), "of this process"), "%s", actor_error(waiter));
    (void)actor_end(trier);
    (void)actor_end(waiter);
    struct actor *successor = actor_start(lock, NULL);
    WAIT_FOR_WAITERS(client, 1);
    test_sleep_ms(PATIENCE + 200);
    cr_assert_not(actor_answered(successor));
    server_comes(); /* without its data */
    cr_assert_eq(actor_status(successor), HLK_OK, "%s", actor_error(successor));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST, "%s", hlk_last_error());
    cr_assert_eq(actor_end(successor), HLK_OK, "%s", hlk_last_error());
}
