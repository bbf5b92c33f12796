/* quorum_runs [HOLDS [SEED [MASTERS]]] - 4 processes of 4 threads compete for a few locks over 3 or 5 masters, while a
 * minority of these is killed and restarted empty, stopped, cut off, heard no more, refuses connections, is slow, or
 * loses answers to requests that it has done, in random order. At most a minority is away at once: a master that
 * restarted empty is kept out by every client for a ttl, so the next fault waits for that.
 *
 * Masters and clients are two hosts: network namespaces with a link for each master (support/netns.h). One that is cut
 * off has its link down; of one that is heard no more the answers are lost, and requests arrive. Between link and
 * master is a proxy for the faults of single commands. Needs root, ip and nft.
 *
 * Judged from recorded moments: no two holds of a lock overlap, none counts beyond its held_until. Each wait ends with
 * the lock, and in the end no master has a key of it. A line of sums; exit code 1: something was wrong. A seed repeats
 * what was drawn, not what the threads made of it. */
/* Shows: P35 */
#include "support/history.h"
#include "support/netns.h"
#include "support/proxy.h"
#include "support/raw.h"
#include "support/server.h"
#include "support/wait.h"

#include <hasplock/hasplock.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, THREADS = 4, LOCKS = 4, MASTERS_MOST = 5, TTL_MS = 2000, LONG_HOLD_MS = 300 };

enum fault { KILL, STOP, CUT, MUTE, REFUSE, SLOW, LOSE_ANSWER, DROP_ANSWER, LATE, FAULTS };
static const char *const fault_names[FAULTS] = { "killed", "stopped",        "cut off",     "heard no more", "refusing",
                                                 "slow",   "lost an answer", "dropped one", "late" };

/* Of all processes. */
static struct shared {
    char url[512];
    atomic_bool ready, stopping;
    atomic_int holds, lost, unsure, failures, longest_ms;
} * shared;

static struct history *history;
static struct server *servers[MASTERS_MOST];
static struct proxy *proxies[MASTERS_MOST];
static int master_count, struck[FAULTS];
static unsigned drawn;

static unsigned draw(unsigned *random, unsigned below)
{
    unsigned z = *random += 0x9e3779b9u;
    z = (z ^ z >> 16) * 0x85ebca6bu;
    z = (z ^ z >> 13) * 0xc2b2ae35u;
    return (z ^ z >> 16) % below;
}

/* --- a client process */

struct worker {
    pthread_t thread;
    hlk_lock **locks;
    unsigned random;
    int who;
};

static void fails(const char *what, hlk_lock *lock, enum hlk_status status)
{
    fprintf(stderr, "quorum_runs: %s %s: %s: %s\n", what, hlk_lock_name(lock), hlk_status_name(status),
            hlk_last_error());
    atomic_fetch_add(&shared->failures, 1);
}

static void note_wait(int64_t ms)
{
    int longest = atomic_load(&shared->longest_ms);
    while (ms > longest && !atomic_compare_exchange_weak(&shared->longest_ms, &longest, (int)ms))
        ;
}

static void let_go(hlk_lock *lock)
{
    enum hlk_status status = hlk_lock_release(lock);
    if (status == HLK_LOST)
        atomic_fetch_add(&shared->lost, 1);
    else if (status == HLK_E_UNSURE)
        atomic_fetch_add(&shared->unsure, 1);
    else if (status != HLK_OK)
        fails("release", lock, status);
}

/* Mostly short; now and then long enough for renewals. */
static void hold_on(struct worker *self, struct hold *hold, hlk_lock *lock)
{
    test_sleep_ms((int64_t)(draw(&self->random, 200) == 0 ? LONG_HOLD_MS * (1 + draw(&self->random, 6))
                                                          : draw(&self->random, 4)));
    if (hlk_lock_left_ms(lock) > 0)
        history_valid_until(hold, hlk_lock_held_until(lock));
    history_released(hold);
}

static void *work(void *arg)
{
    struct worker *self = arg;
    while (!atomic_load(&shared->stopping) && !atomic_load(&shared->failures)) {
        int which = (int)draw(&self->random, LOCKS);
        hlk_lock *lock = self->locks[which];
        int64_t began = test_now_ms();
        enum hlk_status status = hlk_lock_acquire(lock, WAIT_MS);
        note_wait(test_now_ms() - began);
        if (status == HLK_LOST) { /* found by an UNSURE release */
            let_go(lock);
        } else if (status != HLK_OK) {
            fails("acquire", lock, status);
        } else {
            hold_on(self, history_acquired(history, self->who, which, hlk_lock_held_until(lock)), lock);
            let_go(lock);
            atomic_fetch_add(&shared->holds, 1);
        }
    }
    return NULL;
}

static void ignore_line(int level, const char *line, void *ctx)
{
    (void)ctx;
    if (getenv("RUNS_LOG"))
        fprintf(stderr, "%d %d %s\n", getpid(), level, line);
}

static _Noreturn void run_process(int number, unsigned seed)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    struct worker workers[THREADS];
    hlk_lock *locks[LOCKS];
    hlk_client *client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    netns_at_clients();
    WAIT_FOR(atomic_load(&shared->ready));
    opts.log = ignore_line;
    if (hlk_client_open(&client, shared->url, &opts) != HLK_OK)
        test_give_up("open: %s", hlk_last_error());
    for (int i = 0; i < LOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = hlk_lock_create(client, name, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .locks = locks, .who = number * THREADS + i };
        workers[i].random = seed * 64 + (unsigned)workers[i].who;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < LOCKS; i++)
        hlk_lock_destroy(locks[i]);
    hlk_client_close(client);
    _exit(0);
}

/* --- what is done to the masters */

static bool are_more(int then)
{
    return atomic_load(&shared->holds) >= then || atomic_load(&shared->failures) > 0;
}

static void more_holds(int n)
{
    int then = atomic_load(&shared->holds) + n;
    WAIT_FOR(are_more(then));
}

static void strike(enum fault fault, int i)
{
    static const enum proxy_fault of[FAULTS] = {
        [LOSE_ANSWER] = PROXY_CUT_AFTER, [DROP_ANSWER] = PROXY_SWALLOW, [LATE] = PROXY_HOLD
    };
    if (fault == KILL)
        server_kill(servers[i]);
    else if (fault == STOP)
        server_pause(servers[i]);
    else if (fault == CUT)
        netns_unplug(i);
    else if (fault == MUTE)
        netns_drop_from(proxy_port(proxies[i]));
    else if (fault == SLOW)
        proxy_delay(proxies[i], 20, 20);
    else if (fault != REFUSE)
        proxy_arm(proxies[i], of[fault], PROXY_SCRIPTS, 1 + draw(&drawn, 30));
    if (fault == REFUSE) {
        proxy_refuse(proxies[i], true);
        proxy_cut_all(proxies[i]);
    }
}

static void heal(enum fault fault, int i)
{
    if (fault == KILL)
        server_restart(servers[i], false);
    else if (fault == STOP)
        server_resume(servers[i]);
    else if (fault == CUT)
        netns_plug_in(i);
    else if (fault == MUTE)
        netns_pass(proxy_port(proxies[i]));
    else if (fault == SLOW)
        proxy_delay(proxies[i], 0, 0);
    else if (fault == REFUSE)
        proxy_refuse(proxies[i], false);
    else
        proxy_arm(proxies[i], PROXY_NONE, PROXY_SCRIPTS, 1);
    if (fault == LATE)
        proxy_deliver(proxies[i], false);
}

/* Each kind once, in random order, before the next round of them. */
static enum fault deal(void)
{
    static enum fault deck[FAULTS];
    static unsigned rest;
    if (rest == 0)
        for (; rest < FAULTS; rest++)
            deck[rest] = (enum fault)rest;
    unsigned i = draw(&drawn, rest--);
    enum fault dealt = deck[i];
    deck[i] = deck[rest];
    return dealt;
}

/* One kind of fault at up to a minority of the masters, each with the next number from a random one on. */
static void disturb(void)
{
    enum fault fault = deal();
    int n = 1 + (int)draw(&drawn, (unsigned)(master_count - 1) / 2), first = (int)draw(&drawn, (unsigned)master_count);
    for (int i = 0; i < n; i++)
        strike(fault, (first + i) % master_count);
    struck[fault]++;
    more_holds(10 + (int)draw(&drawn, 90));
    for (int i = 0; i < n; i++)
        heal(fault, (first + i) % master_count);
    if (fault == KILL)
        test_sleep_ms(TTL_MS + TTL_MS / 4);
    more_holds((int)draw(&drawn, 30));
}

static void start_masters(void)
{
    int at = snprintf(shared->url, sizeof shared->url, "redlock://");
    for (int i = 0; i < master_count; i++) {
        servers[i] = server_start(SERVER_TCP | SERVER_NOACL, NULL);
        proxies[i] = proxy_start_at(servers[i], netns_address(i));
        at += snprintf(shared->url + at, sizeof shared->url - (size_t)at, "%s%s:%d", i ? "," : "", netns_address(i),
                       proxy_port(proxies[i]));
    }
    snprintf(shared->url + at, sizeof shared->url - (size_t)at, "?ttl_ms=%d", TTL_MS);
}

static int64_t keys_left(void)
{
    int64_t n = 0;
    for (int i = 0; i < master_count; i++) {
        redisContext *redis = raw_open(servers[i]);
        n += raw_int(redis, "EXISTS t0 t1 t2 t3");
        redisFree(redis);
    }
    return n;
}

static void end_masters(void)
{
    for (int i = 0; i < master_count; i++) {
        proxy_stop(proxies[i]);
        server_stop(servers[i]);
    }
}

static void tell(unsigned seed, int64_t took_ms, bool clean)
{
    printf("seed %u, %d masters: %d holds by %d processes of %d threads in %lld ms; masters", seed, master_count,
           atomic_load(&shared->holds), PROCESSES, THREADS, (long long)took_ms);
    for (int i = 0; i < FAULTS; i++)
        printf("%s %s %d", i ? "," : "", fault_names[i], struck[i]);
    printf("; %d holds lost, %d releases unsure, longest wait %d ms: %s\n", atomic_load(&shared->lost),
           atomic_load(&shared->unsure), atomic_load(&shared->longest_ms), clean ? "clean" : "NOT CLEAN");
}

int main(int argc, char **argv)
{
    int wanted = argc > 1 ? atoi(argv[1]) : 10000;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)test_now_ms();
    pid_t pids[PROCESSES];
    master_count = argc > 3 ? atoi(argv[3]) : 3;
    if (wanted < 1 || (master_count != 3 && master_count != MASTERS_MOST))
        test_give_up("usage: quorum_runs [HOLDS [SEED [3|5]]]");
    drawn = seed;
    history = history_create(1 << 18);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    netns_begin(master_count);
    for (int i = 0; i < PROCESSES; i++) { /* before this process has threads */
        pids[i] = fork();
        if (pids[i] == 0)
            run_process(i, seed);
    }
    start_masters();
    atomic_store(&shared->ready, true);
    more_holds(1);
    int64_t began = test_now_ms();
    while (!are_more(wanted))
        disturb();
    atomic_store(&shared->stopping, true);
    bool ended = true;
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        ended = waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0 && ended;
    }
    WAIT_FOR(keys_left() == 0);
    bool clean = ended && atomic_load(&shared->failures) == 0 && history_check(history);
    tell(seed, test_now_ms() - began, clean);
    end_masters();
    history_destroy(history);
    return clean ? 0 : 1;
}
