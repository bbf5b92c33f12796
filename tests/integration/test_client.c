/* A client in its process: its threads, descriptors and signals; two clients, many locks, many threads. */
#include "support/fixture.h"
#include "support/history.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(client, .init = start, .fini = fixture_end, .timeout = 120);

/* --- threads, descriptors, signals */

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

/* A sanitizer may start a thread of its own beside our first one. After this call it has. */
static int list_tasks_first(int *tasks, int room)
{
    pthread_t thread;
    int n, tid = 0;
    pthread_create(&thread, NULL, tell_tid, &tid);
    pthread_join(thread, NULL);
    WAIT_FOR((n = list_tasks(tasks, room)) > 0 && !contains(tasks, n, tid)); /* joined threads may still be listed */
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
    fixture_open(NULL);
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
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = HLK_OPEN_DISPATCH;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts interruptible = HLK_ACQUIRE_OPTS_INIT;
    interruptible.flags = HLK_ACQUIRE_EINTR; /* such a waiter has a descriptor of its own */
    cr_assert_geq(hlk_lock_lost_fd(lock), 0);
    cr_assert_geq(hlk_client_fd(client), 0);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(lock, &interruptible);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1); /* the subscriber connection exists too */
    for (int fd = 0; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || before[fd])
            continue;
        found++;
        cr_assert(flags & FD_CLOEXEC, "descriptor %d", fd);
    }
    cr_assert_geq(found, 4);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
    cr_assert_eq(actor_end(waiter), HLK_OK);
    hlk_cancel_destroy(cancel);
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

Test(client, leaves_no_descriptor_or_thread_when_closed)
{
    int tasks[64], fds = open_descriptors(), n = list_tasks_first(tasks, 64);
    for (int i = 0; i < 10; i++) {
        hlk_client *client = fixture_open(NULL);
        hlk_lock *lock = hlk_lock_create(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
        cr_assert_geq(hlk_lock_lost_fd(lock), 0);
        hlk_lock_destroy(lock);
        fixture_close(client);
        cr_assert_eq(raw_pttl(fixture.redis, "t"), -2);
    }
    cr_assert_eq(open_descriptors(), fds);
    WAIT_FOR(list_tasks(tasks, 64) == n);
}

/* asks A10 hiredis 306: SIGPIPE never comes from this library: its default action would end this test */
Test(client, never_raises_sigpipe)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 1000;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    signal(SIGPIPE, SIG_DFL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    redisFree(fixture.redis);
    server_kill(fixture.server);
    for (int i = 0; i < 3; i++) {
        cr_assert_neq(hlk_lock_acquire(fixture_lock(client, "t2", NULL), HLK_NOWAIT), HLK_OK);
        hlk_lock_release(lock);
    }
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
    WAIT_FOR(hlk_lock_acquire(fixture_lock(client, "t2", NULL), 1000) == HLK_OK);
    cr_assert_eq(hlk_lock_release(fixture_lock(client, "t2", NULL)), HLK_OK);
}

/* --- two clients, many locks, many threads */

Test(client, beside_one_of_the_same_process_is_another_holder)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_lock *first = fixture_lock(one, "t", NULL), *second = fixture_lock(two, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(first, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_lock_release(second), HLK_NOT_HOLDER);
    struct actor *waiter = actor_start(second, NULL);
    WAIT_FOR_WAITERS(two, 1);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    fixture_close(one);
    cr_assert_eq(hlk_lock_acquire(second, HLK_NOWAIT), HLK_OK, "the other one works on");
    cr_assert_eq(hlk_lock_release(second), HLK_OK);
}

/* cancel.h: only its client must be open */
Test(client, may_lend_its_cancel_object_to_another_ones_locks)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_cancel *cancel = hlk_cancel_create(other);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), &opts);
    WAIT_FOR_WAITERS(client, 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(actor_end(waiter), HLK_INTERRUPTED);
    cr_assert_eq(hlk_lock_acquire_with(fixture_lock(client, "t", NULL), &opts), HLK_INTERRUPTED);
    cr_assert_eq(fixture_counters(client).waiting, 0u);
    raw(fixture.redis, "DEL t");
    hlk_cancel_destroy(cancel);
}

/* asks A2 redisson 4.2 */
Test(client, holds_10000_locks_over_two_connections)
{
    enum { LOCKS = 10000 };
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 6000;
    hlk_client *client = fixture_open(&opts);
    hlk_lock **locks = calloc(LOCKS, sizeof *locks);
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = fixture_lock(client, name, NULL);
        cr_assert_eq(hlk_lock_acquire(locks[i], HLK_NOWAIT), HLK_OK);
    }
    cr_assert_eq(fixture_counters(client).held, (uint64_t)LOCKS);
    uint64_t renewals = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewals + 3 * LOCKS);
    cr_assert_leq(raw_clients(fixture.redis, "normal") + raw_clients(fixture.redis, "pubsub"), 3,
                  "two and the test's own");
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), LOCKS);
    for (int i = 0; i < LOCKS; i++)
        cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0u);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    free(locks);
}

struct workers {
    hlk_client *client;
    struct history *history;
    atomic_int failed;
    int next;
};

static void *run_worker(void *arg)
{
    struct workers *workers = arg;
    static atomic_int numbers;
    int me = atomic_fetch_add(&numbers, 1);
    char name[32];
    snprintf(name, sizeof name, "t-own-%d", me);
    hlk_lock *shared = hlk_lock_create(workers->client, "t", NULL), *own = hlk_lock_create(workers->client, name, NULL);
    for (int i = 0; i < 3; i++) {
        if (hlk_lock_acquire(own, HLK_FOREVER) != HLK_OK || hlk_lock_acquire(shared, HLK_FOREVER) != HLK_OK) {
            atomic_fetch_add(&workers->failed, 1);
            break;
        }
        struct hold *hold = history_acquired(workers->history, me, 0, hlk_lock_held_until(shared));
        history_released(hold);
        if (hlk_lock_release(shared) != HLK_OK || hlk_lock_release(own) != HLK_OK)
            atomic_fetch_add(&workers->failed, 1);
    }
    hlk_lock_destroy(shared);
    hlk_lock_destroy(own);
    return NULL;
}

/* asks A6 redsync 30, design 2: 1,000 threads on one client */
Test(client, serves_1000_threads_over_two_connections)
{
    enum { THREADS = 1000 };
    struct workers workers = { .client = fixture_open(NULL), .history = history_create(3 * THREADS) };
    pthread_t *threads = calloc(THREADS, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], &small, run_worker, &workers), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&workers.failed), 0);
    cr_assert(history_check(workers.history));
    struct history_share share = history_shares(workers.history, 0, THREADS);
    cr_assert_eq(share.total, 3u * THREADS);
    cr_assert_eq(share.min, 3u);
    cr_assert_leq(raw_clients(fixture.redis, "normal") + raw_clients(fixture.redis, "pubsub"), 3);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0u);
    cr_assert_eq(fixture_counters(workers.client).woken_by_ttl, 0u);
    history_destroy(workers.history);
    free(threads);
}
