/* What lua/rw_release.lua tells waiters, and what it sets the ttl to; what lua/rw_acquire.lua says of holds that a
 * process may share (docs/decisions/shared_reads.md). */
#include "integration/scripts_fixture.h"

SCRIPTS_SUITE(rw_window);
SCRIPTS_SUITE(rw_leave);
SCRIPTS_SUITE(rw_ttl);
SCRIPTS_SUITE(rw_share);

#define RW_QUEUE "hasplock_rwlock:{t}"
#define RW_CHANNEL "redisson_rwlock:{t}"
#define RW_TICKET(hold, kind) hold " 5000 0 0 1700000000000 " kind
#define DEAD "hlk-dead-1-x:1"

static redisContext *foreign; /* subscribed as a client of Redisson's is */

static void listen_all(void)
{
    all_listen();
    foreign = subscribe(RW_CHANNEL);
}

static void listen_no_more(void)
{
    redisFree(foreign);
    nobody_listens();
}

static const char *rw_release(const char *hold, const char *kind, int64_t yield_ms)
{
    char own[128];
    snprintf(own, sizeof own, "{t}:%s:rwlock_timeout:1", hold);
    return *kind == 'w'
               ? script_run(user, HLK_SCRIPT_RW_RELEASE, 2, LOCK, RW_QUEUE, hold, kind, script_number(yield_ms), NULL)
               : script_run(user, HLK_SCRIPT_RW_RELEASE, 3, LOCK, RW_QUEUE, own, hold, kind, script_number(yield_ms),
                            NULL);
}

static const char *rw_leave(const char *hold, const char *member)
{
    return script_run(user, HLK_SCRIPT_RW_RELEASE, 2, LOCK, RW_QUEUE, hold, "w", "0", "0", member, NULL);
}

static void writes(const char *hold)
{
    raw(admin, "HSET t mode write %s:write 1", hold);
    raw(admin, "PEXPIRE t 30000");
}

/* A reader; the ttl of the lock is the longest lease. */
static void reads(const char *hold, int64_t lease_ms)
{
    raw(admin, "HSET t mode read %s 1", hold);
    raw(admin, "SET {t}:%s:rwlock_timeout:1 1 PX %lld", hold, (long long)lease_ms);
    if (raw_pttl(admin, LOCK) < lease_ms)
        raw(admin, "PEXPIRE t %lld", (long long)lease_ms);
}

static void queue_dead(int n)
{
    for (int i = 0; i < n; i++)
        raw(admin, "ZADD %s %d hlk-dead-%d-x:1%s", RW_QUEUE, i + 1, i, " 5000 0 0 1700000000000 w");
}

/* n dead ones, then B, then C. */
static void queue_up(int n)
{
    queue_dead(n);
    raw(admin, "ZADD %s 100001 %s", RW_QUEUE, RW_TICKET(B, "r"));
    raw(admin, "ZADD %s 100002 %s", RW_QUEUE, RW_TICKET(C, "w"));
}

/* --- the first waiter is dead */

static void window_tells_b_behind(int dead)
{
    listen_all();
    writes(A);
    queue_up(dead);
    cr_assert_str_eq(rw_release(A, "w", 5000), ":1");
    cr_assert_str_eq(said(), "|ropen 7 5000 0 t||");
    cr_assert_eq(raw_int(admin, "ZCARD " RW_QUEUE), 3, "B, C, the window");
    listen_no_more();
}

Test(rw_window, tells_the_first_live_one)
{
    window_tells_b_behind(1);
}

Test(rw_window, tells_the_first_live_one_of_any_number)
{
    window_tells_b_behind(250);
}

/* B was the first live one, and would have asked when Redisson's reader is gone. Now C has to. */
Test(rw_leave, of_the_first_live_one_tells_the_next)
{
    listen_all();
    reads(FOREIGN, 30000);
    queue_up(1);
    cr_assert_str_eq(rw_leave(B, RW_TICKET(B, "r")), ":2");
    cr_assert_str_eq(said(), "||wopen 9 0 0 t|");
    listen_no_more();
}

Test(rw_leave, of_one_behind_it_tells_nobody)
{
    listen_all();
    writes(FOREIGN);
    queue_up(1);
    cr_assert_str_eq(rw_leave(C, RW_TICKET(C, "w")), ":2");
    cr_assert_str_eq(said(), "|||");
    listen_no_more();
}

/* --- the ttl when a reader leaves */

/* Redisson's writer sleeps for the ttl that it read, which was A's. */
Test(rw_ttl, that_gets_shorter_is_told_to_redisson)
{
    listen_all();
    reads(A, 60000);
    reads(B, 8000);
    cr_assert_str_eq(rw_release(A, "r", 0), ":1");
    cr_assert(about(raw_pttl(admin, LOCK), 8000));
    cr_assert_str_eq(published(foreign), "1; 0");
    listen_no_more();
}

Test(rw_ttl, that_stays_is_told_to_nobody)
{
    listen_all();
    reads(A, 8000);
    reads(B, 60000);
    cr_assert_str_eq(rw_release(A, "r", 0), ":1");
    cr_assert(about(raw_pttl(admin, LOCK), 60000));
    cr_assert_str_eq(published(foreign), "");
    listen_no_more();
}

/* The readers were renewed 0 to 10 s ago, as with a watchdog of 30 s, and one comes and goes. */
Test(rw_ttl, of_many_readers_is_kept_by_looking_at_few)
{
    for (int i = 0; i < 200; i++) {
        char hold[32];
        snprintf(hold, sizeof hold, "hlk-r-%d-x:1", i);
        reads(hold, 21000 + 45 * i);
    }
    int64_t before = calls("pttl");
    for (int i = 0; i < 100; i++) {
        reads(A, 30000);
        cr_assert_str_eq(rw_release(A, "r", 0), ":1");
    }
    int64_t looks = calls("pttl") - before;
    cr_log_info("%lld PTTL in 100 pairs", (long long)looks);
    cr_assert_leq(looks, 500);
    cr_assert_geq(raw_pttl(admin, LOCK), 25000);
    cr_assert_eq(raw_int(admin, "HLEN t"), 201);
}

/* Where no lease is near it, all are looked at, and those that are over leave. */
Test(rw_ttl, of_many_readers_is_the_longest_of_those_left)
{
    for (int i = 0; i < 200; i++) {
        char hold[32];
        snprintf(hold, sizeof hold, "hlk-r-%d-x:1", i);
        reads(hold, i == 137 ? 15000 : 8000);
    }
    raw(admin, "DEL {t}:hlk-r-5-x:1:rwlock_timeout:1");
    reads(A, 60000);
    cr_assert_str_eq(rw_release(A, "r", 0), ":1");
    cr_assert(about(raw_pttl(admin, LOCK), 15000));
    cr_assert_eq(raw_int(admin, "HLEN t"), 200, "mode, and 199 readers");
}

/* The same when it is taken from one of two readers. */
Test(rw_ttl, that_a_break_makes_shorter_is_told_to_redisson)
{
    listen_all();
    reads(A, 60000);
    reads(B, 8000);
    cr_assert_str_eq(script_run(user, HLK_SCRIPT_RW_BREAK, 2, LOCK, RW_QUEUE, "read", C, NULL), "[\"" A "\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 60000));
    cr_assert_str_eq(script_run(user, HLK_SCRIPT_RW_BREAK, 2, LOCK, RW_QUEUE, "read", A, NULL), "\"" A "\"");
    cr_assert(about(raw_pttl(admin, LOCK), 8000));
    cr_assert_str_eq(published(foreign), "1; 0");
    cr_assert_str_eq(said(), "rbroken 1 0 0 t|||");
    listen_no_more();
}

/* A user without the right to HRANDFIELD: all are looked at. */
Test(rw_ttl, is_found_without_the_right_to_choose_at_random)
{
    reads(B, 8000);
    reads(A, 60000);
    raw(admin, "ACL SETUSER default -hrandfield");
    raw(admin, "ACL SETUSER locks -hrandfield");
    cr_assert_str_eq(rw_release(A, "r", 0), ":1");
    cr_assert(about(raw_pttl(admin, LOCK), 8000));
}

/* --- a hold that a process shares */

static const char *reads_and_shares(const char *hold)
{
    char own[128];
    snprintf(own, sizeof own, "{t}:%s:rwlock_timeout:1", hold);
    return script_run(user, HLK_SCRIPT_RW_ACQUIRE, 3, LOCK, RW_QUEUE, own, "30000", hold, "r", "", "", "1", NULL);
}

static const char *asks_to_write(const char *hold, const char *member)
{
    return script_run(user, HLK_SCRIPT_RW_ACQUIRE, 2, LOCK, RW_QUEUE, "30000", hold, "w", member, NULL);
}

Test(rw_share, is_allowed_while_nobody_waits)
{
    cr_assert_str_eq(reads_and_shares(A), "\"" A ":shared\"");
    cr_assert_str_eq(reads_and_shares(B), "\"" B ":shared\"", "beside other readers");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_str_eq(raw(admin, "HGET t mode"), "\"read\"");
    cr_assert_str_eq(reads_and_shares(A), "\"" A "\"", "a second run");
    cr_assert_str_eq(rw_release(A, "r", 0), ":1");
    cr_assert_str_eq(rw_release(B, "r", 0), ":1");
}

Test(rw_share, is_refused_beside_a_client_of_redissons)
{
    listen_all();
    cr_assert_str_eq(reads_and_shares(A), "\"" A "\"");
    cr_assert_str_eq(rw_release(A, "r", 0), ":1");
    listen_no_more();
}

Test(rw_share, ends_by_one_message_for_each_client)
{
    all_listen();
    reads(A, 30000);
    reads(CLIENT_A ":2", 30000);
    reads(B, 30000);
    reads(FOREIGN, 30000);
    (void)asks_to_write(C, "");
    cr_assert_str_eq(said(), "|||", "one try");
    (void)asks_to_write(C, RW_TICKET(C, "w"));
    const char *to = said();
    cr_assert(strncmp(to, "rwant 1 0 0 t|", 14) == 0 || strncmp(to, "rwant 2 0 0 t|", 14) == 0, "%s", to);
    cr_assert_str_eq(to + 14, "rwant 7 0 0 t||");
    nobody_listens();
}

Test(rw_share, needs_no_end_beside_a_writer)
{
    all_listen();
    writes(A);
    (void)asks_to_write(C, RW_TICKET(C, "w"));
    cr_assert_str_eq(said(), "|||");
    nobody_listens();
}
