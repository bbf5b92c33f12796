/* What a lock over several masters does not protect from (docs/safety.md): a master whose clock is set forward, one
 * that restarts without its data and counts at once, and a holder that stands still. A and B hold at once in each of
 * them. */
/* Shows: P37 */
#include "fixture.h"
#include "step_clock.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MASTERS = 3, JUMPS = 1, TTL_MS = 5000 }; /* the master that jumps, or restarts, is the one that A and B share */

static struct step_clock *clock_of_1;
static struct server *masters[MASTERS];
static struct proxy *proxies[MASTERS];
static hlk_client *client_a, *client_b; /* A by the proxies, B directly */
static hlk_quorum *a, *b;

static void map_clock(void)
{
    char path[] = "/tmp/hlk-test-clock-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, sizeof *clock_of_1) != 0)
        test_give_up("%s: %s", path, strerror(errno));
    clock_of_1 = mmap(NULL, sizeof *clock_of_1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (clock_of_1 == MAP_FAILED)
        test_give_up("mmap: %s", strerror(errno));
    close(fd);
    setenv(STEP_CLOCK_FILE, path, 1);
    setenv("LD_PRELOAD", HLK_STEP_CLOCK_PATH, 1);
    masters[JUMPS] = server_start(SERVER_NOACL, NULL);
    unsetenv("LD_PRELOAD");
    unlink(path);
}

static hlk_client *open_masters(bool by_proxy)
{
    const char *urls[MASTERS];
    hlk_client *client;
    struct hlk_client_opts opts = fixture_opts();
    for (int i = 0; i < MASTERS; i++)
        urls[i] = by_proxy ? proxy_url(proxies[i]) : hlk_test_url(masters[i]);
    if (hlk_quorum_open(&client, urls, MASTERS, &opts) != HLK_OK)
        test_give_up("%s", hlk_last_error());
    return client;
}

static void start(void)
{
    for (int i = 0; i < MASTERS; i++) {
        if (i == JUMPS)
            map_clock();
        else
            masters[i] = server_start(SERVER_NOACL, NULL);
        proxies[i] = proxy_start(masters[i]);
    }
}

static void finish(void)
{
    hlk_quorum_destroy(a);
    hlk_quorum_destroy(b);
    hlk_client_close(client_a);
    hlk_client_close(client_b);
    for (int i = 0; i < MASTERS; i++) {
        proxy_stop(proxies[i]);
        server_finish(masters[i]);
    }
}

TestSuite(quorum_safety, .init = start, .fini = finish, .timeout = 60);

/* A holds by the masters 0 and 1: 2 is out of its reach. B may count with 1 and 2. */
static void begin(int64_t restart_delay_ms, int max_renewals)
{
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.ttl_ms = TTL_MS;
    opts.restart_delay_ms = restart_delay_ms;
    opts.max_renewals = max_renewals;
    client_a = open_masters(true);
    client_b = open_masters(false);
    cr_assert_not_null(a = hlk_quorum_create(client_a, "t", &opts), "%s", hlk_last_error());
    cr_assert_not_null(b = hlk_quorum_create(client_b, "t", &opts), "%s", hlk_last_error());
    if (restart_delay_ms > 0) { /* the servers have just started */
        WAIT_FOR(hlk_quorum_acquire(b, HLK_NOWAIT) == HLK_OK);
        cr_assert_eq(hlk_quorum_release(b), HLK_OK, "%s", hlk_last_error());
    }
    proxy_freeze(proxies[2], true);
    WAIT_FOR(hlk_quorum_acquire(a, HLK_NOWAIT) == HLK_OK);
}

static void b_holds_too(void)
{
    WAIT_FOR(hlk_quorum_acquire(b, HLK_NOWAIT) == HLK_OK);
    cr_assert_gt(hlk_quorum_left_ms(b), 0);
    cr_assert_gt(hlk_quorum_left_ms(a), 0, "too late to show anything");
    int64_t until = hlk_quorum_held_until(a);
    proxy_freeze(proxies[2], false);
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, "t"); /* A's next renewal finds a majority gone */
    cr_assert_leq(lost.reported_at_ms, until);
    cr_assert_eq(hlk_quorum_release(a), HLK_LOST);
    cr_assert_eq(hlk_quorum_release(b), HLK_OK, "%s", hlk_last_error());
}

/* asks: the known counter-examples to RedLock */
/* Shows: S34 */
Test(quorum_safety, a_masters_clock_that_jumps_lets_two_hold)
{
    begin(-1, 0);
    atomic_fetch_add(&clock_of_1->ahead_ns, INT64_C(60000000000));
    b_holds_too();
}

/* Shows: S35, S36 */
Test(quorum_safety, an_emptied_master_counting_at_once_lets_two_hold)
{
    begin(-1, 0);
    server_restart(masters[JUMPS], false);
    b_holds_too(); /* when B is connected again */
}

/* Shows: S35, S36 */
Test(quorum_safety, an_emptied_master_is_kept_out_until_the_hold_ends)
{
    begin(TTL_MS, -1);
    int64_t until = hlk_quorum_held_until(a);
    server_restart(masters[JUMPS], false);
    cr_assert_neq(hlk_quorum_acquire(b, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_quorum_acquire(b, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(hlk_now_ms(), until);
    cr_assert_eq(hlk_quorum_release(b), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(a), HLK_LOST);
    proxy_freeze(proxies[2], false);
}

/* A client that did not know the master before goes by its uptime. */
/* Shows: S35, S36 */
Test(quorum_safety, an_emptied_master_is_kept_out_by_new_clients_too)
{
    begin(TTL_MS, -1);
    int64_t until = hlk_quorum_held_until(a);
    server_restart(masters[JUMPS], false);
    hlk_quorum_destroy(b);
    hlk_client_close(client_b);
    client_b = open_masters(false);
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.ttl_ms = TTL_MS;
    b = hlk_quorum_create(client_b, "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(b, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(hlk_now_ms(), until);
    cr_assert_eq(hlk_quorum_release(b), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_quorum_release(a), HLK_LOST);
    proxy_freeze(proxies[2], false);
}

/* It checks how much time is left, is stopped, and writes when it is woken. */
static void hold_stand_still_and_write(int to_parent)
{
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.ttl_ms = TTL_MS;
    opts.node_timeout_ms = TTL_MS / 5;
    opts.restart_delay_ms = -1;
    hlk_quorum *q = hlk_quorum_create(open_masters(false), "t", &opts);
    if (hlk_quorum_acquire(q, HLK_NOWAIT) != HLK_OK || hlk_quorum_left_ms(q) == 0)
        _exit(1);
    raise(SIGSTOP);
    if (write(to_parent, "written", 7) != 7)
        _exit(2);
    _exit(hlk_quorum_left_ms(q) == 0 && hlk_quorum_is_lost(q) ? 0 : 3);
}

/* Shows: S37 */
Test(quorum_safety, a_holder_that_stands_still_writes_beside_the_next,
     .disabled = STAGE_UNDER_TSAN || STAGE_UNDER_ASAN) /* the child of a process with threads allocates */
{
    int fds[2], status;
    char wrote[8] = "";
    cr_assert_eq(pipe(fds), 0);
    pid_t holder = fork();
    if (holder == 0)
        hold_stand_still_and_write(fds[1]);
    cr_assert_eq(waitpid(holder, &status, WUNTRACED), holder);
    cr_assert(WIFSTOPPED(status), "%d", status);
    struct hlk_quorum_opts opts = HLK_QUORUM_OPTS_INIT;
    opts.restart_delay_ms = -1;
    b = hlk_quorum_create(client_b = open_masters(false), "t", &opts);
    cr_assert_eq(hlk_quorum_acquire(b, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    kill(holder, SIGCONT);
    cr_assert_eq(read(fds[0], wrote, sizeof wrote - 1), 7);
    cr_assert_gt(hlk_quorum_left_ms(b), 0); /* B holds, and A has written */
    cr_assert_eq(waitpid(holder, &status, 0), holder);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
    cr_assert_eq(hlk_quorum_release(b), HLK_OK, "%s", hlk_last_error());
}
