/* The server answers late or not at all for a while: stopped (SIGSTOP), CLIENT PAUSE, DEBUG SLEEP, an endless script
 * (BUSY). If that is shorter than reply_timeout_ms, it has no effect. If it is longer, tries are unsure and rolled
 * back, waits and holds with a longer lease survive it, and shorter leases are lost, which is reported.
 *
 * asks A2 bsm 83; A4 redisson 7367; A10 hiredis 1128, 306: deadlines of our own, and after one the connection is
 * discarded; RedLock.net PR 60: one deadline governs everything. */
#include "fixture.h"

#include <string.h>

static const char *const extra[] = { "--enable-debug-command", "yes", NULL };

/* fixture_begin, with DEBUG. */
static void start(void)
{
    fixture.server = server_start(SERVER_NOACL, extra);
    fixture.redis = raw_open(fixture.server);
    fixture.url = hlk_test_url(fixture.server);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

TestSuite(stall, .init = start, .fini = fixture_end, .timeout = 90);

enum { LONG_MS = 4000, SHORT_STALL_MS = REPLY_MS / 3, LONG_STALL_MS = 700, LOSING_STALL_MS = 2 * LEASE_MS };

struct stall {
    void (*begin)(struct stall *stall); /* returns when the server no longer answers */
    void (*end)(struct stall *stall);   /* returns when it answers again */
    int64_t ms, until_ms;
    redisContext *redis; /* the connection that caused it */
};

/* Whether another connection gets a PONG at once. */
static bool answers(void)
{
    redisContext *redis = raw_open(fixture.server);
    struct timeval limit = { 0, 20000 };
    redisSetTimeout(redis, limit);
    redisReply *reply = redisCommand(redis, "PING");
    bool pong = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    redisFree(redis);
    return pong;
}

static void begin_by(struct stall *stall, const char *command)
{
    stall->redis = raw_open(fixture.server);
    redisAppendCommand(stall->redis, command);
    int done = 0;
    while (!done && redisBufferWrite(stall->redis, &done) == REDIS_OK)
        ;
    stall->until_ms = test_now_ms() + stall->ms;
    WAIT_FOR(!answers() || test_now_ms() >= stall->until_ms);
}

static void end_by_itself(struct stall *stall)
{
    void *reply = NULL;
    if (redisGetReply(stall->redis, &reply) != REDIS_OK)
        test_give_up("stall: %s", stall->redis->errstr);
    freeReplyObject(reply);
    redisFree(stall->redis);
    WAIT_FOR(answers());
}

static void stop_begin(struct stall *stall)
{
    server_pause(fixture.server);
    stall->until_ms = test_now_ms() + stall->ms;
}

static void stop_end(struct stall *stall)
{
    test_sleep_ms(stall->until_ms - test_now_ms() > 0 ? stall->until_ms - test_now_ms() : 0);
    server_resume(fixture.server);
    WAIT_FOR(answers());
}

static void pause_begin(struct stall *stall)
{
    char command[64];
    snprintf(command, sizeof command, "CLIENT PAUSE %d ALL", (int)stall->ms);
    begin_by(stall, command);
}

static void pause_writes_begin(struct stall *stall)
{
    char command[64];
    snprintf(command, sizeof command, "CLIENT PAUSE %d WRITE", (int)stall->ms);
    stall->redis = raw_open(fixture.server);
    redisAppendCommand(stall->redis, command);
    stall->until_ms = test_now_ms() + stall->ms;
    cr_assert_str_eq(raw(fixture.redis, command), "OK");
}

static void sleep_begin(struct stall *stall)
{
    char command[64];
    snprintf(command, sizeof command, "DEBUG SLEEP %f", (double)stall->ms / 1000);
    begin_by(stall, command);
}

static const struct stall stopped = { .begin = stop_begin, .end = stop_end };
static const struct stall paused = { .begin = pause_begin, .end = end_by_itself };
static const struct stall no_writes = { .begin = pause_writes_begin, .end = end_by_itself };
static const struct stall asleep = { .begin = sleep_begin, .end = end_by_itself };

static struct stall begin(const struct stall *kind, int64_t ms)
{
    struct stall stall = *kind;
    stall.ms = ms;
    stall.begin(&stall);
    return stall;
}

static hlk_client *open_with(int64_t watchdog_ms)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = watchdog_ms;
    return fixture_open(&opts);
}

static void assert_works(hlk_client *client, const char *name)
{
    hlk_lock *lock = fixture_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert_null(disagreement(lock, name, 1));
    cr_assert_eq(release_for_good(lock, name), HLK_OK);
}

/* --- what happens meanwhile */

/* Shorter than reply_timeout_ms: an acquire with time to wait is only slow. */
static void is_not_noticed(const struct stall *kind)
{
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct stall stall = begin(kind, SHORT_STALL_MS);
    struct actor *actor = actor_start_wait(lock, 5000);
    stall.end(&stall);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(raw_int(fixture.redis, "HLEN t"), 1);
    cr_assert_eq(actor_end(actor), HLK_OK);
    assert_works(client, "t");
}

/* A try is unsure and rolled back, and affects no other hold. */
static void leaves_nothing_of_a_try(const struct stall *kind)
{
    hlk_client *client = open_with(LEASE_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct stall stall = begin(kind, LONG_STALL_MS);
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT);
    cr_assert(NOT_GOT(status), "%s", hlk_status_name(status));
    cr_assert_eq(hlk_lock_holds(lock), 0);
    stall.end(&stall);
    WITHIN(FREE_MS, is_free("t"));
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    cr_assert_eq(hlk_lock_acquire(lock, 300), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert(is_held("t", hold_of(theirs)));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    assert_works(client, "t");
}

/* A release is unsure, and is done later. */
static void delays_a_release(const struct stall *kind)
{
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct stall stall = begin(kind, LONG_STALL_MS);
    enum hlk_status status = hlk_lock_release(lock);
    cr_assert(UNKNOWN(status), "%s", hlk_status_name(status));
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    stall.end(&stall);
    WAIT_FOR((status = hlk_lock_release(lock), !UNKNOWN(status)));
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert(is_free("t"));
    assert_works(client, "t");
}

/* Waits and holds survive it. */
static void is_outlived(const struct stall *kind)
{
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *kept = fixture_lock(client, "t-kept", NULL), *theirs = held_by_bystander(bystander(), "t", 0);
    cr_assert_eq(hlk_lock_acquire(kept, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    struct stall stall = begin(kind, LONG_STALL_MS);
    struct actor *late = actor_start(fixture_lock(client, "t-late", NULL), NULL);
    cr_assert_gt(hlk_lock_left_ms(kept), 0);
    stall.end(&stall);
    cr_assert_eq(actor_end(late), HLK_OK);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_gt(hlk_lock_left_ms(kept), 0);
    cr_assert_null(disagreement(kept, "t-kept", 1));
    cr_assert_eq(release_for_good(kept, "t-kept"), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

/* Longer than the lease: at risk and then the loss are reported, and no renewal follows. */
static void costs_a_shorter_lease(const struct stall *kind)
{
    hlk_client *client = open_with(LEASE_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct stall stall = begin(kind, LOSING_STALL_MS);
    struct fixture_event risk = fixture_wait_event(HLK_EVENT_AT_RISK, "t"),
                         lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_lt(lost.reported_at_ms, stall.until_ms, "told while nobody else could have it");
    cr_assert_leq(risk.reported_at_ms, lost.reported_at_ms);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    stall.end(&stall);
    WITHIN(FREE_MS, is_free("t"));
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    assert_works(client, "t2");
    cr_assert(is_held("t", hold_of(theirs)));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t"), 1u);
}

#define EACH_WAY(title, what)                                                                                          \
    Test(stall, stopped_##title)                                                                                       \
    {                                                                                                                  \
        what(&stopped);                                                                                                \
    }                                                                                                                  \
    Test(stall, client_pause_##title)                                                                                  \
    {                                                                                                                  \
        what(&paused);                                                                                                 \
    }                                                                                                                  \
    Test(stall, client_pause_write_##title)                                                                            \
    {                                                                                                                  \
        what(&no_writes);                                                                                              \
    }                                                                                                                  \
    Test(stall, debug_sleep_##title)                                                                                   \
    {                                                                                                                  \
        what(&asleep);                                                                                                 \
    }

EACH_WAY(of_a_moment_is_not_noticed, is_not_noticed)
EACH_WAY(leaves_nothing_of_a_try, leaves_nothing_of_a_try)
EACH_WAY(delays_a_release, delays_a_release)
EACH_WAY(ends_no_wait_and_no_long_lease, is_outlived)
EACH_WAY(ends_a_short_lease_and_says_so, costs_a_shorter_lease)

/* --- a server that answers BUSY */

static void busy_begin(struct stall *stall)
{
    raw(fixture.redis, "CONFIG SET busy-reply-threshold 20");
    stall->redis = raw_open(fixture.server);
    redisAppendCommand(stall->redis, "EVAL %s 0", "while true do end");
    int done = 0;
    while (!done && redisBufferWrite(stall->redis, &done) == REDIS_OK)
        ;
    WAIT_FOR(strstr(raw(fixture.redis, "GET t-nothing"), "BUSY") != NULL);
}

static void busy_end(struct stall *stall)
{
    cr_assert_str_eq(raw(fixture.redis, "SCRIPT KILL"), "OK");
    end_by_itself(stall);
}

/* A try is refused with the reason, a wait continues, a release is done afterwards, a hold is kept. */
Test(stall, busy_script_is_ridden_out)
{
    static const struct stall busy = { .begin = busy_begin, .end = busy_end };
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *kept = fixture_lock(client, "t-kept", NULL);
    hlk_lock *given = fixture_lock(client, "t-given", NULL);
    cr_assert_eq(hlk_lock_acquire(kept, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(given, HLK_NOWAIT), HLK_OK);
    struct stall stall = begin(&busy, 0);
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT);
    cr_assert(status == HLK_E_SERVER || NOT_GOT(status), "%s", hlk_status_name(status));
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR((status = hlk_lock_release(given), !UNKNOWN(status))); /* of a server that gets no CPU it is unknown */
    cr_assert_eq(status, HLK_E_SERVER, "%s: %s", hlk_status_name(status), hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "BUSY Redis is busy"), "%s", hlk_last_error());
    cr_assert_not(actor_answered(waiter));
    stall.end(&stall);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    WAIT_FOR((status = hlk_lock_release(given), status != HLK_E_SERVER && !UNKNOWN(status)));
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_null(disagreement(kept, "t-kept", 1));
    cr_assert_eq(release_for_good(kept, "t-kept"), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
}

/* A try was queued behind another thread's wait, and was then not answered itself. So far as is known, another client
 * holds the lock. HLK_TIMEOUT is for waits only. (Found by the soak test.) */
Test(stall, one_try_behind_a_wait_never_ends_by_timeout)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_pause(fixture.server);
    uint64_t before = fixture_counters(client).commands;
    struct actor *wait = actor_start_wait(lock, REPLY_MS / 2);
    WAIT_FOR(fixture_counters(client).commands > before);
    struct actor *once = actor_start_wait(lock, HLK_NOWAIT);
    enum hlk_status status = actor_status(once);
    cr_assert(ONE_OF(status, HLK_BUSY, HLK_E_UNSURE, HLK_E_CONNECT), "%s", actor_error(once)); /* unsure: not queued */
    server_resume(fixture.server);
    actor_end(once);
    actor_end(wait);
    WITHIN(FREE_MS, is_free("t"));
}
