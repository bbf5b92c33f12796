/* The holder is stopped past its lease, killed, or starved by 64 threads that spin.
 *
 * asks (c) Kleppmann: SIGSTOP of the holder past its lease: it is told, and what it does then touches nobody. A2
 * redisson 2665: with 64 spinning threads renewal goes on; else the loss is told by the local deadline. A2
 * redis-plus-plus 659: the release of a lost hold says so and harms nobody. A3 redisson 4698, 3636: told before anybody
 * else can have it. A1 redisson 1104: a killed holder costs its ttl. */
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(void)
{
    fault_up(0);
}

TestSuite(holder, .init = start, .fini = fixture_end, .timeout = 60);

/* --- a process that holds a lock */

struct report {
    int64_t resumed_at_ms, left_ms, reported_at_ms, held_until_at_ms;
    int at_risk, lost, readable, holds;
    enum hlk_status again, released, released_again;
};

static struct report report; /* the child's; its events thread writes the four fields of the loss */
static atomic_int losses;

static void on_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    report.at_risk += event->kind == HLK_EVENT_AT_RISK;
    if (event->kind != HLK_EVENT_LOST)
        return;
    report.reported_at_ms = hlk_now_ms();
    report.held_until_at_ms = event->held_until_at_ms;
    atomic_fetch_add(&losses, 1);
}

/* Reads the clock in a loop until it was stopped, and begins before it reports that it holds. It is stopped for at
 * least the rest of its lease, which is two thirds of it. */
static void hold_until_stopped(hlk_lock *lock, int to)
{
    int64_t before = hlk_now_ms(), now = before;
    if (write(to, "h", 1) != 1)
        _exit(2);
    while (now = hlk_now_ms(), now - before < LEASE_MS / 2) {
        before = now;
        test_sleep_ms(1);
    }
    report.left_ms = hlk_lock_left_ms(lock); /* the first command after it */
    report.resumed_at_ms = now;
}

static _Noreturn void hold(const char *name, int to)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    hlk_client *client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.watchdog_ms = LEASE_MS;
    opts.on_event = on_event;
    opts.log_level = HLK_LOG_ERROR;
    if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK)
        _exit(1);
    hlk_lock *lock = hlk_lock_create(client, name, NULL);
    struct pollfd fd = { hlk_lock_lost_fd(lock), POLLIN, 0 };
    if (hlk_lock_acquire(lock, HLK_NOWAIT) != HLK_OK)
        _exit(2);
    hold_until_stopped(lock, to);
    report.readable = poll(&fd, 1, 5000);
    WAIT_FOR(atomic_load(&losses) > 0);
    report.lost = atomic_load(&losses);
    report.holds = hlk_lock_holds(lock);
    report.again = hlk_lock_acquire(lock, HLK_NOWAIT);
    report.released = hlk_lock_release(lock);
    report.released_again = hlk_lock_release(lock);
    hlk_lock_destroy(lock);
    hlk_client_close(client);
    _exit(write(to, &report, sizeof report) == sizeof report ? 0 : 3);
}

struct holder {
    pid_t pid;
    int from;
};

/* Before this process has threads: a sanitizer does not support a fork after that. */
static struct holder holder_start(const char *name)
{
    struct holder holder;
    int ends[2];
    char held = 0;
    cr_assert_eq(pipe(ends), 0);
    holder.pid = fork();
    if (holder.pid == 0)
        hold(name, ends[1]);
    close(ends[1]);
    holder.from = ends[0];
    cr_assert_eq(read(holder.from, &held, 1), 1);
    return holder;
}

static void holder_stop(const struct holder *holder)
{
    int status;
    kill(holder->pid, SIGSTOP);
    cr_assert_eq(waitpid(holder->pid, &status, WUNTRACED), holder->pid);
    cr_assert(WIFSTOPPED(status));
}

static struct report holder_end(struct holder *holder)
{
    struct report reported;
    int status;
    cr_assert_eq(read(holder->from, &reported, sizeof reported), (ssize_t)sizeof reported);
    cr_assert_eq(waitpid(holder->pid, &status, 0), holder->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(holder->from);
    return reported;
}

/* Another client waits, acquires after the ttl, and keeps the lock, whatever the stopped holder does when it
 * continues. */
/* Shows: S1 */
Test(holder, stopped_past_its_lease_is_told_and_touches_nobody, .disabled = STAGE_UNDER_TSAN)
{
    static const char *const names[] = { "t0", "t1", "t2" };
    struct holder holders[3];
    for (int i = 0; i < 3; i++)
        holders[i] = holder_start(names[i]);
    for (int i = 0; i < 3; i++) {
        struct holder holder = holders[i];
        hlk_client *client = bystander();
        hlk_owner *owner = hlk_owner_create(client, "other");
        hlk_lock *lock = fixture_owned(client, names[i], owner);
        struct actor *other = actor_start(lock, NULL);
        WAIT_FOR_WAITERS(client, 1);
        holder_stop(&holder);
        cr_assert_eq(actor_status(other), HLK_OK, "%s", actor_error(other));
        int64_t theirs_at = actor_answered_at_ms(other);
        actor_leave(other);
        kill(holder.pid, SIGCONT);
        struct report reported = holder_end(&holder);
        cr_assert_eq(reported.left_ms, 0, "the first question after it");
        cr_assert_eq(reported.lost, 1, "once");
        cr_assert_eq(reported.readable, 1);
        cr_assert_leq(reported.held_until_at_ms, theirs_at, "its last word was that it ended before");
        cr_assert_lt(reported.reported_at_ms - reported.resumed_at_ms, 1000);
        cr_assert_eq(reported.again, HLK_LOST);
        cr_assert_eq(reported.released, HLK_LOST);
        cr_assert_eq(reported.released_again, HLK_NOT_HOLDER);
        cr_assert(is_held(names[i], hold_of(lock)));
        cr_assert_gt(hlk_lock_left_ms(lock), 0);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        hlk_owner_destroy(owner);
        fixture_close(client);
    }
}

/* No other client wanted it. It is lost and free all the same. */
Test(holder, stopped_past_its_lease_loses_it_without_waiters, .disabled = STAGE_UNDER_TSAN)
{
    struct holder holder = holder_start("t");
    holder_stop(&holder);
    WAIT_FOR(is_free("t"));
    test_sleep_ms(LEASE_MS); /* it spins for so long */
    kill(holder.pid, SIGCONT);
    struct report reported = holder_end(&holder);
    cr_assert_eq(reported.left_ms, 0);
    cr_assert_eq(reported.lost, 1);
    cr_assert_eq(reported.released, HLK_LOST);
    cr_assert(is_free("t"));
}

/* asks A1 redisson 1104: its ttl, no more. */
/* Shows: S21 */
Test(holder, killed_costs_others_its_ttl)
{
    struct holder holder = holder_start("t");
    hlk_client *client = bystander();
    struct actor *other = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR_WAITERS(client, 1);
    kill(holder.pid, SIGKILL);
    int64_t killed_at = test_now_ms();
    cr_assert_eq(waitpid(holder.pid, NULL, 0), holder.pid);
    cr_assert_eq(actor_status(other), HLK_OK, "%s", actor_error(other));
    cr_assert_lt(running_between_ms(killed_at, actor_answered_at_ms(other)), LEASE_MS + 1000);
    cr_assert_eq(actor_end(other), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 1u);
    close(holder.from);
}

/* --- starved */

static atomic_bool stop_spinning;

static void *spin(void *arg)
{
    unsigned long n = 0;
    while (!atomic_load_explicit(&stop_spinning, memory_order_relaxed))
        n++;
    return arg ? (void *)n : NULL;
}

/* asks A2 redisson 2665 */
Test(holder, beside_64_spinning_threads_is_renewed_or_told)
{
    enum { SPINNERS = 64, STARVED_LEASE_MS = 1500 };
    pthread_t threads[SPINNERS];
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = STARVED_LEASE_MS;
    hlk_client *client = fixture_open(&opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    struct actor *other = actor_start(fixture_lock(bystander(), "t", NULL), NULL);
    for (int i = 0; i < SPINNERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, spin, NULL), 0);
    int64_t until = test_now_ms() + 3 * STARVED_LEASE_MS;
    while (test_now_ms() < until && !actor_answered(other))
        test_sleep_ms(5);
    bool kept = hlk_lock_left_ms(lock) > 0;
    const char *said = disagreement(lock, "t", 1);
    atomic_store(&stop_spinning, true);
    for (int i = 0; i < SPINNERS; i++)
        pthread_join(threads[i], NULL);
    cr_log_info("%s after %d ms", kept ? "kept" : "lost, and told", 3 * STARVED_LEASE_MS);
    if (kept) {
        cr_assert_null(said, "%s", said);
        cr_assert_geq(fixture_counters(client).renewals, 3u);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(actor_end(other), HLK_OK);
        return;
    }
    cr_assert_eq(actor_status(other), HLK_OK);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_leq(lost.held_until_at_ms, actor_answered_at_ms(other));
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(actor_end(other), HLK_OK);
}
