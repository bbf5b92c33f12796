/* hlk_lock_list: the locks that are held on the server, in steps through its keys. */
#include "support/acl.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    fixture_begin(0);
    if (fixture.server->acl)
        raw(fixture.redis, "ACL SETUSER %s %s", ACL_USER, "+scan"),
            raw(fixture.redis, "ACL SETUSER %s %s", ACL_USER, "+hlen");
}

TestSuite(list, .init = start, .fini = fixture_end, .timeout = 60);

#define UUID "b983c153-7421-469a-addb-44fb92259a1b"

struct seen {
    int n, most;
    struct row {
        char name[600], holder[200];
        int64_t count, ttl_ms, waiting;
    } rows[512];
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int note(const struct hlk_listed *lock, void *ctx)
{
    struct seen *seen = ctx;
    if (seen->n < (int)(sizeof seen->rows / sizeof seen->rows[0])) {
        struct row *row = &seen->rows[seen->n++];
        snprintf(row->name, sizeof row->name, "%s", lock->name);
        snprintf(row->holder, sizeof row->holder, "%s", lock->holder);
        row->count = lock->count;
        row->ttl_ms = lock->ttl_ms;
        row->waiting = lock->waiting;
    }
    return seen->most > 0 && seen->n >= seen->most;
}

/* All locks, sorted, without duplicates: SCAN may return a key twice. */
static struct seen *list_kind(hlk_client *client, const char *prefix, int kind)
{
    static struct seen seen;
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    memset(&seen, 0, sizeof seen);
    opts.prefix = prefix;
    opts.kind = kind;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(opts.cursor, 0u);
    qsort(seen.rows, (size_t)seen.n, sizeof seen.rows[0], by_name);
    int n = 0;
    for (int i = 0; i < seen.n; i++)
        if (n == 0 || strcmp(seen.rows[n - 1].name, seen.rows[i].name) != 0)
            seen.rows[n++] = seen.rows[i];
    seen.n = n;
    return &seen;
}

static struct seen *list(hlk_client *client, const char *prefix)
{
    return list_kind(client, prefix, 0);
}

Test(list, of_a_server_without_locks_is_empty)
{
    cr_assert_eq(list(fixture_open(NULL), NULL)->n, 0);
}

/* It makes a handle of a kind that would subscribe. */
Test(list, works_without_pubsub)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_NO_PUBSUB;
    hlk_lock *held = fixture_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(list(fixture_open(&opts), NULL)->n, 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
}

Test(list, names_locks_holders_ttls_and_numbers_of_waiters)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    struct hlk_lock_opts fair = HLK_LOCK_OPTS_INIT;
    char ids[2][192];
    fair.kind = HLK_LOCK_FAIR;
    hlk_lock *plain = fixture_lock(client, "t1", NULL), *queue = fixture_lock(client, "t{2}", &fair);
    cr_assert_eq(hlk_lock_acquire(plain, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(queue, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_hold_id(plain, ids[0], sizeof ids[0]), HLK_OK);
    cr_assert_eq(hlk_lock_hold_id(queue, ids[1], sizeof ids[1]), HLK_OK);
    struct actor *waits[] = { actor_start(fixture_lock(other, "t1", NULL), NULL),
                              actor_start(fixture_lock(other, "t{2}", &fair), NULL), NULL };
    WAIT_FOR(raw_int(fixture.redis, "LLEN redisson_lock_queue:t{2}") == 1);
    waits[2] = actor_start(fixture_lock(other, "t{2}", &fair), NULL);
    raw(fixture.redis, "HSET t3 " UUID ":31 2");
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t1}") == 1);
    WAIT_FOR(raw_int(fixture.redis, "LLEN redisson_lock_queue:t{2}") == 2);

    struct seen *seen = list(client, "t");
    cr_assert_eq(seen->n, 3);
    cr_assert_str_eq(seen->rows[0].name, "t1");
    cr_assert_str_eq(seen->rows[0].holder, ids[0]);
    cr_assert_eq(seen->rows[0].count, 1);
    cr_assert(seen->rows[0].ttl_ms > 0 && seen->rows[0].ttl_ms <= 30000);
    cr_assert_eq(seen->rows[0].waiting, 1);
    cr_assert_str_eq(seen->rows[1].name, "t3");
    cr_assert_str_eq(seen->rows[1].holder, UUID ":31");
    cr_assert_eq(seen->rows[1].count, 2);
    cr_assert_eq(seen->rows[1].ttl_ms, -1);
    cr_assert_eq(seen->rows[1].waiting, 0);
    cr_assert_str_eq(seen->rows[2].name, "t{2}");
    cr_assert_str_eq(seen->rows[2].holder, ids[1]);
    cr_assert_eq(seen->rows[2].waiting, 2);

    cr_assert_eq(hlk_lock_release(plain), HLK_OK);
    cr_assert_eq(hlk_lock_release(queue), HLK_OK);
    cr_assert_eq(actor_end(waits[0]), HLK_OK);
    cr_assert_eq(actor_end(waits[1]), HLK_OK);
    cr_assert_eq(actor_end(waits[2]), HLK_OK);
    raw(fixture.redis, "DEL t3");
}

Test(list, names_string_locks_of_ours)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    char id[192];
    opts.kind = HLK_LOCK_STRING;
    hlk_lock *lock = fixture_lock(client, "t1", &opts), *plain = fixture_lock(client, "t2", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(plain, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK);
    struct actor *waiter = actor_start(fixture_lock(other, "t1", &opts), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t1}") == 1);
    raw(fixture.redis, "SET t3 1f0b6c7e");
    raw(fixture.redis, "SET t4 hlk-but-no-hold");
    struct seen *seen = list_kind(client, "t", HLK_LOCK_STRING);
    cr_assert_eq(seen->n, 1);
    cr_assert_str_eq(seen->rows[0].name, "t1");
    cr_assert_str_eq(seen->rows[0].holder, id);
    cr_assert_eq(seen->rows[0].count, 1);
    cr_assert(seen->rows[0].ttl_ms > 0 && seen->rows[0].ttl_ms <= 30000);
    cr_assert_eq(seen->rows[0].waiting, 1);
    seen = list(client, "t");
    cr_assert_eq(seen->n, 1);
    cr_assert_str_eq(seen->rows[0].name, "t2");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(plain), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    raw(fixture.redis, "DEL t3 t4");
}

Test(list, leaves_out_what_is_no_lock)
{
    static const char *const keys[] = {
        "SET t1 " UUID ":1",     "HSET t2 name bob",        "HSET t3 hlk-a-1-x:1 1 mode write",
        "HSET t4 hlk-a-1-x:1 0", "HSET t5 hlk-a-1-x:1 yes", "HSET t6 count 12",
        "ZADD t7 1 hlk-a-1-x:1", "HSET t8 " UUID "-1:1 1",  "RPUSH t9 hlk-a-1-x:1",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        raw(fixture.redis, keys[i]);
    cr_assert_eq(list(fixture_open(NULL), NULL)->n, 0);
    raw(fixture.redis, "FLUSHALL");
}

/* PREFIX is no pattern: each byte stands for itself. */
Test(list, takes_the_prefix_as_it_is_written)
{
    static const char *const names[] = { "t*a", "txa", "t?a", "t[ab]", "ta", "t\\a", "t^", "t", "u" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        raw(fixture.redis, "HSET %s hlk-a-1-x:1 1", names[i]);
    hlk_client *client = fixture_open(NULL);
    static const struct {
        const char *prefix;
        int n;
    } asked[] = { { "t*", 1 },  { "t?", 1 }, { "t[", 1 }, { "t[ab]", 1 },
                  { "t\\", 1 }, { "t^", 1 }, { "t", 8 },  { "v", 0 } };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        cr_assert_eq(list(client, asked[i].prefix)->n, asked[i].n, "%s", asked[i].prefix);
    raw(fixture.redis, "FLUSHALL");
}

static void hold_many(int n)
{
    char script[] = "for i = 1, tonumber(ARGV[1]) do redis.call('hset', 't' .. i, 'hlk-a-1-x:' .. i, 1) end";
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    raw(fixture.redis, "EVAL %s 0 %s", script, number);
}

Test(list, stops_at_the_bound_and_goes_on_from_there)
{
    hold_many(400);
    raw(fixture.redis, "EVAL %s 0", "for i = 1, 3000 do redis.call('set', 'n' .. i, 1) end");
    hlk_client *client = fixture_open(NULL);
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    static struct seen seen;
    int calls = 0;
    opts.max_keys = 1000;
    do {
        cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_OK);
        calls++;
    } while (opts.cursor);
    cr_assert(calls >= 3 && calls <= 8, "%d calls", calls);
    cr_assert_geq(seen.n, 400);
    raw(fixture.redis, "FLUSHALL");
}

Test(list, stops_when_it_is_told_to)
{
    hold_many(400);
    hlk_client *client = fixture_open(NULL);
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    static struct seen seen;
    seen.most = 7;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_OK);
    cr_assert_eq(seen.n, 7);
    cr_assert_eq(opts.stopped, 1);
    raw(fixture.redis, "FLUSHALL");
}

Test(list, ends_when_it_is_cancelled)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    static struct seen seen;
    opts.cancel = hlk_cancel_create(client);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_INTERRUPTED);
    hlk_cancel_destroy(opts.cancel);
}

Test(list, refuses_bad_options)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    char longer[514];
    static struct seen seen;
    memset(longer, 't', 513);
    longer[513] = '\0';
    cr_assert_eq(hlk_lock_list(NULL, &opts, note, &seen), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_list(client, NULL, note, &seen), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_list(client, &opts, NULL, &seen), HLK_E_INVALID);
    opts.prefix = longer;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_E_INVALID);
    opts.prefix = NULL;
    opts.kind = HLK_LOCK_FAIR;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_E_INVALID);
    opts.kind = 0;
    opts.max_keys = -1;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_E_INVALID);
    opts.max_keys = 0;
    opts.size = 1;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_E_INVALID);
}

/* --- rights */

static hlk_client *open_as(const char *rights)
{
    char url[200], *words;
    raw(fixture.redis, "ACL SETUSER lister reset on >pw");
    char copy[4096];
    cr_assert_lt(strlen(rights), sizeof copy);
    snprintf(copy, sizeof copy, "%s", rights);
    for (char *word = strtok_r(copy, " ", &words); word; word = strtok_r(NULL, " ", &words))
        cr_assert_str_eq(raw(fixture.redis, "ACL SETUSER lister %s", word), "OK", "%s", word);
    snprintf(url, sizeof url, "redis://lister:pw@127.0.0.1:%d", fixture.server->port);
    return fixture_open_at(url, NULL);
}

static void start_by_tcp(void)
{
    fixture_begin(SERVER_TCP);
}

TestSuite(list_rights, .init = start_by_tcp, .fini = fixture_end, .timeout = 60);

Test(list_rights, missing_are_named_with_the_line_that_grants_them)
{
    static const char *const lacking[] = { "", "+scan", "+hlen" };
    raw(fixture.redis, "HSET t hlk-a-1-x:1 1");
    for (int i = 0; i < 3; i++) {
        char rights[2048];
        struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
        static struct seen seen;
        snprintf(rights, sizeof rights, "%s %s", ACL_BUT_RW, lacking[i]); /* read/write locks need +hlen, too */
        hlk_client *client = open_as(rights);
        cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_E_AUTH);
        cr_assert_not_null(strstr(hlk_last_error(), "ACL SETUSER <user> +scan +hlen"), "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(fixture_lock(client, "t", NULL)), HLK_NOT_HOLDER, "and nothing else is missing");
    }
    raw(fixture.redis, "DEL t");
}

Test(list_rights, of_string_locks_are_scan_and_getrange)
{
    raw(fixture.redis, "SET t hlk-a-1-x:1");
    raw(fixture.redis, "SET u hlk-a-1-x:2");
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    static struct seen seen;
    opts.kind = HLK_LOCK_STRING;
    cr_assert_eq(hlk_lock_list(open_as(ACL_RULES " +scan -getrange"), &opts, note, &seen), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "ACL SETUSER <user> +scan +getrange"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_list(open_as(ACL_RULES " +scan"), &opts, note, &seen), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(seen.n, 1);
    cr_assert_str_eq(seen.rows[0].name, "t");
    cr_assert_eq(opts.refused, 1);
    raw(fixture.redis, "DEL t u");
}

Test(list_rights, keys_that_the_user_may_not_read_are_counted)
{
    raw(fixture.redis, "HSET t hlk-a-1-x:1 1");
    raw(fixture.redis, "HSET u hlk-a-1-x:1 1");
    raw(fixture.redis, "HSET v hlk-a-1-x:1 1");
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    static struct seen seen;
    cr_assert_eq(hlk_lock_list(open_as(ACL_RULES " +scan +hlen"), &opts, note, &seen), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(seen.n, 1);
    cr_assert_str_eq(seen.rows[0].name, "t");
    cr_assert_eq(opts.refused, 2);
    raw(fixture.redis, "FLUSHALL");
}
