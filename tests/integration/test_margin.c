/* The time between held_until and the next holder, when the holder has released nothing: the expiry margin, for each
 * kind of lock and each way to lose one. It ends earlier only with the holder's own release, and with its client.
 *
 * With HLK_MARGIN_ROUNDS=N in the environment each loss is repeated N times. A line for each kind shows the minimum:
 *
 *     HLK_MARGIN_ROUNDS=20 build/dev/tests/integration/test_margin --filter 'margin/is_kept*' */
/* Shows: P7 */
#include "lease_fixture.h"

#include "support/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 5, WATCHDOG = 3000, FIXED = 600 };

static struct {
    const char *word;
    int kind;
    char name[16]; /* another one in each round */
} kinds[KINDS] = {
    { "plain", HLK_LOCK_PLAIN, "" }, { "fair", HLK_LOCK_FAIR, "" },     { "string", HLK_LOCK_STRING, "" },
    { "write", HLK_LOCK_WRITE, "" }, { "permit", HLK_LOCK_PERMIT, "" },
};

static void start(void)
{
    lease_up(0);
    server_allow(fixture.server, "t-permit*"); /* the number of permits */
    server_allow(fixture.server, "hasplock_fair:*");
}

TestSuite(margin, .init = start, .fini = fixture_end, .timeout = 600);

static int64_t margin_of(int64_t lease_ms)
{
    return lease_ms / 10 > 50 ? lease_ms / 10 : 50;
}

static hlk_lock *lock_of(hlk_client *client, int i, int64_t lease_ms, int64_t max_hold_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kinds[i].kind;
    opts.lease_ms = lease_ms;
    opts.max_hold_ms = max_hold_ms;
    opts.permits = opts.kind == HLK_LOCK_PERMIT;
    return fixture_lock(client, kinds[i].name, &opts);
}

/* --- each kind is lost, and nobody releases */

struct way {
    const char *word;
    int64_t lease_ms, max_hold_ms; /* of the holder's locks */
    int64_t margin_ms;
    bool stops_server, orphans, in_process;
};

struct contest {
    hlk_client *client; /* the holder's */
    hlk_lock *held[KINDS];
    struct actor *holder[KINDS]; /* orphans: the threads that end */
    struct actor *waiter[KINDS];
};

static void hold_all(struct contest *c, const struct way *way)
{
    for (int i = 0; i < KINDS; i++) {
        c->held[i] = lock_of(c->client, i, way->lease_ms, way->max_hold_ms);
        if (!way->orphans)
            cr_assert_eq(hlk_lock_acquire(c->held[i], HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        else
            cr_assert_eq(actor_status(c->holder[i] = actor_start(c->held[i], NULL)), HLK_OK);
    }
}

/* On a slow machine some have their lock already. */
static bool all_wait(struct contest *c, hlk_client *other)
{
    int answered;
    (void)actors_answered(c->waiter, KINDS, &answered);
    return fixture_counters(other).waiting + (uint64_t)answered == KINDS;
}

static void wait_all(struct contest *c, hlk_client *other)
{
    for (int i = 0; i < KINDS; i++)
        c->waiter[i] = actor_start_wait(lock_of(other, i, 0, 0), HLK_FOREVER);
    WAIT_FOR(all_wait(c, other));
}

/* The hold of each kind ends as `way` says. */
static void lose_all(struct contest *c, const struct way *way)
{
    for (int i = 0; i < KINDS && way->orphans; i++)
        actor_leave(c->holder[i]);
    if (!way->stops_server)
        return;
    server_pause(fixture.server);
    for (int i = 0; i < KINDS; i++)
        fixture_wait_event(HLK_EVENT_LOST, kinds[i].name);
    server_resume(fixture.server);
}

static void contend(const struct way *way, int64_t least[KINDS])
{
    struct contest c = { .client = open_with_watchdog(WATCHDOG) };
    hlk_client *other = way->in_process ? c.client : open_with_watchdog(WATCHDOG);
    hold_all(&c, way);
    wait_all(&c, other);
    lose_all(&c, way);
    for (int i = 0; i < KINDS; i++) {
        int kind = way->orphans ? HLK_EVENT_ORPHANED : HLK_EVENT_LOST;
        int64_t until = fixture_wait_event(kind, kinds[i].name).held_until_at_ms;
        int64_t later = actor_answered_at_ms(c.waiter[i]) - until;
        cr_expect_geq(later, way->margin_ms, "%s: %s was another's %" PRId64 " ms after held_until", way->word,
                      kinds[i].word, later);
        least[i] = later < least[i] ? later : least[i];
        cr_expect_eq(actor_end(c.waiter[i]), HLK_OK);
        if (!way->orphans)
            cr_expect_eq(hlk_lock_release(c.held[i]), HLK_LOST);
    }
}

static void check(const struct way *way)
{
    const char *env = getenv("HLK_MARGIN_ROUNDS");
    int64_t least[KINDS];
    int rounds = env ? atoi(env) : 1;
    for (int i = 0; i < KINDS; i++)
        least[i] = INT64_MAX;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < KINDS; i++)
            (void)snprintf(kinds[i].name, sizeof kinds[i].name, "t-%s%d", kinds[i].word, round);
        contend(way, least);
        fixture_close_all();
    }
    for (int i = 0; i < KINDS && env; i++)
        fprintf(stderr, "%-22s %-7s margin %4" PRId64 " ms, least %4" PRId64 " ms of %d\n", way->word, kinds[i].word,
                way->margin_ms, least[i], rounds);
}

/* Shows: S16 */
Test(margin, is_kept_after_a_fixed_lease)
{
    check(&(struct way){ "fixed lease", .lease_ms = FIXED, .margin_ms = margin_of(FIXED) });
}

/* Shows: S16 */
Test(margin, is_kept_after_max_hold)
{
    check(&(struct way){ "max_hold", .max_hold_ms = 300, .margin_ms = margin_of(WATCHDOG) });
}

/* A renewal was cut to what is left of it. */
Test(margin, is_kept_after_max_hold_with_a_renewal)
{
    check(&(struct way){ "max_hold, renewed", .max_hold_ms = 3500, .margin_ms = margin_of(WATCHDOG) });
}

/* Shows: S16 */
Test(margin, is_kept_when_the_server_stood_still)
{
    check(&(struct way){ "server stood still", .margin_ms = margin_of(WATCHDOG), .stops_server = true });
}

/* Shows: S16 */
Test(margin, is_kept_after_its_thread_has_ended)
{
    check(&(struct way){ "orphan", .lease_ms = FIXED, .margin_ms = margin_of(FIXED), .orphans = true });
}

/* Shows: S16 */
Test(margin, is_kept_from_threads_of_the_same_process)
{
    check(&(struct way){ "same process", .max_hold_ms = 300, .margin_ms = margin_of(WATCHDOG), .in_process = true });
}

/* The margin is a tenth of the lease that counts, which is the extension's. */
Test(margin, of_an_extension_is_that_of_its_length)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = held_for(client, "t", 300);
    cr_assert_eq(hlk_lock_extend(lock, 2000), HLK_OK, "%s", hlk_last_error());
    int64_t until = hlk_lock_held_until(lock);
    struct actor *waiter = actor_start_wait(fixture_lock(other, "t", NULL), HLK_FOREVER);
    cr_assert_geq(actor_answered_at_ms(waiter), until + margin_of(2000));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* --- what ends it: margins of 3 s */

static hlk_lock *capped(hlk_client *client, hlk_owner *owner, hlk_event_fn *on_event)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.max_hold_ms = 200;
    opts.owner = owner;
    opts.on_event = on_event;
    return fixture_lock(client, "t", &opts);
}

/* The waiter has it long before the margin is over. */
static void assert_was_let_in(struct actor *waiter, int64_t until_ms)
{
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_lt(running_between_ms(until_ms, actor_answered_at_ms(waiter)), margin_of(30000) / 2);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* Shows: S16 */
Test(margin, ends_with_the_last_release_of_its_holder)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = capped(client, NULL, NULL), *theirs = fixture_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start_wait(theirs, HLK_FOREVER);
    int64_t until = fixture_wait_event(HLK_EVENT_LOST, "t").held_until_at_ms;
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(fixture_try(fixture_lock(client, "t", NULL)), HLK_BUSY);
    cr_assert_not(actor_answered(waiter));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    assert_was_let_in(waiter, until);
}

/* A try that follows the release finds the lock free. */
Test(margin, ends_with_a_release_before_the_callback)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = capped(client, NULL, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    int64_t until = hlk_lock_held_until(lock);
    while (hlk_lock_left_ms(lock) > 0)
        ;
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_lt(running_between_ms(until, test_now_ms()), margin_of(30000) / 2);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

static hlk_lock *owned;
static void release_owned(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    if (event->kind == HLK_EVENT_LOST)
        cr_expect_eq(hlk_lock_release(owned), HLK_LOST);
}

Test(margin, ends_with_a_release_by_the_callback)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, NULL);
    owned = capped(client, owner, release_owned);
    cr_assert_eq(hlk_lock_acquire(owned, HLK_NOWAIT), HLK_OK);
    int64_t until = hlk_lock_held_until(owned);
    assert_was_let_in(actor_start_wait(fixture_lock(other, "t", NULL), HLK_FOREVER), until);
    hlk_owner_destroy(owner);
}

/* Shows: S16 */
Test(margin, ends_when_its_client_is_closed)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = capped(client, NULL, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *waiter = actor_start_wait(fixture_lock(other, "t", NULL), HLK_FOREVER);
    int64_t until = fixture_wait_event(HLK_EVENT_LOST, "t").held_until_at_ms;
    fixture_close(client);
    assert_was_let_in(waiter, until);
}
