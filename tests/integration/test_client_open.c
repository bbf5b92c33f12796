/* Opening a client: URLs, options, credentials and missing rights, servers that are late or missing. */
#include "support/acl.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void start(void)
{
    fixture_begin(SERVER_TCP);
}

static void start_proxied(void)
{
    fixture_begin(STAGE_PROXY);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

TestSuite(client_open, .init = start, .fini = fixture_end, .timeout = 90);
TestSuite(client_open_wire, .init = start_proxied, .fini = fixture_end, .timeout = 90);

static enum hlk_status try_open(const char *url, const struct hlk_client_opts *opts)
{
    struct hlk_client_opts own = fixture_opts();
    hlk_client *client = (hlk_client *)1;
    enum hlk_status status = hlk_client_open(&client, url, opts ? opts : &own);
    if (status == HLK_OK)
        hlk_client_close(client);
    else
        cr_assert_null(client, "*out is NULL on every fault");
    return status;
}

Test(client_open, refuses_bad_urls_and_names_what_is_wrong)
{
    static const char *const bad[] = {
        "",
        "redis",
        "http://localhost",
        "redis://",
        "redis://host:0",
        "redis://host:65536",
        "redis://host:x",
        "redis://host/x",
        "redis://host/-1",
        "redis://[::1",
        "unix:",
        "local:bad name",
        "rediss://",
        "redis+sentinel://localhost",
        "redis+cluster://localhost/1",
        "redis://h:1:2",
        "redis://a b",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(try_open(bad[i], NULL), HLK_E_INVALID, "%s", bad[i]);
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
        cr_assert_str_not_empty(hlk_last_error());
    }
    cr_assert_eq(try_open(NULL, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_client_open(NULL, hlk_test_url(fixture.server), NULL), HLK_E_INVALID);
}

Test(client_open, never_shows_a_password)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.log_level = HLK_LOG_DEBUG;
    opts.reconnect_timeout_ms = 1000;
    cr_assert_eq(try_open("redis://user:s3cret@host:notaport", &opts), HLK_E_INVALID);
    cr_assert_null(strstr(hlk_last_error(), "s3cret"), "%s", hlk_last_error());
    cr_assert_eq(try_open("redis://user:s3cret@127.0.0.1:1", &opts), HLK_E_CONNECT);
    cr_assert_null(strstr(hlk_last_error(), "s3cret"), "%s", hlk_last_error());
    char url[128];
    snprintf(url, sizeof url, "redis://nobody:s3cret@127.0.0.1:%d", fixture.server->port);
    cr_assert_eq(try_open(url, &opts), HLK_E_AUTH);
    cr_assert_null(strstr(hlk_last_error(), "s3cret"), "%s", hlk_last_error());
    cr_assert_not(fixture_logged("s3cret"));
}

Test(client_open, of_bad_options_is_invalid)
{
    struct hlk_client_opts opts = fixture_opts();
#define BAD(change)                                                                                                    \
    do {                                                                                                               \
        opts = fixture_opts();                                                                                         \
        change;                                                                                                        \
        cr_assert_eq(try_open(hlk_test_url(fixture.server), &opts), HLK_E_INVALID, #change);                           \
        cr_assert_str_not_empty(hlk_last_error());                                                                     \
    } while (0)
    BAD(opts.size = 0);
    BAD(opts.watchdog_ms = 299);
    BAD(opts.watchdog_ms = -1);
    BAD(opts.watchdog_ms = (int64_t)366 * 24 * 3600 * 1000 * 2);
    BAD(opts.reply_timeout_ms = 9);
    BAD(opts.reply_timeout_ms = -1);
    BAD(opts.at_risk_ms = -1);
    BAD(opts.at_risk_ms = 15001);
    BAD((opts.watchdog_ms = 3000, opts.at_risk_ms = 1501));
    BAD(opts.renew_ms = -1);
    BAD(opts.renew_ms = 1499);
    BAD(opts.renew_ms = 10001);
    BAD((opts.watchdog_ms = 3000, opts.renew_ms = 1001));
    BAD(opts.flags = 0x8000u);
    BAD(opts.label = "with blank");
    BAD(opts.label = "123456789012345678901234567890123");
#undef BAD
}

Test(client_open, of_nobody_is_connect_and_names_the_endpoint)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 300;
    int64_t before = test_now_ms();
    cr_assert_eq(try_open("redis://127.0.0.1:1", &opts), HLK_E_CONNECT);
    cr_assert_geq(test_now_ms() - before, 300, "it rides out that long");
    cr_assert_not_null(strstr(hlk_last_error(), "127.0.0.1:1"), "%s", hlk_last_error());
    cr_assert_eq(try_open("unix:/no/such/socket", &opts), HLK_E_CONNECT);
    cr_assert_not_null(strstr(hlk_last_error(), "/no/such/socket"), "%s", hlk_last_error());
}

Test(client_open_wire, of_a_server_that_accepts_but_is_silent_is_connect)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 300;
    opts.reply_timeout_ms = 100;
    proxy_freeze(fixture.proxy, true);
    cr_assert_eq(try_open(fixture.url, &opts), HLK_E_CONNECT);
    proxy_freeze(fixture.proxy, false);
    cr_assert_eq(try_open(fixture.url, NULL), HLK_OK);
}

static void *listen_again(void *proxy)
{
    test_sleep_ms(200);
    proxy_refuse(proxy, false);
    return NULL;
}

Test(client_open_wire, rides_out_a_server_that_is_late)
{
    pthread_t thread;
    proxy_refuse(fixture.proxy, true);
    int64_t began = test_now_ms();
    pthread_create(&thread, NULL, listen_again, fixture.proxy);
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = WAIT_MS;
    cr_assert_eq(try_open(fixture.url, &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, 200, "nobody listened until then");
    pthread_join(thread, NULL);
}

Test(client_open, with_a_wrong_password_is_auth)
{
    char url[160];
    raw(fixture.redis, "ACL SETUSER joe on >right ~* &* +@all");
    snprintf(url, sizeof url, "redis://joe:wrong@127.0.0.1:%d", fixture.server->port);
    int64_t before = test_now_ms();
    cr_assert_eq(try_open(url, NULL), HLK_E_AUTH);
    cr_assert_lt(running_ms(before), 9000, "waiting would not cure it: not ridden out");
    cr_assert_not_null(strstr(hlk_last_error(), "127.0.0.1"), "%s", hlk_last_error());
    struct hlk_client_opts opts = fixture_opts();
    opts.password = "right"; /* takes precedence over the URL's */
    cr_assert_eq(try_open(url, &opts), HLK_OK, "%s", hlk_last_error());
    opts.username = "nobody";
    cr_assert_eq(try_open(url, &opts), HLK_E_AUTH);
}

Test(client_open, takes_credentials_with_escapes)
{
    char url[160];
    raw(fixture.redis, "ACL SETUSER j@e on >%s ~* &* +@all", "p:s/w%d");
    snprintf(url, sizeof url, "redis://j%%40e:p%%3As%%2Fw%%25d@127.0.0.1:%d", fixture.server->port);
    cr_assert_eq(try_open(url, NULL), HLK_OK, "%s", hlk_last_error());
}

/* Never the default user instead, which may have all rights. */
Test(client_open, as_a_user_without_a_password_is_that_user)
{
    char url[160];
    raw(fixture.redis, "ACL SETUSER bob on nopass ~* &* +@all");
    raw(fixture.redis, "ACL SETUSER joe on >right ~* &* +@all");
    snprintf(url, sizeof url, "redis://bob@127.0.0.1:%d", fixture.server->port);
    fixture_open_at(url, NULL);
    cr_assert_not_null(strstr(raw(fixture.redis, "CLIENT LIST"), "user=bob"));
    snprintf(url, sizeof url, "redis://joe@127.0.0.1:%d", fixture.server->port);
    cr_assert_eq(try_open(url, NULL), HLK_E_AUTH);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", fixture.server->port);
    struct hlk_client_opts opts = fixture_opts();
    opts.username = "joe";
    cr_assert_eq(try_open(url, &opts), HLK_E_AUTH);
}

/* Makes a user "weak", password pw, with the given rules (separated by blanks). Returns the URL for it. */
static const char *weak_user(const char *rules)
{
    static char url[160], line[512];
    const char *argv[64] = { "ACL", "SETUSER", "weak", "reset", "on", ">pw" };
    int n = 6;
    char *save = NULL;
    snprintf(line, sizeof line, "%s", rules);
    for (char *word = strtok_r(line, " ", &save); word && n < 64; word = strtok_r(NULL, " ", &save))
        argv[n++] = word;
    cr_assert_str_eq(raw_argv(fixture.redis, n, argv, NULL), "OK");
    snprintf(url, sizeof url, "redis://weak:pw@127.0.0.1:%d", fixture.server->port);
    return url;
}

static void assert_missed(const char *command)
{
    char rules[512];
    snprintf(rules, sizeof rules, "~* " ACL_CHANNELS " " ACL_COMMANDS " -%s", command);
    cr_assert_eq(try_open(weak_user(rules), NULL), HLK_E_AUTH, "%s", command);
    cr_assert_not_null(strstr(hlk_last_error(), command), "%s: %s", command, hlk_last_error());
}

/* asks A8 redisson 5439: a missing right is found when connecting, and named */
Test(client_open, without_a_needed_command_is_auth_and_names_it)
{
    static const char *const missing[] = { "exists",  "hexists",          "hkeys", "hgetall", "pttl",
                                           "pexpire", "zscore",           "hdel",  "del",     "zadd",
                                           "time",    "zremrangebyscore", "hset",  "zrem",    "zrangebyscore",
                                           "zcount",  "zrevrangebyscore", "zrank", "zrange",  "zrevrank",
                                           "zmscore", "zpopmin" };
    static const char *const of_messages[] = { "publish", "pubsub", "subscribe", "unsubscribe", "ping" };
    char rules[512];
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        assert_missed(missing[i]);
    for (size_t i = 0; i < sizeof of_messages / sizeof *of_messages; i++)
        assert_missed(of_messages[i]);
    snprintf(rules, sizeof rules, "~* " ACL_CHANNELS " " ACL_COMMANDS " -eval -evalsha");
    cr_assert_eq(try_open(weak_user(rules), NULL), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "eval"), "%s", hlk_last_error());
    snprintf(rules, sizeof rules, "~* " ACL_CHANNELS " " ACL_COMMANDS);
    cr_assert_eq(try_open(weak_user(rules), NULL), HLK_OK, "%s", hlk_last_error());
}

/* HLK_OPEN_NO_PUBSUB */
Test(client_open, without_pubsub_needs_no_right_but_limits_the_kinds)
{
    struct hlk_client_opts opts = fixture_opts();
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    char rules[512];
    snprintf(rules, sizeof rules, "~* resetchannels " ACL_POLL_COMMANDS);
    cr_assert_eq(try_open(weak_user(rules), NULL), HLK_E_AUTH);
    opts.flags = HLK_OPEN_NO_PUBSUB;
    hlk_client *client = fixture_open_at(weak_user(rules), &opts);
    static const int kinds[] = {
        HLK_LOCK_PLAIN, HLK_LOCK_FENCED, HLK_LOCK_FAIR, HLK_LOCK_NON_REENTRANT, HLK_LOCK_NON_REENTRANT_FAIR,
        HLK_LOCK_STRING
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lock_opts.kind = kinds[i];
        cr_assert_null(hlk_lock_create(client, "t", &lock_opts));
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
        cr_assert_not_null(strstr(hlk_last_error(), "HLK_OPEN_NO_PUBSUB"), "%s", hlk_last_error());
    }
    snprintf(rules, sizeof rules, "~* resetchannels " ACL_POLL_COMMANDS " -zpopmin");
    cr_assert_eq(try_open(weak_user(rules), &opts), HLK_E_AUTH, "the other rights are looked at");
    cr_assert_not_null(strstr(hlk_last_error(), "zpopmin"), "%s", hlk_last_error());
}

/* docs/acl.md: a user with rights to only some keys may learn that only from the first call */
Test(client_open, without_key_or_channel_rights_is_auth_when_called)
{
    hlk_client *keyless = fixture_open_at(weak_user("~other* " ACL_CHANNELS " " ACL_COMMANDS), NULL);
    cr_assert_eq(hlk_lock_acquire(fixture_lock(keyless, "t", NULL), 500), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "\"t\""), "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "docs/acl.md"), "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "the keys are \"t\", \"hasplock_queue:{t}\""), "%s", hlk_last_error());
    fixture_close(keyless);
    hlk_client *unsubscribed = fixture_open_at(weak_user(ACL_KEYS " resetchannels " ACL_COMMANDS), NULL);
    hlk_lock *lock = fixture_lock(unsubscribed, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "who need not wait needs no channel");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_acquire(lock, 60000), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "channel"), "%s", hlk_last_error());
    raw(fixture.redis, "DEL t");
}

/* A user with only the line for plain locks */
Test(client_open, without_rights_for_fair_locks_names_their_line)
{
    static const char *const rights[] = { ACL_KEYS " " ACL_CHANNELS " " ACL_COMMANDS, /* lacks keys and commands */
                                          "~* " ACL_CHANNELS " " ACL_COMMANDS };
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t 60000");
    for (int i = 0; i < 2; i++) {
        hlk_client *client = fixture_open_at(weak_user(rights[i]), NULL);
        cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "t", &opts), 500), HLK_E_AUTH);
        cr_assert_not_null(strstr(hlk_last_error(), "fair locks also need its section Fair locks"), "%s",
                           hlk_last_error());
        cr_assert_eq(strstr(hlk_last_error(), "\"redisson_lock_queue:{t}\"") != NULL, i == 0, "%s", hlk_last_error());
        fixture_close(client);
    }
    raw(fixture.redis, "DEL t");
}

Test(client_open, lazily_connects_with_the_first_call)
{
    struct hlk_client_opts opts = fixture_opts();
    int64_t before = raw_clients(fixture.redis, "normal");
    opts.flags = HLK_OPEN_LAZY;
    opts.reconnect_timeout_ms = 1000;
    hlk_client *client = fixture_open(&opts), *nowhere = fixture_open_at("redis://127.0.0.1:1", &opts);
    cr_assert_eq(raw_clients(fixture.redis, "normal"), before);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(fixture_lock(nowhere, "t", NULL), HLK_NOWAIT), HLK_E_CONNECT);
    char url[160];
    snprintf(url, sizeof url, "redis://nobody:wrong@127.0.0.1:%d", fixture.server->port);
    hlk_client *stranger = fixture_open_at(url, &opts);
    cr_assert_eq(hlk_lock_acquire(fixture_lock(stranger, "t", NULL), HLK_NOWAIT), HLK_E_AUTH);
}

Test(client_open, selects_the_database_of_the_url)
{
    char url[256];
    snprintf(url, sizeof url, "%s/3", hlk_test_url(fixture.server));
    hlk_client *client = fixture_open_at(url, NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    raw(fixture.redis, "SELECT 3");
    cr_assert_str_neq(raw_holder(fixture.redis, "t"), "");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "SELECT 0");
}

Test(client_open, names_its_holders_by_host_pid_and_label)
{
    struct hlk_client_opts opts = fixture_opts();
    char host[256] = "", pid[32];
    opts.label = "billing";
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    hlk_client *client = fixture_open(&opts), *second = fixture_open(&opts);
    const char *id = hlk_client_id(client);
    cr_assert_eq(strncmp(id, "hlk-", 4), 0, "%s", id);
    cr_assert_not_null(strstr(id, pid), "%s", id);
    cr_assert_null(strchr(id, ':'), "%s", id);
    cr_assert_str_neq(id, hlk_client_id(second));
}
