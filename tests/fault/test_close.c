/* Closing a client that holds, waits, releases and has calls on their way, in each kind of trouble: it takes
 * reply_ms and not patience_ms, everybody inside is told, each completion runs once, and nothing stays held.
 *
 * asks A2 redisson 2714: whatever ends half-way leaves no renewed lock. A1 redisson 5019: an abandoned wait leaves
 * nothing. */
#include "trouble.h"

#include <pthread.h>
#include <stdatomic.h>

static void start(void)
{
    trouble_up(STAGE_PROXY | SERVER_AOF);
}

TestSuite(closing, .init = start, .fini = stage_down, .timeout = 60);

/* Each begins so that it hits calls made from then on, and is over when `end` returns. */
struct ill {
    void (*begin)(void);
    void (*end)(void);
};

static void freeze(void)
{
    proxy_freeze(stage.proxy, true);
}

static void thaw(void)
{
    proxy_freeze(stage.proxy, false);
}

static void cut_off(void)
{
    proxy_refuse(stage.proxy, true);
    proxy_cut_all(stage.proxy);
}

static void let_in(void)
{
    proxy_refuse(stage.proxy, false);
}

static void stop_server(void)
{
    server_pause(stage.server);
}

static void resume_server(void)
{
    server_resume(stage.server);
}

static void kill_server(void)
{
    redisFree(stage.redis);
    stage.redis = NULL;
    server_kill(stage.server);
}

static void bring_back(void)
{
    server_restart(stage.server, true);
    stage.redis = raw_open(stage.server);
}

static void cut_one(void)
{
    proxy_arm(stage.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
}

static void hold_one(void)
{
    proxy_arm(stage.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
}

static void deliver_it(void)
{
    proxy_deliver(stage.proxy, false);
}

static void be_slow(void)
{
    proxy_delay(stage.proxy, REPLY_MS / 2, REPLY_MS / 4);
}

static void be_quick(void)
{
    proxy_delay(stage.proxy, 0, 0);
}

static void nothing(void)
{
}

static void *close_it(void *client)
{
    stage_close(client);
    return NULL;
}

/* Its connection is gone as it begins, and can be had again while it lasts: the place in line is not left behind. */
Test(closing, gives_its_place_back_on_a_new_connection)
{
    struct hlk_client_opts opts = trouble_opts();
    opts.reply_ms = 10000;
    hlk_client *client = stage_open(&opts);
    raw(stage.redis, "HSET t hlk-other-1-1:1 1");
    raw(stage.redis, "PEXPIRE t 60000");
    struct actor *waiter = actor_start(stage_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_int(stage.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 1);
    cut_off();
    pthread_t closer;
    cr_assert_eq(pthread_create(&closer, NULL, close_it, client), 0);
    cr_assert_eq(actor_status(waiter), HLK_E_CLOSED, "%s", actor_error(waiter));
    let_in();
    pthread_join(closer, NULL);
    cr_assert_eq(raw_int(stage.redis, "ZCOUNT hasplock_queue:{t} 1 1e15"), 0);
    actor_leave(waiter);
    raw(stage.redis, "DEL t");
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

/* A callback asks a server that is away, for as long as it has patience; behind it in line is the end of what was lost.
 * Close ends the question, and does not wait for it. */
Test(closing, ends_a_callback_that_asks_a_server_that_is_away)
{
    struct hlk_client_opts opts = trouble_opts();
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    opts.patience_ms = 20000;
    opts.on_event = ask_on_event;
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    asked = stage_lock(client, "t2", NULL);
    fixed.lease_ms = LEASE_MS;
    cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK);
    cut_off();
    WAIT_FOR(atomic_load(&asking));
    int64_t began = test_now_ms();
    stage_close(client);
    int64_t took = test_now_ms() - began;
    cr_assert_lt(took, 3 * REPLY_MS + 1000, "%d ms", (int)took);
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
    struct hlk_client_opts opts = trouble_opts();
    opts.flags = flags;
    opts.patience_ms = 20000;
    in.client = stage_open(&opts);
    in.owner = hlk_owner_create(in.client, "first");
    in.second = hlk_owner_create(in.client, "second");
    hlk_lock *held = stage_owned(in.client, "t", in.owner), *released = stage_owned(in.client, "t2", in.owner);
    hlk_lock *pending = stage_owned(in.client, "t", in.second), *tried = stage_owned(in.client, "t3", in.second);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(released, HLK_NOWAIT), HLK_OK);
    in.waiter = actor_start(stage_lock(in.client, "t", NULL), NULL);
    cr_assert_eq(hlk_lock_acquire_async(pending, NULL, on_done_0, &in), HLK_OK);
    WAIT_FOR_WAITERS(in.client, 2);

    for (int i = 0; i < 3; i++)
        atomic_store(&in.done[i], 1000);
    ill.begin();
    in.trier = actor_start(stage_lock(in.client, "t4", NULL), NULL);
    cr_assert_eq(hlk_lock_acquire_async(tried, NULL, on_done_1, &in), HLK_OK);
    cr_assert_eq(hlk_lock_release_async(released, on_done_2, &in), HLK_OK);
    int64_t began = test_now_ms();
    stage_close(in.client);
    int64_t took = test_now_ms() - began;
    cr_assert_lt(took, 3 * REPLY_MS + 1000, "%d ms", (int)took);

    cr_assert_eq(actor_status(in.waiter), HLK_E_CLOSED, "%s", actor_error(in.waiter));
    enum hlk_status trier = actor_status(in.trier);
    cr_assert(ONE_OF(trier, HLK_OK, HLK_E_CLOSED, HLK_E_UNSURE, HLK_E_CONNECT), "%s", actor_error(in.trier));
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
