/* hasplock and Redisson on a lock that is taken away, runs out, or outlives its holder: who is told what, and when. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(redisson_loss, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

struct message {
    atomic_int lost;
    _Atomic int64_t lost_us;
};

static void on_event(const struct hlk_event *event, void *ctx)
{
    struct message *message = ctx;
    if (event->kind != HLK_EVENT_LOST)
        return;
    message->lost_us = peer_now_us();
    message->lost++;
}

/* A client of ours with a short watchdog, and a lock of it that tells `told`. */
static hlk_lock *short_lock(struct message *message, int64_t watchdog_ms, int64_t lease_ms)
{
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    struct hlk_lock_opts lopts = HLK_LOCK_OPTS_INIT;
    copts.watchdog_ms = watchdog_ms;
    lopts.lease_ms = lease_ms;
    lopts.on_event = on_event;
    lopts.event_ctx = message;
    hlk_lock *lock = hlk_lock_create(fixture_client(&copts), "t", &lopts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static bool readable(int fd)
{
    struct pollfd pollfd = { .fd = fd, .events = POLLIN };
    return poll(&pollfd, 1, 0) == 1;
}

/* --- forced release */

/* Shows: S14 */
Test(redisson_loss, javas_force_unlock_is_told_to_c_by_a_renewal)
{
    enum { WATCHDOG = 3000 };
    static struct message message;
    hlk_lock *lock = short_lock(&message, WATCHDOG, 0);
    int lost_fd = hlk_lock_lost_fd(lock);
    cr_assert_geq(lost_fd, 0);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_not(readable(lost_fd));

    const char *forced = peer_ask(fixture.java, "A.1 forceunlock t");
    int64_t forced_us = peer_now_us();
    cr_assert_str_eq(forced, "true");
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 lock t"), "ok"); /* and it is Java's before C knows */
    WAIT_FOR(message.lost == 1);
    cr_log_info("LOST %lld ms after the force", (long long)(message.lost_us - forced_us) / 1000);
    cr_assert_lt(message.lost_us - forced_us,
                 WATCHDOG * 1000 * 2 / 3); /* the renewal is due within a third of the lease */

    cr_assert(readable(lost_fd));
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    cr_assert_eq(hlk_lock_holds(lock), 1, "a release is due");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_not(readable(lost_fd));
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);

    /* Nothing that C did about its lost hold has touched Java's. */
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, 1, WATCHDOG_MS);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 unlock t"), "ok");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    cr_assert_eq(message.lost, 1);
    hlk_lock_destroy(lock);
}

Test(redisson_loss, a_release_after_javas_force_unlock_says_lost)
{
    hlk_lock *lock = fixture_lock("t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 forceunlock t"), "true");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST); /* long before a renewal */
    expect_free("t");
}

Test(redisson_loss, javas_force_unlock_wakes_a_waiting_c)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter waiter;
    peer_ask(fixture.java, "A.1 lock t");
    c_waiter_start(&waiter, fixture_lock("t"), HLK_FOREVER);
    await_parked(watch, 'C', "t");
    cr_assert_str_eq(peer_ask(fixture.java, "A.2 forceunlock t"), "true");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "!IllegalMonitorStateException");
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
    watch_stop(watch);
}

Test(redisson_loss, cs_break_makes_javas_unlock_throw)
{
    hlk_lock *lock = fixture_lock("t");
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
    peer_ask(fixture.java, "A.1 lock t");
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked t"), "false");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "!IllegalMonitorStateException");
    expect_free("t");
}

Test(redisson_loss, cs_break_wakes_a_waiting_java)
{
    struct watch *watch = watch_start(fixture.server);
    struct c_waiter holder;
    c_waiter_start(&holder, fixture_lock("t"), HLK_NOWAIT);
    cr_assert_eq(c_waiter_answer(&holder), HLK_OK);
    peer_tell(fixture.java, "A.1 lock t");
    await_parked(watch, 'J', "t");
    cr_assert_eq(hlk_lock_break(fixture_lock("t")), HLK_OK);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    cr_assert_eq(c_waiter_end(&holder), HLK_LOST);
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, 1, WATCHDOG_MS);
    peer_ask(fixture.java, "A.1 unlock t");
    watch_stop(watch);
}

/* --- leases that run out */

Test(redisson_loss, c_is_told_lost_before_java_gets_what_has_run_out)
{
    enum { LEASE = 1500 };
    static struct message message;
    hlk_lock *lock = short_lock(&message, WATCHDOG_MS, LEASE);
    int64_t acquired_us = peer_now_us();
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    peer_tell(fixture.java, "A.1 lock t");
    const struct answer *got =
        peer_answer(fixture.java, "A.1"); /* when C, told, gives up the rest; at the ttl's end at the latest */
    cr_assert_str_eq(got->text, "ok");
    WAIT_FOR(message.lost == 1);
    cr_log_info("LOST after %lld us, Java's after %lld us", (long long)(message.lost_us - acquired_us),
                (long long)(got->ended_us - acquired_us));
    cr_assert_lt(message.lost_us, got->ended_us);

    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    expect_held("t", peer_ask(fixture.java, "- uuid A"), 1, 1, WATCHDOG_MS);
    peer_ask(fixture.java, "A.1 unlock t");
    hlk_lock_destroy(lock);
}

Test(redisson_loss, c_gets_what_has_run_out_in_java)
{
    enum { LEASE = 3000 };
    struct c_waiter waiter;
    int64_t acquired_us = peer_now_us();
    peer_ask(fixture.java, "A.1 lock t %d", LEASE);
    c_waiter_start(&waiter, fixture_lock("t"), HLK_FOREVER);
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_geq(waiter.answered_us - acquired_us, LEASE * 1000);
    struct hlk_counters counters = { .size = sizeof counters };
    cr_assert_eq(hlk_client_counters(fixture.client, &counters), HLK_OK);
    cr_assert_geq(counters.woken_by_ttl, 1);
    cr_assert_eq(counters.woken, 0); /* nobody published anything */

    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock t"), "!IllegalMonitorStateException");
    expect_held("t", hlk_client_id(fixture.client), 1, 1, WATCHDOG_MS);
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
}

/* --- holders that end */

Test(redisson_loss, c_gets_the_lock_of_a_java_client_that_is_gone)
{
    struct c_waiter waiter;
    peer_ask(fixture.java, "- open W %s 1500", fixture.java_url);
    peer_ask(fixture.java, "W.1 lock t");
    c_waiter_start(&waiter, fixture_lock("t"), HLK_FOREVER);
    peer_ask(fixture.java, "- close W");
    cr_assert_eq(c_waiter_answer(&waiter), HLK_OK);
    cr_assert_eq(c_waiter_end(&waiter), HLK_OK);
}

/* In the child: holds "t" under a short watchdog until it is killed. */
static void hold_until_killed(int ready, int64_t wait_ms)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    hlk_client *client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.watchdog_ms = 3000;
    if (hlk_client_open(&client, fixture.server->unix_url, &opts) == HLK_OK &&
        hlk_lock_acquire(hlk_lock_create(client, "t", NULL), wait_ms) == HLK_OK && write(ready, "", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

/* Shows: S21 */
Test(redisson_loss, java_gets_the_lock_of_a_c_process_that_is_killed)
{
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        hold_until_killed(ready[1], HLK_NOWAIT);
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1, "the child did not get the lock");
    close(ready[0]);

    peer_tell(fixture.java, "A.1 trylock t 4000"); /* more than a lease: the child's watchdog works */
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "false");
    peer_tell(fixture.java, "A.1 lock t");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    peer_ask(fixture.java, "A.1 unlock t");
}

/* Java has read the first holder's ttl, and sleeps. The second one's is shorter, and it says nothing when it dies. */
/* Shows: P20, S21 */
Test(redisson_loss, java_does_not_sleep_for_the_ttl_of_a_holder_before)
{
    enum { LONG_MS = 600000 };
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    struct watch *watch = watch_start(fixture.server);
    int ready[2];
    char byte;
    opts.yield_every = -1;
    fixed.lease_ms = LONG_MS;
    hlk_lock *first = hlk_lock_create(fixture_client(&opts), "t", NULL);
    cr_assert_eq(hlk_lock_acquire_with(first, &fixed), HLK_OK);
    peer_tell(fixture.java, "A.1 lock t");
    await_parked(watch, 'J', "t");
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        hold_until_killed(ready[1], HLK_FOREVER);
    close(ready[1]);
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 1);
    cr_assert_eq(hlk_lock_release(first), HLK_OK);
    cr_assert_eq(read(ready[0], &byte, 1), 1, "the child did not get the lock");
    close(ready[0]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    int64_t killed_us = peer_now_us();
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok");
    cr_log_info("Java's %lld ms after the kill", (long long)(got->ended_us - killed_us) / 1000);
    peer_ask(fixture.java, "A.1 unlock t");
    hlk_lock_destroy(first);
    watch_stop(watch);
}
