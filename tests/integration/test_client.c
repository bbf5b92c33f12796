/* A process's way to the locks of one Redis: open and its faults, close, two clients, fork, exit, many locks, many
 * threads. */
#include "support/acl.h"
#include "support/history.h"
#include "support/stage.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(void)
{
    stage_up(0);
}

static void start_tcp(void)
{
    stage_up(SERVER_TCP);
}

static void start_proxied(void)
{
    stage_up(STAGE_PROXY);
    server_allow(stage.server, SERVER_VOID);
}

TestSuite(client_open, .init = start_tcp, .fini = stage_down, .timeout = 90);
TestSuite(client_open_wire, .init = start_proxied, .fini = stage_down, .timeout = 90);
TestSuite(client_close, .init = start, .fini = stage_down, .timeout = 90);
TestSuite(client, .init = start, .fini = stage_down, .timeout = 120);
TestSuite(client_fork, .init = start, .fini = stage_down, .timeout = 90);

static enum hlk_status try_open(const char *url, const struct hlk_client_opts *opts)
{
    struct hlk_client_opts own = stage_opts();
    hlk_client *client = (hlk_client *)1;
    enum hlk_status status = hlk_client_open(&client, url, opts ? opts : &own);
    if (status == HLK_OK)
        hlk_client_close(client);
    else
        cr_assert_null(client, "*out is NULL on every fault");
    return status;
}

/* --- open */

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
        "rediss://localhost",
        "redis://h:1:2",
        "redis://a b",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(try_open(bad[i], NULL), HLK_E_INVALID, "%s", bad[i]);
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
        cr_assert_str_not_empty(hlk_last_error());
    }
    cr_assert_eq(try_open(NULL, NULL), HLK_E_INVALID);
    cr_assert_eq(hlk_client_open(NULL, hlk_test_url(stage.server), NULL), HLK_E_INVALID);
}

Test(client_open, never_shows_a_password)
{
    struct hlk_client_opts opts = stage_opts();
    opts.log_level = HLK_LOG_DEBUG;
    opts.patience_ms = 100;
    cr_assert_eq(try_open("redis://user:s3cret@host:notaport", &opts), HLK_E_INVALID);
    cr_assert_null(strstr(hlk_last_error(), "s3cret"), "%s", hlk_last_error());
    cr_assert_eq(try_open("redis://user:s3cret@127.0.0.1:1", &opts), HLK_E_CONNECT);
    cr_assert_null(strstr(hlk_last_error(), "s3cret"), "%s", hlk_last_error());
    char url[128];
    snprintf(url, sizeof url, "redis://nobody:s3cret@127.0.0.1:%d", stage.server->port);
    cr_assert_eq(try_open(url, &opts), HLK_E_AUTH);
    cr_assert_null(strstr(hlk_last_error(), "s3cret"), "%s", hlk_last_error());
    cr_assert_not(stage_logged("s3cret"));
}

Test(client_open, of_bad_options_is_invalid)
{
    struct hlk_client_opts opts = stage_opts();
#define BAD(change)                                                                                                    \
    do {                                                                                                               \
        opts = stage_opts();                                                                                           \
        change;                                                                                                        \
        cr_assert_eq(try_open(hlk_test_url(stage.server), &opts), HLK_E_INVALID, #change);                             \
        cr_assert_str_not_empty(hlk_last_error());                                                                     \
    } while (0)
    BAD(opts.size = 0);
    BAD(opts.watchdog_ms = 299);
    BAD(opts.watchdog_ms = -1);
    BAD(opts.watchdog_ms = (int64_t)366 * 24 * 3600 * 1000 * 2);
    BAD(opts.reply_ms = 9);
    BAD(opts.reply_ms = -1);
    BAD(opts.at_risk_ms = -1);
    BAD(opts.flags = 0x8000u);
    BAD(opts.label = "with blank");
    BAD(opts.label = "123456789012345678901234567890123");
#undef BAD
}

Test(client_open, of_nobody_is_connect_and_names_the_endpoint)
{
    struct hlk_client_opts opts = stage_opts();
    opts.patience_ms = 300;
    int64_t before = test_now_ms();
    cr_assert_eq(try_open("redis://127.0.0.1:1", &opts), HLK_E_CONNECT);
    cr_assert_geq(test_now_ms() - before, 300, "it rides out that long");
    cr_assert_not_null(strstr(hlk_last_error(), "127.0.0.1:1"), "%s", hlk_last_error());
    cr_assert_eq(try_open("unix:/no/such/socket", &opts), HLK_E_CONNECT);
    cr_assert_not_null(strstr(hlk_last_error(), "/no/such/socket"), "%s", hlk_last_error());
}

Test(client_open_wire, of_a_server_that_accepts_and_never_answers_is_connect)
{
    struct hlk_client_opts opts = stage_opts();
    opts.patience_ms = 300;
    opts.reply_ms = 100;
    proxy_freeze(stage.proxy, true);
    cr_assert_eq(try_open(stage.url, &opts), HLK_E_CONNECT);
    proxy_freeze(stage.proxy, false);
    cr_assert_eq(try_open(stage.url, NULL), HLK_OK);
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
    proxy_refuse(stage.proxy, true);
    pthread_create(&thread, NULL, listen_again, stage.proxy);
    struct hlk_client_opts opts = stage_opts();
    opts.patience_ms = WAIT_MS;
    cr_assert_eq(try_open(stage.url, &opts), HLK_OK, "%s", hlk_last_error());
    pthread_join(thread, NULL);
}

Test(client_open, with_a_wrong_password_is_auth)
{
    char url[160];
    raw(stage.redis, "ACL SETUSER joe on >right ~* &* +@all");
    snprintf(url, sizeof url, "redis://joe:wrong@127.0.0.1:%d", stage.server->port);
    int64_t before = test_now_ms();
    cr_assert_eq(try_open(url, NULL), HLK_E_AUTH);
    cr_assert_lt(test_now_ms() - before, 9000, "waiting would not cure it: not ridden out");
    cr_assert_not_null(strstr(hlk_last_error(), "127.0.0.1"), "%s", hlk_last_error());
    struct hlk_client_opts opts = stage_opts();
    opts.password = "right"; /* goes before the URL's */
    cr_assert_eq(try_open(url, &opts), HLK_OK, "%s", hlk_last_error());
    opts.username = "nobody";
    cr_assert_eq(try_open(url, &opts), HLK_E_AUTH);
}

Test(client_open, takes_credentials_with_escapes)
{
    char url[160];
    raw(stage.redis, "ACL SETUSER j@e on >%s ~* &* +@all", "p:s/w%d");
    snprintf(url, sizeof url, "redis://j%%40e:p%%3As%%2Fw%%25d@127.0.0.1:%d", stage.server->port);
    cr_assert_eq(try_open(url, NULL), HLK_OK, "%s", hlk_last_error());
}

/* A user "weak" with the given rules (blanks between), password pw; and the URL to be it. */
static const char *weak_user(const char *rules)
{
    static char url[160], line[512];
    const char *argv[64] = { "ACL", "SETUSER", "weak", "reset", "on", ">pw" };
    int n = 6;
    char *save = NULL;
    snprintf(line, sizeof line, "%s", rules);
    for (char *word = strtok_r(line, " ", &save); word && n < 64; word = strtok_r(NULL, " ", &save))
        argv[n++] = word;
    cr_assert_str_eq(raw_argv(stage.redis, n, argv, NULL), "OK");
    snprintf(url, sizeof url, "redis://weak:pw@127.0.0.1:%d", stage.server->port);
    return url;
}

/* asks A8 redisson 5439: a missing right is found when connecting, and named */
Test(client_open, without_a_command_the_scripts_need_is_auth_and_names_it)
{
    static const char *const missing[] = { "exists",  "hexists",          "hkeys", "hgetall", "pttl",
                                           "pexpire", "zscore",           "hdel",  "del",     "zadd",
                                           "time",    "zremrangebyscore", "hset" };
    char rules[512];
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        snprintf(rules, sizeof rules, "~* " ACL_CHANNELS " " ACL_COMMANDS " -%s", missing[i]);
        cr_assert_eq(try_open(weak_user(rules), NULL), HLK_E_AUTH, "%s", missing[i]);
        cr_assert_not_null(strstr(hlk_last_error(), missing[i]), "%s: %s", missing[i], hlk_last_error());
    }
    snprintf(rules, sizeof rules, "~* " ACL_CHANNELS " " ACL_COMMANDS " -eval -evalsha");
    cr_assert_eq(try_open(weak_user(rules), NULL), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "eval"), "%s", hlk_last_error());
    snprintf(rules, sizeof rules, "~* " ACL_CHANNELS " " ACL_COMMANDS);
    cr_assert_eq(try_open(weak_user(rules), NULL), HLK_OK, "%s", hlk_last_error());
}

/* docs/acl.md: who may touch only some keys may find out with the first call */
Test(client_open, without_a_right_to_the_locks_key_or_channel_is_auth_at_the_first_call)
{
    hlk_client *keyless = stage_open_at(weak_user("~other* " ACL_CHANNELS " " ACL_COMMANDS), NULL);
    cr_assert_eq(hlk_lock_acquire(stage_lock(keyless, "t", NULL), 500), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "\"t\""), "%s", hlk_last_error());
    stage_close(keyless);
    hlk_client *deaf = stage_open_at(weak_user(ACL_KEYS " resetchannels " ACL_COMMANDS), NULL);
    hlk_lock *lock = stage_lock(deaf, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "who need not wait needs no channel");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(stage.redis, "HSET t foreign:1 1");
    cr_assert_eq(hlk_lock_acquire(lock, 60000), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "channel"), "%s", hlk_last_error());
    raw(stage.redis, "DEL t");
}

Test(client_open, lazily_connects_with_the_first_call)
{
    struct hlk_client_opts opts = stage_opts();
    int64_t before = raw_clients(stage.redis, "normal");
    opts.flags = HLK_OPEN_LAZY;
    opts.patience_ms = 200;
    hlk_client *client = stage_open(&opts), *nowhere = stage_open_at("redis://127.0.0.1:1", &opts);
    cr_assert_eq(raw_clients(stage.redis, "normal"), before);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(stage_lock(nowhere, "t", NULL), HLK_NOWAIT), HLK_E_CONNECT);
    char url[160];
    snprintf(url, sizeof url, "redis://nobody:wrong@127.0.0.1:%d", stage.server->port);
    hlk_client *stranger = stage_open_at(url, &opts);
    cr_assert_eq(hlk_lock_acquire(stage_lock(stranger, "t", NULL), HLK_NOWAIT), HLK_E_AUTH);
}

Test(client_open, selects_the_database_of_the_url)
{
    char url[256];
    snprintf(url, sizeof url, "%s/3", hlk_test_url(stage.server));
    hlk_client *client = stage_open_at(url, NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(raw_pttl(stage.redis, "t"), -2);
    raw(stage.redis, "SELECT 3");
    cr_assert_str_neq(raw_holder(stage.redis, "t"), "");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(stage.redis, "SELECT 0");
}

Test(client_open, names_its_holders_by_host_pid_and_label)
{
    struct hlk_client_opts opts = stage_opts();
    char host[256] = "", pid[32];
    opts.label = "billing";
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    hlk_client *client = stage_open(&opts), *second = stage_open(&opts);
    const char *id = hlk_client_id(client);
    cr_assert_eq(strncmp(id, "hlk-", 4), 0, "%s", id);
    cr_assert_not_null(strstr(id, pid), "%s", id);
    cr_assert_null(strchr(id, ':'), "%s", id);
    cr_assert_str_neq(id, hlk_client_id(second));
}

/* --- what it keeps to itself */

static int list_tasks(int *tasks, int room)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && n < room)
            tasks[n++] = atoi(entry->d_name);
    closedir(dir);
    return n;
}

static bool contains(const int *list, int n, int value)
{
    for (int i = 0; i < n; i++)
        if (list[i] == value)
            return true;
    return false;
}

static void *tell_tid(void *arg)
{
    *(int *)arg = gettid();
    return NULL;
}

/* A sanitizer may start a thread of its own beside the first of ours: after this it has. */
static int list_tasks_first(int *tasks, int room)
{
    pthread_t thread;
    int n, tid = 0;
    pthread_create(&thread, NULL, tell_tid, &tid);
    pthread_join(thread, NULL);
    WAIT_FOR((n = list_tasks(tasks, room)) > 0 && !contains(tasks, n, tid)); /* joined ones may still be listed */
    return n;
}

static unsigned long long blocked_signals(int task)
{
    char path[64], line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", task);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "SigBlk: %llx", &mask);
    if (file)
        fclose(file);
    return mask;
}

/* client.h: two threads of its own, all signals blocked in both */
Test(client, has_two_threads_that_take_no_signal)
{
    static const int signals[] = {
        SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE, SIGIO
    };
    int before[64], after[64];
    int n = list_tasks_first(before, 64);
    stage_open(NULL);
    int m = list_tasks(after, 64);
    cr_assert_eq(m, n + 2);
    for (int i = 0; i < m; i++) {
        if (contains(before, n, after[i]))
            continue;
        unsigned long long mask = blocked_signals(after[i]);
        for (size_t j = 0; j < sizeof signals / sizeof *signals; j++)
            cr_assert(mask >> (signals[j] - 1) & 1, "signal %d", signals[j]);
    }
}

/* asks A7: descriptors are close-on-exec, so no exec'd child has our sockets */
Test(client, has_only_descriptors_that_close_on_exec)
{
    bool before[256] = { false };
    int found = 0;
    for (int fd = 0; fd < 256; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    cr_assert_geq(hlk_lock_lost_fd(lock), 0);
    raw(stage.redis, "HSET t foreign:1 1");
    struct actor *waiter = actor_start_wait(lock, 200);
    WAIT_FOR(raw_listeners(stage.redis, "t") == 1); /* the subscriber connection is there, too */
    for (int fd = 0; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || before[fd])
            continue;
        found++;
        cr_assert(flags & FD_CLOEXEC, "descriptor %d", fd);
    }
    cr_assert_geq(found, 4);
    actor_end(waiter);
    raw(stage.redis, "DEL t");
    hlk_cancel_destroy(cancel);
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

Test(client, leaves_no_descriptor_and_no_thread_when_it_is_closed)
{
    int tasks[64], fds = open_descriptors(), n = list_tasks_first(tasks, 64);
    for (int i = 0; i < 10; i++) {
        hlk_client *client = stage_open(NULL);
        hlk_lock *lock = hlk_lock_create(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        cr_assert_geq(hlk_lock_lost_fd(lock), 0);
        hlk_lock_destroy(lock);
        stage_close(client);
        cr_assert_eq(raw_pttl(stage.redis, "t"), -2);
    }
    cr_assert_eq(open_descriptors(), fds);
    WAIT_FOR(list_tasks(tasks, 64) == n);
}

/* asks A10 hiredis 306: SIGPIPE never comes from this library: its default action would end this test */
Test(client, never_raises_sigpipe)
{
    struct hlk_client_opts opts = stage_opts();
    opts.patience_ms = 100;
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    server_allow(stage.server, SERVER_VOID);
    signal(SIGPIPE, SIG_DFL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    redisFree(stage.redis);
    server_kill(stage.server);
    for (int i = 0; i < 3; i++) {
        cr_assert_neq(hlk_lock_acquire(stage_lock(client, "t2", NULL), HLK_NOWAIT), HLK_OK);
        hlk_lock_release(lock);
    }
    server_restart(stage.server, false);
    stage.redis = raw_open(stage.server);
    WAIT_FOR(hlk_lock_acquire(stage_lock(client, "t2", NULL), 1000) == HLK_OK);
    cr_assert_eq(hlk_lock_release(stage_lock(client, "t2", NULL)), HLK_OK);
}

/* --- close */

/* client.h: wakes everybody who waits, releases everything held */
Test(client_close, wakes_waiters_and_releases_holds)
{
    enum { THREADS = 8 };
    hlk_client *client = stage_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "job");
    struct actor *waiters[THREADS];
    cr_assert_eq(hlk_lock_acquire(stage_lock(client, "t1", NULL), HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(stage_lock(client, "t1", NULL), HLK_NOWAIT), HLK_OK); /* nested */
    cr_assert_eq(hlk_lock_acquire(stage_owned(client, "t2", owner), HLK_NOWAIT), HLK_OK);
    raw(stage.redis, "HSET t3 foreign:1 1");
    for (int i = 0; i < THREADS; i++)
        waiters[i] = actor_start(stage_lock(client, i % 2 ? "t1" : "t3", NULL), NULL);
    WAIT_FOR_WAITERS(client, THREADS);
    stage_close(client);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_E_CLOSED);
    cr_assert_eq(raw_pttl(stage.redis, "t1"), -2);
    cr_assert_eq(raw_pttl(stage.redis, "t2"), -2);
    raw(stage.redis, "DEL t3");
    hlk_owner_destroy(owner);
}

/* The first copy of each release is answered NOSCRIPT: close waits for the second, too. */
Test(client_close, releases_holds_although_the_server_has_forgotten_the_scripts)
{
    for (int i = 0; i < 50; i++) {
        hlk_client *client = stage_open(NULL);
        hlk_lock *locks[3];
        char name[32];
        for (int j = 0; j < 3; j++) {
            snprintf(name, sizeof name, "t%d", j);
            locks[j] = hlk_lock_create(client, name, NULL);
            cr_assert_eq(hlk_lock_acquire(locks[j], HLK_NOWAIT), HLK_OK);
        }
        raw(stage.redis, "SCRIPT FLUSH");
        stage_close(client);
        cr_assert_eq(raw_int(stage.redis, "DBSIZE"), 0, "round %d", i);
        for (int j = 0; j < 3; j++)
            hlk_lock_destroy(locks[j]);
    }
}

Test(client_close, of_null_is_fine_and_handles_may_outlive_it)
{
    hlk_client_close(NULL);
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    hlk_owner *owner = hlk_owner_create(client, "x");
    hlk_cancel *cancel = hlk_cancel_create(client);
    stage_close(client);
    cr_assert_str_eq(hlk_lock_name(lock), "t");
    cr_assert_str_eq(hlk_owner_label(owner), "x");
    hlk_lock_destroy(lock);
    hlk_owner_destroy(owner);
    hlk_cancel_destroy(cancel);
}

Test(client_close, leaves_no_connection_although_handles_live_on)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    raw(stage.redis, "HSET t foreign:1 1");
    cr_assert_eq(hlk_lock_acquire(lock, 20), HLK_TIMEOUT); /* it has subscribed */
    raw(stage.redis, "DEL t");
    stage_close(client);
    WAIT_FOR(raw_clients(stage.redis, "normal") == 1 && raw_clients(stage.redis, "pubsub") == 0);
    hlk_lock_destroy(lock);
    hlk_cancel_destroy(cancel);
}

static void *lock_until_closed(void *arg)
{
    enum hlk_status status;
    do {
        status = hlk_lock_acquire(arg, HLK_FOREVER);
        if (status == HLK_OK)
            status = hlk_lock_release(arg);
    } while (status == HLK_OK);
    return (void *)(intptr_t)status;
}

Test(client_close, while_threads_use_it_ends_all_their_calls)
{
    enum { THREADS = 8 };
    for (int round = 0; round < 10; round++) {
        pthread_t threads[THREADS];
        hlk_client *client = stage_open(NULL);
        hlk_lock *locks[THREADS];
        for (int i = 0; i < THREADS; i++) {
            locks[i] = hlk_lock_create(client, i % 2 ? "t1" : "t2", NULL);
            pthread_create(&threads[i], NULL, lock_until_closed, locks[i]);
        }
        WAIT_FOR(stage_counters(client).acquired > 20);
        stage_close(client);
        for (int i = 0; i < THREADS; i++) {
            void *status;
            pthread_join(threads[i], &status);
            cr_assert(status == (void *)(intptr_t)HLK_E_CLOSED, "%s",
                      hlk_status_name((enum hlk_status)(intptr_t)status));
            hlk_lock_destroy(locks[i]);
        }
        const char *left = raw(stage.redis, "KEYS *");
        cr_assert_str_eq(left, "[]", "left: %s", left);
    }
}

Test(client_close, of_a_server_that_is_gone_returns)
{
    struct hlk_client_opts opts = stage_opts();
    opts.reply_ms = 300;
    for (int gone = 0; gone < 2; gone++) {
        hlk_client *client = stage_open(&opts);
        hlk_lock *lock = hlk_lock_create(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        if (gone) {
            redisFree(stage.redis);
            server_kill(stage.server);
        } else {
            server_pause(stage.server);
        }
        stage_close(client); /* returns while it is gone */
        hlk_lock_destroy(lock);
        if (gone) {
            server_restart(stage.server, false);
            stage.redis = raw_open(stage.server);
        } else {
            server_resume(stage.server);
            WAIT_FOR(raw_pttl(stage.redis, "t") == -2 || raw_int(stage.redis, "DEL t") == 1);
            server_allow(stage.server, SERVER_VOID);
        }
    }
}

static void on_event_after_close(const struct hlk_event *event, void *ctx)
{
    stage_on_event(event, NULL);
    atomic_fetch_add((atomic_int *)ctx, 1);
}

Test(client_close, delivers_what_is_due_and_nothing_afterwards)
{
    atomic_int told = 0;
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 300;
    opts.on_event = on_event_after_close;
    opts.event_ctx = &told;
    hlk_client *client = stage_open(&opts);
    hlk_lock *lock = stage_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(stage.redis, "DEL t");
    WAIT_FOR(hlk_lock_left_ms(lock) == 0);
    hlk_lock_release(lock);
    stage_close(client);
    int at_close = atomic_load(&told);
    cr_assert_eq(at_close, 1);
    test_sleep_ms(50);
    cr_assert_eq(atomic_load(&told), at_close);
}

/* --- two clients, many locks, many threads */

Test(client, beside_a_second_one_of_the_same_process_is_another_holder)
{
    hlk_client *one = stage_open(NULL), *two = stage_open(NULL);
    hlk_lock *first = stage_lock(one, "t", NULL), *second = stage_lock(two, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(first, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(second), HLK_NOT_HOLDER);
    struct actor *waiter = actor_start(second, NULL);
    WAIT_FOR_WAITERS(two, 1);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    stage_close(one);
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_OK, "the other one works on");
    cr_assert_eq(hlk_lock_release(second), HLK_OK);
}

/* asks A2 redisson 4.2 */
Test(client, holds_10000_locks_over_two_connections)
{
    enum { LOCKS = 10000 };
    struct hlk_client_opts opts = stage_opts();
    opts.watchdog_ms = 6000;
    hlk_client *client = stage_open(&opts);
    hlk_lock **locks = calloc(LOCKS, sizeof *locks);
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = stage_lock(client, name, NULL);
        cr_assert_eq(hlk_lock_acquire(locks[i], HLK_NOWAIT), HLK_OK);
    }
    cr_assert_eq(stage_counters(client).held, (uint64_t)LOCKS);
    uint64_t renewals = stage_counters(client).renewals;
    WAIT_FOR(stage_counters(client).renewals >= renewals + 3 * LOCKS);
    cr_assert_leq(raw_clients(stage.redis, "normal") + raw_clients(stage.redis, "pubsub"), 3, "two and the test's own");
    cr_assert_eq(raw_int(stage.redis, "DBSIZE"), LOCKS);
    for (int i = 0; i < LOCKS; i++)
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK);
    cr_assert_eq(stage_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(raw_int(stage.redis, "DBSIZE"), 0);
    free(locks);
}

struct crowd {
    hlk_client *client;
    struct history *history;
    atomic_int failed;
    int next;
};

static void *one_of_a_crowd(void *arg)
{
    struct crowd *crowd = arg;
    static atomic_int numbers;
    int me = atomic_fetch_add(&numbers, 1);
    char name[32];
    snprintf(name, sizeof name, "t-own-%d", me);
    hlk_lock *shared = hlk_lock_create(crowd->client, "t", NULL), *own = hlk_lock_create(crowd->client, name, NULL);
    for (int i = 0; i < 3; i++) {
        if (hlk_lock_acquire(own, HLK_FOREVER) != HLK_OK || hlk_lock_acquire(shared, HLK_FOREVER) != HLK_OK) {
            atomic_fetch_add(&crowd->failed, 1);
            break;
        }
        struct hold *hold = history_acquired(crowd->history, me, 0, hlk_lock_held_until(shared));
        history_released(hold);
        if (hlk_lock_release(shared) != HLK_OK || hlk_lock_release(own) != HLK_OK)
            atomic_fetch_add(&crowd->failed, 1);
    }
    hlk_lock_destroy(shared);
    hlk_lock_destroy(own);
    return NULL;
}

/* asks A6 redsync 30, design 2: 1,000 threads on one client */
Test(client, serves_1000_threads_over_two_connections)
{
    enum { THREADS = 1000 };
    struct crowd crowd = { .client = stage_open(NULL), .history = history_create(3 * THREADS) };
    pthread_t *threads = calloc(THREADS, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], &small, one_of_a_crowd, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&crowd.failed), 0);
    cr_assert(history_check(crowd.history));
    struct history_share share = history_shares(crowd.history, 0, THREADS);
    cr_assert_eq(share.total, 3u * THREADS);
    cr_assert_eq(share.min, 3u);
    cr_assert_leq(raw_clients(stage.redis, "normal") + raw_clients(stage.redis, "pubsub"), 3);
    cr_assert_eq(stage_events(HLK_EVENT_ORPHANED, NULL), 0u);
    cr_assert_eq(stage_counters(crowd.client).woken_by_ttl, 0u);
    history_destroy(crowd.history);
    free(threads);
}

/* --- fork and exit */

static int exit_code_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int64_t commands_processed(void)
{
    return raw_stat(stage.redis, "total_commands_processed");
}

/* The child's part: the number of the first thing that was not as it should be; 0: all was. */
static int child_of_a_fork(hlk_client *client, hlk_lock *held, hlk_lock *other, hlk_owner *owner)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    char buf[64];
    if (hlk_lock_acquire(other, 1000) != HLK_E_FORKED)
        return 1;
    if (hlk_lock_acquire(held, HLK_NOWAIT) != HLK_E_FORKED)
        return 2;
    if (hlk_lock_acquire_with(other, &opts) != HLK_E_FORKED)
        return 3;
    if (hlk_lock_release(held) != HLK_E_FORKED)
        return 4;
    if (hlk_lock_extend(held, 60000) != HLK_E_FORKED)
        return 5;
    if (hlk_lock_break(held) != HLK_E_FORKED)
        return 6;
    if (hlk_lock_query(held, &state) != HLK_E_FORKED)
        return 7;
    if (hlk_lock_holds(held) != 0 || hlk_lock_left_ms(held) != 0)
        return 8; /* the child holds nothing */
    if (hlk_lock_release_async(held, NULL, NULL) != HLK_E_FORKED)
        return 9;
    if (hlk_client_fd(client) != -1)
        return 10;
    if (hlk_lock_create(client, "t3", NULL) || hlk_last_status() != HLK_E_FORKED)
        return 11;
    if (!strstr(hlk_last_error(), "parent"))
        return 12;
    if (hlk_lock_hold_id(held, buf, sizeof buf) == HLK_OK)
        return 13;
    hlk_lock_destroy(other);
    hlk_owner_destroy(owner);
    hlk_client_close(client);
    return 0;
}

/* asks A7 redis-py 234, phpredis 1642, cpp_redis 130: every call answers FORKED, nothing is sent, nothing is closed */
Test(client_fork, leaves_the_child_nothing_and_the_parent_everything)
{
    hlk_client *client = stage_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "job");
    hlk_lock *held = stage_lock(client, "t", NULL), *other = hlk_lock_create(client, "t2", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    int64_t before = commands_processed();
    pid_t child = fork();
    if (child == 0)
        _exit(child_of_a_fork(client, held, other, owner));
    int failed = exit_code_of(child);
    cr_assert_eq(failed, 0, "number %d of child_of_a_fork", failed);
    cr_assert_eq(commands_processed(), before + 1, "only our own INFO");
    cr_assert_eq(raw_clients(stage.redis, "normal"), 2);
    cr_assert_eq(hlk_lock_holds(held), 1);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK, "the parent goes on undisturbed");
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    hlk_lock_destroy(other);
    hlk_owner_destroy(owner);
}

/* The child leaves by exit(), with whatever runs then. */
Test(client_fork, child_that_exits_releases_nothing_and_sends_nothing)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *held = stage_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    int64_t before = commands_processed();
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        exit(0);
    }
    exit_code_of(child);
    cr_assert_eq(commands_processed(), before + 1);
    cr_assert_eq(hlk_lock_holds(held), 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
}

/* asks A3 curator 727: an old incarnation is never me: the child's own client is another one */
Test(client_fork, child_may_open_its_own_client, .disabled = STAGE_UNDER_TSAN)
{
    hlk_client *client = stage_open(NULL);
    hlk_lock *held = stage_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    pid_t child = fork();
    if (child == 0) {
        hlk_client *own;
        if (hlk_client_open(&own, stage.url, NULL) != HLK_OK)
            _exit(1);
        if (strcmp(hlk_client_id(own), hlk_client_id(client)) == 0)
            _exit(2);
        hlk_lock *same = hlk_lock_create(own, "t", NULL), *free_one = hlk_lock_create(own, "t2", NULL);
        if (hlk_lock_acquire(same, HLK_NOWAIT) != HLK_BUSY)
            _exit(3);
        if (hlk_lock_release(same) != HLK_NOT_HOLDER)
            _exit(4);
        if (hlk_lock_acquire(free_one, HLK_NOWAIT) != HLK_OK || hlk_lock_release(free_one) != HLK_OK)
            _exit(5);
        hlk_client_close(own);
        _exit(0);
    }
    cr_assert_eq(exit_code_of(child), 0);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
}

static atomic_bool stop_locking;
static void *lock_and_unlock(void *arg)
{
    intptr_t bad = 0;
    while (!atomic_load(&stop_locking))
        bad += hlk_lock_acquire(arg, HLK_FOREVER) != HLK_OK || hlk_lock_release(arg) != HLK_OK;
    return (void *)bad;
}

/* Whatever was locked inside the library at the moment of the fork stays locked in the child: it must not matter. */
Test(client_fork, in_the_midst_of_calls_does_not_hang_the_child)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    hlk_client *client = stage_open(NULL);
    hlk_lock *lock = stage_lock(client, "t9", NULL);
    for (int i = 0; i < THREADS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i / 2);
        pthread_create(&threads[i], NULL, lock_and_unlock, stage_lock(client, name, NULL));
    }
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            enum hlk_status status = hlk_lock_acquire(lock, 1000);
            hlk_lock_release(lock);
            hlk_client_close(client);
            _exit(status == HLK_E_FORKED ? 0 : 1);
        }
        cr_assert_eq(exit_code_of(child), 0);
    }
    atomic_store(&stop_locking, true);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        cr_assert_eq((intptr_t)bad, 0);
    }
}

/* client.h: exit without close: nothing is released, leases run out */
Test(client_fork, process_that_exits_without_close_releases_nothing_and_its_lease_runs_out)
{
    for (int how = 0; how < 3; how++) {
        pid_t child = fork();
        if (child == 0) {
            struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
            hlk_client *client;
            opts.watchdog_ms = 600;
            if (hlk_client_open(&client, stage.url, &opts) != HLK_OK ||
                hlk_lock_acquire(hlk_lock_create(client, "t", NULL), HLK_NOWAIT) != HLK_OK)
                _exit(9);
            fclose(stderr); /* a runner's leak checker has nothing to say here */
            if (how == 0)
                exit(0);
            if (how == 1)
                _exit(0);
            raise(SIGKILL);
        }
        cr_assert_eq(exit_code_of(child), how == 2 ? 128 + SIGKILL : 0);
        cr_assert_str_neq(raw_holder(stage.redis, "t"), "", "way %d", how);
        hlk_client *client = stage_open(NULL);
        hlk_lock *lock = stage_lock(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
}
