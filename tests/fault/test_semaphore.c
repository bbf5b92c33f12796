/* A plain semaphore under faults: an answer that is lost or late at each place, waiters that are killed, also in the
 * moment in which they are called, holders that are killed, scripts that are gone, a server that comes back. No permit
 * is lost or made but by those who die with it, nobody waits for ever, nothing of ours is left. */
/* Shows: P49 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAITERS = 4, THREADS = 8, LIMIT = 2 };

#define QUEUE "hasplock_queue:{t}"

static hlk_semaphore *made[32];
static int made_count;

static void start(void)
{
    fault_up(0);
}

static void start_proxied(void)
{
    fault_up(STAGE_PROXY);
}

static void start_kept(void)
{
    fault_up(SERVER_AOF);
}

/* What is left is the number of permits, and notes about calls whose answers were lost. */
static void stop(void)
{
    for (int i = 0; i < made_count; i++)
        hlk_semaphore_destroy(made[i]);
    fixture_close_all(); /* a release may be on its way */
    raw(fixture.redis, "DEL t " QUEUE);
    fixture_end();
}

TestSuite(semaphore, .init = start, .fini = stop, .timeout = 120);
TestSuite(semaphore_wire, .init = start_proxied, .fini = stop, .timeout = 120);
TestSuite(semaphore_kept, .init = start_kept, .fini = stop, .timeout = 120);

static hlk_semaphore *semaphore_of(hlk_client *client)
{
    hlk_semaphore *semaphore = hlk_semaphore_create(client, "t");
    cr_assert_not_null(semaphore, "%s", hlk_last_error());
    cr_assert_lt(made_count, (int)(sizeof made / sizeof *made));
    return made[made_count++] = semaphore;
}

static void done_with(hlk_semaphore *semaphore)
{
    cr_assert_eq(made[--made_count], semaphore);
    hlk_semaphore_destroy(semaphore);
}

static int64_t free_permits(void)
{
    return raw_int(fixture.redis, "EVAL %s 0", "return tonumber(redis.call('get', 't') or 0)");
}

static int64_t tickets(void) /* called or not */
{
    return raw_int(fixture.redis, "ZCOUNT " QUEUE " 1 (2e15");
}

/* --- a thread that acquires once */

struct taker {
    hlk_semaphore *semaphore;
    pthread_t thread;
    enum hlk_status status;
    char error[256];
    atomic_bool answered;
};

static void *takes(void *arg)
{
    struct taker *taker = arg;
    taker->status = hlk_semaphore_acquire(taker->semaphore, 1, WAIT_MS);
    if (taker->status != HLK_OK)
        strncpy(taker->error, hlk_last_error(), sizeof taker->error - 1);
    atomic_store(&taker->answered, true);
    return NULL;
}

static void start_taker(struct taker *taker, hlk_semaphore *semaphore)
{
    *taker = (struct taker){ .semaphore = semaphore };
    cr_assert_eq(pthread_create(&taker->thread, NULL, takes, taker), 0);
}

static void got(struct taker *taker)
{
    pthread_join(taker->thread, NULL);
    cr_assert_eq(taker->status, HLK_OK, "%s: %s", hlk_status_name(taker->status), taker->error);
}

/* --- an answer at a time */

/* A permit goes from a bystander to a waiter, which gives it back. */
static void hand_over(hlk_semaphore *theirs, hlk_semaphore *ours)
{
    struct taker waiter;
    cr_assert_eq(hlk_semaphore_acquire(theirs, 1, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    start_taker(&waiter, ours);
    WAIT_FOR(tickets() == 1 || atomic_load(&waiter.answered));
    cr_assert_eq(hlk_semaphore_release(theirs, 1), HLK_OK, "%s", hlk_last_error());
    got(&waiter);
    enum hlk_status status = hlk_semaphore_release(ours, 1);
    cr_assert(UNKNOWN(status) || status == HLK_OK, "%s", hlk_status_name(status)); /* repeated, and happens once */
}

static void each_answer(enum proxy_fault fault)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_semaphore *theirs = semaphore_of(bystander());
    cr_assert_eq(hlk_semaphore_try_set(theirs, 1, 0), HLK_OK);
    for (int k = 1;; k++) {
        hlk_client *client = fixture_open(&opts); /* each from the beginning */
        hlk_semaphore *ours = semaphore_of(client);
        proxy_arm(fixture.proxy, fault, PROXY_SCRIPTS, (uint64_t)k);
        hand_over(theirs, ours);
        bool struck = proxy_struck(fixture.proxy);
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_SCRIPTS, 1);
        WAIT_FOR(free_permits() == 1);
        if (struck && fault == PROXY_HOLD)
            proxy_deliver(fixture.proxy, true);
        cr_assert_eq(free_permits(), 1, "k = %d", k);
        cr_assert_eq(tickets(), 0);
        done_with(ours);
        if (!struck) {
            cr_assert_geq(k, 4, "an acquire, one more when it is subscribed, one when it is called, a release");
            return;
        }
    }
}

Test(semaphore_wire, survives_each_request_that_is_lost)
{
    each_answer(PROXY_CUT_BEFORE);
}

Test(semaphore_wire, survives_each_answer_that_is_lost)
{
    each_answer(PROXY_CUT_AFTER);
}

Test(semaphore_wire, survives_each_answer_that_is_dropped)
{
    each_answer(PROXY_SWALLOW);
}

Test(semaphore_wire, survives_each_request_that_comes_late)
{
    each_answer(PROXY_HOLD);
}

Test(semaphore_wire, goes_on_when_no_message_arrives)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_semaphore *theirs = semaphore_of(bystander()), *ours = semaphore_of(fixture_open(&opts));
    cr_assert_eq(hlk_semaphore_try_set(theirs, 1, 0), HLK_OK);
    proxy_drop_messages(fixture.proxy, true);
    for (int i = 0; i < 3; i++)
        hand_over(theirs, ours);
    cr_assert_geq(proxy_messages(fixture.proxy), 1u, "there was something to drop");
    WAIT_FOR(free_permits() == 1);
}

/* --- processes that die */

static _Noreturn void wait_and_stop(atomic_int *has)
{
    struct hlk_client_opts opts = fault_opts();
    hlk_client *client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.on_event = NULL;
    if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK)
        test_give_up("open: %s", hlk_last_error());
    hlk_semaphore *semaphore = hlk_semaphore_create(client, "t");
    if (hlk_semaphore_acquire(semaphore, 1, HLK_FOREVER) != HLK_OK)
        test_give_up("acquire: %s", hlk_last_error());
    atomic_fetch_add(has, 1);
    for (;;)
        pause();
}

static pid_t fork_waiter(atomic_int *has)
{
    int64_t before = tickets();
    pid_t pid = fork();
    if (pid == 0)
        wait_and_stop(has);
    WAIT_FOR(tickets() == before + 1);
    return pid;
}

static void kill_and_wait(pid_t pid)
{
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

static atomic_int *shared_number(void)
{
    return mmap(NULL, sizeof(atomic_int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* The last of four gets it: two were killed before, and one stands still when it is called, and is killed then. */
Test(semaphore, passes_by_waiters_that_are_killed)
{
    pid_t pids[WAITERS];
    atomic_int *has = shared_number();
    hlk_semaphore *ours = semaphore_of(bystander());
    cr_assert_eq(hlk_semaphore_try_set(ours, 1, 0), HLK_OK);
    cr_assert_eq(hlk_semaphore_acquire(ours, 1, HLK_NOWAIT), HLK_OK);
    for (int i = 0; i < WAITERS; i++)
        pids[i] = fork_waiter(has);
    kill_and_wait(pids[0]);
    kill_and_wait(pids[2]);
    kill(pids[1], SIGSTOP);
    cr_assert_eq(waitpid(pids[1], NULL, WUNTRACED), pids[1]);
    cr_assert_eq(hlk_semaphore_release(ours, 1), HLK_OK, "%s", hlk_last_error());
    kill_and_wait(pids[1]);
    WAIT_FOR(atomic_load(has) == 1);
    cr_assert_eq(free_permits(), 0);
    WAIT_FOR(tickets() == 0);
    cr_assert_eq(hlk_semaphore_release(ours, 1), HLK_OK); /* of the living one, by another process */
    kill_and_wait(pids[3]);
    cr_assert_eq(free_permits(), 1);
}

/* Its permits are gone, and no more. They are added again by hand. */
Test(semaphore, loses_the_permits_of_a_holder_that_is_killed)
{
    atomic_int *has = shared_number();
    struct taker waiter;
    hlk_semaphore *ours = semaphore_of(bystander());
    pid_t pid = fork_waiter(has);
    cr_assert_eq(hlk_semaphore_try_set(ours, 1, 0), HLK_OK);
    WAIT_FOR(atomic_load(has) == 1);
    start_taker(&waiter, ours);
    WAIT_FOR(tickets() == 1);
    kill_and_wait(pid);
    cr_assert_eq(free_permits(), 0);
    cr_assert_not(atomic_load(&waiter.answered));
    cr_assert_eq(hlk_semaphore_add(ours, 1), HLK_OK, "%s", hlk_last_error());
    got(&waiter);
    cr_assert_eq(free_permits(), 0);
}

/* --- the server */

static atomic_bool over;
static atomic_int turns;

static void *works(void *semaphore)
{
    while (!atomic_load(&over)) {
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, WAIT_MS), HLK_OK, "%s", hlk_last_error());
        test_sleep_ms(1);
        enum hlk_status status = hlk_semaphore_release(semaphore, 1);
        cr_assert(UNKNOWN(status) || status == HLK_OK, "%s", hlk_status_name(status));
        atomic_fetch_add(&turns, 1);
    }
    return NULL;
}

static void wait_for_turns(int more)
{
    int then = atomic_load(&turns) + more;
    WAIT_FOR(atomic_load(&turns) >= then);
}

static void work_while(void (*disturb)(void), hlk_semaphore *semaphore, int times)
{
    pthread_t threads[THREADS];
    enum hlk_status set = hlk_semaphore_try_set(semaphore, LIMIT, 0);
    cr_assert(set == HLK_OK || UNKNOWN(set), "%s", hlk_last_error()); /* the disk may take longer than REPLY_MS */
    WAIT_FOR(free_permits() == LIMIT);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, works, semaphore), 0);
    for (int i = 0; i < times; i++) {
        wait_for_turns(20);
        disturb();
    }
    wait_for_turns(20);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    WAIT_FOR(free_permits() == LIMIT);
    WAIT_FOR(tickets() == 0);
}

static void flush_scripts(void)
{
    raw(fixture.redis, "SCRIPT FLUSH");
}

Test(semaphore, goes_on_when_the_scripts_are_gone)
{
    work_while(flush_scripts, semaphore_of(bystander()), 20);
}

static void restart_server(void)
{
    redisFree(fixture.redis);
    server_restart(fixture.server, true);
    fixture.redis = raw_open(fixture.server);
}

static hlk_semaphore *patient(void)
{
    struct hlk_client_opts opts = fault_opts();
    opts.reconnect_timeout_ms = WAIT_MS;
    return semaphore_of(fixture_open(&opts));
}

/* Notes are kept with the number, so what was sent and not answered happens once. */
Test(semaphore_kept, goes_on_when_the_server_comes_back_with_its_data)
{
    work_while(restart_server, patient(), 5);
}

/* The number is gone, and who waits waits until somebody makes it. */
Test(semaphore, that_is_gone_with_its_server_is_waited_for)
{
    struct taker waiter;
    hlk_semaphore *ours = patient();
    cr_assert_eq(hlk_semaphore_try_set(ours, 0, 0), HLK_OK);
    start_taker(&waiter, ours);
    WAIT_FOR(tickets() == 1);
    redisFree(fixture.redis);
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
    WAIT_FOR(tickets() == 1);
    cr_assert_not(atomic_load(&waiter.answered));
    WAIT_FOR(hlk_semaphore_try_set(ours, 1, 0) == HLK_OK);
    got(&waiter);
    cr_assert_eq(free_permits(), 0);
}
