/* The network holds back the k-th request and delivers it late: when the client has given up the connection and sent
 * again, when the hold is over, when another client or the client itself has the lock again, when the client is closed.
 * For every k of every scenario, alone and with what was queued behind it.
 *
 * asks A4 redisson 7367, PR 7368, 4178, 4109: reply lost or late, script sent again: counts and ownership always agree
 * with the caller's view. A4 redisson 4706, 4822: any retry of acquire is the same acquire. A3 curator 727: an entry of
 * an old incarnation never counts as mine. docs/protocol.md, section 7, 2: closing does not withdraw what the server
 * has not read yet. */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(late, .init = start, .fini = fixture_end, .timeout = 120);
TestSuite(late_async, .init = start, .fini = fixture_end, .timeout = 120);
TestSuite(late_dispatched, .init = start, .fini = fixture_end, .timeout = 120);

enum moment {
    DELAYED, /* but before the client has given it up */
    DURING,  /* as soon as the client has sent another script: the repetition or a release */
    AFTER_RELEASE,
    THEIRS, /* another client holds it now */
    OURS,   /* the client holds it again */
    AFTER_CLOSE
};

struct when {
    enum moment moment;
    bool alone; /* what is queued behind it never arrives */
};

/* --- the postman: a thread that delivers while the scenario runs */

struct postman {
    pthread_t thread;
    struct when when;
    atomic_bool stop;
};

static void *deliver_soon(void *arg)
{
    struct postman *postman = arg;
    while (!proxy_struck(fixture.proxy) && !atomic_load(&postman->stop))
        test_sleep_ms(1);
    uint64_t seen = proxy_count(fixture.proxy, PROXY_SCRIPTS);
    int64_t at = test_now_ms() + REPLY_MS / 3;
    while (!atomic_load(&postman->stop) &&
           (postman->when.moment == DELAYED ? test_now_ms() < at : proxy_count(fixture.proxy, PROXY_SCRIPTS) == seen))
        test_sleep_ms(1);
    if (proxy_struck(fixture.proxy))
        proxy_deliver(fixture.proxy, postman->when.alone);
    return NULL;
}

static void postman_start(struct postman *postman, struct when when)
{
    postman->when = when;
    atomic_init(&postman->stop, false);
    if (when.moment <= DURING && pthread_create(&postman->thread, NULL, deliver_soon, postman) != 0)
        test_give_up("no thread for the postman");
}

static void postman_end(struct postman *postman)
{
    atomic_store(&postman->stop, true);
    if (postman->when.moment <= DURING)
        pthread_join(postman->thread, NULL);
}

/* --- one run */

static void deliver_all(struct scenario *s)
{
    (void)s;
    proxy_deliver(fixture.proxy, false);
}

static void deliver_one(struct scenario *s)
{
    (void)s;
    proxy_deliver(fixture.proxy, true);
}

/* The client's own next hold is not affected either. */
static void hold_again(struct scenario *s, bool alone)
{
    scenario_assert(s, scenario_got(s, scenario_acquire(s, 5000, 0)));
    proxy_deliver(fixture.proxy, alone);
    scenario_assert(s, hlk_lock_left_ms(s->lock) > 0);
    scenario_agrees(s, 1);
    scenario_assert(s, scenario_release(s) == HLK_OK);
    scenario_is_over(s);
}

static void after_it(struct scenario *s, struct when when)
{
    if (when.moment == AFTER_RELEASE)
        proxy_deliver(fixture.proxy, when.alone);
    scenario_is_over(s);
    if (when.moment == THEIRS)
        scenario_later_hold_is_safe(s, when.alone ? deliver_one : deliver_all);
    else if (when.moment == OURS)
        hold_again(s, when.alone);
    else if (when.moment != AFTER_CLOSE)
        scenario_later_hold_is_safe(s, NULL);
}

/* The client is closed and cannot release what arrives now. Its lease ends it. */
static void after_close(struct scenario *s, struct when when)
{
    if (when.moment != AFTER_CLOSE)
        return;
    proxy_deliver(fixture.proxy, when.alone);
    WITHIN(2 * s->lease_ms, is_free(s->name));
}

static bool late_at(struct scenario *s, scenario_play *play, enum scenario_mode mode, struct when when, int k)
{
    struct postman postman;
    scenario_begin(s, mode, k);
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_ALL, (uint64_t)k);
    postman_start(&postman, when);
    play(s);
    bool struck = proxy_struck(fixture.proxy);
    postman_end(&postman);
    proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    if (struck)
        after_it(s, when);
    scenario_end(s);
    if (struck)
        after_close(s, when);
    return struck;
}

enum { RENEWED_LEASE_MS = 2400, NESTED_LEASE_MS = 6000 };

static void for_every_k(scenario_play *play, enum scenario_mode mode, struct when when, int least)
{
    struct scenario s = { .late = true,
                          .lease_ms = play == play_renewed  ? RENEWED_LEASE_MS
                                      : play == play_nested ? NESTED_LEASE_MS
                                                            : LEASE_MS };
    int k = 1;
    while (k < PLAYS_MOST_K && late_at(&s, play, mode, when, k))
        k++;
    cr_assert_gt(k, least, "only %d requests were late", k - 1);
    cr_assert_lt(k, PLAYS_MOST_K);
}

#define EVERY_SCENE(suite, mode, title, ...)                                                                           \
    Test(suite, a_try_##title)                                                                                         \
    {                                                                                                                  \
        for_every_k(play_try, mode, (struct when){ __VA_ARGS__ }, 2);                                                  \
    }                                                                                                                  \
    Test(suite, a_wait_##title)                                                                                        \
    {                                                                                                                  \
        for_every_k(play_wait, mode, (struct when){ __VA_ARGS__ }, 6);                                                 \
    }                                                                                                                  \
    Test(suite, a_renewed_hold_##title)                                                                                \
    {                                                                                                                  \
        for_every_k(play_renewed, mode, (struct when){ __VA_ARGS__ }, 3);                                              \
    }                                                                                                                  \
    Test(suite, nested_holds_##title)                                                                                  \
    {                                                                                                                  \
        for_every_k(play_nested, mode, (struct when){ __VA_ARGS__ }, 5);                                               \
    }

EVERY_SCENE(late, BLOCKING, is_waited_for_when_it_is_only_slow, DELAYED, false)
EVERY_SCENE(late, BLOCKING, does_no_harm_beside_its_retry, DURING, false)
EVERY_SCENE(late, BLOCKING, does_no_harm_alone_beside_its_retry, DURING, true)
EVERY_SCENE(late, BLOCKING, revives_nothing, AFTER_RELEASE, false)
EVERY_SCENE(late, BLOCKING, revives_nothing_alone, AFTER_RELEASE, true)
EVERY_SCENE(late, BLOCKING, touches_nobody_else, THEIRS, false)
EVERY_SCENE(late, BLOCKING, spares_its_clients_next_hold, OURS, false)
EVERY_SCENE(late, BLOCKING, alone_spares_its_clients_next_hold, OURS, true)
EVERY_SCENE(late, BLOCKING, outlives_its_client_only_briefly, AFTER_CLOSE, true)

EVERY_SCENE(late_async, ASYNC, does_no_harm_beside_its_retry, DURING, true)
EVERY_SCENE(late_async, ASYNC, touches_nobody_else, THEIRS, true)
EVERY_SCENE(late_async, ASYNC, spares_its_clients_next_hold, OURS, true)
EVERY_SCENE(late_dispatched, DISPATCHED, spares_its_clients_next_hold, OURS, false)
