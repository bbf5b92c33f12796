/* Permits that are named by id, and watched by nobody. */
/* Shows: P50 */
#include "permits_fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

TestSuite(permit_ids, .init = permits_start, .fini = permits_stop, .timeout = 60);
TestSuite(permit_ids_wire, .init = permits_start_proxied, .fini = permits_stop, .timeout = 60);

enum { LONG_MS = 60000 };

static struct hlk_taken_permit take(hlk_permits *of, int64_t lease_ms)
{
    struct hlk_taken_permit taken = HLK_TAKEN_PERMIT_INIT;
    cr_assert_eq(hlk_permits_take(of, lease_ms, HLK_NOWAIT, &taken), HLK_OK, "%s", hlk_last_error());
    return taken;
}

static int64_t left(const char *id)
{
    int64_t ms = -7;
    cr_assert_eq(hlk_permits_left_ms(theirs, id, &ms), HLK_OK, "%s", hlk_last_error());
    return ms;
}

Test(permit_ids, are_taken_by_one_client_and_given_back_by_another)
{
    permits_set(2);
    struct hlk_taken_permit one = take(permits, LONG_MS), two = take(permits, LONG_MS);
    cr_assert_str_neq(one.id, two.id);
    cr_assert_gt(one.until_ms - hlk_now_ms(), LONG_MS / 2);
    cr_assert_eq(hlk_permits_take(theirs, LONG_MS, HLK_NOWAIT, &two), HLK_BUSY);
    cr_assert_eq(hlk_permits_take(theirs, LONG_MS, -52, &two), HLK_BUSY);
    cr_assert(strstr(hlk_last_error(), "2 permits are held"), "%s", hlk_last_error());
    cr_assert_eq(hlk_permits_give_back(theirs, one.id), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_unused(), 1);
    cr_assert_eq(hlk_permits_give_back(theirs, one.id), HLK_NOT_HOLDER); /* refused, and nothing is made */
    cr_assert_eq(hlk_permits_give_back(theirs, "hlk-nobody:1"), HLK_NOT_HOLDER);
    cr_assert_eq(permits_unused(), 1);
    cr_assert_eq(hlk_permits_give_back(permits, two.id), HLK_OK);
    cr_assert_eq(permits_unused(), 2);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

/* Nothing is renewed for it, and nothing is released when its client is closed. */
Test(permit_ids, live_as_long_as_their_lease)
{
    permits_set(1);
    hlk_client *closing = fixture_open(NULL);
    hlk_permits *of = hlk_permits_create(closing, "t", NULL);
    struct hlk_taken_permit taken = take(of, LONG_MS);
    hlk_permits_destroy(of);
    fixture_close(closing);
    cr_assert_eq(permits_used(), 1);
    int64_t ms = left(taken.id);
    cr_assert(ms > LONG_MS / 2 && ms <= LONG_MS, "%lld", (long long)ms);
    cr_assert_eq(hlk_permits_give_back(permits, taken.id), HLK_OK);
    taken = take(permits, 300);
    struct actor *waiter = actor_start(permit, NULL); /* it gets it when the lease is over */
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(left(taken.id), 0);
    cr_assert_eq(hlk_permits_give_back(permits, taken.id), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_permits_extend(permits, taken.id, 1000), HLK_NOT_HOLDER); /* what is over is not revived */
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(permits_unused(), 1);
}

Test(permit_ids, are_extended_and_never_shortened)
{
    permits_set(1);
    struct hlk_taken_permit taken = take(permits, 10000);
    cr_assert_eq(hlk_permits_extend(theirs, taken.id, 90000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(left(taken.id), 60000);
    cr_assert_eq(hlk_permits_extend(theirs, taken.id, 1000), HLK_OK);
    cr_assert_gt(left(taken.id), 60000);
    cr_assert_eq(hlk_permits_give_back(permits, taken.id), HLK_OK);
}

/* Nobody has reclaimed it yet. It comes back, and whoever gave it back is told that it was too late. */
Test(permit_ids, whose_lease_is_over_are_not_revived)
{
    permits_set(0);
    raw(fixture.redis, "ZADD %s 1 hlk-late:1", PERMITS_LEASES);
    cr_assert_eq(hlk_permits_extend(permits, "hlk-late:1", 1000), HLK_NOT_HOLDER);
    cr_assert_eq(left("hlk-late:1"), 0);
    cr_assert_eq(hlk_permits_give_back(permits, "hlk-late:1"), HLK_NOT_HOLDER);
    cr_assert_eq(permits_unused(), 1);
    cr_assert_eq(permits_used(), 0);
}

/* Of a hold that its client watches: it is told. */
Test(permit_ids, of_a_hold_may_be_given_back_by_an_operator)
{
    permits_set(1);
    cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_permits_give_back(theirs, permit_id(permit)), HLK_OK, "%s", hlk_last_error());
    fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(permit), HLK_LOST);
    cr_assert_eq(permits_unused(), 1);
}

Test(permit_ids, of_redissons_are_hex)
{
    static const char hex[] = "04c73e89d4802c01ed635613f5d90A73";
    static const char bytes[] = "\x04\xc7>\x89\xd4\x80,\x01\xed"
                                "cV\x13\xf5\xd9\ns";
    permits_set(1);
    raw(fixture.redis, "DECR t");
    raw(fixture.redis, "ZADD %s 922337203685477 %b", PERMITS_LEASES, bytes, (size_t)16);
    cr_assert_eq(left(hex), -1);
    cr_assert_eq(hlk_permits_give_back(permits, hex), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(permits_used(), 0);
    cr_assert_eq(permits_unused(), 1);
}

static void *takes(void *taken)
{
    cr_assert_eq(hlk_permits_take(theirs, LONG_MS, HLK_FOREVER, taken), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

Test(permit_ids, are_waited_for)
{
    struct hlk_taken_permit later = HLK_TAKEN_PERMIT_INIT;
    pthread_t thread;
    permits_set(1);
    struct hlk_taken_permit first = take(permits, LONG_MS);
    cr_assert_eq(pthread_create(&thread, NULL, takes, &later), 0);
    WAIT_FOR(permits_tickets() == 1);
    cr_assert_eq(hlk_permits_give_back(permits, first.id), HLK_OK);
    pthread_join(thread, NULL);
    cr_assert_eq(hlk_permits_give_back(permits, later.id), HLK_OK);
    cr_assert_eq(permits_unused(), 1);
}

Test(permit_ids, refuse_bad_input)
{
    static const char *const wrong[] = { NULL,
                                         "",
                                         "x",
                                         "04c73e89d4802c01ed635613f5d90a7",
                                         "hlk",
                                         "04c73e89d4802c01ed635613f5d90a7g",
                                         "04c73e89d4802c01ed635613f5d90a7333" };
    struct hlk_taken_permit taken = HLK_TAKEN_PERMIT_INIT, unsized = { 0 };
    int64_t ms;
    permits_set(1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_eq(hlk_permits_give_back(permits, wrong[i]), HLK_E_INVALID, "%zu", i);
        cr_assert_eq(hlk_permits_extend(permits, wrong[i], 1000), HLK_E_INVALID);
        cr_assert_eq(hlk_permits_left_ms(permits, wrong[i], &ms), HLK_E_INVALID);
    }
    cr_assert_eq(hlk_permits_take(permits, 0, 0, &taken), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_take(permits, -1, 0, &taken), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_take(permits, 99, 0, &taken), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_take(permits, 1000, 0, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_take(permits, 1000, 0, &unsized), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_take(NULL, 1000, 0, &taken), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_extend(permits, "hlk-a:1", 99), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_left_ms(permits, "hlk-a:1", NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_permits_give_back(NULL, "hlk-a:1"), HLK_E_INVALID);
    cr_assert_eq(permits_unused(), 1);
}

Test(permit_ids_wire, are_taken_once_whatever_answer_is_lost)
{
    static const enum proxy_fault faults[] = { PROXY_CUT_BEFORE, PROXY_CUT_AFTER, PROXY_SWALLOW };
    permits_set(2);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct hlk_taken_permit taken = HLK_TAKEN_PERMIT_INIT;
        proxy_arm(fixture.proxy, faults[i], PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_permits_take(permits, LONG_MS, HLK_FOREVER, &taken), HLK_OK, "%s", hlk_last_error());
        cr_assert(proxy_struck(fixture.proxy));
        cr_assert_eq(permits_unused(), 1);
        cr_assert_eq(hlk_permits_give_back(permits, taken.id), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(permits_unused(), 2);
    }
}
