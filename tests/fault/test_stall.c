/* The server answers late or not at all for a while, in each way that there is: stopped (SIGSTOP), CLIENT PAUSE, DEBUG
 * SLEEP, a script that does not end (BUSY). For a shorter time than reply_ms it is not noticed; for a longer time tries
 * are unsure and taken back, waits and holds with a longer lease outlive it, shorter leases are lost and that is told.
 *
 * asks A2 bsm 83; A4 redisson 7367; A10 hiredis 1128, 306: deadlines of our own, and after one the connection is
 * discarded; RedLock.net PR 60: one deadline governs everything. */
#include "trouble.h"

#include <string.h>

static const char *const extra[] = { "--enable-debug-command", "yes", NULL };

/* stage_up, with DEBUG. */
static void start(void)
{
    stage.server = server_start(SERVER_NOACL, extra);
    stage.redis = raw_open(stage.server);
    stage.url = hlk_test_url(stage.server);
    server_allow(stage.server, SERVER_VOID);
}

TestSuite(stall, .init = start, .fini = stage_down, .timeout = 90);

enum { LONG_MS = 4000, SHORT_STALL_MS = REPLY_MS / 3, LONG_STALL_MS = 700, LOSING_STALL_MS = 2 * LEASE_MS };

struct stall {
    void (*begin)(struct stall *stall); /* returns when the server answers no more */
    void (*end)(struct stall *stall);   /* when it does again */
    int64_t ms, until_ms;
    redisContext *redis; /* the one that asked for it */
};

/* A server that another connection cannot get a PONG from at once. */
static bool answers(void)
{
    redisContext *redis = raw_open(stage.server);
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
    stall->redis = raw_open(stage.server);
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
    server_pause(stage.server);
    stall->until_ms = test_now_ms() + stall->ms;
}

static void stop_end(struct stall *stall)
{
    test_sleep_ms(stall->until_ms - test_now_ms() > 0 ? stall->until_ms - test_now_ms() : 0);
    server_resume(stage.server);
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
    stall->redis = raw_open(stage.server);
    redisAppendCommand(stall->redis, command);
    stall->until_ms = test_now_ms() + stall->ms;
    cr_assert_str_eq(raw(stage.redis, command), "OK");
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
    struct hlk_client_opts opts = trouble_opts();
    opts.watchdog_ms = watchdog_ms;
    return stage_open(&opts);
}

static void assert_works(hlk_client *client, const char *name)
{
    hlk_lock *lock = stage_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert_null(disagreement(lock, name, 1));
    cr_assert_eq(release_for_good(lock, name), HLK_OK);
}

/* --- what happens meanwhile */

/* Shorter than reply_ms: an acquire with time to wait is slow, that is all. */
static void is_not_noticed(const struct stall *kind)
{
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    struct stall stall = begin(kind, SHORT_STALL_MS);
    struct actor *actor = actor_start_wait(lock, 5000);
    stall.end(&stall);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert_eq(raw_int(stage.redis, "HLEN t"), 1);
    cr_assert_eq(actor_end(actor), HLK_OK);
    assert_works(client, "t");
}

/* A try is unsure; what may yet come of it is taken back, and touches nobody. */
static void leaves_nothing_of_a_try(const struct stall *kind)
{
    hlk_client *client = open_with(LEASE_MS);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    struct stall stall = begin(kind, LONG_STALL_MS);
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT);
    cr_assert(UNKNOWN(status), "%s", hlk_status_name(status));
    cr_assert_eq(hlk_lock_holds(lock), 0);
    stall.end(&stall);
    WITHIN(FREE_MS, is_free("t"));
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    cr_assert_eq(hlk_lock_acquire(lock, 300), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert(is_held("t", hold_of(theirs)));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    assert_works(client, "t");
}

/* A release is unsure, and done. */
static void delays_a_release(const struct stall *kind)
{
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *lock = stage_lock(client, "t", NULL);
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

/* Waits and holds outlive it. */
static void is_outlived(const struct stall *kind)
{
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *kept = stage_lock(client, "t-kept", NULL), *theirs = held_by_bystander(bystander(), "t", 0);
    cr_assert_eq(hlk_lock_acquire(kept, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start(stage_lock(client, "t", NULL), NULL);
    WAIT_FOR(raw_listeners(stage.redis, "t") == 1);
    struct stall stall = begin(kind, LONG_STALL_MS);
    struct actor *late = actor_start(stage_lock(client, "t-late", NULL), NULL);
    cr_assert_gt(hlk_lock_left_ms(kept), 0);
    stall.end(&stall);
    cr_assert_eq(actor_end(late), HLK_OK);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_gt(hlk_lock_left_ms(kept), 0);
    cr_assert_null(disagreement(kept, "t-kept", 1));
    cr_assert_eq(release_for_good(kept, "t-kept"), HLK_OK);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
}

/* Longer than the lease: told at risk, told lost, and never renewed again. */
static void costs_a_shorter_lease(const struct stall *kind)
{
    hlk_client *client = open_with(LEASE_MS);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct stall stall = begin(kind, LOSING_STALL_MS);
    struct stage_event risk = stage_wait_event(HLK_EVENT_AT_RISK, "t"), lost = stage_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_lt(lost.told_at_ms, stall.until_ms, "told while nobody else could have it");
    cr_assert_leq(risk.told_at_ms, lost.told_at_ms);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    stall.end(&stall);
    WITHIN(FREE_MS, is_free("t"));
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    assert_works(client, "t2");
    cr_assert(is_held("t", hold_of(theirs)));
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, "t"), 1u);
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
EACH_WAY(is_outlived_by_waits_and_long_leases, is_outlived)
EACH_WAY(costs_a_shorter_lease_and_that_is_told, costs_a_shorter_lease)

/* --- a server that does answer: BUSY */

static void busy_begin(struct stall *stall)
{
    raw(stage.redis, "CONFIG SET busy-reply-threshold 20");
    stall->redis = raw_open(stage.server);
    redisAppendCommand(stall->redis, "EVAL %s 0", "while true do end");
    int done = 0;
    while (!done && redisBufferWrite(stall->redis, &done) == REDIS_OK)
        ;
    WAIT_FOR(strstr(raw(stage.redis, "GET t-nothing"), "BUSY") != NULL);
}

static void busy_end(struct stall *stall)
{
    cr_assert_str_eq(raw(stage.redis, "SCRIPT KILL"), "OK");
    end_by_itself(stall);
}

/* A try is refused and named, a wait rides it out, a release is done afterwards, a hold is kept. */
Test(stall, busy_script_is_ridden_out)
{
    static const struct stall busy = { .begin = busy_begin, .end = busy_end };
    hlk_client *client = open_with(LONG_MS);
    hlk_lock *lock = stage_lock(client, "t", NULL), *kept = stage_lock(client, "t-kept", NULL);
    hlk_lock *given = stage_lock(client, "t-given", NULL);
    cr_assert_eq(hlk_lock_acquire(kept, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(given, HLK_NOWAIT), HLK_OK);
    struct stall stall = begin(&busy, 0);
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT);
    cr_assert(ONE_OF(status, HLK_E_SERVER, HLK_E_UNSURE, HLK_E_CONNECT), "%s", hlk_status_name(status));
    struct actor *waiter = actor_start(lock, NULL);
    status = hlk_lock_release(given);
    cr_assert(ONE_OF(status, HLK_E_UNSURE, HLK_E_CONNECT), "%s: %s", hlk_status_name(status), hlk_last_error());
    cr_assert_not(actor_answered(waiter));
    stall.end(&stall);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    WAIT_FOR((status = hlk_lock_release(given), !UNKNOWN(status)));
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_null(disagreement(kept, "t-kept", 1));
    cr_assert_eq(release_for_good(kept, "t-kept"), HLK_OK);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
}

/* A try that stood behind another thread's wait, and then was not answered itself: somebody else had it, as far as is
 * known. HLK_TIMEOUT is for waits. (Found by the soak.) */
Test(stall, one_try_behind_a_wait_is_never_told_that_its_time_is_over)
{
    struct hlk_client_opts opts = trouble_opts();
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    server_pause(stage.server);
    uint64_t before = stage_counters(client).commands;
    struct actor *wait = actor_start_wait(lock, REPLY_MS / 2);
    WAIT_FOR(stage_counters(client).commands > before);
    struct actor *once = actor_start_wait(lock, HLK_NOWAIT);
    enum hlk_status status = actor_status(once);
    cr_assert(ONE_OF(status, HLK_BUSY, HLK_E_UNSURE, HLK_E_CONNECT), "%s", actor_error(once)); /* unsure: not behind */
    server_resume(stage.server);
    actor_end(once);
    actor_end(wait);
    WITHIN(FREE_MS, is_free("t"));
}
