/* fork() while threads use the library. The child holds nothing, does not wait for threads of the parent, and shares no
 * park with it. (ThreadSanitizer does not support threads in a child, so most of this is disabled under it.) */
#include "entry_fixture.h"
#include "support/fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

enum { CHILD_S = 10 }; /* a child that runs for longer hangs */

static void meet(void)
{
    waiters_begin();
    hlk_holder_watch(&unit.table);
}

static void part(void)
{
    hlk_holder_unwatch(&unit.table);
    waiters_end();
}

TestSuite(fork, .init = meet, .fini = part, .timeout = 90);

static int exit_code_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char state_of(pid_t thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state;
}

/* --- the child's thread ends */

/* Not by pthread_join: the AddressSanitizer of gcc 13 does not know the thread that forked. */
static void *see_it_end(void *arg)
{
    WAIT_FOR(state_of(getpid()) == 'Z');
    _exit(0);
    return arg;
}

static _Noreturn void end_this_thread(void)
{
    pthread_t witness;
    if (pthread_create(&witness, NULL, see_it_end, NULL) != 0)
        _exit(1);
    pthread_exit(NULL);
}

static void hold_by_this_thread(struct fake_waiter *p)
{
    struct hlk_thread *self = hlk_thread_get();
    p->waiter.holder.id = self->id;
    p->waiter.holder.holds = &self->holds;
    hold(p);
}

static atomic_bool locked, may_unlock;
static void *lock_the_table(void *arg)
{
    (void)arg;
    hlk_mutex_lock(&unit.table.mu);
    atomic_store(&locked, true);
    WAIT_FOR(atomic_load(&may_unlock));
    hlk_mutex_unlock(&unit.table.mu);
    return NULL;
}

/* Forks while this thread holds a lock and another one has locked the table. */
static void child_ends(unsigned own_holds)
{
    pthread_t other;
    hold_by_this_thread(&ann);
    pthread_create(&other, NULL, lock_the_table, NULL);
    WAIT_FOR(atomic_load(&locked));
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_S);
        atomic_fetch_add(&hlk_thread_get()->holds, own_holds);
        end_this_thread();
    }
    int code = exit_code_of(child);
    atomic_store(&may_unlock, true);
    pthread_join(other, NULL);
    cr_assert_eq(code, 0, "%d", code);
    cr_assert_eq(count_of(&ann), 1u);
    release(&ann);
    cr_assert_eq(atomic_load(&hlk_thread_get()->holds), 0u);
}

Test(fork, childs_thread_may_end_whatever_the_parents_holds, .disabled = STAGE_UNDER_TSAN)
{
    child_ends(0);
}

Test(fork, ending_child_thread_with_a_lock_spares_the_parents, .disabled = STAGE_UNDER_TSAN)
{
    child_ends(1);
}

/* --- a thread of the parent ends at the same time */

static atomic_bool held, forking, forked;
static atomic_int ending;

static void *hold_and_end(void *arg)
{
    hold_by_this_thread(arg);
    atomic_store(&held, true);
    WAIT_FOR(atomic_load(&locked));
    atomic_store(&ending, (int)gettid());
    return NULL;
}

static void *unlock_once_fork_waits(void *arg)
{
    pid_t forker = *(pid_t *)arg;
    WAIT_FOR(atomic_load(&held));
    hlk_mutex_lock(&unit.table.mu);
    atomic_store(&locked, true);
    WAIT_FOR(atomic_load(&forking));
    WAIT_FOR(atomic_load(&forked) || test_sleeps(forker));
    hlk_mutex_unlock(&unit.table.mu);
    return NULL;
}

/* The exit callback locks the mutex over all tables of the process. */
Test(fork, child_may_open_a_client_while_parent_threads_end, .disabled = STAGE_UNDER_TSAN)
{
    pthread_t ends, unlocks;
    pid_t me = gettid();
    struct hlk_entry_table fresh = { .client_id = "hlk-t-2-a" };
    pthread_create(&ends, NULL, hold_and_end, &bob);
    pthread_create(&unlocks, NULL, unlock_once_fork_waits, &me);
    WAIT_FOR(atomic_load(&ending) && test_sleeps(atomic_load(&ending)));
    atomic_store(&forking, true);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_S);
        hlk_holder_watch(&fresh);
        hlk_holder_unwatch(&fresh);
        _exit(0);
    }
    atomic_store(&forked, true);
    int code = exit_code_of(child);
    pthread_join(ends, NULL);
    pthread_join(unlocks, NULL);
    cr_assert_eq(code, 0, "%d", code);
    cr_assert_str_eq(unit_tells(), "ORPHANED a;");
    peer_passes(&unit.peer, LEASE);
    hlk_watchdog_fire(&e->hold.alarm);
}

/* --- eventfds */

static char worked;

static void *write_to_mine(void *arg)
{
    (void)arg;
    return eventfd_write(hlk_thread_event_fd(hlk_thread_get()), 1) == 0 ? &worked : NULL;
}

static void *read_from_mine(void *arg)
{
    eventfd_t tokens = 0;
    (void)arg;
    return eventfd_read(hlk_thread_event_fd(hlk_thread_get()), &tokens) == 0 ? &worked : NULL;
}

static bool in_a_thread(void *(*fn)(void *))
{
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, fn, NULL);
    pthread_join(thread, &result);
    return result != NULL;
}

/* Those of the forking thread, and of an ended thread whose context is used again. */
Test(fork, wake_ups_of_the_child_are_not_the_parents)
{
    cr_assert_not(read_from_mine(NULL));
    cr_assert_not(in_a_thread(read_from_mine));
    pid_t child = fork();
    if (child == 0)
        _exit(write_to_mine(NULL) && in_a_thread(write_to_mine) ? 0 : 1);
    cr_assert_eq(exit_code_of(child), 0);
    cr_assert_not(read_from_mine(NULL));
    cr_assert_not(in_a_thread(read_from_mine));
}

/* --- sleeping */

/* A thread of the parent is about to write a wake-up to the forking one. It does not exist in the child. */
Test(fork, child_waits_for_no_wake_up_of_a_parents_thread)
{
    struct hlk_thread *self = hlk_thread_get();
    int kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&self->park.paying, 1);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_S);
        hlk_thread_poll(hlk_thread_get(), -1, 0, kick_fd, HLK_WAKE_LEAD, 0);
        _exit(0);
    }
    int code = exit_code_of(child);
    atomic_store(&self->park.paying, 0);
    close(kick_fd);
    cr_assert_eq(code, 0, "%d", code);
}
