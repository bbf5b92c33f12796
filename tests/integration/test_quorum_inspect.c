/* test_quorum_inspect.c - hlk_lock_query, hlk_lock_waiters, hlk_lock_list and hlk_lock_break over several masters. */
/* Shows: P33 */
#include "quorum_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    quorum_begin(0);
}

static void start_proxied(void)
{
    quorum_begin(STAGE_PROXY);
}

TestSuite(quorum_inspect, .init = start, .fini = quorum_end, .timeout = 60);
TestSuite(quorum_inspect_proxied, .init = start_proxied, .fini = quorum_end, .timeout = 60);

/* As another client has it on the first n masters. */
static void hold_on(int n, const char *holder, int ttl_ms)
{
    for (int i = 0; i < n; i++) {
        raw(views[i], "HSET t %s 1", holder);
        raw(views[i], "PEXPIRE t %d", ttl_ms * (i + 1));
    }
}

static void forget(void)
{
    for (int i = 0; i < MASTERS; i++)
        raw(views[i], "DEL t");
}

static struct hlk_lock_state query(hlk_lock *lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    return state;
}

Test(quorum_inspect, tells_who_holds_it)
{
    char id[192];
    size_t n = 9;
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    hlk_lock *theirs = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    struct hlk_lock_state state = query(lock);
    cr_assert(!state.held && state.holder[0] == '\0' && state.ttl_ms == 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_hold_id(lock, id, sizeof id), HLK_OK);
    state = query(lock);
    cr_assert(state.held && state.mine);
    cr_assert_str_eq(state.holder, id);
    cr_assert_eq(state.count, 1);
    cr_assert(state.ttl_ms > 20000 && state.ttl_ms <= 30000, "%lld", (long long)state.ttl_ms);
    state = query(theirs);
    cr_assert(state.held && !state.mine);
    cr_assert_str_eq(state.holder, id);
    cr_assert_eq(hlk_lock_waiters(lock, NULL, 0, &n), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(n, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(quorum_inspect, of_the_string_kind_tells_the_same)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "", NULL), "t", &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct hlk_lock_state state = query(lock);
    cr_assert(state.held && state.mine);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert(!query(lock).held);
}

/* What the other ones have ends before. */
Test(quorum_inspect, tells_how_long_a_majority_has_it)
{
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    hold_on(MASTERS, "hlk-other-1-x:1", 10000); /* 10 s, 20 s ... 50 s */
    struct hlk_lock_state state = query(lock);
    cr_assert(state.ttl_ms > 25000 && state.ttl_ms <= 30000, "%lld", (long long)state.ttl_ms);
    raw(views[0], "PERSIST t");
    raw(views[1], "PERSIST t");
    state = query(lock);
    cr_assert(state.ttl_ms > 45000 && state.ttl_ms <= 50000, "%lld", (long long)state.ttl_ms);
    raw(views[2], "PERSIST t");
    cr_assert_eq(query(lock).ttl_ms, -1);
    forget();
}

Test(quorum_inspect, is_free_while_a_minority_has_it)
{
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    hold_on(MAJORITY - 1, "hlk-other-1-x:1", 30000);
    cr_assert(!query(lock).held);
    hold_on(MAJORITY, "hlk-other-1-x:1", 30000);
    struct hlk_lock_state state = query(lock);
    cr_assert(state.held && !state.mine);
    cr_assert_str_eq(state.holder, "hlk-other-1-x:1");
    forget();
}

/* RedissonRedLock's holder has another name on each master. */
Test(quorum_inspect, is_held_by_the_name_that_most_masters_say)
{
    static const char *const holders[] = { "hlk-a:1", "hlk-b:1", "hlk-c:1", "hlk-b:1" };
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    for (int i = 0; i < 4; i++)
        raw(views[i], "HSET t %s 1", holders[i]);
    struct hlk_lock_state state = query(lock);
    cr_assert(state.held);
    cr_assert_str_eq(state.holder, "hlk-b:1");
    forget();
}

Test(quorum_inspect, needs_no_minority)
{
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == MASTERS);
    for (int i = 0; i < MASTERS - MAJORITY; i++) {
        server_kill(masters[i]);
        quorum_forget_view(i);
    }
    cr_assert(query(lock).mine);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert(!query(lock).held);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

/* By its socket, or over TLS by its port. */
static void assert_names(int i)
{
    char port[16];
    snprintf(port, sizeof port, ":%d/", masters[i]->tls_port ? masters[i]->tls_port : masters[i]->port);
    cr_assert(strstr(hlk_last_error(), masters[i]->socket) || strstr(hlk_last_error(), port), "%s", hlk_last_error());
}

/* Two say that it is held, one that it is not; the other two may say either. */
Test(quorum_inspect, says_which_master_did_not_answer)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    hold_on(2, "hlk-other-1-x:1", 30000);
    for (int i = 3; i < MASTERS; i++) {
        server_kill(masters[i]);
        quorum_forget_view(i);
    }
    state.count = 7;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_CONNECT);
    cr_assert_not_null(strstr(hlk_last_error(), "3 of 5 masters answered, and it is held on 2"), "%s",
                       hlk_last_error());
    for (int i = 3; i < MASTERS; i++)
        assert_names(i);
    cr_assert_eq(state.count, 7, "not changed");
    for (int i = 0; i < 3; i++)
        raw(views[i], "DEL t");
    cr_assert(!query(lock).held, "no majority can have it");
}

Test(quorum_inspect, refuses_what_is_no_lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_lock *lock = quorum_lock(quorum_open_url(MASTERS, "", NULL), "t", NULL);
    for (int i = 0; i < MAJORITY; i++)
        raw(views[i], "SET t text");
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "WRONGTYPE"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_break(lock), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "2 of 5 masters answered, and it was broken on 0"), "%s",
                       hlk_last_error());
    cr_assert_eq(quorum_keys("t"), MAJORITY);
    forget();
    cr_assert_eq(hlk_lock_query(lock, NULL), HLK_E_INVALID);
}

/* --- list */

struct seen {
    char names[2000];       /* in the order of the calls, each behind a space */
    struct hlk_listed last; /* but its texts */
    char holder[192];
    int n, most;
};

static int note(const struct hlk_listed *lock, void *ctx)
{
    struct seen *seen = ctx;
    size_t len = strlen(seen->names);
    snprintf(seen->names + len, sizeof seen->names - len, " %s", lock->name);
    snprintf(seen->holder, sizeof seen->holder, "%s", lock->holder);
    seen->last = *lock;
    return ++seen->n == seen->most;
}

static struct seen list(hlk_client *client, struct hlk_list_opts *opts)
{
    struct seen seen = { .n = 0 };
    cr_assert_eq(hlk_lock_list(client, opts, note, &seen), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(opts->cursor, 0u);
    return seen;
}

static struct seen list_all(hlk_client *client)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    return list(client, &opts);
}

/* As another client has it on masters `from` to `to`. */
static void hold_at(const char *name, int from, int to)
{
    for (int i = from; i <= to; i++) {
        raw(views[i], "HSET %s hlk-other-1-x:1 1", name);
        raw(views[i], "PEXPIRE %s 60000", name);
    }
}

static void flush(void)
{
    for (int i = 0; i < MASTERS; i++)
        if (views[i])
            raw(views[i], "FLUSHALL");
}

Test(quorum_inspect, lists_once_what_a_majority_has)
{
    hlk_client *client = quorum_open_url(MASTERS, "", NULL);
    cr_assert_eq(list_all(client).n, 0);
    hold_at("t-minority", 0, MAJORITY - 2);
    hold_at("t-others", MASTERS - MAJORITY + 1, MASTERS - 1);
    hold_at("t", MASTERS - MAJORITY, MASTERS - 1);
    struct seen seen = list_all(client);
    cr_assert_str_eq(seen.names, " t");
    cr_assert_str_eq(seen.holder, "hlk-other-1-x:1");
    cr_assert_eq(seen.last.count, 1);
    cr_assert(seen.last.ttl_ms > 0 && seen.last.ttl_ms <= 60000);
    hold_at("t", 0, MASTERS - 1);
    cr_assert_str_eq(list_all(client).names, " t");
    flush();
}

Test(quorum_inspect, lists_what_this_client_holds_and_strings_apart)
{
    struct hlk_lock_opts strings = HLK_LOCK_OPTS_INIT;
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    char id[192];
    strings.kind = HLK_LOCK_STRING;
    hlk_client *client = quorum_open_url(3, "", NULL);
    hlk_lock *hash = quorum_lock(client, "t1", NULL), *string = quorum_lock(client, "t2", &strings);
    cr_assert_eq(hlk_lock_acquire(hash, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(string, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_hold_id(string, id, sizeof id), HLK_OK);
    cr_assert_str_eq(list_all(client).names, " t1");
    opts.kind = HLK_LOCK_STRING;
    struct seen seen = list(client, &opts);
    cr_assert_str_eq(seen.names, " t2");
    cr_assert_str_eq(seen.holder, id);
    opts.prefix = "u";
    cr_assert_eq(list(client, &opts).n, 0);
    cr_assert_eq(hlk_lock_release(hash), HLK_OK);
    cr_assert_eq(hlk_lock_release(string), HLK_OK);
}

/* The two that are away may have it: "t1" is on two of the other three, "t2" on one, "t3" was on those two. */
Test(quorum_inspect, lists_what_a_majority_may_have)
{
    hlk_client *client = quorum_open_url(MASTERS, "", NULL);
    hold_at("t1", 3, 4);
    hold_at("t2", 2, 2);
    hold_at("t3", 0, 1);
    for (int i = 0; i < MASTERS - MAJORITY; i++) {
        server_kill(masters[i]);
        quorum_forget_view(i);
    }
    struct seen seen = list_all(client);
    cr_assert_eq(seen.n, 2, "%s", seen.names);
    cr_assert_not_null(strstr(seen.names, " t1"), "%s", seen.names);
    cr_assert_not_null(strstr(seen.names, " t2"), "%s", seen.names);
    flush();
}

Test(quorum_inspect, lists_nothing_without_a_majority)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    struct seen seen = { .n = 0 };
    hlk_client *client = quorum_open_url(3, "", NULL);
    hold_at("t", 2, 2);
    for (int i = 0; i < 2; i++) {
        server_kill(masters[i]);
        quorum_forget_view(i);
    }
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_E_CONNECT);
    cr_assert_not_null(strstr(hlk_last_error(), "the keys of 2 of 3 masters cannot be read"), "%s", hlk_last_error());
    for (int i = 0; i < 2; i++)
        assert_names(i);
    flush();
}

/* Each call stops behind one lock. What it goes on with has those of the same step again. */
Test(quorum_inspect, lists_on_from_where_it_stopped)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    hlk_client *client = quorum_open_url(3, "", NULL);
    hold_at("t1", 0, 1);
    hold_at("t2", 1, 2);
    struct seen seen = { .most = 1 };
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(opts.stopped, 1);
    cr_assert_str_eq(seen.names, " t1");
    seen = (struct seen){ .n = 0 };
    opts.max_keys = 1; /* one step */
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(seen.names, " t1");
    cr_assert_neq(opts.cursor, 0u);
    opts.max_keys = 0;
    seen = list(client, &opts);
    cr_assert_not_null(strstr(seen.names, " t2"), "%s", seen.names);
    opts.cursor = (uint64_t)3 << 54;
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_E_INVALID);
    flush();
}

Test(quorum_inspect, lists_until_it_is_cancelled)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    struct seen seen = { .n = 0 };
    hlk_client *client = quorum_open_url(3, "", NULL);
    hold_at("t", 0, 2);
    opts.cancel = hlk_cancel_create(client);
    hlk_cancel_trigger(opts.cancel);
    cr_assert_eq(hlk_lock_list(client, &opts, note, &seen), HLK_INTERRUPTED);
    cr_assert_eq(seen.n, 0);
    hlk_cancel_destroy(opts.cancel);
    flush();
}

/* --- break */

Test(quorum_inspect, breaks_it_everywhere_and_tells_its_holder)
{
    hlk_client *client = quorum_open_url(MASTERS, "", NULL);
    hlk_lock *lock = quorum_lock(client, "t", NULL), *again = quorum_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == MASTERS);
    cr_assert_eq(hlk_lock_break(again), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(quorum_keys("t"), 0);
    cr_assert_str_eq(fixture_wait_event(HLK_EVENT_LOST, "t").why, "broken by this process");
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(quorum_inspect, breaks_what_another_process_holds)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "", NULL), "t", NULL);
    hlk_lock *theirs = quorum_lock(quorum_open_url(3, PATIENT, &opts), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(theirs), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

static void break_says(hlk_lock *lock, const char *holder, enum hlk_status status, const char *expected)
{
    char buf[192];
    cr_assert_eq(hlk_lock_break_holder(lock, holder, buf, sizeof buf), status, "%s", hlk_last_error());
    cr_assert_str_eq(buf, expected);
}

#define LATE "hlk-web-3-4711-9f3c:12"
#define NEXT "hlk-web-4-4712-9f3d:1"

/* Each master compares. What LATE still has on a minority is removed, and does not count. */
Test(quorum_inspect, breaks_the_hold_of_the_holder_that_is_named)
{
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "", NULL), "t", NULL);
    break_says(lock, LATE, HLK_NOT_HOLDER, "");
    for (int i = 0; i < 3; i++)
        raw(views[i], "HSET t %s 1", i < 2 ? NEXT : LATE);
    break_says(lock, LATE, HLK_NOT_HOLDER, NEXT);
    cr_assert_not_null(strstr(hlk_last_error(), NEXT), "%s", hlk_last_error());
    cr_assert_eq(quorum_keys("t"), 2);
    break_says(lock, NEXT, HLK_OK, NEXT);
    cr_assert_eq(quorum_keys("t"), 0);
    raw(views[0], "HSET t " LATE " 1");
    raw(views[1], "HSET t " LATE " 1");
    raw(views[2], "HSET t " NEXT " 1");
    break_says(lock, LATE, HLK_OK, LATE);
    cr_assert_eq(quorum_keys("t"), 1);
    break_says(lock, NULL, HLK_OK, NEXT);
    break_says(lock, NULL, HLK_NOT_HOLDER, "");
}

/* It ran on both that are there. */
Test(quorum_inspect_proxied, is_unsure_of_a_break_without_a_majority_of_answers)
{
    hlk_lock *lock = quorum_lock(quorum_open_url(3, "", NULL), "t", NULL);
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER); /* the script is loaded */
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    server_kill(masters[0]);
    quorum_forget_view(0);
    proxy_arm(proxies[1], PROXY_SWALLOW, PROXY_SCRIPTS, 1);
    cr_assert_eq(hlk_lock_break(lock), HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "1 of 3 masters answered, and it was broken on 1"), "%s",
                       hlk_last_error());
    cr_assert_eq(quorum_keys("t"), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}
