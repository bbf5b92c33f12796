/* runs [RUNS [SEED]] - random runs on one cluster of three masters with a replica each: 3 clients with 4 threads each
 * on 16 locks, slots that move meanwhile, and a master that is killed. Its writes have reached its replica, so nothing
 * may be lost: no wait takes WAIT_MS, no two holds of a lock overlap, no lock is left held.
 *
 * A line for each run, and a line of sums, which ./dev cluster-runs adds up. The run's number is added to SEED. A seed
 * repeats what was drawn, not what the threads made of it. */
/* Shows: P31 */
#include "support/cluster.h"
#include "support/fixture.h"
#include "support/history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 3, THREADS = 4, WORKERS = CLIENTS * THREADS, LOCKS = 16, MASTERS = 3, MOVES = 6 };
enum { HOLDS_BETWEEN = 300, LONG_MS = 10000, PAUSE_MS = 6000 };
enum { NODE_TIMEOUT_MS = 2000 }; /* on a busy machine a server is silent for a second, and is not to be replaced */

static struct worker {
    pthread_t thread;
    hlk_lock **locks;
    unsigned random;
    int who;
    atomic_int wants;          /* the lock that it waits for; -1: none */
    atomic_int at;             /* that it waits for, holds, or releases */
    _Atomic(int64_t) since_ms; /* since when */
} workers[WORKERS];

static struct cluster *cluster;
static struct history *history;
static hlk_client *clients[CLIENTS];
static hlk_lock *locks[CLIENTS][LOCKS];
static atomic_bool stopping;
static atomic_int holds, unsure, failures, longest_ms;
static unsigned drawn;
static bool reported;              /* of a wait that takes long: once in a run */
static const char *doing;          /* what is done to the cluster */
static bool masters[CLUSTER_MOST]; /* as far as we have changed them */
static struct {
    int runs, clean, disturbed, moves, kills, longest_ms;
    long long holds;
} sums;

static unsigned draw(unsigned *random, unsigned below)
{
    unsigned z = *random += 0x9e3779b9u; /* murmur's finish: of a plain LCG the threads met at one lock too often */
    z = (z ^ z >> 16) * 0x85ebca6bu;
    z = (z ^ z >> 13) * 0xc2b2ae35u;
    return (z ^ z >> 16) % below;
}

static void fault(const char *what, const hlk_lock *lock)
{
    fprintf(stderr, "runs: %s %s: %s\n", what, hlk_lock_name(lock), hlk_last_error());
    atomic_fetch_add(&failures, 1);
}

static void note_wait(int64_t ms)
{
    int longest = atomic_load(&longest_ms);
    while (ms > longest && !atomic_compare_exchange_weak(&longest_ms, &longest, (int)ms))
        ;
}

/* UNSURE: it was done by the master that died, or its answer was lost with that. */
static void let_go(hlk_lock *lock)
{
    enum hlk_status status = hlk_lock_release(lock);
    if (status == HLK_E_UNSURE)
        atomic_fetch_add(&unsure, 1);
    else if (status != HLK_OK)
        fault("release", lock);
}

static void *work(void *arg)
{
    struct worker *self = arg;
    while (!atomic_load(&stopping)) {
        int which = (int)draw(&self->random, LOCKS);
        hlk_lock *lock = self->locks[which];
        int64_t began = test_now_ms();
        atomic_store(&self->since_ms, began);
        atomic_store(&self->at, which);
        atomic_store(&self->wants, which);
        enum hlk_status status = hlk_lock_acquire(lock, WAIT_MS);
        atomic_store(&self->wants, -1);
        note_wait(test_now_ms() - began);
        if (status == HLK_LOST) { /* of an UNSURE release */
            let_go(lock);
            continue;
        }
        if (status != HLK_OK) {
            fault("acquire", lock);
            return NULL;
        }
        struct hold *hold = history_acquired(history, self->who, which, hlk_lock_held_until(lock));
        test_sleep_ms((int64_t)draw(&self->random, 4));
        history_valid_until(hold, hlk_lock_held_until(lock));
        history_released(hold);
        let_go(lock);
        atomic_fetch_add(&holds, 1);
    }
    return NULL;
}

static void open_clients(void)
{
    for (int c = 0; c < CLIENTS; c++) {
        struct hlk_client_opts opts = fixture_opts();
        opts.reconnect_timeout_ms = WAIT_MS;
        opts.reply_timeout_ms = WAIT_MS; /* of a release, too */
        clients[c] = fixture_open_at(cluster->url, &opts);
        for (int i = 0; i < LOCKS; i++) {
            char name[16];
            snprintf(name, sizeof name, "t%d", i);
            locks[c][i] = fixture_lock(clients[c], name, NULL);
        }
    }
}

static int64_t waits_ms(const struct worker *worker)
{
    return atomic_load(&worker->wants) >= 0 ? test_now_ms() - atomic_load(&worker->since_ms) : 0;
}

static void tell_long_wait(void)
{
    int64_t longest = 0;
    for (int i = 0; i < WORKERS; i++)
        longest = waits_ms(&workers[i]) > longest ? waits_ms(&workers[i]) : longest;
    if (reported || longest < LONG_MS)
        return;
    reported = true;
    fprintf(stderr, "runs: while %s a wait takes %lld ms. Waiting:", doing, (long long)longest);
    for (int i = 0; i < WORKERS; i++)
        fprintf(stderr, " %d t%d %lld ms;", i, atomic_load(&workers[i].wants), (long long)waits_ms(&workers[i]));
    fprintf(stderr, "\n");
}

/* A script with keys on both sides is refused until the slot has moved. */
static bool all_are_at(int lock)
{
    bool all = lock >= 0;
    for (int i = 0; i < WORKERS && all; i++)
        all = atomic_load(&workers[i].at) == lock;
    return all;
}

static bool are_more(int holds_then, int moving)
{
    tell_long_wait();
    return atomic_load(&holds) >= holds_then || atomic_load(&failures) > 0 || all_are_at(moving);
}

/* moving: the lock whose slot is between two servers; -1: none. */
static void more_holds(int n, int moving)
{
    int then = atomic_load(&holds) + n;
    WAIT_FOR(are_more(then, moving));
}

static bool is_master(int i)
{
    return cluster->redis[i] && strstr(raw(cluster->redis[i], "ROLE"), "master") != NULL;
}

/* A server was replaced that we had not killed: it was too busy to answer. What it had not told its replica is lost. */
static bool is_disturbed(void)
{
    bool as_expected = true;
    for (int i = 0; i < cluster->n; i++)
        as_expected = (!cluster->redis[i] || is_master(i) == masters[i]) && as_expected;
    return !as_expected;
}

/* After a failover it takes a moment until all know of it. */
static bool is_known_as_master(int by, int i)
{
    const char *line = strstr(raw(cluster->redis[by], "CLUSTER NODES"), cluster->ids[i]);
    const char *end = line ? strstr(line, "\\n") : NULL, *found = line ? strstr(line, " master ") : NULL;
    return found && (!end || found < end);
}

static void move_one(void)
{
    char name[16];
    int lock = (int)draw(&drawn, LOCKS);
    snprintf(name, sizeof name, "t%d", lock);
    unsigned slot = cluster_slot(cluster, name);
    int from = cluster_master_of(cluster, slot), to;
    if (from < 0)
        return;
    do
        to = (int)draw(&drawn, (unsigned)cluster->n);
    while (to == from || !is_master(to));
    doing = "a slot moves";
    WAIT_FOR((is_known_as_master(from, to) && is_known_as_master(to, from)) || is_disturbed());
    if (is_disturbed())
        return;
    cluster->owner[slot] = (unsigned char)from;
    cluster_move_begin(cluster, slot, to);
    more_holds((int)draw(&drawn, 20), lock);
    cluster_move_keys(cluster, slot, to);
    more_holds((int)draw(&drawn, 20), lock);
    cluster_move_keys(cluster, slot, to);
    cluster_move_end(cluster, slot, to);
    sums.moves++;
}

static long long offset_of(int i, const char *field)
{
    const char *at = strstr(raw(cluster->redis[i], "INFO replication"), field);
    return at ? strtoll(at + strlen(field), NULL, 10) : -1;
}

static int replica_of(int master)
{
    for (int i = 0; i < cluster->n; i++) {
        char port[16];
        snprintf(port, sizeof port, "master_port:%d\\r", cluster->servers[master]->port);
        const char *info = cluster->redis[i] ? raw(cluster->redis[i], "INFO replication") : "";
        if (strstr(info, "role:slave") && strstr(info, "master_link_status:up") && strstr(info, port))
            return i;
    }
    return -1;
}

/* Left paused when it is true: nothing more is written until it dies. */
static bool pause_until_replicated(int master, int replica)
{
    int64_t until_ms = test_now_ms() + PAUSE_MS / 2;
    long long written = -1, there = -2;
    raw(cluster->redis[master], "CLIENT PAUSE %d WRITE", PAUSE_MS);
    while (written != there && test_now_ms() < until_ms) {
        written = offset_of(master, "master_repl_offset:");
        there = offset_of(replica, "slave_repl_offset:");
    }
    if (written == there)
        return true;
    raw(cluster->redis[master], "CLIENT UNPAUSE");
    fprintf(stderr, "runs: the replica stays at %lld of %lld: once more\n", there, written);
    return false;
}

/* Everything that it has acknowledged is at its replica when it dies. -1: another has taken its place already. */
static int kill_one(int *successor)
{
    int master, replica;
    do
        master = (int)draw(&drawn, (unsigned)cluster->n);
    while (!is_master(master) || (replica = replica_of(master)) < 0);
    doing = "a master is paused";
    while (!is_disturbed() && !pause_until_replicated(master, replica))
        more_holds(1, -1);
    if (is_disturbed()) {
        raw(cluster->redis[master], "CLIENT UNPAUSE");
        return -1;
    }
    doing = "a master is dead";
    cluster_kill(cluster, master);
    WAIT_FOR(is_master(replica));
    masters[master] = false;
    masters[replica] = true;
    *successor = replica;
    sums.kills++;
    return master;
}

static bool is_replica(int i)
{
    return strstr(raw(cluster->redis[i], "INFO replication"), "master_link_status:up") != NULL;
}

/* By itself it would stay a master without slots. */
static bool becomes_replica(int i, int master)
{
    return strcmp(raw(cluster->redis[i], "CLUSTER REPLICATE %s", cluster->ids[master]), "OK") == 0;
}

static void be_patient(int i)
{
    raw(cluster->redis[i], "CONFIG SET cluster-node-timeout %d", NODE_TIMEOUT_MS);
}

static void bring_back(int i, int master)
{
    doing = "a replica comes back";
    server_restart(cluster->servers[i], false);
    cluster->redis[i] = raw_open(cluster->servers[i]);
    be_patient(i);
    WAIT_FOR(becomes_replica(i, master));
    WAIT_FOR(is_replica(i));
}

static bool nothing_is_held(void)
{
    bool none = true;
    for (int i = 0; i < LOCKS && none; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        int server = cluster_master_of(cluster, cluster_slot(cluster, name));
        none = server >= 0 && raw_int(cluster->redis[server], "EXISTS %s", name) == 0;
    }
    return none;
}

static void start_workers(void)
{
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &workers[i];
        worker->locks = locks[i % CLIENTS];
        worker->random = draw(&drawn, 65536) << 16 | draw(&drawn, 65536);
        worker->who = i;
        atomic_store(&worker->wants, -1);
        atomic_store(&worker->at, -1);
        pthread_create(&worker->thread, NULL, work, worker);
    }
}

/* 300 holds, moves, a kill, 300 holds, moves, 300 holds. */
static void disturb(void)
{
    int successor = -1, before = (int)draw(&drawn, MOVES + 1);
    more_holds(HOLDS_BETWEEN, -1);
    for (int i = 0; i < before; i++)
        move_one();
    int killed = kill_one(&successor);
    more_holds(HOLDS_BETWEEN, -1);
    for (int i = before; i < MOVES; i++)
        move_one();
    if (killed >= 0)
        bring_back(killed, successor);
    doing = "all servers are up";
    more_holds(HOLDS_BETWEEN, -1);
}

static void begin_run(unsigned seed)
{
    drawn = seed;
    reported = false;
    history = history_create(1 << 18);
    atomic_store(&stopping, false);
    atomic_store(&longest_ms, 0);
    atomic_store(&holds, 0);
    atomic_store(&failures, 0);
    for (int i = 0; i < cluster->n; i++)
        masters[i] = is_master(i);
}

static unsigned long long polls(void)
{
    unsigned long long sum = 0;
    for (int c = 0; c < CLIENTS; c++)
        sum += fixture_counters(clients[c]).woken_by_ttl;
    return sum;
}

static void tell_servers(void)
{
    for (int i = 0; i < cluster->n; i++)
        fprintf(stderr, "server %d: %s\n", i, raw(cluster->redis[i], "CLUSTER NODES"));
}

/* False: not clean. */
static bool run(unsigned seed)
{
    int64_t began = test_now_ms();
    begin_run(seed);
    start_workers();
    disturb();
    atomic_store(&stopping, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    WAIT_FOR(nothing_is_held() || atomic_load(&failures) > 0);
    bool disturbed = is_disturbed(), clean = history_check(history) && atomic_load(&failures) == 0;
    if (!clean)
        tell_servers();
    printf("seed %u: %d holds, longest wait %d ms, %s, %lld ms\n", seed, atomic_load(&holds), atomic_load(&longest_ms),
           disturbed ? "DISTURBED by a failover of its own"
           : clean   ? "clean"
                     : "NOT CLEAN",
           (long long)(test_now_ms() - began));
    fflush(stdout);
    history_destroy(history);
    sums.runs++;
    sums.disturbed += disturbed;
    sums.clean += clean && !disturbed;
    sums.holds += atomic_load(&holds);
    if (atomic_load(&longest_ms) > sums.longest_ms)
        sums.longest_ms = atomic_load(&longest_ms);
    return clean || disturbed;
}

int main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : 3;
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)test_now_ms();
    cluster = cluster_start(MASTERS, MASTERS);
    for (int i = 0; i < cluster->n; i++) {
        be_patient(i);
        server_allow(cluster->servers[i], SERVER_TOMBSTONES);
    }
    open_clients();
    bool clean = true;
    for (int i = 0; i < runs && clean; i++)
        clean = run(seed + (unsigned)i);
    printf("sum: runs %d clean %d disturbed %d holds %lld moves %d kills %d polls %llu unsure %d longest %d\n",
           sums.runs, sums.clean, sums.disturbed, sums.holds, sums.moves, sums.kills, polls(), atomic_load(&unsure),
           sums.longest_ms);
    fflush(stdout);
    fixture_end();
    cluster_finish(cluster);
    return clean ? 0 : 1;
}
