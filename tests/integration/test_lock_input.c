/* Names of locks, and bad arguments: each gives an error, and nothing is changed. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(lock_names, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(lock_arguments, .init = start, .fini = fixture_end, .timeout = 60);

/* --- names */

static int64_t waiting(hlk_lock *lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    return state.waiting;
}

static void names_are_keys_and_wake(int kind)
{
    const char *names[] = { "t",       "t with blanks", "t{tag}",        "{t}",          "t{",        "t}",
                            "t{}x",    "t{a}{b}",       "t\"quoted\"",   "t\nline",      "t\xff\xfe", "t%s%n",
                            "t:colon", "t*[a]?",        "t\xe2\x82\xac", "t/../../slash" };
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (fixture.server->acl && names[i][0] != 't')
            continue; /* not one of its keys */
        hlk_lock *lock = fixture_lock(client, names[i], &opts);
        cr_assert_str_eq(hlk_lock_name(lock), names[i]);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s: %s", names[i], hlk_last_error());
        cr_assert_eq(raw_int(fixture.redis, "EXISTS %b", names[i], strlen(names[i])), 1);
        struct actor *waiter = actor_start(fixture_lock(other, names[i], &opts), NULL);
        WAIT_FOR(waiting(lock) == 1);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        cr_assert_eq(actor_status(waiter), HLK_OK);
        cr_assert_eq(actor_end(waiter), HLK_OK);
        WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0);
    }
    cr_assert_eq(fixture_counters(other).woken_by_ttl, 0u);
}

/* asks A8 redisson 3.52: names containing braces; all keys of a lock share one hash tag */
Test(lock_names, of_any_bytes_are_keys_as_is_and_wake_their_waiters)
{
    names_are_keys_and_wake(HLK_LOCK_PLAIN);
}

Test(lock_names, of_any_bytes_may_fair_locks_have_too)
{
    names_are_keys_and_wake(HLK_LOCK_FAIR);
}

Test(lock_names, are_1_to_512_bytes)
{
    hlk_client *client = fixture_open(NULL);
    char name[514];
    memset(name, 't', sizeof name);
    name[513] = '\0';
    cr_assert_null(hlk_lock_create(client, name, NULL));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_not_null(strstr(hlk_last_error(), "512"), "%s", hlk_last_error());
    name[512] = '\0';
    hlk_lock *longest = fixture_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(longest, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(fixture_try(longest), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(longest), HLK_OK);
    cr_assert_null(hlk_lock_create(client, "", NULL));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_null(hlk_lock_create(client, NULL, NULL));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
}

/* --- arguments */

Test(lock_arguments, a_null_lock_is_invalid_everywhere)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    char buf[8];
    cr_assert_eq(hlk_lock_acquire(NULL, HLK_NOWAIT), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_acquire_with(NULL, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_release(NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_extend(NULL, 1000), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_break(NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_query(NULL, &state), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_hold_id(NULL, buf, sizeof buf), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_release_async(NULL, NULL, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_holds(NULL), 0);
    cr_assert_eq(hlk_lock_left_ms(NULL), 0);
    cr_assert_eq(hlk_lock_held_until(NULL), 0);
    cr_assert_null(hlk_lock_name(NULL));
    cr_assert_eq(hlk_lock_lost_fd(NULL), -1);
    hlk_lock_destroy(NULL);
    cr_assert_null(hlk_lock_create(NULL, "t", NULL));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
}

Test(lock_arguments, leases_are_from_100_ms_to_a_year)
{
    const int64_t year = (int64_t)365 * 24 * 3600 * 1000, bad[] = { 1, 99, year * 2, INT64_MAX, -2, -52, INT64_MIN };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
        opts.lease_ms = lock_opts.lease_ms = bad[i];
        cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_E_INVALID, "%lld", (long long)bad[i]);
        cr_assert_null(hlk_lock_create(client, "t", &lock_opts), "%lld", (long long)bad[i]);
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    }
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = year;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), year - 60000);
    cr_assert_eq(hlk_lock_extend(lock, 99), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_extend(lock, 0), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_extend(lock, -1), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lock_arguments, backoffs_are_from_1_ms_to_a_minute_and_rise)
{
    static const int bad[][2] = { { -1, 0 }, { 0, -1 }, { 60001, 0 }, { 0, 60001 }, { 2, 1 }, { 60000, 1 } },
                     good[][2] = { { 0, 0 }, { 1, 1 }, { 60000, 60000 }, { 500, 0 }, { 0, 1 } };
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        opts.backoff_min_ms = bad[i][0];
        opts.backoff_max_ms = bad[i][1];
        cr_assert_null(hlk_lock_create(client, "t", &opts), "%d %d", bad[i][0], bad[i][1]);
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
        cr_assert_not_null(strstr(hlk_last_error(), "backoff_min_ms"), "%s", hlk_last_error());
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        opts.backoff_min_ms = good[i][0];
        opts.backoff_max_ms = good[i][1];
        cr_assert_not_null(fixture_lock(client, "t", &opts));
    }
}

Test(lock_arguments, a_locks_lease_is_used_unless_a_call_overrides_it)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    lock_opts.lease_ms = 90000;
    hlk_lock *lock = fixture_lock(client, "t", &lock_opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 60000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    opts.lease_ms = HLK_RENEWED; /* the watchdog's: 30 s */
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 30000);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lock_arguments, sizes_of_structs_are_checked)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct {
        struct hlk_acquire_opts opts;
        unsigned char later[16];
    } newer = { .opts = HLK_ACQUIRE_OPTS_INIT };
    struct hlk_acquire_opts none = HLK_ACQUIRE_OPTS_INIT;
    none.size = 0;
    cr_assert_eq(hlk_lock_acquire_with(lock, &none), HLK_E_INVALID);
    newer.opts.size = sizeof newer;
    cr_assert_eq(hlk_lock_acquire_with(lock, &newer.opts), HLK_OK, "zeros mean what an absent field means");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    newer.later[sizeof newer.later - 1] = 1;
    cr_assert_eq(hlk_lock_acquire_with(lock, &newer.opts), HLK_E_INVALID);
}

Test(lock_arguments, an_older_callers_shorter_struct_keeps_its_meaning)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.size = offsetof(struct hlk_acquire_opts, lease_ms); /* has only wait_ms */
    opts.wait_ms = HLK_NOWAIT;
    opts.lease_ms = 1; /* beyond the struct: not read */
    opts.flags = ~0u;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

Test(lock_arguments, unknown_kinds_and_flags_are_invalid)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    lock_opts.kind = 99;
    cr_assert_null(hlk_lock_create(client, "t", &lock_opts));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    lock_opts.kind = HLK_LOCK_PLAIN;
    lock_opts.max_hold_ms = -1;
    cr_assert_null(hlk_lock_create(client, "t", &lock_opts));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    lock_opts.max_hold_ms = 0;
    lock_opts.flags = 2;
    cr_assert_null(hlk_lock_create(client, "t", &lock_opts));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    opts.flags = 0x8000u;
    cr_assert_eq(hlk_lock_acquire_with(fixture_lock(client, "t", NULL), &opts), HLK_E_INVALID);
    opts.flags = 0;
    opts.reserved = 1;
    cr_assert_eq(hlk_lock_acquire_with(fixture_lock(client, "t", NULL), &opts), HLK_E_INVALID);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}
