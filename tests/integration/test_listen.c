/* HLK_OPEN_LISTEN: a break is reported to the holder at once, and not by its next renewal. The leases here are so long
 * that no renewal is due during a test. */
#include "fair_fixture.h"
#include "lease_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LONG_MS = 600000 };

static void start(void)
{
    lease_up(STAGE_PROXY);
}

TestSuite(listen, .init = start, .fini = fixture_end, .timeout = 60);

static hlk_client *open_listening(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = LONG_MS;
    opts.flags = HLK_OPEN_LISTEN;
    return fixture_open(&opts);
}

static hlk_lock *of_kind(hlk_client *client, int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    return fixture_lock(client, "t", &opts);
}

static bool is_listening(const hlk_client *client)
{
    char channel[256], expected[300];
    snprintf(channel, sizeof channel, "hasplock_inbox:%s", hlk_client_id(client));
    snprintf(expected, sizeof expected, "[\"%s\", :1]", channel);
    return strcmp(raw(fixture.redis, "PUBSUB NUMSUB %s", channel), expected) == 0;
}

/* The subscription is confirmed during the hold, which is then verified once. A break before that would be found by the
 * verification, without its reason. */
static void break_it(int kind)
{
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SUBSCRIBES, 3); /* after the two of the probe */
    hlk_client *client = open_listening(), *operator= open_directly();
    hlk_lock *lock = of_kind(client, kind);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    proxy_wait_struck(fixture.proxy);
    proxy_deliver(fixture.proxy, false);
    WAIT_FOR(fixture_counters(client).renewals == 1);
    cr_assert_eq(hlk_lock_break(of_kind(operator, kind)), HLK_OK);
    WAIT_FOR(hlk_lock_left_ms(lock) == 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_not_null(strstr(hlk_last_error(), "broken by an operator"), "%s", hlk_last_error());
}

/* Shows: S14 */
Test(listen, tells_of_a_broken_hold_at_once)
{
    break_it(HLK_LOCK_PLAIN);
}

/* Shows: S14 */
Test(listen, tells_of_a_broken_fair_hold_at_once)
{
    break_it(HLK_LOCK_FAIR);
}

/* The inbox is subscribed in the background, so a break may come first. */
/* Shows: S14 */
Test(listen, tells_of_a_break_that_was_before_it_listened)
{
    proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SUBSCRIBES, 3); /* after the two of the probe */
    hlk_client *client = open_listening(), *operator= open_directly();
    hlk_lock *lock = of_kind(client, HLK_LOCK_PLAIN);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    proxy_wait_struck(fixture.proxy);
    cr_assert_eq(hlk_lock_break(of_kind(operator, HLK_LOCK_PLAIN)), HLK_OK);
    cr_assert_gt(hlk_lock_left_ms(lock), 0);
    proxy_deliver(fixture.proxy, false);
    WAIT_FOR(hlk_lock_left_ms(lock) == 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

/* The same for a subscription that broke: a client verifies its holds after it. */
Test(listen, tells_of_a_break_while_the_subscription_was_down)
{
    hlk_client *client = open_listening();
    hlk_lock *lock = of_kind(client, HLK_LOCK_PLAIN), *other = fixture_lock(client, "t2", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK);
    WAIT_FOR(is_listening(client));
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "CLIENT KILL TYPE pubsub");
    WAIT_FOR(hlk_lock_left_ms(lock) == 0);
    cr_assert_gt(hlk_lock_left_ms(other), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
}

Test(listen, queues_a_wait_by_its_first_command)
{
    hlk_client *client = open_listening(), *other = open_directly();
    hlk_lock *theirs = of_kind(other, HLK_LOCK_PLAIN), *lock = of_kind(client, HLK_LOCK_PLAIN);
    hlk_lock *own = fixture_lock(client, "t2", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(own, HLK_NOWAIT), HLK_OK);
    WAIT_FOR(is_listening(client));
    uint64_t renewals = fixture_counters(client).renewals;
    raw(fixture.redis, "CLIENT KILL TYPE pubsub");
    WAIT_FOR(fixture_counters(client).renewals > renewals); /* the client has read the confirmation too */
    uint64_t scripts = proxy_count(fixture.proxy, PROXY_SCRIPTS);
    cr_assert_eq(hlk_lock_acquire(lock, 200), HLK_TIMEOUT);
    cr_assert_leq(proxy_count(fixture.proxy, PROXY_SCRIPTS), scripts + 2, "one question, one end");
    cr_assert_eq(hlk_lock_release(own), HLK_OK);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

Test(listen, reports_that_a_release_is_asked_for)
{
    char holder[192];
    hlk_client *client = open_listening();
    hlk_lock *lock = fixture_lock(client, "t", NULL), *view = fixture_lock(open_directly(), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    WAIT_FOR(is_listening(client));
    cr_assert_eq(hlk_lock_hold_id(lock, holder, sizeof holder), HLK_OK);
    cr_assert_eq(hlk_lock_ask(view, holder), HLK_OK, "%s", hlk_last_error());
    (void)fixture_wait_event(HLK_EVENT_ASKED, "t");
    cr_assert_gt(hlk_lock_left_ms(lock), 0, "it is held as before");
    cr_assert_eq(hlk_lock_ask(view, "hlk-web-3-4711-9f3c:12"), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_ask(view, "b983c153-7421-469a-addb-44fb92259a1b:1"), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_ask(view, ""), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_ask(view, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_ask(NULL, holder), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_ASKED, NULL), 1u);
}
