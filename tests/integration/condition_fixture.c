#include "condition_fixture.h"

static void up(unsigned flags)
{
    fixture_begin(flags);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

void condition_start(void)
{
    up(0);
}

void condition_start_proxied(void)
{
    up(STAGE_PROXY);
}

void condition_start_durable(void)
{
    up(SERVER_AOF);
}

hlk_condition *condition_make(hlk_client *client, int64_t lease_ms)
{
    hlk_condition *made = hlk_condition_create(client, "t", lease_ms);
    cr_assert_not_null(made, "%s", hlk_last_error());
    return made;
}

int64_t condition_waiting(void)
{
    return raw_int(fixture.redis, "ZCARD " WAITERS);
}

int64_t condition_signalled(void)
{
    return raw_int(fixture.redis, "ZCARD " LEASES) - condition_waiting();
}

int64_t condition_listening(void)
{
    int64_t n = 0;
    for (const char *at = raw(fixture.redis, "PUBSUB CHANNELS " WAITERS ":*"); (at = strstr(at, WAITERS)) != NULL; at++)
        n++;
    return n;
}

static void *waits(void *arg)
{
    struct waiting *waiting = arg;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = waiting->lease_ms;
    for (int i = 0; i < waiting->times; i++)
        cr_assert_eq(hlk_lock_acquire_with(waiting->lock, &opts), HLK_OK, "%s", hlk_last_error());
    int64_t began = test_now_ms();
    waiting->status = hlk_condition_wait_with(waiting->condition, waiting->lock, &waiting->opts);
    waiting->took_ms = test_now_ms() - began;
    strncpy(waiting->error, hlk_last_error(), sizeof waiting->error - 1);
    waiting->holds = hlk_lock_holds(waiting->lock);
    waiting->left_ms = hlk_lock_left_ms(waiting->lock);
    atomic_store(&waiting->answered, true);
    for (int i = 0; i < waiting->holds; i++)
        (void)hlk_lock_release(waiting->lock);
    return NULL;
}

void waiting_start(struct waiting *waiting, hlk_condition *condition, hlk_lock *lock)
{
    if (!waiting->opts.size)
        waiting->opts = (struct hlk_acquire_opts)HLK_ACQUIRE_OPTS_INIT;
    if (!waiting->times)
        waiting->times = 1;
    waiting->condition = condition;
    waiting->lock = lock;
    cr_assert_eq(pthread_create(&waiting->thread, NULL, waits, waiting), 0);
}

void waiting_start_as(struct waiting *waiting, hlk_condition *condition, hlk_lock *lock, int64_t before)
{
    waiting_start(waiting, condition, lock);
    WAIT_FOR(condition_waiting() == before + 1 && condition_listening() == before + 1);
    cr_assert_not(atomic_load(&waiting->answered), "%s", waiting->error);
}

enum hlk_status waiting_ended(struct waiting *waiting)
{
    cr_assert_eq(pthread_join(waiting->thread, NULL), 0);
    return waiting->status;
}

void waiting_is_woken(struct waiting *waiting)
{
    cr_assert_eq(waiting_ended(waiting), HLK_OK, "%s", waiting->error);
    cr_assert_eq(waiting->holds, 1);
    cr_assert_lt(waiting->took_ms, 2 * POLL_MS);
}
