/* Closing a client that holds, waits, releases and has calls in flight, under each fault. It takes reply_timeout_ms and
 * not reconnect_timeout_ms, all calls return, each completion runs once, and nothing stays held.
 *
 * asks A2 redisson 2714: whatever ends half-way leaves no renewed lock. A1 redisson 5019: an abandoned wait leaves
 * nothing. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

static void start(void)
{
    fault_up(STAGE_PROXY | SERVER_AOF);
}

TestSuite(closing, .init = start, .fini = fixture_end, .timeout = 60);

/* Each fault hits calls made after `begin`, and is over when `end` returns. */
struct ill {
    void (*begin)(void);
    void (*end)(void);
};

static void freeze(void)
{
    proxy_freeze(fixture.proxy, true);
}

static void thaw(void)
{
    proxy_freeze(fixture.proxy, false);
}

static void cut_off(void)
{
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
}

static void let_in(void)
{
    proxy_refuse(fixture.proxy, false);
}

static void stop_server(void)
{
    server_pause(fixture.server);
}

static void resume_server(void)
{
    server_resume(fixture.server);
}

static void kill_server(void)
{
    redisFree(fixture.redis);
    fixture.redis = NULL;
    server_kill(fixture.server);
}

static void bring_back(void)
{
    server_restart(fixture.server, true);
    fixture.redis = raw_open(fixture.server);
}

static void cut_one(void)
{
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
}

static void hold_one(void)
{
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
}

static void deliver_it(void)
{
    proxy_deliver(fixture.proxy, false);
}

static void be_slow(void)
{
    proxy_delay(fixture.proxy, REPLY_MS / 2, REPLY_MS / 4);
}

static void be_quick(void)
{
    proxy_delay(fixture.proxy, 0, 0);
}

static void nothing(void)
{
}

static void *close_it(void *client)
{
    fixture_close(client);
    return NULL;
}

/* The connection is lost when close begins, and a new one is possible during it: no ticket is left. */
Test(closing, gives_its_ticket_back_on_a_new_connection)
{
    struct hlk_client_opts opts = fault_opts();
    opts.reply_timeout_ms = 10000;
    hlk_client *client = fixture_open(&opts);
    raw(fixture.redis, "HSET t hlk-other-1-1:1 1");
    raw(fixture.redis, "PEXPIRE t 60000");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 1);
    cut_off();
    pthread_t closer;
    cr_assert_eq(pthread_create(&closer, NULL, close_it, client), 0);
    cr_assert_eq(actor_status(waiter), HLK_E_CLOSED, "%s", actor_error(waiter));
    let_in();
    pthread_join(closer, NULL);
    cr_assert_eq(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15"), 0);
    actor_leave(waiter);
    raw(fixture.redis, "DEL t");
}

static hlk_lock *asked;
static atomic_int asking;
static enum hlk_status answer;

static void ask_on_event(const struct hlk_event *event, void *ctx)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    (void)ctx;
    if (event->kind != HLK_EVENT_LOST)
        return;
    atomic_store(&asking, 1);
    answer = hlk_lock_query(asked, &state);
}

/* A callback sends to a server that is away, and may wait for its reconnect timeout. The release of the lost hold is
 * queued behind it. Close ends the command and does not wait for it. */
Test(closing, ends_a_callback_that_asks_a_server_that_is_away)
{
    struct hlk_client_opts opts = fault_opts();
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    opts.reconnect_timeout_ms = 20000;
    opts.on_event = ask_on_event;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    asked = fixture_lock(client, "t2", NULL);
    fixed.lease_ms = LEASE_MS;
    cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK);
    cut_off();
    WAIT_FOR(atomic_load(&asking));
    int64_t began = test_now_ms();
    fixture_close(client);
    int64_t took = test_now_ms() - began;
    cr_assert_lt(running_ms(began), 3 * REPLY_MS + 1000, "%d ms", (int)took);
    cr_assert_eq(answer, HLK_E_CLOSED, "%s", hlk_status_name(answer));
    let_in();
    WITHIN(FREE_MS, is_free("t"));
}

struct inside {
    hlk_client *client;
    hlk_owner *owner, *second;
    struct actor *waiter, *trier;
    atomic_int done[3], times;
};

static void on_done_0(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct inside *in = ctx;
    atomic_store(&in->done[0], status);
    atomic_fetch_add(&in->times, 1);
}

static void on_done_1(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct inside *in = ctx;
    atomic_store(&in->done[1], status);
    atomic_fetch_add(&in->times, 1);
}

static void on_done_2(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct inside *in = ctx;
    atomic_store(&in->done[2], status);
    atomic_fetch_add(&in->times, 1);
}

static void close_in(struct ill ill, unsigned flags)
{
    static struct inside in; /* zero */
    struct hlk_client_opts opts = fault_opts();
    opts.flags = flags;
    opts.reconnect_timeout_ms = 20000;
    in.client = fixture_open(&opts);
    in.owner = hlk_owner_create(in.client, "first");
    in.second = hlk_owner_create(in.client, "second");
    hlk_lock *held = fixture_owned(in.client, "t", in.owner), *released = fixture_owned(in.client, "t2", in.owner);
    hlk_lock *pending = fixture_owned(in.client, "t", in.second), *tried = fixture_owned(in.client, "t3", in.second);
    cr_assert_eq(hlk_lock_acquire(held, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(released, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    in.waiter = actor_start(fixture_lock(in.client, "t", NULL), NULL);
    cr_assert_eq(hlk_lock_acquire_async(pending, NULL, on_done_0, &in), HLK_OK);
    WAIT_FOR_WAITERS(in.client, 2);

    for (int i = 0; i < 3; i++)
        atomic_store(&in.done[i], 1000);
    ill.begin();
    in.trier = actor_start(fixture_lock(in.client, "t4", NULL), NULL);
    cr_assert_eq(hlk_lock_acquire_async(tried, NULL, on_done_1, &in), HLK_OK);
    cr_assert_eq(hlk_lock_release_async(released, on_done_2, &in), HLK_OK);
    int64_t began = test_now_ms();
    fixture_close(in.client);
    int64_t took = test_now_ms() - began;
    cr_assert_lt(running_ms(began), 3 * REPLY_MS + 1000, "%d ms", (int)took);

    cr_assert_eq(actor_status(in.waiter), HLK_E_CLOSED, "%s", actor_error(in.waiter));
    enum hlk_status trier = actor_status(in.trier);
    cr_assert(trier == HLK_E_CLOSED || trier == HLK_OK || NOT_GOT(trier), "%s", actor_error(in.trier));
    cr_assert_eq(atomic_load(&in.times), 3, "%d completions ran; released: %d", atomic_load(&in.times),
                 atomic_load(&in.done[2]));
    cr_assert_eq(atomic_load(&in.done[0]), HLK_E_CLOSED);
    enum hlk_status given = (enum hlk_status)atomic_load(&in.done[2]);
    cr_assert(ONE_OF(given, HLK_OK, HLK_E_UNSURE, HLK_E_CONNECT, HLK_E_CLOSED), "released: %s", hlk_status_name(given));
    actor_leave(in.waiter);
    actor_leave(in.trier);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_E_CLOSED);
    cr_assert_eq(hlk_lock_release(held), HLK_E_CLOSED);
    hlk_owner_destroy(in.owner);
    hlk_owner_destroy(in.second);

    ill.end();
    WITHIN(FREE_MS, is_free("t") && is_free("t2") && is_free("t3") && is_free("t4"));
}

#define CLOSING(title, begin, end)                                                                                     \
    Test(closing, while_##title)                                                                                       \
    {                                                                                                                  \
        close_in((struct ill){ begin, end }, 0);                                                                       \
    }                                                                                                                  \
    Test(closing, a_dispatching_client_while_##title)                                                                  \
    {                                                                                                                  \
        close_in((struct ill){ begin, end }, HLK_OPEN_DISPATCH);                                                       \
    }

CLOSING(all_is_well, nothing, nothing)
CLOSING(no_byte_passes, freeze, thaw)
CLOSING(nobody_listens, cut_off, let_in)
CLOSING(the_server_stands_still, stop_server, resume_server)
CLOSING(the_server_is_dead, kill_server, bring_back)
CLOSING(a_reply_is_cut_off, cut_one, nothing)
CLOSING(a_request_is_late, hold_one, deliver_it)
CLOSING(all_is_slow, be_slow, be_quick)
