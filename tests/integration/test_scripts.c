/* Every line of every head in lua/: each reply, what it changes, run twice, run late. The texts are the embedded ones,
 * run by EVAL as the user the library would be. test_golden.c holds them against Redisson's transcripts. */
#include "support/acl.h"
#include "support/raw.h"
#include "support/script.h"
#include "support/server.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct server *server;
static redisContext *user;  /* runs the scripts */
static redisContext *admin; /* looks */

#define LOCK "t"
#define VOID "hasplock_void:{t}"
#define CHANNEL "redisson_lock__channel:{t}"
#define A "hlk-a-1-x:1"
#define B "hlk-b-2-y:7"

static void start(void)
{
    server = server_start(0, NULL);
    admin = raw_open(server);
    user = server->acl ? raw_open_as(server, ACL_USER, ACL_PASSWORD) : raw_open(server);
}

static void stop(void)
{
    redisFree(user);
    redisFree(admin);
    server_stop(server);
}

TestSuite(lock_acquire, .init = start, .fini = stop, .timeout = 60);
TestSuite(lock_end, .init = start, .fini = stop, .timeout = 60);
TestSuite(lock_reacquire, .init = start, .fini = stop, .timeout = 60);
TestSuite(lock_renew, .init = start, .fini = stop, .timeout = 60);
TestSuite(lock_break, .init = start, .fini = stop, .timeout = 60);
TestSuite(lock_query, .init = start, .fini = stop, .timeout = 60);
TestSuite(scripts, .init = start, .fini = stop, .timeout = 60);

/* --- the scripts as functions, their replies as text */

static const char *acquire(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 2, LOCK, VOID, script_number(lease_ms), hold, NULL);
}

static const char *end(const char *hold, int64_t void_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_END, 2, LOCK, VOID, hold, CHANNEL, script_number(void_ms), NULL);
}

static const char *reacquire(const char *hold, int64_t count, int64_t lease_ms)
{
    return script_run(user, HLK_SCRIPT_LOCK_REACQUIRE, 1, LOCK, hold, script_number(count), script_number(lease_ms),
                      NULL);
}

static const char *renew(int64_t lease_ms, const char *hold)
{
    return script_run(user, HLK_SCRIPT_LOCK_RENEW, 1, LOCK, script_number(lease_ms), hold, NULL);
}

static const char *lock_break(void)
{
    return script_run(user, HLK_SCRIPT_LOCK_BREAK, 1, LOCK, CHANNEL, NULL);
}

static const char *query(void)
{
    return script_run(user, HLK_SCRIPT_LOCK_QUERY, 1, LOCK, CHANNEL, NULL);
}

/* --- what is there */

/* Every key with its value, as one text: what must not change is compared whole. Times to live are asked for apart. */
static const char *everything(void)
{
    static _Thread_local char texts[4][4096], key[256];
    static _Thread_local int next;
    char *text = texts[next++ % 4];
    size_t len = 0, size = sizeof texts[0];
    redisReply *found = redisCommand(admin, "KEYS *");
    text[0] = '\0';
    for (size_t i = 0; i < found->elements; i++) {
        snprintf(key, sizeof key, "%s", found->element[i]->str);
        const char *type = raw(admin, "TYPE %s", key), *value = "";
        if (strcmp(type, "hash") == 0)
            value = raw(admin, "HGETALL %s", key);
        else if (strcmp(type, "zset") == 0)
            value = raw(admin, "ZRANGE %s 0 -1", key);
        else
            value = raw(admin, "GET %s", key);
        len += (size_t)snprintf(text + len, size - len, "%s %s %s; ", key, type, value);
    }
    freeReplyObject(found);
    return text;
}

#define HELD_BY_A "t hash [\"" A "\", \"1\"]; "
#define HELD_BY_B "t hash [\"" B "\", \"1\"]; "
#define VOID_OF_A "hasplock_void:{t} zset [\"" A "\"]; "

static bool between(int64_t low, int64_t value, int64_t high)
{
    return low <= value && value <= high;
}

/* A ttl that was just set to `ms`. Slow machines may have used some of it, never all. */
static bool about(int64_t ttl, int64_t ms)
{
    return between(ms - WAIT_MS, ttl, ms) && ttl > 0;
}

static void fill_server(void)
{
    cr_assert_str_eq(raw(admin, "CONFIG SET maxmemory 1"), "OK");
}

static redisContext *subscriber(void)
{
    redisContext *redis = raw_open(server);
    cr_assert_str_eq(raw(redis, "SUBSCRIBE " CHANNEL), "[\"subscribe\", \"" CHANNEL "\", :1]");
    return redis;
}

/* Whether anything was published since the server started: by the count of PUBLISH calls, subscribers or not. */
static bool was_published(void)
{
    redisReply *stats = redisCommand(admin, "INFO commandstats");
    bool found = strstr(stats->str, "cmdstat_publish:") != NULL;
    freeReplyObject(stats);
    return found;
}

#define MESSAGE "[\"message\", \"" CHANNEL "\", \"0\"]"

/* --- lock_acquire */

Test(lock_acquire, takes_a_free_lock_with_one_field_and_a_ttl)
{
    cr_assert_str_eq(acquire(30000, A), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_acquire, answers_ttl_and_holder_when_somebody_else_holds_it_and_changes_nothing)
{
    acquire(30000, A);
    long long ttl = 0;
    char holder[64] = "";
    cr_assert_eq(sscanf(acquire(60000, B), "[:%lld, \"%63[^\"]\"]", &ttl, holder), 2);
    cr_assert(about(ttl, 30000));
    cr_assert_str_eq(holder, A);
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_acquire, answers_minus_one_for_a_hold_without_end)
{
    raw(admin, "HSET t foreign:1 1");
    cr_assert_str_eq(acquire(30000, B), "[:-1, \"foreign:1\"]");
    cr_assert_eq(raw_pttl(admin, LOCK), -1);
}

Test(lock_acquire, run_twice_is_run_once)
{
    acquire(30000, A);
    cr_assert_str_eq(acquire(30000, A), "(nil)");
    cr_assert_str_eq(everything(), HELD_BY_A, "the count is set, not added");
}

Test(lock_acquire, run_twice_raises_the_ttl)
{
    acquire(30000, A);
    cr_assert_str_eq(acquire(90000, A), "(nil)");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_acquire, run_twice_never_lowers_the_ttl)
{
    acquire(90000, A);
    cr_assert_str_eq(acquire(30000, A), "(nil)");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* asks A4 redisson 7367: a late copy of an acquire must not revive what was given back */
Test(lock_acquire, run_late_after_an_end_in_doubt_is_void)
{
    acquire(30000, A);
    cr_assert_str_eq(end(A, 60000), ":1");
    cr_assert_str_eq(acquire(30000, A), ":-1");
    cr_assert_str_eq(everything(), VOID_OF_A);
}

Test(lock_acquire, run_late_before_it_had_ever_run_is_void)
{
    cr_assert_str_eq(end(A, 60000), ":0");
    cr_assert_str_eq(acquire(30000, A), ":-1");
    cr_assert_str_eq(everything(), VOID_OF_A);
}

Test(lock_acquire, run_late_leaves_the_next_holder_alone)
{
    acquire(30000, A);
    end(A, 60000);
    cr_assert_str_eq(acquire(30000, B), "(nil)", "the void set stops its own holds only");
    cr_assert_str_eq(acquire(60000, A), ":-1");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_acquire, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(acquire(30000, A), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
    cr_assert_eq(raw_pttl(admin, LOCK), -1);
}

Test(lock_acquire, refuses_a_void_set_of_another_type_and_changes_nothing)
{
    raw(admin, "SET %s text", VOID);
    cr_assert_not_null(strstr(acquire(30000, A), "WRONGTYPE"));
    cr_assert_str_eq(everything(), VOID " string \"text\"; ");
}

Test(lock_acquire, is_refused_by_a_full_server_and_changes_nothing)
{
    fill_server();
    cr_assert_not_null(strstr(acquire(30000, A), "OOM"));
    cr_assert_str_eq(everything(), "");
}

Test(lock_acquire, of_a_held_lock_answers_on_a_full_server_too)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(acquire(90000, A), "(nil)");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
    cr_assert_not_null(strstr(acquire(30000, B), "\"" A "\""));
}

Test(lock_acquire, publishes_nothing)
{
    redisContext *listener = subscriber();
    acquire(30000, A);
    acquire(30000, A);
    acquire(30000, B);
    cr_assert_not(was_published());
    redisFree(listener);
}

/* --- lock_end */

Test(lock_end, frees_what_the_hold_held)
{
    acquire(30000, A);
    cr_assert_str_eq(end(A, 0), ":1");
    cr_assert_str_eq(everything(), "");
}

Test(lock_end, of_a_lock_that_nobody_holds_answers_0)
{
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert_str_eq(everything(), "");
}

Test(lock_end, of_a_lock_that_somebody_else_holds_answers_0_and_changes_nothing)
{
    redisContext *listener = subscriber();
    acquire(30000, B);
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_not(was_published());
    redisFree(listener);
}

Test(lock_end, in_doubt_remembers_the_hold_for_as_long_as_asked)
{
    acquire(30000, A);
    redisReply *time = redisCommand(admin, "TIME");
    int64_t now = strtoll(time->element[0]->str, NULL, 10) * 1000;
    freeReplyObject(time);
    cr_assert_str_eq(end(A, 600000), ":1");
    cr_assert_str_eq(everything(), VOID_OF_A);
    cr_assert(about(raw_pttl(admin, VOID), 600000));
    cr_assert(between(now, raw_int(admin, "ZSCORE %s %s", VOID, A), now + WAIT_MS), "the score is the server's ms");
}

Test(lock_end, in_doubt_remembers_a_hold_that_never_was)
{
    cr_assert_str_eq(end(A, 600000), ":0");
    cr_assert_str_eq(everything(), VOID_OF_A);
}

Test(lock_end, in_doubt_drops_members_that_are_older_than_the_doubt)
{
    raw(admin, "ZADD %s 1000 old:1", VOID);
    cr_assert_str_eq(end(A, 600000), ":0");
    cr_assert_str_eq(everything(), VOID_OF_A);
    cr_assert_str_eq(end(B, 600000), ":0");
    cr_assert_eq(raw_int(admin, "ZCARD %s", VOID), 2, "younger ones stay");
}

Test(lock_end, run_twice_is_run_once)
{
    redisContext *listener = subscriber();
    acquire(30000, A);
    cr_assert_str_eq(end(A, 0), ":2");
    cr_assert_str_eq(raw_next(listener), MESSAGE);
    cr_assert_str_eq(end(A, 0), ":0");
    cr_assert_str_eq(end(A, 60000), ":0");
    cr_assert_str_eq(end(A, 600000), ":0");
    cr_assert_str_eq(everything(), VOID_OF_A);
    cr_assert(about(raw_pttl(admin, VOID), 600000));
    cr_assert_null(raw_next_within(listener, 50), "nothing was freed, nobody is woken");
    redisFree(listener);
}

/* asks A4 redisson 4871 and the late release of docs/protocol.md */
Test(lock_end, run_late_leaves_the_next_holder_alone)
{
    redisContext *listener = subscriber();
    acquire(30000, A);
    end(A, 0);
    cr_assert_str_eq(raw_next(listener), MESSAGE);
    acquire(30000, B);
    cr_assert_str_eq(end(A, 60000), ":0");
    cr_assert_str_eq(raw(admin, "HGETALL t"), "[\"" B "\", \"1\"]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
    cr_assert_null(raw_next_within(listener, 50));
    redisFree(listener);
}

Test(lock_end, tells_a_subscriber_0)
{
    redisContext *listener = subscriber();
    acquire(30000, A);
    end(A, 0);
    cr_assert_str_eq(raw_next(listener), MESSAGE);
    redisFree(listener);
}

Test(lock_end, answers_how_many_were_told)
{
    redisContext *one = subscriber(), *two = subscriber(), *pattern = raw_open(server);
    raw(pattern, "PSUBSCRIBE *");
    acquire(30000, A);
    cr_assert_str_eq(end(A, 0), ":3");
    cr_assert_str_eq(end(A, 0), ":0");
    redisFree(one);
    redisFree(two);
    redisFree(pattern);
}

/* asks A5 redisson 3349: uncontended release publishes nothing */
Test(lock_end, publishes_nothing_when_nobody_is_subscribed)
{
    acquire(30000, A);
    end(A, 0);
    cr_assert_not(was_published());
}

Test(lock_end, does_not_count_a_pattern_subscriber)
{
    redisContext *pattern = raw_open(server);
    raw(pattern, "PSUBSCRIBE *");
    acquire(30000, A);
    end(A, 0);
    cr_assert_not(was_published());
    redisFree(pattern);
}

Test(lock_end, publishes_when_it_may_not_ask_who_listens)
{
    raw(admin, "ACL SETUSER deaf on >pw ~* &* +@all -pubsub");
    redisContext *listener = subscriber(), *deaf = raw_open_as(server, "deaf", "pw");
    acquire(30000, A);
    cr_assert_str_eq(script_run(deaf, HLK_SCRIPT_LOCK_END, 2, LOCK, VOID, A, CHANNEL, "0", NULL), ":2");
    cr_assert_str_eq(raw_next(listener), MESSAGE);
    redisFree(listener);
    redisFree(deaf);
}

Test(lock_end, frees_also_when_it_may_not_publish)
{
    raw(admin, "ACL SETUSER mute on >pw ~* resetchannels +@all");
    redisContext *listener = subscriber(), *mute = raw_open_as(server, "mute", "pw");
    acquire(30000, A);
    cr_assert_str_eq(script_run(mute, HLK_SCRIPT_LOCK_END, 2, LOCK, VOID, A, CHANNEL, "0", NULL), ":2");
    cr_assert_str_eq(everything(), "");
    redisFree(listener);
    redisFree(mute);
}

Test(lock_end, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(end(A, 60000), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
}

Test(lock_end, frees_also_when_the_void_set_is_of_another_type)
{
    acquire(30000, A);
    raw(admin, "SET %s text", VOID);
    cr_assert_str_eq(end(A, 60000), ":1");
    cr_assert_eq(raw_pttl(admin, LOCK), -2);
}

Test(lock_end, works_and_voids_on_a_full_server)
{
    redisContext *listener = subscriber();
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(end(A, 60000), ":2");
    cr_assert_str_eq(everything(), VOID_OF_A);
    cr_assert_str_eq(raw_next(listener), MESSAGE);
    cr_assert_str_eq(acquire(30000, A), ":-1");
    redisFree(listener);
}

Test(lock_end, voids_what_was_not_held_on_a_full_server_too)
{
    fill_server();
    cr_assert_str_eq(end(A, 60000), ":0");
    cr_assert_str_eq(everything(), VOID_OF_A);
}

/* --- lock_reacquire */

Test(lock_reacquire, sets_the_count_and_raises_the_ttl)
{
    acquire(30000, A);
    cr_assert_str_eq(reacquire(A, 2, 90000), ":1");
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"2\"]; ");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_reacquire, never_lowers_the_ttl)
{
    acquire(90000, A);
    cr_assert_str_eq(reacquire(A, 2, 30000), ":1");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_reacquire, with_lease_0_leaves_the_ttl)
{
    acquire(30000, A);
    reacquire(A, 2, 30000);
    cr_assert_str_eq(reacquire(A, 1, 0), ":1");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_reacquire, run_twice_is_run_once)
{
    acquire(30000, A);
    reacquire(A, 2, 30000);
    cr_assert_str_eq(reacquire(A, 2, 30000), ":1");
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"2\"]; ");
}

Test(lock_reacquire, of_a_lock_that_nobody_holds_answers_0_and_creates_nothing)
{
    cr_assert_str_eq(reacquire(A, 2, 30000), ":0");
    cr_assert_str_eq(everything(), "");
}

Test(lock_reacquire, of_a_lock_that_somebody_else_holds_answers_minus_1_and_changes_nothing)
{
    acquire(30000, B);
    cr_assert_str_eq(reacquire(A, 2, 90000), ":-1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_reacquire, run_late_leaves_the_next_holder_alone)
{
    acquire(30000, A);
    end(A, 0);
    acquire(30000, B);
    cr_assert_str_eq(reacquire(A, 2, 90000), ":-1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_reacquire, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(reacquire(A, 2, 30000), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
    cr_assert_eq(raw_pttl(admin, LOCK), -1);
}

Test(lock_reacquire, raises_the_ttl_on_a_full_server)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(reacquire(A, 2, 90000), ":1");
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"2\"]; ");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* --- lock_renew */

Test(lock_renew, raises_the_ttl_and_touches_no_field)
{
    acquire(30000, A);
    reacquire(A, 3, 0);
    cr_assert_str_eq(renew(90000, A), "[:1]");
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"3\"]; ");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_renew, shortens_no_ttl)
{
    acquire(90000, A);
    cr_assert_str_eq(renew(30000, A), "[:1]");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_renew, run_twice_is_run_once)
{
    acquire(30000, A);
    renew(90000, A);
    cr_assert_str_eq(renew(90000, A), "[:1]");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* asks A2 RedLock.net 48, redis-semaphore 175: renew never creates */
Test(lock_renew, of_a_lock_that_nobody_holds_answers_0_and_creates_nothing)
{
    cr_assert_str_eq(renew(30000, A), "[:0]");
    cr_assert_str_eq(everything(), "");
}

/* asks A2 redisson PR 7098: renewal touches only fields of live holds of this client */
Test(lock_renew, of_a_lock_that_somebody_else_holds_answers_minus_1_and_changes_nothing)
{
    acquire(30000, B);
    cr_assert_str_eq(renew(90000, A), "[:-1]");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_renew, run_late_leaves_the_next_holder_alone)
{
    acquire(30000, A);
    end(A, 0);
    acquire(30000, B);
    cr_assert_str_eq(renew(90000, A), "[:-1]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_renew, answers_each_lock_of_a_batch_and_a_wrong_type_spoils_its_own_answer_only)
{
    raw(admin, "HSET t1 a:1 1");
    raw(admin, "PEXPIRE t1 10000");
    raw(admin, "SET t2 text");
    raw(admin, "HSET t4 b:9 1");
    raw(admin, "HSET t5 a:5 1");
    raw(admin, "PEXPIRE t5 900000");
    raw(admin, "HSET t6 a:6 1");
    raw(admin, "PEXPIRE t6 10000");
    cr_assert_str_eq(script_run(user, HLK_SCRIPT_LOCK_RENEW, 6, "t1", "t2", "t3", "t4", "t5", "t6", "30000", "a:1",
                                "30000", "a:2", "30000", "a:3", "30000", "a:4", "60000", "a:5", "90000", "a:6", NULL),
                     "[:1, :-1, :0, :-1, :1, :1]");
    cr_assert(about(raw_pttl(admin, "t1"), 30000));
    cr_assert_eq(raw_pttl(admin, "t2"), -1);
    cr_assert_eq(raw_pttl(admin, "t3"), -2);
    cr_assert_eq(raw_pttl(admin, "t4"), -1);
    cr_assert(about(raw_pttl(admin, "t5"), 900000));
    cr_assert(about(raw_pttl(admin, "t6"), 90000));
}

/* Only an operator's PERSIST leaves one so; a lock without end would outlive its holder. */
Test(lock_renew, gives_a_hold_without_end_an_end)
{
    raw(admin, "HSET t %s 1", A);
    cr_assert_str_eq(renew(30000, A), "[:1]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_renew, takes_a_hundred_locks_at_once)
{
    const char *argv[3 + 300];
    static char keys[100][16], holds[100][16];
    int n = 0;
    argv[n++] = "EVAL";
    argv[n++] = hlk_script_table[HLK_SCRIPT_LOCK_RENEW].text;
    argv[n++] = "100";
    for (int i = 0; i < 100; i++) {
        snprintf(keys[i], sizeof keys[i], "t%d", i);
        snprintf(holds[i], sizeof holds[i], "a:%d", i);
        raw(admin, "HSET %s %s 1", keys[i], holds[i]);
        raw(admin, "PEXPIRE %s 30000", keys[i]);
        argv[n++] = keys[i];
    }
    for (int i = 0; i < 100; i++) {
        argv[n++] = "90000";
        argv[n++] = holds[i];
    }
    const char *answer = raw_argv(user, n, argv, NULL);
    for (int i = 0; i < 100; i++) {
        cr_assert(about(raw_pttl(admin, keys[i]), 90000));
        answer = strstr(answer, ":1");
        cr_assert_not_null(answer, "answer %d", i);
        answer++;
    }
}

Test(lock_renew, works_on_a_full_server)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(renew(90000, A), "[:1]");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* --- lock_break */

Test(lock_break, takes_the_lock_from_anybody_and_names_whom)
{
    redisContext *listener = subscriber();
    acquire(30000, A);
    reacquire(A, 3, 0);
    cr_assert_str_eq(lock_break(), "\"" A "\"");
    cr_assert_str_eq(everything(), "");
    cr_assert_str_eq(raw_next(listener), MESSAGE);
    redisFree(listener);
}

Test(lock_break, of_a_lock_that_nobody_holds_answers_nil_and_wakes_nobody)
{
    redisContext *listener = subscriber();
    cr_assert_str_eq(lock_break(), "(nil)");
    cr_assert_not(was_published());
    redisFree(listener);
}

Test(lock_break, run_twice_answers_nil_or_takes_it_from_the_next)
{
    acquire(30000, A);
    lock_break();
    cr_assert_str_eq(lock_break(), "(nil)");
    acquire(30000, B);
    cr_assert_str_eq(lock_break(), "\"" B "\"");
}

Test(lock_break, publishes_nothing_when_nobody_is_subscribed)
{
    redisContext *pattern = raw_open(server);
    raw(pattern, "PSUBSCRIBE *");
    acquire(30000, A);
    lock_break();
    cr_assert_not(was_published());
    redisFree(pattern);
}

Test(lock_break, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(lock_break(), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
}

Test(lock_break, works_on_a_full_server)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(lock_break(), "\"" A "\"");
    cr_assert_str_eq(everything(), "");
}

/* --- lock_query */

Test(lock_query, tells_that_a_lock_is_free_and_how_many_listen)
{
    cr_assert_str_eq(query(), "[:-2, :0]");
    redisContext *one = subscriber(), *two = subscriber();
    cr_assert_str_eq(query(), "[:-2, :2]");
    redisFree(one);
    redisFree(two);
}

Test(lock_query, tells_ttl_holder_and_count)
{
    acquire(30000, A);
    reacquire(A, 2, 0);
    long long ttl = 0, listeners = -9, count = 0;
    char holder[64] = "";
    cr_assert_eq(sscanf(query(), "[:%lld, :%lld, \"%63[^\"]\", :%lld]", &ttl, &listeners, holder, &count), 4);
    cr_assert(about(ttl, 30000));
    cr_assert_eq(listeners, 0);
    cr_assert_str_eq(holder, A);
    cr_assert_eq(count, 2);
}

Test(lock_query, tells_minus_1_for_a_hold_without_end)
{
    raw(admin, "HSET t foreign:1 1");
    cr_assert_str_eq(query(), "[:-1, :0, \"foreign:1\", :1]");
}

Test(lock_query, tells_minus_1_listeners_when_it_may_not_ask)
{
    raw(admin, "ACL SETUSER deaf on >pw ~* &* +@all -pubsub");
    redisContext *deaf = raw_open_as(server, "deaf", "pw");
    cr_assert_str_eq(script_run(deaf, HLK_SCRIPT_LOCK_QUERY, 1, LOCK, CHANNEL, NULL), "[:-2, :-1]");
    redisFree(deaf);
}

Test(lock_query, refuses_a_key_of_another_type)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(query(), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
}

Test(lock_query, changes_nothing)
{
    acquire(30000, A);
    int64_t changes = raw_stat(admin, "rdb_changes_since_last_save");
    query();
    cr_assert_eq(raw_stat(admin, "rdb_changes_since_last_save"), changes);
    cr_assert_str_eq(everything(), HELD_BY_A);
}

/* --- all of them */

/* The SHA-1 is the one the server computes: EVALSHA finds what EVAL or SCRIPT LOAD brought. */
Test(scripts, are_known_by_their_sha1)
{
    for (int i = 0; i < HLK_SCRIPT_COUNT; i++) {
        const char *argv[] = { "SCRIPT", "LOAD", hlk_script_table[i].text };
        size_t lens[] = { 6, 4, hlk_script_table[i].len };
        char expected[64];
        snprintf(expected, sizeof expected, "\"%s\"", hlk_script_table[i].sha1);
        cr_assert_str_eq(raw_argv(admin, 3, argv, lens), expected, "%s", hlk_script_table[i].name);
    }
}

/* asks A8 DistributedLock 254: scripts touch declared keys only, else a strict cluster refuses them */
Test(scripts, touch_no_key_that_is_not_declared)
{
    raw(admin, "ACL SETUSER strict on >pw resetkeys ~t ~hasplock_void:{t} &* +@all");
    redisContext *strict = raw_open_as(server, "strict", "pw"), *mine = user;
    user = strict;
    redisContext *listener = subscriber();
    cr_assert_str_eq(acquire(30000, A), "(nil)");
    cr_assert_str_eq(reacquire(A, 2, 90000), ":1");
    cr_assert_str_eq(renew(90000, A), "[:1]");
    cr_assert_null(strstr(query(), "NOPERM"));
    cr_assert_str_eq(end(A, 60000), ":2");
    cr_assert_str_eq(acquire(30000, B), "(nil)");
    cr_assert_str_eq(lock_break(), "\"" B "\"");
    user = mine;
    redisFree(strict);
    redisFree(listener);
}
