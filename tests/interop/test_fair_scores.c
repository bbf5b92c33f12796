/* How long a dead waiter holds up Redisson's waiters behind it in a fair lock's queue, which its score says: beside
 * hasplock's waiters as among Redisson's alone, and behind dead ones of hasplock's. */
/* Shows: P24 */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(redisson_fair_scores, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

#define QUEUE "redisson_lock_queue:{t}"
#define SCORES "redisson_lock_timeout:{t}"

enum { MOST = 22, PATIENCE = 300000 };

static hlk_lock *fair_lock(hlk_client *client)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static int64_t queued(void)
{
    return raw_int(fixture.redis, "LLEN " QUEUE);
}

/* How far the server's clock is behind the score of the waiter at `place`. */
static int64_t left_at(int place)
{
    redisReply *waiter = redisCommand(fixture.redis, "LINDEX " QUEUE " %d", place);
    redisReply *time = redisCommand(fixture.redis, "TIME");
    cr_assert_eq(waiter->type, REDIS_REPLY_STRING);
    int64_t now = atoll(time->element[0]->str) * 1000 + atoll(time->element[1]->str) / 1000;
    int64_t left = raw_int(fixture.redis, "ZSCORE " SCORES " %s", waiter->str) - now;
    freeReplyObject(waiter);
    freeReplyObject(time);
    return left;
}

/* The last in the queue is Redisson's, and is subscribed. */
static bool last_listens(void)
{
    redisReply *last = redisCommand(fixture.redis, "LINDEX " QUEUE " -1");
    bool hears = last->type == REDIS_REPLY_STRING &&
                 strstr(raw(fixture.redis, "PUBSUB NUMSUB redisson_lock__channel:{t}:%s", last->str), ":1]") != NULL;
    freeReplyObject(last);
    return hears;
}

/* One Redisson client of the peer has ten subscriptions. */
static const char *java(int i)
{
    static char who[16];
    snprintf(who, sizeof who, "%c.%d", 'A' + i / 8, i);
    return who;
}

static void java_waits(int i)
{
    int64_t place = queued();
    peer_tell(fixture.java, "%s fairlock t", java(i));
    WAIT_FOR(queued() == place + 1 && last_listens());
}

static void java_is_served(int i)
{
    cr_assert_str_eq(peer_answer(fixture.java, java(i))->text, "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "%s fairunlock t", java(i)), "ok");
}

/* `ours` of hasplock's and one of Redisson's, or one of Redisson's behind each. All are served but the last, which is
 * the first then. Returns how long that one would be waited for if it were dead. */
static int64_t left_of_last(int ours, bool by_turns)
{
    struct c_waiter c[MOST];
    hlk_lock *lock = fair_lock(fixture.client);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < ours; i++) {
        c_waiter_start(&c[i], fair_lock(fixture.client), HLK_FOREVER);
        WAIT_FOR(queued() == (by_turns ? 2 * i : i) + 1 && raw_inboxes(fixture.redis) == 1);
        if (by_turns || i == ours - 1)
            java_waits(i);
    }
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    int64_t left = 0;
    for (int i = 0; i < ours; i++) {
        cr_assert_eq(c_waiter_answer(&c[i]), HLK_OK);
        left = i == ours - 1 ? left_at(0) : 0;
        cr_assert_eq(c_waiter_end(&c[i]), HLK_OK);
        if (by_turns || i == ours - 1)
            java_is_served(i);
        hlk_lock_destroy(c[i].lock);
    }
    hlk_lock_destroy(lock);
    return left;
}

static int64_t left_among_redissons(void)
{
    cr_assert_str_eq(peer_ask(fixture.java, "A.30 fairlock t"), "ok");
    java_waits(0);
    int64_t left = left_at(0);
    cr_assert_str_eq(peer_ask(fixture.java, "A.30 fairunlock t"), "ok");
    java_is_served(0);
    return left;
}

/* The table of docs/decisions/fair.md. The ttl that was read is between a grant's and the watchdog's. */
Test(redisson_fair_scores, of_javas_behind_ours_is_as_among_its_own)
{
    static const struct {
        int ours;
        bool by_turns;
    } rows[] = { { 1, false }, { 10, false }, { 6, true }, { 10, true }, { 22, true } };
    server_allow(fixture.server, "hasplock_fair:*"); /* that Java was waited for stands in it for a minute */
    peer_ask(fixture.java, "- open B %s", fixture.java_url);
    peer_ask(fixture.java, "- open C %s", fixture.java_url);
    int64_t alone = left_among_redissons();
    cr_log_info("Java only: %lld ms", (long long)alone);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t left = left_of_last(rows[i].ours, rows[i].by_turns);
        cr_log_info("%s %d of ours: %lld ms", rows[i].by_turns ? "by turns with" : "behind", rows[i].ours,
                    (long long)left);
        cr_expect_leq(left, alone + 1000, "row %zu: %lld ms, alone %lld", i, (long long)left, (long long)alone);
        cr_expect_geq(left, PATIENCE - WAIT_MS, "row %zu: %lld ms", i, (long long)left);
    }
}

/* In a child: waits until it is killed. */
static pid_t fork_waiter(void)
{
    int64_t place = queued();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        hlk_client *client;
        if (hlk_client_open(&client, fixture.server->unix_url, NULL) != HLK_OK)
            _exit(1);
        _exit(hlk_lock_acquire(fair_lock(client), HLK_FOREVER) == HLK_OK ? 0 : 2);
    }
    WAIT_FOR(queued() == place + 1);
    return pid;
}

enum { DEAD = 5 };

static void kill_waiters_of_others(void)
{
    pid_t dead[DEAD];
    int64_t inboxes = raw_inboxes(fixture.redis);
    for (int i = 0; i < DEAD; i++)
        dead[i] = fork_waiter();
    WAIT_FOR(raw_inboxes(fixture.redis) >= inboxes + DEAD);
    for (int i = 0; i < DEAD; i++) {
        kill(dead[i], SIGKILL);
        waitpid(dead[i], NULL, 0);
    }
    WAIT_FOR(raw_inboxes(fixture.redis) == inboxes);
}

/* The last that lives releases, and keeps their tickets for a second. */
Test(redisson_fair_scores, dead_ones_of_ours_cost_java_their_second)
{
    hlk_lock *lock = fair_lock(fixture.client);
    server_allow(fixture.server, "hasplock_fair:*");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    kill_waiters_of_others();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(queued(), DEAD);
    cr_expect_leq(left_at(DEAD - 1), 1000, "%lld ms", (long long)left_at(DEAD - 1));
    int64_t began = test_now_ms();
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    cr_assert_lt(test_now_ms() - began, 5000);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    hlk_lock_destroy(lock);
}

/* No script of hasplock's runs after they died. */
Test(redisson_fair_scores, dead_ones_of_ours_cost_java_less_than_its_own)
{
    int64_t alone = left_among_redissons();
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    kill_waiters_of_others();
    cr_log_info("dead ones of ours: %lld ms", (long long)left_at(DEAD - 1));
    for (int i = 0; i < DEAD; i++)
        cr_expect_lt(left_at(i), alone - 60000, "%lld ms, alone %lld", (long long)left_at(i), (long long)alone);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    raw(fixture.redis, "DEL " QUEUE " " SCORES);
}
