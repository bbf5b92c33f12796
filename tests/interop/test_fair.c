/* hasplock and Redisson's RFairLock in one queue: who is served when, who calls whom, what the dead of either side cost
 * the other. */
/* Shows: P24 */
#include "interop/fixture.h"

#include "support/history.h"
#include "support/order.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(redisson_fair, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

#define QUEUE "redisson_lock_queue:{t}"
#define SCORES "redisson_lock_timeout:{t}"

enum { MOST = 12, PATIENCE = 300000 };
static hlk_lock *locks[MOST];
static int locks_len;

static hlk_lock *owned_fair_lock(hlk_client *client, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    cr_assert_lt(locks_len, MOST);
    locks[locks_len++] = lock;
    return lock;
}

static hlk_lock *fair_lock(hlk_client *client)
{
    return owned_fair_lock(client, NULL);
}

static void done(void)
{
    while (locks_len > 0)
        hlk_lock_destroy(locks[--locks_len]);
}

static int64_t queued(void)
{
    return raw_int(fixture.redis, "LLEN " QUEUE);
}

static const char *waiter_at(int place)
{
    static char waiter[4][192];
    static int next;
    redisReply *reply = redisCommand(fixture.redis, "LINDEX " QUEUE " %d", place);
    snprintf(waiter[next = (next + 1) % 4], sizeof waiter[0], "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    return waiter[next];
}

static int64_t score_at(int place)
{
    return raw_int(fixture.redis, "ZSCORE " SCORES " %s", waiter_at(place));
}

/* On a channel of its own, where Redisson's clients call it. */
static bool hears_call(const char *waiter)
{
    return strstr(raw(fixture.redis, "PUBSUB NUMSUB redisson_lock__channel:{t}:%s", waiter), ":1]") != NULL;
}

static bool is_ours(const char *waiter)
{
    return strncmp(waiter, "hlk-", 4) == 0;
}

/* Where the one before it, who will say that it is its turn, says so: ours grants to ours, in the client's inbox. */
static bool listens(int place)
{
    const char *waiter = waiter_at(place);
    const char *before = place > 0 ? waiter_at(place - 1) : raw_holder(fixture.redis, "t");
    if (!is_ours(waiter) || (before[0] && !is_ours(before)))
        return hears_call(waiter);
    size_t client = (size_t)(strrchr(waiter, ':') - waiter);
    return strstr(raw(fixture.redis, "PUBSUB NUMSUB hasplock_inbox:%b", waiter, client), ":1]") != NULL;
}

/* The next of either side has its place, listens, and has asked once more. */
static void await_place(struct watch *watch, char side, int64_t place)
{
    WAIT_FOR(queued() == place + 1 && listens((int)place));
    if (side == 'J') {
        watch_for(watch, "J> subscribe redisson_lock__channel:*");
        watch_for(watch, "J. pttl t");
    }
}

static void java_waits(struct watch *watch, const char *who, int64_t place)
{
    peer_tell(fixture.java, "%s fairlock t", who);
    await_place(watch, 'J', place);
}

static void c_waits(struct watch *watch, struct c_waiter *waiter, int64_t place)
{
    c_waiter_start(waiter, fair_lock(fixture.client), HLK_FOREVER);
    await_place(watch, 'C', place);
}

static struct hlk_counters counters(void)
{
    struct hlk_counters now = { .size = sizeof now };
    cr_assert_eq(hlk_client_counters(fixture.client, &now), HLK_OK);
    return now;
}

/* --- calls */

Test(redisson_fair, java_waits_for_c_and_is_called)
{
    struct watch *watch = watch_start(fixture.server);
    hlk_lock *lock = fair_lock(fixture.client);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairislocked t"), "true");
    java_waits(watch, "A.1", 0);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), WAIT_MS);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    watch_stop(watch);
    done();
}

Test(redisson_fair, c_waits_for_java_and_is_called)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter waiter;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    c_waits(watch, &waiter, 0);
    cr_assert_not(waiter.answered);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    expect_held("t", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_eq(counters().woken, 1u);
    cr_assert_eq(counters().woken_by_ttl, 0u);
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    watch_stop(watch);
    done();
}

static void on_answer(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    atomic_store((atomic_int *)ctx, status);
}

Test(redisson_fair, c_waits_for_java_without_a_thread_and_is_called)
{
    static atomic_int got, released;
    struct watch *watch = watch_start(fixture.server);
    hlk_owner *owner = hlk_owner_create(fixture.client, "order");
    hlk_lock *lock = owned_fair_lock(fixture.client, owner);
    atomic_store(&got, -1);
    atomic_store(&released, -1);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, on_answer, &got), HLK_OK);
    await_place(watch, 'C', 0);
    java_waits(watch, "A.2", 1);
    cr_assert_eq(atomic_load(&got), -1);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    WAIT_FOR(atomic_load(&got) == HLK_OK);
    expect_held("t", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_eq(hlk_lock_release_async(lock, on_answer, &released), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.2")->text, "ok");
    WAIT_FOR(atomic_load(&released) == HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 fairunlock t"), "ok");
    cr_assert_eq(counters().woken_by_ttl, 0u);
    hlk_owner_destroy(owner);
    watch_stop(watch);
    done();
}

/* --- order */

Test(redisson_fair, both_sides_stand_in_one_queue)
{
    enum { EACH = 3 };
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter c[EACH];
    hlk_lock *lock = fair_lock(fixture.client);
    char who[8];
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < EACH; i++) {
        snprintf(who, sizeof who, "A.%d", i);
        java_waits(watch, who, 2 * (int64_t)i);
        c_waits(watch, &c[i], 2 * (int64_t)i + 1);
    }
    for (int i = 2; i < 2 * EACH; i += 2) /* Redisson takes so much when it is served */
        cr_assert_eq(score_at(i), score_at(i - 1) + PATIENCE, "place %d", i);
    for (int i = 3; i < 2 * EACH; i += 2) /* what Redisson's between them will take */
        cr_assert_geq(score_at(i), score_at(i - 2) + PATIENCE, "place %d: %lld after %lld", i, (long long)score_at(i),
                      (long long)score_at(i - 2));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 0; i < EACH; i++) {
        snprintf(who, sizeof who, "A.%d", i);
        cr_assert_str_eq(peer_answer(fixture.java, who)->text, "ok");
        for (int j = i; j < EACH; j++)
            cr_assert_not(c[j].answered);
        cr_assert_str_eq(peer_ask(fixture.java, "%s fairunlock t", who), "ok");
        cr_assert_eq(c_waiter_answer(&c[i]), HLK_OK);
        snprintf(who, sizeof who, "A.%d", i + 1);
        cr_assert(i + 1 == EACH || peer_waits(fixture.java, who));
        cr_assert_eq(c_waiter_end(&c[i]), HLK_OK);
    }
    cr_assert_eq(counters().woken_by_ttl, 0u);
    watch_stop(watch);
    done();
}

Test(redisson_fair, a_try_of_neither_side_overtakes_the_others_waiter)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter c;
    hlk_lock *lock = fair_lock(fixture.client);
    server_allow(fixture.server, "hasplock_fair:*"); /* that Java was called stands in it for a minute */
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t 30000"), "ok");
    c_waits(watch, &c, 0);
    raw(fixture.redis, "DEL t"); /* free, and nobody has said so */
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 fairtrylock t"), "false");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY, "which also hands it to the first");
    cr_assert_eq(c_waiter_answer(&c), HLK_OK);
    java_waits(watch, "A.3", 0);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_str_eq(peer_answer(fixture.java, "A.3")->text, "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "A.3 fairunlock t"), "ok");
    cr_assert_eq(c_waiter_end(&c), HLK_LOST);
    watch_stop(watch);
    done();
}

/* --- leaving */

Test(redisson_fair, a_waiter_that_gives_up_lets_the_others_up)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter leaver, stayer;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    c_waiter_start(&leaver, fair_lock(fixture.client), 1500);
    await_place(watch, 'C', 0);
    java_waits(watch, "A.2", 1);
    c_waits(watch, &stayer, 2);
    int64_t java = score_at(1), c = score_at(2);
    cr_assert_eq(c_waiter_answer(&leaver), HLK_TIMEOUT);
    c_waiter_end(&leaver);
    WAIT_FOR(queued() == 2);
    cr_assert_leq(score_at(0), java, "the first one's is what it would be among Redisson's alone");
    cr_assert_eq(score_at(1), c, "it added nothing to those behind it, and takes nothing");
    cr_assert_eq(raw_int(fixture.redis, "ZCARD " SCORES), 2);
    peer_tell(fixture.java, "A.3 fairtrylock t 300");
    cr_assert_str_eq(peer_answer(fixture.java, "A.3")->text, "false");
    cr_assert_eq(queued(), 2);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    cr_assert_str_eq(peer_answer(fixture.java, "A.2")->text, "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 fairunlock t"), "ok");
    cr_assert_eq(c_waiter_answer(&stayer), HLK_OK);
    cr_assert_eq(c_waiter_end(&stayer), HLK_OK);
    watch_stop(watch);
    done();
}

/* --- dead ones */

static size_t commands_of(struct watch *watch, const char *pattern, size_t from)
{
    return watch_count(watch, from, watch_mark(watch), "%s", pattern);
}

/* Redisson leaves an interrupted waiter in the queue, and its own waiters behind it ask without a pause. */
Test(redisson_fair, javas_dead_cost_c_5_s_once_and_no_hot_loop)
{
    enum { DEAD = 3 };
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter c;
    hlk_lock *lock = fair_lock(fixture.client);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    peer_ask(fixture.java, "- open D %s", fixture.java_url);
    for (int i = 0; i < DEAD; i++) {
        char who[8];
        snprintf(who, sizeof who, "D.%d", i);
        java_waits(watch, who, i);
    }
    c_waits(watch, &c, DEAD);
    peer_ask(fixture.java, "- close D"); /* their threads are interrupted, and their client is gone */
    WAIT_FOR(!hears_call(waiter_at(0)) && !hears_call(waiter_at(1)) && !hears_call(waiter_at(2)));
    cr_assert_eq(queued(), DEAD + 1);
    size_t from = watch_mark(watch);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(c_waiter_answer(&c), HLK_OK);
    int64_t took = test_now_ms() - began;
    cr_assert(4000 <= took && took < DEAD * 5000, "%lld ms", (long long)took);
    cr_assert_leq(commands_of(watch, "C> eval*", from), 8);
    cr_assert_eq(c_waiter_end(&c), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS " QUEUE " " SCORES), 0);
    watch_stop(watch);
    done();
}

/* In a child: waits until it is killed. */
static pid_t fork_waiter(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    hlk_client *client;
    opts.kind = HLK_LOCK_FAIR;
    if (hlk_client_open(&client, fixture.server->unix_url, NULL) != HLK_OK)
        _exit(1);
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    _exit(hlk_lock_acquire(lock, HLK_FOREVER) == HLK_OK ? 0 : 2);
}

static pid_t fork_dead(void)
{
    pid_t dead = fork_waiter();
    WAIT_FOR(queued() > 0 && raw_inboxes(fixture.redis) > 0);
    return dead;
}

/* Redisson alone would wait for the dead one's score, 5 minutes; one of ours that releases passes it over. */
Test(redisson_fair, a_dead_c_waiter_never_delays_java_when_c_releases)
{
    struct watch *watch = watch_start(fixture.server);
    hlk_lock *lock = fair_lock(fixture.client);
    server_allow(fixture.server, "hasplock_fair:*");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    pid_t dead = fork_dead();
    java_waits(watch, "A.1", 1);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    WAIT_FOR(raw_inboxes(fixture.redis) == 0);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    cr_assert_lt(test_now_ms() - began, 4000);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    watch_stop(watch);
    done();
}

/* It is granted the lock, which is over in 5 s; and Java knows that. */
/* Shows: S17 */
Test(redisson_fair, a_c_process_that_stands_still_costs_java_5_s)
{
    struct watch *watch = watch_start(fixture.server);
    hlk_lock *lock = fair_lock(fixture.client);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    pid_t stopped = fork_dead();
    kill(stopped, SIGSTOP);
    java_waits(watch, "A.1", 1);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    int64_t took = test_now_ms() - began;
    cr_assert(4000 <= took && took < 15000, "%lld ms; its own ttl was 60 s", (long long)took);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    kill(stopped, SIGKILL);
    waitpid(stopped, NULL, 0);
    watch_stop(watch);
    done();
}

/* The one whom Java calls is gone: the next of ours does not wait for the ttl that it was told. */
Test(redisson_fair, a_dead_c_waiter_java_calls_costs_the_next_a_poll)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter c;
    server_allow(fixture.server, "hasplock_fair:*");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    pid_t dead = fork_waiter();
    await_place(watch, 'C', 0);
    c_waits(watch, &c, 1);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    int64_t began = test_now_ms();
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    cr_assert_eq(c_waiter_answer(&c), HLK_OK);
    cr_assert_lt(test_now_ms() - began, 10000);
    cr_assert_eq(c_waiter_end(&c), HLK_OK);
    raw(fixture.redis, "DEL " QUEUE " " SCORES);
    watch_stop(watch);
    done();
}

/* A waiter leaves between Java, who holds the lock, and another of ours, who has to subscribe for Java's call now. */
Test(redisson_fair, a_waiter_subscribes_to_javas_call_when_one_leaves)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter leaver, c;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    c_waiter_start(&leaver, fair_lock(fixture.client), 1000);
    await_place(watch, 'C', 0);
    c_waits(watch, &c, 1);
    cr_assert_not(hears_call(waiter_at(1)), "the one before will hand it on");
    cr_assert_eq(c_waiter_answer(&leaver), HLK_TIMEOUT);
    c_waiter_end(&leaver);
    WAIT_FOR(queued() == 1 && hears_call(waiter_at(0)));
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok");
    cr_assert_eq(c_waiter_answer(&c), HLK_OK);
    cr_assert_eq(counters().woken_by_ttl, 0u);
    cr_assert_eq(c_waiter_end(&c), HLK_OK);
    watch_stop(watch);
    done();
}

/* Redisson alone would wait for the dead one's score, 5 minutes; one of ours in the queue finds it out. */
Test(redisson_fair, a_dead_c_waiter_holds_nobody_up_when_c_waits_too)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter c;
    server_allow(fixture.server, "hasplock_fair:*");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t 8000"), "ok");
    pid_t dead = fork_waiter();
    await_place(watch, 'C', 0);
    java_waits(watch, "A.2", 1);
    c_waits(watch, &c, 2);
    kill(dead, SIGKILL);
    waitpid(dead, NULL, 0);
    WAIT_FOR(!hears_call(waiter_at(0)));
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairunlock t"), "ok"); /* calls nobody */
    cr_assert_str_eq(peer_answer(fixture.java, "A.2")->text, "ok");
    cr_assert_not(c.answered);
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 fairunlock t"), "ok");
    cr_assert_eq(c_waiter_answer(&c), HLK_OK);
    cr_assert_eq(c_waiter_end(&c), HLK_OK);
    watch_stop(watch);
    done();
}

/* --- losing */

Test(redisson_fair, a_lock_that_java_forces_is_lost_and_c_is_told)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter c;
    hlk_lock *lock = fair_lock(fixture.client);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    c_waits(watch, &c, 0);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairforceunlock t"), "true");
    cr_assert_eq(c_waiter_answer(&c), HLK_OK, "by its poll: it has not subscribed for Java's call");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(c_waiter_end(&c), HLK_OK);
    watch_stop(watch);
    done();
}

Test(redisson_fair, c_breaks_javas_lock_and_java_gets_it_next)
{
    struct watch *watch = watch_start(fixture.server);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 fairlock t"), "ok");
    java_waits(watch, "A.2", 0);
    cr_assert_eq(hlk_lock_break(fair_lock(fixture.client)), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.2")->text, "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 fairunlock t"), "ok");
    watch_stop(watch);
    done();
}

/* --- at work at once */

enum { SIDE = 3, TURNS = 25 };

/* Run by each holder: who it is, and who is first in the queue. */
#define NOTE                                                                                                           \
    "redis.call('rpush', 't:order', redis.call('hkeys', 't')[1] .. ' ' .. (redis.call('lindex', '" QUEUE "', 0) or ''))"

struct counter {
    pthread_t thread;
    int who;
    hlk_lock *lock;
    struct history *history;
    const char *note; /* the script's SHA-1 */
    atomic_int turns;
    enum hlk_status status;
};

static void *count(void *arg)
{
    struct counter *me = arg;
    redisContext *redis = raw_open(fixture.server);
    while (me->status == HLK_OK && raw_int(redis, "EXISTS t:stop") == 0) {
        me->status = hlk_lock_acquire(me->lock, HLK_FOREVER);
        if (me->status != HLK_OK)
            break;
        struct hold *hold = history_acquired(me->history, me->who, 0, hlk_lock_held_until(me->lock));
        raw(redis, "EVALSHA %s 0", me->note);
        raw(redis, "SET t:counter %lld", (long long)raw_int(redis, "GET t:counter") + 1);
        atomic_fetch_add(&me->turns, 1);
        history_released(hold);
        me->status = hlk_lock_release(me->lock);
    }
    redisFree(redis);
    return NULL;
}

/* Of the thread of either side that had the fewest. */
static int64_t fewest_turns(struct counter *c)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 2 * SIDE; i++) {
        int64_t turns = i < SIDE ? atomic_load(&c[i].turns) : raw_int(fixture.redis, "LLEN t:turns:%d", i - SIDE);
        least = turns < least ? turns : least;
    }
    return least;
}

/* Whoever was first in the queue was next, each time; how often somebody was. */
static size_t check_order(void)
{
    size_t called;
    redisReply *notes = redisCommand(fixture.redis, "LRANGE t:order 0 -1");
    struct order *order = order_create(notes->elements, NULL, NULL);
    for (size_t i = 0; i < notes->elements; i++) {
        char *holder = notes->element[i]->str, *first = strchr(holder, ' ');
        *first++ = '\0';
        order_add(order, holder, first);
    }
    freeReplyObject(notes);
    cr_assert(order_check(order, 0, &called));
    order_destroy(order);
    return called;
}

Test(redisson_fair, three_c_and_three_java_threads_lose_no_update)
{
    struct counter c[SIDE];
    char note[64];
    struct history *history = history_create(1 << 14);
    memset(c, 0, sizeof c);
    server_allow(fixture.server, "hasplock_fair:*"); /* that Java was waited for stands in it for a minute */
    /* until it hears of grants, a client is passed over in its first wait */
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_acquire(fair_lock(fixture.client), 50), HLK_TIMEOUT);
    raw(fixture.redis, "DEL t");
    WAIT_FOR(raw_inboxes(fixture.redis) == 1 && queued() == 0);
    raw(fixture.redis, "SET t:counter 0");
    redisReply *sha = redisCommand(fixture.redis, "SCRIPT LOAD %s", NOTE);
    snprintf(note, sizeof note, "%s", sha->str);
    freeReplyObject(sha);
    for (int i = 0; i < SIDE; i++) {
        c[i].who = i;
        c[i].lock = fair_lock(fixture.client);
        c[i].history = history;
        c[i].note = note;
        peer_tell(fixture.java, "A.%d faircount t %s t:counter t:turns:%d t:stop %s", i, fixture.java_url, i, note);
        cr_assert_eq(pthread_create(&c[i].thread, NULL, count, &c[i]), 0);
    }
    do
        test_sleep_ms(1);
    while (fewest_turns(c) < TURNS);
    raw(fixture.redis, "SET t:stop 1");
    int64_t sum = 0;
    for (int i = 0; i < SIDE; i++) {
        char who[8];
        snprintf(who, sizeof who, "A.%d", i);
        pthread_join(c[i].thread, NULL);
        cr_assert_eq(c[i].status, HLK_OK, "C thread %d: %s", i, hlk_status_name(c[i].status));
        sum += atomic_load(&c[i].turns) + atoll(peer_answer(fixture.java, who)->text);
    }
    cr_assert_eq(raw_int(fixture.redis, "GET t:counter"), sum);
    cr_assert_eq(raw_int(fixture.redis, "LLEN t:order"), sum);
    cr_assert(history_check(history));
    size_t called = check_order();
    cr_log_info("%zu of %lld times the first in the queue was next", called, (long long)sum);
    cr_assert_gt(called, (size_t)(2 * SIDE));
    raw(fixture.redis, "DEL t:counter t:stop t:order t:turns:0 t:turns:1 t:turns:2");
    history_destroy(history);
    done();
}
