/* hasplock and Redisson on one lock: who waits, who wakes whom, what each sees of the other's hold. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(redisson, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

static struct hlk_counters counters(void)
{
    struct hlk_counters now = { .size = sizeof now };
    cr_assert_eq(hlk_client_counters(fixture.client, &now), HLK_OK);
    return now;
}

/* --- waits end by message, not by ttl */

static void c_holds_java_waits(const char *name)
{
    hlk_lock *lock = fixture_lock(name);
    struct watch *watch = watch_start(fixture.server);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    peer_tell(fixture.java, "A.1 lock %s", name);
    await_parked(watch, 'J', name);
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_gt(raw_pttl(fixture.redis, name), WAIT_MS);

    int64_t released_us = peer_now_us();
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
    cr_assert_gt(got->ended_us, released_us);
    cr_log_info("\"%s\": Java woken %lld us after the release", name, (long long)(got->ended_us - released_us));
    expect_held(name, peer_ask(fixture.java, "- uuid A"), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);

    peer_ask(fixture.java, "A.1 unlock %s", name);
    await_no_listeners(name);
    watch_stop(watch);
}

static void java_holds_c_waits(const char *name)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter waiter;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 lock %s", name), "ok");
    struct hlk_counters before = counters();
    c_waiter_start(&waiter, fixture_lock(name), HLK_FOREVER);
    await_parked(watch, 'C', name);
    cr_assert_not(waiter.answered);
    cr_assert_eq(counters().waiting, 1);
    cr_assert_gt(raw_pttl(fixture.redis, name), WAIT_MS);

    int64_t released_us = peer_now_us();
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock %s", name), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_gt(waiter.answered_us, released_us);
    cr_log_info("\"%s\": C woken %lld us after the release", name, (long long)(waiter.answered_us - released_us));
    expect_held(name, hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_eq(counters().woken, before.woken + 1);
    cr_assert_eq(counters().woken_by_ttl, before.woken_by_ttl);

    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    await_no_listeners(name);
    watch_stop(watch);
}

Test(redisson, java_waits_for_c_and_is_woken_by_message)
{
    c_holds_java_waits("t");
}

Test(redisson, c_waits_for_java_and_is_woken_by_message)
{
    java_holds_c_waits("t");
}

/* The channel is "{name}" behind its prefix, or just the name when there is a brace anywhere in it: not a hash tag
 * parser's rule, Redisson's. A side that spells it otherwise never hears the other. */
static const char *const braces[] = {
    "t{order}42", "{t}", "t{open", "t{}empty", "t}close", "t}{", "{{t}}", "t:{a}{b}"
};
enum { BRACES = sizeof braces / sizeof braces[0] };

Test(redisson, java_is_woken_on_names_with_braces)
{
    for (size_t i = 0; i < BRACES; i++)
        c_holds_java_waits(braces[i]);
}

Test(redisson, c_is_woken_on_names_with_braces)
{
    for (size_t i = 0; i < BRACES; i++)
        java_holds_c_waits(braces[i]);
}

Test(redisson, names_outside_of_ascii_are_the_same_lock)
{
    static const char name[] = "t:sch\xc3\xb6n:\xe2\x82\xac{\xf0\x9f\x94\x92}";
    hlk_lock *lock = fixture_lock(name);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked %s", name), "true");
    struct watch *watch = watch_start(fixture.server);
    peer_tell(fixture.java, "A.1 lock %s", name);
    await_parked(watch, 'J', "t:sch*"); /* MONITOR escapes what is not ASCII */
    cr_assert_eq(raw_listeners(fixture.redis, name), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    peer_ask(fixture.java, "A.1 unlock %s", name);
    watch_stop(watch);
}

/* Redisson's partial unlock tells nobody; ours must not take one for the end either. */
Test(redisson, c_waits_until_the_last_of_javas_nested_holds)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter waiter;
    peer_ask(fixture.java, "A.1 lock t");
    peer_ask(fixture.java, "A.1 lock t");
    c_waiter_start(&waiter, fixture_lock("t"), HLK_FOREVER);
    await_parked(watch, 'C', "t");

    size_t from = watch_mark(watch);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 held t"), "true");
    size_t to = watch_mark(watch);
    cr_assert_eq(watch_count(watch, from, to, "*publish*"), 0);
    cr_assert_not(waiter.answered);

    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    watch_stop(watch);
}

Test(redisson, java_waits_until_the_last_of_cs_nested_holds)
{
    struct watch *watch = watch_start(fixture.server);
    hlk_lock *lock = fixture_lock("t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    peer_tell(fixture.java, "A.1 lock t");
    await_parked(watch, 'J', "t");
    size_t from = watch_mark(watch);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(watch_count(watch, from, watch_mark(watch), "*publish*"), 0);
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    peer_ask(fixture.java, "A.1 unlock t");
    watch_stop(watch);
}

/* --- waits that end without the lock */

Test(redisson, java_gives_up_and_leaves_cs_hold_alone)
{
    hlk_lock *lock = fixture_lock("t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    peer_tell(fixture.java, "A.1 trylock t 300");
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "false");
    await_no_listeners("t");
    expect_held("t", hlk_client_id(fixture.client), 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(redisson, c_gives_up_after_its_time_and_spares_javas_hold)
{
    peer_ask(fixture.java, "A.1 lock t 30000");
    hlk_lock *lock = fixture_lock("t");
    int64_t began_ms = test_now_ms();
    cr_assert_eq(hlk_lock_acquire(lock, 300), HLK_TIMEOUT);
    cr_assert_geq(test_now_ms() - began_ms, 300);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    await_no_listeners("t");
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, 1, 30000);
    peer_ask(fixture.java, "A.1 unlock t");
}

/* A waiter of one side that leaves takes no message away from one of the other that stays. */
Test(redisson, a_waiter_that_leaves_costs_the_other_side_nothing)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter holder, leaver, stayer;
    c_waiter_start(&holder, fixture_lock("t"), HLK_NOWAIT);
    cr_assert_eq(c_waiter_answer(&holder), HLK_OK);
    peer_tell(fixture.java, "A.1 lock t");
    await_parked(watch, 'J', "t");
    c_waiter_start(&leaver, fixture_lock("t"), 200);
    cr_assert_eq(c_waiter_answer(&leaver), HLK_TIMEOUT);
    c_waiter_end(&leaver);
    cr_assert_eq(c_waiter_end(&holder), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");

    await_no_listeners("t");
    watch_mark(watch);
    c_waiter_start(&stayer, fixture_lock("t"), HLK_FOREVER);
    await_parked(watch, 'C', "t");
    peer_tell(fixture.java, "A.2 trylock t 200");
    cr_assert_str_eq(peer_answer(fixture.java, "A.2")->text, "false");
    peer_ask(fixture.java, "A.1 unlock t");
    cr_assert_eq(c_waiter_answer(&stayer), HLK_OK);
    cr_assert_eq(c_waiter_end(&stayer), HLK_OK);
    watch_stop(watch);
}

/* --- what each side sees of the other's hold */

Test(redisson, java_sees_the_lock_held_until_cs_outermost_release)
{
    hlk_lock *lock = fixture_lock("t");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked t"), "false");
    for (int depth = 1; depth <= 3; depth++)
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    for (int depth = 3; depth > 0; depth--) {
        cr_assert_eq(hlk_lock_holds(lock), depth);
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked t"), "true");
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 trylock t"), "false");
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 held t"), "false");
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 heldby t 1"), "false");
        cr_assert_str_eq(peer_ask(fixture.java, "A.1 holds t"), "0");
        int64_t ttl = atoll(peer_ask(fixture.java, "A.1 ttl t"));
        cr_assert(WATCHDOG_MS * 2 / 3 <= ttl && ttl <= WATCHDOG_MS, "ttl %lld", (long long)ttl);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked t"), "false");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 ttl t"), "-2");
}

static enum hlk_status acquire_fixed(hlk_lock *lock, int64_t lease_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = HLK_NOWAIT;
    opts.lease_ms = lease_ms;
    return hlk_lock_acquire_with(lock, &opts);
}

Test(redisson, java_sees_cs_fixed_lease_and_it_is_not_renewed)
{
    hlk_lock *lock = fixture_lock("t");
    cr_assert_eq(acquire_fixed(lock, 40000), HLK_OK);
    int64_t ttl = atoll(peer_ask(fixture.java, "A.1 ttl t"));
    cr_assert(20000 < ttl && ttl <= 40000, "ttl %lld", (long long)ttl);

    cr_assert_eq(acquire_fixed(lock, 50000), HLK_OK); /* nested and longer: raises */
    expect_held("t", hlk_client_id(fixture.client), 2, 40001, 50000);
    cr_assert_eq(acquire_fixed(lock, 1000), HLK_OK); /* nested and shorter: never lowers */
    expect_held("t", hlk_client_id(fixture.client), 3, 30000, 50000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    expect_held("t", hlk_client_id(fixture.client), 1, 20000, 50000);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked t"), "true");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked t"), "false");
}

Test(redisson, c_sees_javas_hold_as_it_is_written)
{
    char holder[128];
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_lock *lock = fixture_lock("t");
    peer_ask(fixture.java, "A.1 lock t");
    peer_ask(fixture.java, "A.1 lock t 30000");
    snprintf(holder, sizeof holder, "%s:%s", peer_ask(fixture.java, "- uuid A"), peer_ask(fixture.java, "A.1 id"));

    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(state.held, 1);
    cr_assert_eq(state.mine, 0);
    cr_assert_eq(state.count, 2);
    cr_assert_str_eq(state.holder, holder);
    cr_assert(0 < state.ttl_ms && state.ttl_ms <= WATCHDOG_MS, "ttl %lld", (long long)state.ttl_ms);
    cr_assert_eq(state.waiting, 0);

    peer_ask(fixture.java, "A.1 unlock t");
    peer_ask(fixture.java, "A.1 unlock t");
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(state.held, 0);
}

Test(redisson, c_counts_a_waiting_java_client_once)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_lock *lock = fixture_lock("t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    peer_tell(fixture.java, "A.1 lock t");
    peer_tell(fixture.java, "A.2 lock t");
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(state.waiting, 1);
    cr_assert_eq(state.mine, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);

    WAIT_FOR(!peer_waits(fixture.java, "A.1") || !peer_waits(fixture.java, "A.2"));
    const char *first = peer_waits(fixture.java, "A.2") ? "A.1" : "A.2";
    peer_answer(fixture.java, first);
    peer_ask(fixture.java, "%s unlock t", first);
    const char *second = strcmp(first, "A.1") == 0 ? "A.2" : "A.1";
    cr_assert_str_eq(peer_answer(fixture.java, second)->text, "ok");
    peer_ask(fixture.java, "%s unlock t", second);
}

/* --- nobody gives back what is the other's */

Test(redisson, javas_unlock_of_cs_lock_throws_and_changes_nothing)
{
    hlk_lock *lock = fixture_lock("t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "!IllegalMonitorStateException");
    expect_held("t", hlk_client_id(fixture.client), 1, 1, WATCHDOG_MS);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(redisson, cs_release_of_javas_lock_is_refused_unsent)
{
    hlk_lock *lock = fixture_lock("t");
    struct watch *watch = watch_start(fixture.server);
    peer_ask(fixture.java, "A.1 lock t");
    size_t from = watch_mark(watch);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    size_t to = watch_mark(watch);
    cr_assert_eq(watch_count(watch, from, to - 1, "C> *"), 0);
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, 1, WATCHDOG_MS);
    peer_ask(fixture.java, "A.1 unlock t");
    watch_stop(watch);
}

/* --- watchdogs of both sides keep their locks for longer than two leases. RENEWED: long enough that a JVM or a thread
 * that gets no CPU for a second does not fail them */

enum { RENEWED = 3000 };

Test(redisson, cs_watchdog_keeps_java_out)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.watchdog_ms = RENEWED;
    hlk_lock *lock = hlk_lock_create(fixture_client(&opts), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    peer_tell(fixture.java, "A.1 trylock t %d", 2 * RENEWED + 500);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "false");
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    hlk_lock_destroy(lock);
}

Test(redisson, javas_watchdog_keeps_c_out)
{
    peer_ask(fixture.java, "- open W %s %d", fixture.java_url, RENEWED);
    peer_ask(fixture.java, "W.1 lock t");
    cr_assert_eq(hlk_lock_acquire(fixture_lock("t"), 2 * RENEWED + 500), HLK_TIMEOUT);
    cr_assert_str_eq(peer_ask(fixture.java, "W.1 unlock t"), "ok");
}
