/* Sentinels that go, hang, want a password, or are named by another one. */
#include "support/acl_page.h"
#include "support/sentinels.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    sentinels_begin(1);
}

TestSuite(sentinels, .init = start, .fini = sentinels_end, .timeout = 120);

static hlk_client *open_patient(const char *url)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 60000;
    return fixture_open_at(url, &opts);
}

/* Over the failover in between, too. */
static void hold_through_a_failover(hlk_client *client)
{
    uint64_t before = fixture_counters(client).reconnects;
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    sentinels_await_copy("t");
    sentinels_fail_over();
    WAIT_FOR(fixture_counters(client).reconnects > before);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

Test(sentinels, with_one_hung_and_one_gone_tell_of_a_failover)
{
    hlk_client *client = open_patient(sentinels.url);
    sentinels_pause_sentinel(1);
    sentinels_kill_sentinel(2);
    hold_through_a_failover(client);
}

/* Shows: S9 */
Test(sentinels, all_gone_disturb_nothing_until_they_are_back)
{
    hlk_client *client = open_patient(sentinels.url);
    for (int i = 0; i < SENTINELS; i++)
        sentinels_kill_sentinel(i);
    WAIT_FOR(fixture_logged("no sentinel of 3 answered"));
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    uint64_t before = fixture_counters(client).reconnects;
    raw(sentinels_at(0), "CLIENT KILL TYPE normal SKIPME yes");
    WAIT_FOR(fixture_counters(client).reconnects > before);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < SENTINELS; i++)
        sentinels_restart_sentinel(i);
    WAIT_FOR(fixture_logged("answers again"));
    hold_through_a_failover(client);
}

Test(sentinels, that_the_url_does_not_name_are_learned)
{
    hlk_client *client = open_patient(sentinels_url(0, 1, SENTINELS_SERVICE));
    for (int i = 0; i < SENTINELS; i++)
        WAIT_FOR(raw_clients(sentinels.sentinel_views[i], "pubsub") > 0);
    sentinels_kill_sentinel(0);
    int before = sentinels_master();
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    sentinels_await_copy("t");
    sentinels_kill(before);
    (void)sentinels_await_switch(before);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

static void allow_sentinels_user(const char *password)
{
    for (int i = 0; i < SENTINELS; i++)
        acl_page_run(sentinels.sentinel_views[i], "Sentinels", password);
}

Test(sentinels, that_want_a_user_and_a_password_get_them)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *refused;
    sentinels_set_user("watcher", "of-each-other");
    allow_sentinels_user("of-the-sentinels");
    opts.reconnect_timeout_ms = 2000;
    cr_assert_eq(hlk_client_open(&refused, sentinels.url, &opts), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "no sentinel of 3 answered ("), "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "NOAUTH"), "%s", hlk_last_error());

    opts.sentinel_username = "locks";
    opts.sentinel_password = "wrong-of-the-sentinels";
    cr_assert_eq(hlk_client_open(&refused, sentinels.url, &opts), HLK_E_AUTH);
    cr_assert_null(strstr(hlk_last_error(), "wrong-of"), "%s", hlk_last_error());

    opts.sentinel_password = "of-the-sentinels";
    opts.reconnect_timeout_ms = 60000;
    hold_through_a_failover(fixture_open_at(sentinels.url, &opts));
}

Test(sentinels, that_do_not_know_the_service_say_so)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *refused;
    cr_assert_eq(hlk_client_open(&refused, sentinels_url(0, SENTINELS, "nobody"), &opts), HLK_E_SERVER);
    cr_assert_not_null(strstr(hlk_last_error(), "the sentinels do not know a master \"nobody\""), "%s",
                       hlk_last_error());
}

static void monitor_anew(const struct server *master)
{
    for (int i = 0; i < SENTINELS; i++) {
        redisContext *view = sentinels.sentinel_views[i];
        cr_assert_str_eq(raw(view, "SENTINEL REMOVE " SENTINELS_SERVICE), "OK");
        cr_assert_str_eq(raw(view, "SENTINEL MONITOR " SENTINELS_SERVICE " 127.0.0.1 %d 2", master->port), "OK");
    }
}

/* Their epochs begin at 0 again, and the master of before lives and takes writes. */
/* Shows: S11 */
Test(sentinels, that_monitor_anew_elsewhere_are_followed)
{
    struct server *elsewhere = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    hlk_client *client = open_patient(sentinels.url);
    hold_through_a_failover(client);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    monitor_anew(elsewhere);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    redisContext *view = raw_open(elsewhere);
    cr_assert_eq(raw_int(view, "EXISTS t"), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    redisFree(view);
    fixture_close_all();
    server_finish(elsewhere);
}
