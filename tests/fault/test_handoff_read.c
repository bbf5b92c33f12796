/* One of the parked waiters reads the subscriber connection for all (src/net/subscriber_read.c). That one may get its
 * lock, be cancelled, or be closed. The others still get their grants, also those that cannot read. */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static void start(void)
{
    fault_up(0);
}

TestSuite(handoff_read, .init = start, .fini = fixture_end, .timeout = 60);

enum { LOCKS = 8, SOON_MS = 1500 }; /* shorter than every poll and lease */

struct scenario {
    hlk_client *client, *other;
    hlk_lock *theirs[LOCKS], *mine[LOCKS];
    struct actor *waiters[LOCKS];
};

static void set(struct scenario *s, unsigned flags)
{
    s->client = fixture_open(NULL);
    s->other = bystander();
    for (int i = 0; i < LOCKS; i++) {
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        opts.flags = i % 2 ? flags : 0;
        s->theirs[i] = held_by_bystander(s->other, name, 0);
        s->mine[i] = fixture_lock(s->client, name, NULL);
        s->waiters[i] = actor_start(s->mine[i], &opts); /* the first one reads */
        WAIT_FOR(raw_listeners(fixture.redis, name) == 1);
        WAIT_FOR_WAITERS(s->client, i + 1);
    }
}

static void gets_it(struct scenario *s, int i)
{
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(s->theirs[i]), HLK_OK);
    cr_assert_eq(actor_status(s->waiters[i]), HLK_OK, "%d: %s", i, actor_error(s->waiters[i]));
    cr_assert_lt(running_between_ms(released_at, actor_answered_at_ms(s->waiters[i])), SOON_MS, "%d", i);
    cr_assert_eq(actor_end(s->waiters[i]), HLK_OK);
    s->waiters[i] = NULL;
}

static void assert_by_grants(struct scenario *s, int n)
{
    cr_assert_eq(fixture_counters(s->client).granted, (uint64_t)n);
    cr_assert_eq(fixture_counters(s->client).woken_by_ttl, 0u);
}

Test(handoff_read, by_whoever_gets_its_lock_goes_on_by_another)
{
    struct scenario s;
    set(&s, 0);
    for (int i = 0; i < LOCKS; i++)
        gets_it(&s, i);
    assert_by_grants(&s, LOCKS);
}

Test(handoff_read, is_for_all_locks_of_the_client)
{
    struct scenario s;
    set(&s, 0);
    for (int i = LOCKS; i-- > 0;)
        gets_it(&s, i);
    assert_by_grants(&s, LOCKS);
}

/* The first one reads, then the next one that parked, and so on. Each is cancelled while it reads. */
Test(handoff_read, by_a_thread_that_is_cancelled_goes_on_by_another)
{
    struct scenario s;
    set(&s, 0);
    for (int i = 0; i < LOCKS / 2; i++) {
        actor_cancel(s.waiters[i]);
        cr_assert(actor_join_cancelled(s.waiters[i]));
        gets_it(&s, LOCKS - 1 - i);
        cr_assert_eq(hlk_lock_release(s.theirs[i]), HLK_OK);
    }
    assert_by_grants(&s, LOCKS / 2);
    WAIT_FOR(is_free("t0") && is_free("t1") && is_free("t2") && is_free("t3"));
}

/* Waits that signals may end do not read. The loop does if no other waiter can. */
Test(handoff_read, is_done_for_waits_that_signals_may_end)
{
    struct scenario s;
    set(&s, HLK_ACQUIRE_EINTR);
    for (int i = 0; i < LOCKS; i += 2) /* all that could read */
        gets_it(&s, i);
    for (int i = 1; i < LOCKS; i += 2)
        gets_it(&s, i);
    assert_by_grants(&s, LOCKS);
}

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    atomic_store((atomic_int *)ctx, status);
}

Test(handoff_read, is_done_for_completions)
{
    struct scenario s;
    atomic_int status = 1000;
    set(&s, 0);
    hlk_lock *theirs = held_by_bystander(s.other, "t-async", 0);
    hlk_owner *owner = hlk_owner_create(s.client, "async");
    hlk_lock *lock = fixture_owned(s.client, "t-async", owner);
    cr_assert_eq(hlk_lock_acquire_async(lock, NULL, on_done, &status), HLK_OK);
    WAIT_FOR_WAITERS(s.client, LOCKS + 1);
    WAIT_FOR(raw_listeners(fixture.redis, "t-async") == 1);
    gets_it(&s, 0);
    int64_t released_at = test_now_ms();
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    WAIT_FOR(atomic_load(&status) != 1000);
    cr_assert_lt(running_ms(released_at), SOON_MS);
    cr_assert_eq(atomic_load(&status), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    for (int i = 1; i < LOCKS; i++)
        gets_it(&s, i);
    assert_by_grants(&s, LOCKS + 1);
    hlk_owner_destroy(owner);
}

Test(handoff_read, ends_with_the_client)
{
    struct scenario s;
    set(&s, 0);
    int64_t began = test_now_ms();
    fixture_close(s.client);
    cr_assert_lt(running_ms(began), SOON_MS);
    for (int i = 0; i < LOCKS; i++) {
        cr_assert_eq(actor_status(s.waiters[i]), HLK_E_CLOSED);
        actor_leave(s.waiters[i]);
        cr_assert_eq(hlk_lock_release(s.theirs[i]), HLK_OK);
    }
}

/* The connection breaks while a waiter reads it. */
Test(handoff_read, of_a_broken_connection_goes_on_by_the_next_one)
{
    struct scenario s;
    set(&s, 0);
    for (int i = 0; i < LOCKS; i++) {
        raw(fixture.redis, "CLIENT KILL TYPE pubsub");
        WAIT_FOR(raw_inboxes(fixture.redis) == 1);
        gets_it(&s, i);
    }
    cr_assert_eq(fixture_counters(s.client).woken_by_ttl, 0u);
}
