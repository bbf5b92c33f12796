/* runs.c - `hasplock run` under random faults: do the children of two holders ever work at the same time?
 *
 *     runs SECONDS [SEED]
 *
 * Some runs compete for one lock, each by a proxy of its own. Their COMMAND is two processes of this program that write
 * down when they began to work and when they last did. Meanwhile hasplock, its COMMAND, or both are stopped for up to
 * two leases and woken in either order, hasplock is killed, connections are cut or frozen, and the server is stopped.
 * No fault makes the server forget, so nothing is excused: two that overlap are wrong, and are told with the faults
 * before.
 *
 * What is drawn repeats with the seed; what the machine's scheduler makes of it does not. Exit status: 0; 1 when
 * something was wrong, or too little happened to say so; 2 for a bad command line.
 *
 * For hunting, in the environment: RUNS_ALL=1 stops the helper process too, which shows what remains then; RUNS_KINDS=
 * mask allows these faults only; HASPLOCK_RUN names another hasplock. */
/* Shows: S3 (RUNS_ALL=1) */
#include "support/proxy.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RUNS = 4,
    LEASE_MS = 2000,
    HISTORY_FD = 60,
    RECORDS_MOST = 200000,
    TOLD = 12,
    HOLDS_MIN = 5,
    HOLDS_ENOUGH = 2 * HOLDS_MIN
};

enum fault { STOP_RUN, STOP_COMMAND, STOP_BOTH, KILL_RUN, STOP_SERVER, CUT, FREEZE, FAULTS };
static const char *const fault_names[FAULTS] = {
    "hasplock stopped", "COMMAND stopped", "hasplock and COMMAND stopped", "hasplock killed",
    "server stopped",   "connections cut", "the network is frozen"
};

struct record { /* one process at work; by itself. Times in ns of CLOCK_BOOTTIME */
    _Atomic int64_t begin, last;
    int slot, pid;
    char owner[120]; /* HASPLOCK_OWNER: whose hold */
};

struct history {
    atomic_uint count;
    struct record records[RECORDS_MOST];
};

struct run {
    struct proxy *proxy;
    pid_t pid;
    pid_t stopped[3]; /* to be continued, in this order */
    int64_t heal_at;  /* ms */
    bool frozen;
};

struct deed {
    int64_t begin, end; /* ns */
    int slot;
    enum fault fault;
};

static struct history *history;
static struct server *server;
static struct run runs[RUNS];
static struct deed deeds[100000];
static size_t deed_count;
static int64_t server_heal_at;
static uint64_t rng;
static int ended_by[256];
static char own_path[PATH_MAX];

/* --- COMMAND */

static void work(int slot, int64_t until_ns)
{
    unsigned i = atomic_fetch_add(&history->count, 1);
    const char *owner = getenv("HASPLOCK_OWNER");
    if (i >= RECORDS_MOST)
        _exit(3);
    struct record *record = &history->records[i];
    record->slot = slot;
    record->pid = getpid();
    snprintf(record->owner, sizeof record->owner, "%s", owner ? owner : "nobody");
    for (int64_t now = test_now_ns(); now < until_ns; now = test_now_ns()) {
        atomic_store(&record->last, now);
        if (!atomic_load(&record->begin))
            atomic_store(&record->begin, now);
        usleep(200);
    }
}

static int be_a_command(int slot, int64_t ms)
{
    int64_t until_ns = test_now_ns() + ms * 1000000;
    signal(SIGTERM, SIG_IGN); /* the worst of all: heeds nothing */
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(slot, until_ns);
        _exit(0);
    }
    work(slot, until_ns);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

/* --- the competitors */

static uint64_t draw(uint64_t below) /* splitmix64 */
{
    uint64_t z = (rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static void start_run(int slot)
{
    static const char *const policies[] = { "--on-lost=term", "--on-lost=kill" };
    char number[16], ms[16], lease[16];
    const char *program = getenv("HASPLOCK_RUN");
    snprintf(number, sizeof number, "%d", slot);
    snprintf(ms, sizeof ms, "%d", (int)(draw(2) ? draw(600) : draw(3 * LEASE_MS)));
    snprintf(lease, sizeof lease, "%d", LEASE_MS / 1000);
    const char *policy = policies[draw(2)];
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int fd = 0; !getenv("RUNS_LOG") && fd < 3; fd++)
            dup2(null, fd);
        execl(program ? program : HLK_CLI_PATH, "hasplock", "run", "-vv", "-u", proxy_url(runs[slot].proxy), "--lease",
              lease, policy, "t", "--", own_path, "--work", number, ms, (char *)NULL);
        _exit(127);
    }
    runs[slot].pid = pid;
}

static void reap_and_start_again(int slot)
{
    int status;
    if (runs[slot].pid > 0 && waitpid(runs[slot].pid, &status, WNOHANG) != runs[slot].pid)
        return;
    if (runs[slot].pid > 0)
        ended_by[WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)]++;
    runs[slot].heal_at = 0;
    start_run(slot);
}

/* --- faults */

/* The first child of `pid`; 0: none. */
static pid_t child_of(pid_t pid)
{
    char path[80];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *children = fopen(path, "r");
    if (!children || fscanf(children, "%d", &child) != 1)
        child = 0;
    if (children)
        fclose(children);
    return child;
}

/* The child of a run is its helper, whose first child is COMMAND. */
static pid_t command_of(const struct run *run)
{
    pid_t helper = child_of(run->pid);
    return helper ? child_of(helper) : 0;
}

static struct deed *write_down(int slot, enum fault fault, int64_t ms)
{
    struct deed *deed = &deeds[deed_count];
    int64_t now = test_now_ns();
    *deed = (struct deed){ now, now + ms * 1000000, slot, fault };
    deed_count += deed_count < sizeof deeds / sizeof deeds[0] - 1;
    return deed;
}

static void stop(struct run *run, enum fault fault)
{
    pid_t command = command_of(run);
    pid_t group = command ? -command : 0;
    pid_t who[3] = { fault != STOP_COMMAND ? run->pid : 0, fault != STOP_RUN ? group : 0,
                     getenv("RUNS_ALL") ? child_of(run->pid) : 0 };
    if (fault == STOP_COMMAND && !group)
        return;
    for (int i = 0; i < 3; i++)
        if (who[i])
            kill(who[i], SIGSTOP);
    bool command_first = draw(2);
    run->stopped[0] = command_first ? who[1] : who[0];
    run->stopped[1] = command_first ? who[0] : who[1];
    run->stopped[2] = who[2];
}

/* Mostly who holds: what befalls the others is less interesting. */
static int draw_slot(void)
{
    int slot = (int)draw(RUNS);
    for (int i = 0; draw(3) && i < RUNS; i++)
        if (runs[i].pid > 0 && command_of(&runs[i]))
            return i;
    return slot;
}

static void strike(enum fault fault)
{
    int slot = draw_slot();
    struct run *run = &runs[slot];
    int64_t ms = (int64_t)(draw(2) ? draw(LEASE_MS / 4) : draw(2 * LEASE_MS));
    if (fault != STOP_SERVER && (run->heal_at || run->pid <= 0))
        return;
    if (fault == STOP_SERVER && server_heal_at)
        return;
    write_down(slot, fault, ms);
    switch (fault) {
    case KILL_RUN:
        kill(run->pid, SIGKILL);
        break;
    case STOP_SERVER:
        server_pause(server);
        server_heal_at = test_now_ms() + ms;
        break;
    case CUT:
        proxy_cut_all(run->proxy);
        break;
    case FREEZE:
        proxy_freeze(run->proxy, true);
        run->frozen = true;
        run->heal_at = test_now_ms() + ms;
        break;
    default:
        stop(run, fault);
        run->heal_at = test_now_ms() + ms;
    }
}

static void heal(struct run *run)
{
    if (run->frozen)
        proxy_freeze(run->proxy, false);
    run->frozen = false;
    for (int i = 0; i < 3; i++) {
        if (run->stopped[i])
            kill(run->stopped[i], SIGCONT);
        run->stopped[i] = 0;
        if (draw(2))
            usleep((useconds_t)draw(3000)); /* some of the way one of them is alone */
    }
    run->heal_at = 0;
}

static void heal_what_is_due(int64_t now_ms)
{
    for (int i = 0; i < RUNS; i++)
        if (runs[i].heal_at && now_ms >= runs[i].heal_at)
            heal(&runs[i]);
    if (server_heal_at && now_ms >= server_heal_at) {
        server_resume(server);
        server_heal_at = 0;
    }
}

/* --- judging */

static int by_begin(const void *a, const void *b)
{
    int64_t x = ((const struct record *)a)->begin, y = ((const struct record *)b)->begin;
    return (x > y) - (x < y);
}

static double seconds(int64_t ns, int64_t from_ns)
{
    return (double)(ns - from_ns) / 1e9;
}

static void tell_overlap(const struct record *first, const struct record *second, int64_t began_ns)
{
    printf("OVERLAP of %.3f s: slot %d pid %d (%s) worked from %.3f to %.3f s, slot %d pid %d (%s) began at %.3f s\n",
           seconds(first->last, second->begin), first->slot, first->pid, first->owner, seconds(first->begin, began_ns),
           seconds(first->last, began_ns), second->slot, second->pid, second->owner, seconds(second->begin, began_ns));
    int done = 0;
    for (size_t i = deed_count; i-- > 0 && done < TOLD;)
        if (deeds[i].begin < second->begin && (deeds[i].slot == first->slot || deeds[i].fault == STOP_SERVER)) {
            printf("    %.3f to %.3f s: %s (slot %d)\n", seconds(deeds[i].begin, began_ns),
                   seconds(deeds[i].end, began_ns), fault_names[deeds[i].fault], deeds[i].slot);
            done++;
        }
}

/* How many pairs of different holds overlap. */
static int judge(int64_t began_ns, int *holds)
{
    unsigned n = history->count < RECORDS_MOST ? history->count : RECORDS_MOST;
    int overlaps = 0;
    const struct record *latest = NULL;
    *holds = 0;
    qsort(history->records, n, sizeof history->records[0], by_begin);
    for (unsigned i = 0; i < n; i++) {
        const struct record *record = &history->records[i];
        if (!record->begin) /* killed before it did anything */
            continue;
        bool other = latest && strcmp(latest->owner, record->owner) != 0;
        *holds += !latest || other;
        if (other && latest->last > record->begin) {
            overlaps++;
            tell_overlap(latest, record, began_ns);
        }
        if (!latest || record->last > latest->last)
            latest = record;
    }
    return overlaps;
}

/* Enough holds to say something. The records are those of commands that have begun, in the order in which they did. */
static bool are_enough(void)
{
    unsigned n = history->count < RECORDS_MOST ? history->count : RECORDS_MOST;
    int holds = 0;
    for (unsigned i = 0; i < n && holds < HOLDS_ENOUGH; i++)
        holds += history->records[i].begin &&
                 (i == 0 || strcmp(history->records[i].owner, history->records[i - 1].owner) != 0);
    return holds >= HOLDS_ENOUGH;
}

/* For length_ms. If there were too few holds by then, until there are enough, for up to ten times as long. */
static void soak(int64_t began_ms, int64_t length_ms)
{
    const char *only = getenv("RUNS_KINDS");
    unsigned kinds = only ? (unsigned)strtoul(only, NULL, 0) : (1u << FAULTS) - 1;
    int64_t next_ms = test_now_ms() + 300;
    while (test_now_ms() < began_ms + length_ms || (!are_enough() && test_now_ms() < began_ms + 10 * length_ms)) {
        for (int i = 0; i < RUNS; i++)
            reap_and_start_again(i);
        heal_what_is_due(test_now_ms());
        if (test_now_ms() >= next_ms) {
            enum fault fault = (enum fault)draw(FAULTS);
            if (fault == KILL_RUN && draw(4)) /* each costs a lease in which nothing happens */
                fault = STOP_BOTH;
            next_ms = test_now_ms() + 20 + (int64_t)draw(300);
            if (kinds & (1u << fault))
                strike(fault);
        }
        test_sleep_ms(2);
    }
}

/* Everybody runs again, and ends: who was stopped must not find the lock still his. */
static void calm_down(void)
{
    heal_what_is_due(INT64_MAX);
    for (int i = 0; i < RUNS; i++) {
        kill(runs[i].pid, SIGTERM);
        WAIT_FOR(waitpid(runs[i].pid, NULL, WNOHANG) != 0);
        proxy_stop(runs[i].proxy);
    }
}

static void map_history(bool create)
{
    int fd = create ? memfd_create("history", 0) : HISTORY_FD;
    if (create && (ftruncate(fd, sizeof *history) != 0 || dup2(fd, HISTORY_FD) != HISTORY_FD))
        test_give_up("no room for the history: %s", strerror(errno));
    if (create)
        close(fd);
    void *memory = mmap(NULL, sizeof *history, PROT_READ | PROT_WRITE, MAP_SHARED, HISTORY_FD, 0);
    if (memory == MAP_FAILED)
        test_give_up("mmap: %s", strerror(errno));
    history = memory;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    if (argc == 4 && strcmp(argv[1], "--work") == 0) {
        map_history(false);
        return be_a_command(atoi(argv[2]), atol(argv[3]));
    }
    long secs = argc >= 2 ? strtol(argv[1], &end, 10) : 0;
    if (secs < 1 || *end || argc > 3) {
        fprintf(stderr, "runs SECONDS [SEED]\n");
        return 2;
    }
    if (readlink("/proc/self/exe", own_path, sizeof own_path - 1) < 0)
        return 2;
    rng = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)test_now_ns();
    printf("runs: %ld s, seed %llu\n", secs, (unsigned long long)rng);
    map_history(true);
    server = server_start(0, NULL);
    server_allow(server, SERVER_QUEUE);
    server_allow(server, "t");
    server_allow(server, "hasplock_note:*");
    for (int i = 0; i < RUNS; i++)
        runs[i].proxy = proxy_start(server);
    int64_t began_ns = test_now_ns();
    soak(began_ns / 1000000, secs * 1000);
    calm_down();
    server_stop(server);
    int holds, overlaps = judge(began_ns, &holds);
    printf("runs: %d holds, %zu faults, %d ended with 0, %d with 75, %d killed; %d overlaps\n", holds, deed_count,
           ended_by[0], ended_by[75], ended_by[128 + SIGKILL], overlaps);
    if (holds < HOLDS_MIN)
        printf("runs: too few holds to say anything\n");
    return overlaps > 0 || holds < HOLDS_MIN;
}
