/* test_quorum.c - a lock over five masters: what is written, and which masters may be away. */
/* Shows: P33 */
#include "quorum_fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    quorum_begin(0);
}

TestSuite(quorum, .init = start, .fini = quorum_end, .timeout = 60);

static void down(int i)
{
    quorum_forget_view(i);
    server_kill(masters[i]);
}

/* As messages name the master: its URL without a scheme. */
static const char *endpoint(int i)
{
    const char *url = hlk_test_url(masters[i]), *host = strstr(url, "://");
    return host ? host + strlen("://") : url + strlen("unix:");
}

Test(quorum, writes_the_redis_pages_string_to_every_master)
{
    char id[192];
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, NULL), "t", NULL);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_hold_id(q, id, sizeof id), HLK_OK);
    WAIT_FOR(quorum_keys("t") == MASTERS); /* the majority's answers were enough */
    for (int i = 0; i < MASTERS; i++) {
        cr_assert(strstr(raw(views[i], "GET t"), id));
        cr_assert_gt(raw_int(views[i], "PTTL t"), 9000);
        cr_assert_leq(raw_int(views[i], "PTTL t"), 10000);
    }
    cr_assert_leq(hlk_quorum_left_ms(q), 10000 - 102);
    cr_assert_gt(hlk_quorum_left_ms(q), 9000);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
    cr_assert_eq(hlk_quorum_left_ms(q), 0);
    cr_assert_eq(hlk_quorum_release(q), HLK_NOT_HOLDER);
}

Test(quorum, writes_redissons_hash_to_every_master)
{
    char id[192];
    struct hlk_quorum_opts opts = quorum_opts();
    opts.format = HLK_QUORUM_HASH;
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, NULL), "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_hold_id(q, id, sizeof id), HLK_OK);
    WAIT_FOR(quorum_keys("t") == MASTERS);
    for (int i = 0; i < MASTERS; i++)
        cr_assert_eq(raw_int(views[i], "HGET t %s", id), 1);
    cr_assert_eq(hlk_quorum_extend(q, 20000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_quorum_left_ms(q), 19000);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

static void acquires_and_releases(hlk_quorum *q)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    }
}

Test(quorum, needs_no_minority_to_be_there)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 500;
    down(4);
    hlk_client *client = quorum_open(MASTERS, &opts);
    acquires_and_releases(quorum_make(client, "t", NULL));
    down(1);
    acquires_and_releases(quorum_make(client, "u", NULL));
}

/* asks: a slow or dead minority costs nothing measurable */
Test(quorum, is_not_delayed_by_a_minority_that_stands_still)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.node_timeout_ms = 5000;
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.reply_timeout_ms = 20000; /* nothing but the majority's answers ends a wait */
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, &client_opts), "t", &opts);
    server_pause(masters[0]);
    server_pause(masters[3]);
    int64_t began = test_now_ms();
    acquires_and_releases(q);
    cr_assert_lt(running_ms(began), 2500);
    server_resume(masters[0]);
    server_resume(masters[3]);
    WAIT_FOR(quorum_keys("t") == 0); /* what they ran late was taken back */
}

Test(quorum, fails_at_once_without_a_majority_and_says_why)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client = quorum_open(MASTERS, &opts);
    hlk_quorum *q = quorum_make(client, "t", NULL);
    for (int i = 0; i < MAJORITY; i++)
        down(i);
    int64_t began = test_now_ms();
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_E_CONNECT, "%s", hlk_last_error());
    cr_assert_lt(running_ms(began), 2000);
    for (int i = 0; i < MAJORITY; i++)
        cr_assert(strstr(hlk_last_error(), endpoint(i)), "%s", hlk_last_error());
    cr_assert_not(strstr(hlk_last_error(), endpoint(4)), "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum, waits_for_a_majority_to_come_back)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, &opts), "t", NULL);
    for (int i = 0; i < MAJORITY; i++)
        down(i);
    cr_assert_eq(hlk_quorum_acquire(q, 50), HLK_E_CONNECT, "%s", hlk_last_error());
    server_restart(masters[1], false);
    views[1] = raw_open(masters[1]);
    cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
}

Test(quorum, client_opens_with_a_majority_and_not_without)
{
    const char *urls[MASTERS];
    hlk_client *client;
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 300;
    for (int i = 0; i < MASTERS; i++)
        urls[i] = hlk_test_url(masters[i]);
    for (int i = 0; i < MAJORITY; i++)
        down(i);
    cr_assert_eq(hlk_quorum_open(&client, urls, MASTERS, &opts), HLK_E_CONNECT);
    cr_assert_null(client);
    for (int i = 0; i < MAJORITY; i++)
        cr_assert(strstr(hlk_last_error(), endpoint(i)), "%s", hlk_last_error());
    urls[4] = urls[3];
    cr_assert_eq(hlk_quorum_open(&client, urls, MASTERS, &opts), HLK_E_INVALID, "%s", hlk_last_error());
    urls[4] = "redis+cluster://127.0.0.1:1";
    cr_assert_eq(hlk_quorum_open(&client, urls, MASTERS, &opts), HLK_E_INVALID, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_open(&client, urls, 0, &opts), HLK_E_INVALID);
    cr_assert_eq(hlk_quorum_open(&client, urls, HLK_QUORUM_MAX + 1, &opts), HLK_E_INVALID);
}

static int threads(void)
{
    int n = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks))
        n++;
    closedir(tasks);
    return n;
}

Test(quorum, of_five_masters_has_one_loop_and_one_events_thread)
{
    hlk_client *one;
    cr_assert_eq(hlk_client_open(&one, hlk_test_url(masters[0]), NULL), HLK_OK); /* the sanitizers have threads too */
    int before = threads();
    hlk_quorum *q = quorum_make(quorum_open(MASTERS, NULL), "t", NULL);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(threads(), before + 2);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK);
    cr_assert_eq(threads(), before + 2);
    hlk_client_close(one);
}

Test(quorum, client_makes_locks_only_and_others_make_no_quorum)
{
    hlk_client *one, *all = quorum_open(3, NULL);
    cr_assert_null(hlk_latch_create(all, "t"));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert(strstr(hlk_last_error(), "on one server"), "%s", hlk_last_error());
    cr_assert_null(hlk_semaphore_create(all, "t"));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_null(hlk_barrier_create(all, "t", 2, 0));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_null(hlk_condition_create(all, "t", 0));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    cr_assert_eq(hlk_client_open(&one, hlk_test_url(masters[0]), NULL), HLK_OK);
    cr_assert_null(hlk_quorum_create(one, "t", NULL));
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    hlk_client_close(one);
}

Test(quorum, options_are_checked)
{
    hlk_client *client = quorum_open(3, NULL);
    struct hlk_quorum_opts opts = quorum_opts();
#define BAD(field, value)                                                                                              \
    opts = quorum_opts();                                                                                              \
    opts.field = value;                                                                                                \
    cr_assert_null(hlk_quorum_create(client, "t", &opts));                                                             \
    cr_assert_eq(hlk_last_status(), HLK_E_INVALID)
    BAD(format, 2);
    BAD(reserved, 1);
    BAD(ttl_ms, 99);
    BAD(node_timeout_ms, 10001);
    BAD(clock_drift_factor, 0.6);
    BAD(retry_delay_ms, -1);
    BAD(retry_jitter_ms, 60001);
    BAD(max_hold_ms, -1);
    cr_assert_null(hlk_quorum_create(client, "", NULL));
    cr_assert_null(hlk_quorum_create(client, NULL, NULL));
    cr_assert_eq(hlk_quorum_acquire(NULL, HLK_NOWAIT), HLK_E_INVALID);
    cr_assert_eq(hlk_quorum_release(NULL), HLK_E_INVALID);
}

Test(quorum, is_not_reentrant_and_the_handle_is_the_holder)
{
    hlk_client *client = quorum_open(3, NULL), *elsewhere = quorum_open(3, NULL);
    hlk_quorum *q = quorum_make(client, "t", NULL), *same = quorum_make(client, "t", NULL),
               *other = quorum_make(elsewhere, "t", NULL);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_DEADLOCK);
    cr_assert_eq(hlk_quorum_acquire(same, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_acquire(same, 20), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_acquire(other, HLK_NOWAIT), HLK_BUSY, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_acquire(other, 20), HLK_TIMEOUT, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(other), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK);
    cr_assert_eq(hlk_quorum_acquire(other, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(other), HLK_OK);
}

/* A master's restart is known by its uptime, and to a client that knew it before by its run id. */
Test(quorum, leaves_out_a_master_within_its_restart_delay)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.restart_delay_ms = 60000;
    hlk_client *client = quorum_open(3, NULL);
    hlk_quorum *q = quorum_make(client, "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_E_CONNECT);
    cr_assert(strstr(hlk_last_error(), "restart_delay_ms"), "%s", hlk_last_error());
    cr_assert_eq(quorum_keys("t"), 0);
}

Test(quorum, tells_that_without_info_a_masters_start_is_unknown)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.restart_delay_ms = 60000;
    for (int i = 0; i < 3; i++)
        (void)raw(views[i], "ACL SETUSER default -info");
    hlk_quorum *q = quorum_make(quorum_open(3, NULL), "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_E_CONNECT);
    cr_assert(strstr(hlk_last_error(), "without the right to INFO"), "%s", hlk_last_error());
    for (int i = 0; i < 3; i++)
        (void)raw(views[i], "ACL SETUSER default +info");
}

/* Longer than a wait for servers that are away. It knows when they count. */
Test(quorum, waits_for_masters_that_have_just_started)
{
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.reconnect_timeout_ms = 2500; /* less than is waited for, and enough to open with TLS */
    hlk_client *client = quorum_open(3, &client_opts);
    static const char uptime_s[] = "return tonumber(redis.call('INFO', 'server'):match('uptime_in_seconds:(%d+)'))";
    struct hlk_quorum_opts opts = quorum_opts();
    struct hlk_acquire_opts how = HLK_ACQUIRE_OPTS_INIT;
    opts.restart_delay_ms = 5000 + 1000 * raw_int(views[0], "EVAL %s 0", uptime_s);
    hlk_quorum *q = quorum_make(client, "t", &opts);
    how.wait_ms = HLK_NOWAIT;
    cr_assert_eq(hlk_quorum_acquire_with(q, &how), HLK_E_CONNECT, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), " ms ago, counts from "), "%s", hlk_last_error());
    how.wait_ms = 300;
    cr_assert_eq(hlk_quorum_acquire_with(q, &how), HLK_E_CONNECT, "%s", hlk_last_error());
    how.wait_ms = HLK_FOREVER;
    cr_assert_eq(hlk_quorum_acquire_with(q, &how), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
}

Test(quorum, close_releases_what_is_held)
{
    const char *urls[MASTERS];
    hlk_client *client;
    for (int i = 0; i < MASTERS; i++)
        urls[i] = hlk_test_url(masters[i]);
    cr_assert_eq(hlk_quorum_open(&client, urls, MASTERS, NULL), HLK_OK);
    struct hlk_quorum_opts opts = quorum_opts();
    hlk_quorum *q = hlk_quorum_create(client, "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    hlk_client_close(client);
    cr_assert_eq(quorum_keys("t"), 0);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_E_CLOSED);
    hlk_quorum_destroy(q);
}

Test(quorum, destroy_releases_what_is_held)
{
    struct hlk_quorum_opts opts = quorum_opts();
    hlk_quorum *q = hlk_quorum_create(quorum_open(3, NULL), "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    hlk_quorum_destroy(q);
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum, scripts_that_a_master_has_forgotten_are_sent_again)
{
    hlk_quorum *q = quorum_make(quorum_open(3, NULL), "t", NULL);
    for (int i = 0; i < 3; i++)
        (void)raw(views[i], "SCRIPT FLUSH");
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < 3; i++)
        (void)raw(views[i], "SCRIPT FLUSH");
    cr_assert_eq(hlk_quorum_extend(q, 20000), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < 3; i++)
        (void)raw(views[i], "SCRIPT FLUSH");
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum, a_key_of_another_type_on_a_majority_is_a_fault)
{
    hlk_quorum *q = quorum_make(quorum_open(3, NULL), "t", NULL);
    (void)raw(views[0], "RPUSH t x");
    cr_assert_eq(hlk_quorum_acquire(q, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(q), HLK_OK);
    (void)raw(views[1], "RPUSH t x");
    cr_assert_eq(hlk_quorum_acquire(q, WAIT_MS), HLK_E_SERVER);
    cr_assert(strstr(hlk_last_error(), endpoint(1)), "%s", hlk_last_error());
    (void)raw(views[0], "DEL t");
    (void)raw(views[1], "DEL t");
}
