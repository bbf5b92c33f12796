/* hlk_lock_find: which kind of lock a name is; and lists of every kind. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    fixture_begin(0);
    if (fixture.server->acl)
        raw(fixture.redis, "ACL SETUSER locks +scan"), raw(fixture.redis, "ACL SETUSER locks +type");
}

TestSuite(find, .init = start, .fini = fixture_end, .timeout = 60);

#define HOLDER "hlk-a-1-x:1"
#define UUID "b983c153-7421-469a-addb-44fb92259a1b"

static struct hlk_lock_found find(hlk_client *client, const char *name)
{
    struct hlk_lock_found found = HLK_LOCK_FOUND_INIT;
    cr_assert_eq(hlk_lock_find(client, name, &found), HLK_OK, "%s", hlk_last_error());
    return found;
}

Test(find, knows_a_name_of_nothing)
{
    struct hlk_lock_found found = find(fixture_open(NULL), "t");
    cr_assert_eq(found.kind, HLK_FOUND_NOTHING);
    cr_assert_eq(found.number + found.parties + found.waiters, 0);
}

static const struct {
    const char *keys[2];
    int kind;
    int64_t number;
} kinds[] = {
    { { "HSET t " HOLDER " 1" }, HLK_LOCK_PLAIN, 0 },
    { { "HSET t " UUID ":31 2" }, HLK_LOCK_PLAIN, 0 },
    { { "HSET t " HOLDER " 1", "RPUSH redisson_lock_queue:{t} hlk-b-1-x:1" }, HLK_LOCK_FAIR, 0 },
    { { "RPUSH redisson_lock_queue:{t} hlk-b-1-x:1" }, HLK_LOCK_FAIR, 0 },
    { { "HSET t mode read " HOLDER " 1 " UUID ":31 2" }, HLK_LOCK_READ, 0 },
    { { "HSET t mode write " HOLDER ":write 1 " HOLDER " 1" }, HLK_LOCK_WRITE, 0 },
    { { "SET t " HOLDER }, HLK_LOCK_STRING, 0 },
    { { "SET t 1f0b6c7e" }, HLK_FOUND_STRING, 0 },
    { { "SET t 1f0b6c7e", "ZADD hasplock_queue:{t} 7 hlk-b-1-x:1" }, HLK_LOCK_STRING, 0 },
    { { "SET t 3" }, HLK_FOUND_NUMBER, 3 },
    { { "SET t 3 PX 3153600000000" }, HLK_LOCK_PERMIT, 3 },
    { { "SET t -1", "ZADD {t}:timeout 922337203685477 " HOLDER }, HLK_LOCK_PERMIT, -1 },
    { { "SET t 3", "ZADD {t}:timeout 7 " HOLDER }, HLK_FOUND_NUMBER, 3 },
    { { "SET t 3", "ZADD hasplock_queue:{t} 1700000000000000 opened" }, HLK_FOUND_LATCH, 3 },
    { { "SET t 3", "ZADD hasplock_queue:{t} 3000000000000000 " HOLDER }, HLK_FOUND_SEMAPHORE, 3 },
    { { "RPUSH t x" }, HLK_FOUND_OTHER, 0 },
    { { "HSET t name bob" }, HLK_FOUND_OTHER, 0 },
};

Test(find, knows_each_kind_by_its_keys)
{
    hlk_client *client = fixture_open(NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (int k = 0; k < 2 && kinds[i].keys[k]; k++)
            raw(fixture.redis, kinds[i].keys[k]);
        struct hlk_lock_found found = find(client, "t");
        cr_expect_eq(found.kind, kinds[i].kind, "%s: %d", kinds[i].keys[0], found.kind);
        cr_expect_eq(found.number, kinds[i].number, "%s", kinds[i].keys[0]);
        raw(fixture.redis, "FLUSHALL");
    }
}

Test(find, counts_who_waits_at_a_barrier_and_a_condition)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "ZADD hasplock_arrived:{t} 9000000000000 hlk-a-1-x:1 7 hlk-b-1-x:1");
    raw(fixture.redis, "ZADD hasplock_condition:{t} 7 hlk-a-1-x:1 8 hlk-b-1-x:1");
    struct hlk_lock_found found = find(client, "t");
    cr_assert_eq(found.kind, HLK_FOUND_NOTHING);
    cr_assert_eq(found.parties, 1, "the other one's lease is over");
    cr_assert_eq(found.waiters, 2);
    raw(fixture.redis, "FLUSHALL");
}

Test(find, knows_a_latch_and_a_semaphore_by_who_waits)
{
    hlk_client *client = fixture_open(NULL);
    redisContext *listener = raw_open(fixture.server);
    raw(fixture.redis, "SET t1 3");
    raw(fixture.redis, "SET t{2} 3");
    cr_assert_eq(find(client, "t1").kind, HLK_FOUND_NUMBER);
    raw(listener, "SUBSCRIBE redisson_countdownlatch__channel__{t1}");
    raw(listener, "SUBSCRIBE redisson_sc:t{2}");
    cr_assert_eq(find(client, "t1").kind, HLK_FOUND_LATCH);
    cr_assert_eq(find(client, "t{2}").kind, HLK_FOUND_SEMAPHORE);
    redisFree(listener);
    raw(fixture.redis, "FLUSHALL");
}

Test(find, knows_what_the_library_holds)
{
    static const int held[] = { HLK_LOCK_PLAIN, HLK_LOCK_STRING, HLK_LOCK_READ, HLK_LOCK_WRITE, HLK_LOCK_PERMIT };
    hlk_client *client = fixture_open(NULL);
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = held[i];
        opts.permits = held[i] == HLK_LOCK_PERMIT ? 2 : 0;
        hlk_lock *lock = fixture_lock(client, "t", &opts);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(find(client, "t").kind, held[i]);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
    cr_assert_eq(find(client, "t").kind, HLK_LOCK_PERMIT, "their number stays, and none is held");
    raw(fixture.redis, "FLUSHALL");
}

Test(find, refuses_bad_arguments)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_found found = HLK_LOCK_FOUND_INIT;
    cr_assert_eq(hlk_lock_find(NULL, "t", &found), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_find(client, NULL, &found), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_find(client, "", &found), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_find(client, "t", NULL), HLK_E_INVALID);
    found.size = 1;
    cr_assert_eq(hlk_lock_find(client, "t", &found), HLK_E_INVALID);
}

/* --- lists of every kind */

struct listed {
    char text[2048]; /* "name:kind:count:number:waiting " of each, in the order of kinds of `wanted` */
    int n;
};

static int note(const struct hlk_listed *lock, void *ctx)
{
    struct listed *listed = ctx;
    size_t len = strlen(listed->text);
    char row[128];
    snprintf(row, sizeof row, "%s:%d:%d:%d:%d ", lock->name, lock->kind, (int)lock->count, (int)lock->number,
             (int)lock->waiting);
    if (!strstr(listed->text, row)) { /* some twice */
        snprintf(listed->text + len, sizeof listed->text - len, "%s", row);
        listed->n++;
    }
    return 0;
}

static struct listed *list(hlk_client *client, const char *prefix, int kind)
{
    static struct listed listed;
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    memset(&listed, 0, sizeof listed);
    opts.prefix = prefix;
    opts.kind = kind;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &listed), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(opts.cursor, 0u);
    return &listed;
}

static const char *const every[] = {
    "HSET t1 hlk-a-1-x:1 1",
    "HSET t2 hlk-a-1-x:2 1",
    "RPUSH redisson_lock_queue:{t2} hlk-b-1-x:1",
    "HSET t3 mode read hlk-a-1-x:3 1 hlk-b-1-x:3 2",
    "ZADD hasplock_rwlock:{t3} 7 hlk-c-1-x:1",
    "HSET t4 mode write hlk-a-1-x:4:write 1",
    "SET t5 hlk-a-1-x:5",
    "SET t6 1f0b6c7e",
    "ZADD hasplock_queue:{t6} 7 hlk-b-1-x:1",
    "SET t7 2",
    "ZADD {t7}:timeout 922337203685477 hlk-a-1-x:7",
    "ZADD hasplock_arrived:{t8} 9000000000000 hlk-a-1-x:8",
    "ZADD hasplock_condition:{t9} 7 hlk-a-1-x:9",
    /* and what is none of these, or not held */
    "SET ta 3",
    "SET tb text",
    "HSET tc name bob",
    "RPUSH td x",
    "SET te 3 PX 3153600000000",
    "ZADD hasplock_arrived:{tf} 7 hlk-a-1-x:8",
    "HSET other hlk-a-1-x:1 1",
};

static void has(const struct listed *listed, const char *row)
{
    cr_expect_not_null(strstr(listed->text, row), "%s is not in %s", row, listed->text);
}

Test(find, lists_every_kind)
{
    hlk_client *client = fixture_open(NULL);
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++)
        raw(fixture.redis, every[i]);
    const struct listed *listed = list(client, "t", HLK_LIST_EVERY);
    cr_assert_eq(listed->n, 9, "%s", listed->text);
    has(listed, "t1:0:1:0:0 ");
    has(listed, "t2:2:1:0:1 ");
    has(listed, "t3:7:3:0:1 ");
    has(listed, "t4:8:1:0:0 ");
    has(listed, "t5:6:1:0:0 ");
    has(listed, "t6:6:1:0:1 ");
    has(listed, "t7:9:1:2:0 ");
    has(listed, "t8:25:0:0:1 ");
    has(listed, "t9:26:0:0:1 ");
    listed = list(client, "t8", HLK_LIST_EVERY);
    cr_assert_str_eq(listed->text, "t8:25:0:0:1 ");
    listed = list(client, "ta", HLK_LIST_NUMBERS);
    cr_assert_str_eq(listed->text, "ta:32:0:3:0 ");
    raw(fixture.redis, "SET {tr}:hlk-a-1-x:3:rwlock_timeout:1 1");
    raw(fixture.redis, "SET redisson_lock_token:{tr} 7");
    raw(fixture.redis, "SET redisson_unlock_latch:{tr}:7 0");
    listed = list(client, "{tr", HLK_LIST_NUMBERS);
    cr_assert_eq(listed->n, 0, "%s", listed->text);
    listed = list(client, "redisson_", HLK_LIST_NUMBERS);
    cr_assert_eq(listed->n, 0, "%s", listed->text);
    raw(fixture.redis, "FLUSHALL");
}

Test(find, lists_names_with_braces)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "ZADD hasplock_arrived::t{8} 9000000000000 hlk-a-1-x:8");
    raw(fixture.redis, "ZADD hasplock_condition::t{9} 7 hlk-a-1-x:9");
    raw(fixture.redis, "SET t{7} 0");
    raw(fixture.redis, "ZADD t{7}:timeout 922337203685477 hlk-a-1-x:7");
    const struct listed *listed = list(client, "t{", HLK_LIST_EVERY);
    cr_assert_eq(listed->n, 3, "%s", listed->text);
    has(listed, "t{7}:9:1:0:0 ");
    has(listed, "t{8}:25:0:0:1 ");
    has(listed, "t{9}:26:0:0:1 ");
    raw(fixture.redis, "FLUSHALL");
}
