/* The Java peer and the tools of these tests proven on themselves: two Redisson clients, none of ours. What is asserted
 * here of Redisson is what docs/protocol.md takes for granted. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void two_java_clients(void)
{
    fixture_open_without_c();
    peer_ask(fixture.java, "- open B %s %d", fixture.java_url, WATCHDOG_MS);
}

TestSuite(peer, .init = two_java_clients, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

Test(peer, is_the_redisson_that_was_asked_for)
{
    const char *wanted = getenv("HASPLOCK_REDISSON");
    const char *is = peer_ask(fixture.java, "- version");
    cr_log_info("Redisson %s", is);
    if (wanted)
        cr_assert_str_eq(is, wanted);
}

Test(peer, holds_as_the_wire_format_says)
{
    char holder[128];
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 lock t"), "ok");
    snprintf(holder, sizeof holder, "%s:%s", peer_ask(fixture.java, "- uuid A"), peer_ask(fixture.java, "A.1 id"));
    expect_held("t", holder, 1, WATCHDOG_MS * 2 / 3, WATCHDOG_MS);

    cr_assert_str_eq(peer_ask(fixture.java, "A.1 lock t 5000"), "ok");
    expect_held("t", holder, 2, 4000, 5000); /* Redisson's re-entry shortens */
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 holds t"), "2");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 held t"), "true");
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 held t"), "false");
    cr_assert_str_eq(peer_ask(fixture.java, "B.1 islocked t"), "true");
    cr_assert_str_eq(peer_ask(fixture.java, "B.1 heldby t %s", strrchr(holder, ':') + 1), "false");
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 heldby t %s", strrchr(holder, ':') + 1), "true");

    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "!IllegalMonitorStateException");
    cr_assert_str_eq(peer_ask(fixture.java, "B.1 ttl t"), "-2");
}

Test(peer, shows_a_wait_from_outside_and_its_end_by_message)
{
    struct watch *watch = watch_start(fixture.server);
    peer_ask(fixture.java, "A.1 lock t");
    peer_tell(fixture.java, "B.1 lock t");
    await_parked(watch, 'J', "t");
    cr_assert(peer_waits(fixture.java, "B.1"));
    cr_assert_eq(raw_listeners(fixture.redis, "t"), 1);

    int64_t released_us = peer_now_us();
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "ok");
    const struct answer *got = peer_answer(fixture.java, "B.1");
    cr_assert_str_eq(got->text, "ok");
    cr_assert_gt(got->ended_us, released_us);
    watch_for(watch, "J. publish redisson_lock__channel:{t} 0");
    watch_for(watch, "J. hincrby t %s:* 1", peer_ask(fixture.java, "- uuid B"));
    peer_ask(fixture.java, "B.1 unlock t");
    watch_stop(watch);
}

Test(peer, that_is_closed_leaves_its_lock_to_the_lease)
{
    peer_ask(fixture.java, "- open C %s 900", fixture.java_url);
    peer_ask(fixture.java, "C.1 lock t");
    cr_assert_str_eq(peer_ask(fixture.java, "- close C"), "ok");
    int64_t ttl = raw_pttl(fixture.redis, "t");
    cr_assert(0 < ttl && ttl <= 900);
    WAIT_FOR(raw_pttl(fixture.redis, "t") == -2);
}

Test(peer, counts_with_both_clients)
{
    static const char *const who[] = { "A.1", "A.2", "B.1", "B.2" };
    for (size_t i = 0; i < 4; i++)
        peer_tell(fixture.java, "%s count t %s t:counter t:turns t:stop", who[i], fixture.java_url);
    WAIT_FOR(raw_int(fixture.redis, "LLEN t:turns") >= 100);
    raw(fixture.redis, "SET t:stop 1");
    int64_t sum = 0;
    for (size_t i = 0; i < 4; i++)
        sum += atoll(peer_answer(fixture.java, who[i])->text);
    cr_assert_eq(sum, raw_int(fixture.redis, "GET t:counter"));
    cr_assert_eq(sum, raw_int(fixture.redis, "LLEN t:turns"));
    raw(fixture.redis, "DEL t:counter t:turns t:stop");
}
