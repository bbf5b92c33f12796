/* A process with a client forks, or exits without closing it. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(client_fork, .init = start, .fini = fixture_end, .timeout = 90);

static int exit_code_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int64_t commands_processed(void)
{
    return raw_stat(fixture.redis, "total_commands_processed");
}

/* The child's part. Returns the number of the first failed check; 0: none failed. */
static int child_of_a_fork(hlk_client *client, hlk_lock *held, hlk_lock *other, hlk_owner *owner)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct hlk_counters counters = { .size = sizeof counters };
    size_t waiters;
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
    if (hlk_lock_query(held, &state) != HLK_E_FORKED || hlk_lock_waiters(held, NULL, 0, &waiters) != HLK_E_FORKED)
        return 7;
    if (hlk_lock_holds(held) != 0 || hlk_lock_left_ms(held) != 0 || hlk_lock_token(held) != 0)
        return 8; /* the child holds nothing */
    if (hlk_lock_release_async(held, NULL, NULL) != HLK_E_FORKED)
        return 9;
    if (hlk_lock_lost_fd(held) != -1 || hlk_lock_held_until(held) != 0)
        return 10;
    if (hlk_lock_create(client, "t3", NULL) || hlk_last_status() != HLK_E_FORKED)
        return 11;
    if (!strstr(hlk_last_error(), "parent"))
        return 12;
    if (hlk_lock_hold_id(held, buf, sizeof buf) == HLK_OK)
        return 13;
    if (hlk_owner_create(client, "mine") || hlk_last_status() != HLK_E_FORKED)
        return 14;
    if (hlk_cancel_create(client) || hlk_last_status() != HLK_E_FORKED)
        return 15;
    if (hlk_client_counters(client, &counters) != HLK_E_FORKED)
        return 16;
    hlk_lock_destroy(other);
    hlk_owner_destroy(owner);
    hlk_client_close(client);
    return 0;
}

/* asks A7 redis-py 234, phpredis 1642, cpp_redis 130: every call answers FORKED, nothing is sent, nothing is closed */
/* Shows: S22 */
Test(client_fork, leaves_the_child_nothing_and_the_parent_everything)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "job");
    hlk_lock *held = fixture_lock(client, "t", NULL), *other = hlk_lock_create(client, "t2", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    int64_t before = commands_processed();
    pid_t child = fork();
    if (child == 0)
        _exit(child_of_a_fork(client, held, other, owner));
    int failed = exit_code_of(child);
    cr_assert_eq(failed, 0, "number %d of child_of_a_fork", failed);
    cr_assert_eq(commands_processed(), before + 1, "only our own INFO");
    cr_assert_eq(raw_clients(fixture.redis, "normal"), 2);
    cr_assert_eq(hlk_lock_holds(held), 1);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK, "the parent goes on undisturbed");
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    hlk_lock_destroy(other);
    hlk_owner_destroy(owner);
}

static void count_acquired(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    *(int *)ctx += status == HLK_OK;
}

/* The child's part, while a completion of its parent's is pending. */
static int dispatch_in_a_child(hlk_client *client, hlk_lock *lock, const int *acquired)
{
    if (hlk_client_dispatch(client, 0) != 0 || hlk_last_status() != HLK_E_FORKED || *acquired != 1)
        return 1;
    if (hlk_client_fd(client) != -1)
        return 2;
    if (hlk_lock_acquire_async(lock, NULL, count_acquired, NULL) != HLK_E_FORKED)
        return 3;
    return 0;
}

Test(client_fork, child_runs_no_completion_of_its_parents)
{
    struct hlk_client_opts opts = fixture_opts();
    int acquired = 0;
    opts.flags = HLK_OPEN_DISPATCH;
    hlk_client *client = fixture_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, "job");
    hlk_lock *first = fixture_owned(client, "t", owner), *second = fixture_owned(client, "t2", owner);
    struct pollfd due = { hlk_client_fd(client), POLLIN, 0 };
    cr_assert_eq(hlk_lock_acquire_async(first, NULL, count_acquired, &acquired), HLK_OK);
    cr_assert_eq(hlk_lock_acquire_async(second, NULL, count_acquired, &acquired), HLK_OK);
    WAIT_FOR((hlk_client_dispatch(client, 1), acquired) == 1);
    WAIT_FOR(raw_pttl(fixture.redis, "t2") > 0);
    cr_assert_eq(poll(&due, 1, WAIT_MS), 1);
    pid_t child = fork();
    if (child == 0)
        _exit(dispatch_in_a_child(client, first, &acquired));
    int failed = exit_code_of(child);
    cr_assert_eq(failed, 0, "number %d of dispatch_in_a_child", failed);
    WAIT_FOR((hlk_client_dispatch(client, 0), acquired) == 2);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    cr_assert_eq(hlk_lock_release(second), HLK_OK);
    hlk_owner_destroy(owner);
}

/* The child calls exit(), with its handlers and destructors. */
Test(client_fork, child_that_exits_releases_and_sends_nothing)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *held = fixture_lock(client, "t", NULL);
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
    hlk_client *client = fixture_open(NULL);
    hlk_lock *held = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    pid_t child = fork();
    if (child == 0) {
        hlk_client *own;
        if (hlk_client_open(&own, fixture.url, NULL) != HLK_OK)
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

/* Mutexes that other threads had locked at the fork stay locked in the child. That must not matter. */
Test(client_fork, in_the_midst_of_calls_does_not_hang_the_child)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t9", NULL);
    for (int i = 0; i < THREADS; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i / 2);
        pthread_create(&threads[i], NULL, lock_and_unlock, fixture_lock(client, name, NULL));
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

static void *hold_and_end(void *lock)
{
    return hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK ? lock : NULL;
}

static void *leave_orphans(void *lock)
{
    while (!atomic_load(&stop_locking)) {
        pthread_t thread;
        pthread_create(&thread, NULL, hold_and_end, lock);
        pthread_join(thread, NULL);
        if (hlk_lock_break(lock) != HLK_OK)
            return NULL;
    }
    return lock;
}

static pthread_t survivor;
static hlk_client *own_client;

/* In the child, after its thread has ended while holding a lock. */
static void *see_it_end(void *arg)
{
    (void)arg;
    if (pthread_join(survivor, NULL) != 0 || fixture_counters(own_client).orphaned != 1)
        _exit(4);
    hlk_client_close(own_client);
    _exit(0);
}

static _Noreturn void live_a_life_of_its_own(void)
{
    pthread_t witness;
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.log_level = HLK_LOG_ERROR;
    alarm(20);
    survivor = pthread_self();
    if (hlk_client_open(&own_client, fixture.url, &opts) != HLK_OK)
        _exit(1);
    if (hlk_lock_acquire(hlk_lock_create(own_client, "t3", NULL), HLK_NOWAIT) != HLK_OK)
        _exit(2);
    if (pthread_create(&witness, NULL, see_it_end, NULL) != 0)
        _exit(3);
    pthread_exit(NULL);
}

/* The parent searches many locks whenever one of its threads ends, which happens all the time. (Found by an audit.) */
/* Shows: S22 */
Test(client_fork, child_may_open_a_client_while_parent_threads_end, .disabled = STAGE_UNDER_TSAN || STAGE_UNDER_ASAN)
{
    enum { HELD = 300, FORKS = 60 };
    hlk_client *client = fixture_open(NULL);
    hlk_lock *held[HELD];
    pthread_t thread;
    void *good;
    for (int i = 0; i < HELD; i++) {
        char name[32];
        snprintf(name, sizeof name, "t-h%d", i);
        held[i] = hlk_lock_create(client, name, NULL);
        cr_assert_eq(hlk_lock_acquire(held[i], HLK_NOWAIT), HLK_OK);
    }
    pthread_create(&thread, NULL, leave_orphans, fixture_lock(client, "t", NULL));
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            live_a_life_of_its_own();
        int code = exit_code_of(child);
        cr_assert_eq(code, 0, "fork %d: %d", i, code);
        raw(fixture.redis, "DEL t3"); /* the child's hold, which was not released */
    }
    atomic_store(&stop_locking, true);
    pthread_join(thread, &good);
    cr_assert_not_null(good);
    for (int i = 0; i < HELD; i++) {
        cr_assert_eq(hlk_lock_release(held[i]), HLK_OK);
        hlk_lock_destroy(held[i]);
    }
}

/* client.h: exit without close: nothing is released, leases run out */
/* Shows: S21 */
Test(client_fork, process_that_exits_without_close_releases_nothing)
{
    for (int how = 0; how < 3; how++) {
        pid_t child = fork();
        if (child == 0) {
            struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
            hlk_client *client;
            opts.watchdog_ms = 2500; /* longer than a busy machine needs for the check */
            if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK ||
                hlk_lock_acquire(hlk_lock_create(client, "t", NULL), HLK_NOWAIT) != HLK_OK)
                _exit(9);
            fclose(stderr); /* silences a leak checker */
            if (how == 0)
                exit(0);
            if (how == 1)
                _exit(0);
            raise(SIGKILL);
        }
        cr_assert_eq(exit_code_of(child), how == 2 ? 128 + SIGKILL : 0);
        cr_assert_str_neq(raw_holder(fixture.redis, "t"), "", "way %d", how);
        hlk_client *client = fixture_open(NULL);
        hlk_lock *lock = fixture_lock(client, "t", NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    }
}
