/* soak.c - everything at once, for as long as one likes: client processes use a few names of every type that the
 * library has, in every way, while they are killed and stopped, and the network between them and the server fails, and
 * the server itself. It goes by rounds: each has its own processes and its own mix of faults, and ends with a quiet
 * moment in which history and server are judged (judge.h). The first one has no faults, and nothing may go wrong in it.
 *
 *     soak SECONDS [SEED]
 *
 * What is drawn repeats with the seed; what the machine's scheduler makes of it does not. Exit status: 0; 1 when
 * something was wrong, which is told with the holds and faults around it; 2 for a bad command line.
 *
 * For hunting, in the environment: SOAK_ROUND=n begins with that round, SOAK_KINDS=mask allows these faults only,
 * SOAK_LOG=1 shows what the clients log, SOAK_LONG_MS=n shows waits and holds that took longer, SOAK_GDB=command is run
 * with the id of a process in which somebody starves.
 */
#include "faults.h"
#include "semaphores.h"
#include "worker.h"

#include "support/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* HUNGRY_MS: a wait whose grant was lost asks 5 s later (docs/protocol.md, 6); faults may do that to it twice. */
enum { QUIET_MS = 3000, ROUND_MS = 8000, END_MS = 15000, HUNGRY_MS = 2 * 5000 + 2000, HUNGRY_QUIET_MS = 2500 };

extern char **environ;
static struct run run;
static struct hlk_counters sum;
static struct judge_sums judged;
static uint64_t holds, longest_forever_ns;

void run_start_process(struct run *w, int slot)
{
    char number[16], name[] = "soak", process[] = "--process";
    char *argv[] = { name, process, number, NULL };
    posix_spawn_file_actions_t actions;
    snprintf(number, sizeof number, "%d", slot);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, w->fd, SOAK_FD);
    struct soak_slot *at = &w->soak->slot[slot];
    int incarnation = at->incarnation;
    memset(at, 0, sizeof *at);
    at->incarnation = incarnation + 1;
    if (posix_spawn(&w->pids[slot], "/proc/self/exe", &actions, NULL, argv, environ) != 0)
        test_give_up("cannot start a process");
    posix_spawn_file_actions_destroy(&actions);
}

/* --- looking at what goes on */

static void collect(int slot)
{
    const struct hlk_counters *c = &run.soak->slot[slot].counters;
    sum.granted += c->granted;
    sum.passed += c->passed;
    sum.woken_by_ttl += c->woken_by_ttl;
    sum.woken += c->woken;
    sum.acquired += c->acquired;
    sum.lost += c->lost;
    sum.handed_back += c->handed_back;
    sum.renewals += c->renewals;
    sum.reconnects += c->reconnects;
}

static void show_thread(int slot, int thread)
{
    const struct soak_thread *at = &run.soak->slot[slot].threads[thread];
    static const char *const doings[] = { "nothing", "acquire", "async acquire", "hold", "release", "close" };
    fprintf(stderr, "soak:   slot %d pid %d thread %d: %s %s, wait %lld ms, for %.0f ms\n", slot, (int)run.pids[slot],
            thread, doings[at->doing], soak_turn_name(at->lock), (long long)at->wait_ms,
            at->since ? (double)(soak_now() - at->since) / 1e6 : 0.0);
}

/* For hunting: SOAK_GDB is a command that is given the process' id. */
static void look_inside(int slot)
{
    char command[256];
    const char *debugger = getenv("SOAK_GDB");
    snprintf(command, sizeof command, "%s %d >&2", debugger ? debugger : "", (int)run.pids[slot]);
    if (debugger && run.pids[slot] > 0 && system(command) != 0)
        fprintf(stderr, "soak: %s failed\n", debugger);
}

/* Who waits without an end, and for how long? */
static void look_for_hungry(void)
{
    for (int slot = 0; slot < SLOTS; slot++)
        for (int i = 0; i < THREADS; i++) {
            const struct soak_thread *at = &run.soak->slot[slot].threads[i];
            int doing = at->doing;
            int64_t since = at->since;
            if ((doing != DOING_ACQUIRE && doing != DOING_ACQUIRE_ASYNC) || run.stopped[slot] || !since)
                continue;
            int64_t waited = soak_now() - since, wait_ms = at->wait_ms;
            if (wait_ms < 0 && (uint64_t)waited > longest_forever_ns)
                longest_forever_ns = (uint64_t)waited;
            int64_t most = run.soak->quiet ? HUNGRY_QUIET_MS : HUNGRY_MS; /* quiet: less than a lease */
            if (waited > (most + (wait_ms > 0 ? wait_ms : 0)) * INT64_C(1000000)) {
                soak_wrong(run.soak, "somebody starves");
                show_thread(slot, i);
                for (int lock = 0; lock < LOCKS; lock++)
                    fprintf(stderr, "soak:   %s: %s ttl %d\n", soak_lock_name(lock),
                            raw(run.redis, "HGETALL %s", soak_lock_name(lock)),
                            (int)raw_pttl(run.redis, soak_lock_name(lock)));
                look_inside(slot);
                atomic_store(&run.soak->slot[slot].threads[i].since, soak_now());
            }
        }
}

static void reap(bool all_may_end)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        int status = 0;
        if (run.pids[slot] <= 0 || waitpid(run.pids[slot], &status, WNOHANG) != run.pids[slot])
            continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !all_may_end)
            soak_wrong(run.soak, "the process of slot %d, pid %d, ended by itself: status 0x%x", slot,
                       (int)run.pids[slot], (unsigned)status);
        run.pids[slot] = 0;
        collect(slot);
    }
}

static int running(void)
{
    int n = 0;
    for (int slot = 0; slot < SLOTS; slot++)
        n += run.pids[slot] > 0;
    return n;
}

/* --- rounds */

static void end_processes(void)
{
    int64_t give_up = test_now_ms() + END_MS;
    atomic_store(&run.soak->stop, true);
    while (running() && test_now_ms() < give_up) {
        reap(true);
        semaphores_renew_due(run.soak, run.operator); /* somebody may wait for one that was lost */
        look_for_hungry();
        test_sleep_ms(5);
    }
    if (!running())
        return;
    soak_wrong(run.soak, "%d processes do not end", running());
    for (int slot = 0; slot < SLOTS; slot++)
        for (int i = 0; run.pids[slot] > 0 && i <= THREADS; i++)
            show_thread(slot, i);
    for (int slot = 0; slot < SLOTS; slot++)
        look_inside(slot);
    for (int slot = 0; slot < SLOTS; slot++)
        if (run.pids[slot] > 0) {
            kill(run.pids[slot], SIGKILL);
            while (waitpid(run.pids[slot], NULL, 0) < 0 && errno == EINTR)
                ;
            run.pids[slot] = 0;
        }
}

static void show_faults(void)
{
    for (size_t i = 0; i < run.shown_count; i++)
        fprintf(stderr, "soak:   %.3f %s\n", (double)(run.shown[i].at - soak_zero) / 1e6, run.shown[i].text);
}

static void one_round(uint64_t number, int64_t ms)
{
    struct soak *soak = run.soak;
    soak_new_round(soak);
    soak->round = number;
    soak->quiet = number == 0;
    soak_zero = soak_now();
    run.rng = soak_rng(soak, 1000, 0, 0);
    soak->slots = 3 + (int)soak_draw(&run.rng, FOREIGN - 2);
    soak->threads = 2 + (int)soak_draw(&run.rng, THREADS - 1);
    soak->hurry = (int)soak_draw(&run.rng, 3);
    faults_begin(&run);
    semaphores_begin(soak, run.operator);
    fprintf(stderr, "soak: round %d, seed %" PRIu64 ": %d processes of %d threads, %s\n", (int)number, soak->seed,
            soak->slots, soak->threads, soak->quiet ? "no faults" : "with faults");
    int before = soak->wrongs;
    for (int slot = 0; slot < SLOTS; slot++)
        if (slot < soak->slots || slot == FOREIGN)
            run_start_process(&run, slot);
    for (int64_t until = test_now_ms() + ms; test_now_ms() < until;) {
        if (!soak->quiet)
            faults_one(&run);
        for (int64_t next = test_now_ms() + (int64_t)soak_draw(&run.rng, (uint64_t)run.gap_ms); test_now_ms() < next;) {
            faults_heal_due(&run);
            semaphores_renew_due(soak, run.operator);
            test_sleep_ms(2);
        }
        reap(false);
        look_for_hungry();
    }
    faults_heal_all(&run);
    end_processes();
    judge_semaphore_left(soak, run.redis);
    judge_server(soak, run.redis);
    size_t done = soak->claimed;
    holds += done;
    (void)judge_history(soak, run.deeds, run.deed_count, &judged);
    fprintf(stderr, "soak: %zu holds\n", done);
    if (soak->wrongs != before)
        show_faults();
}

static void set_up(uint64_t seed)
{
    static const char *const extra[] = { "--loglevel", "warning", "--appendfsync", "no", /* a killed server has written
                                                                                            what it answered */
                                         NULL };
    signal(SIGPIPE, SIG_IGN);
    run.soak = soak_create(&run.fd);
    run.soak->seed = seed;
    run.server = server_start(SERVER_AOF | SERVER_NOACL, extra);
    run.redis = raw_open(run.server);
    for (int i = 0; i < PROXIES; i++) {
        run.proxies[i] = proxy_start(run.server);
        proxy_forget(run.proxies[i]);
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        const char *url = slot < 2 ? run.server->unix_url : proxy_url(run.proxies[slot < 4 ? 0 : 1]);
        snprintf(run.soak->urls[slot], sizeof run.soak->urls[slot], "%s", url);
        snprintf(run.soak->socket[slot], sizeof run.soak->socket[slot], "%.*s", 95, url + strlen("unix:"));
    }
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.reconnect_timeout_ms = 500;
    opts.reply_timeout_ms = 500;
    opts.log_level = HLK_LOG_ERROR;
    if (hlk_client_open(&run.operator, run.server->unix_url, &opts) != HLK_OK)
        test_give_up("the operator's client: %s", hlk_last_error());
    for (int i = 0; i < LOCKS; i++) {
        struct hlk_lock_opts lock = soak_lock_opts(i);
        run.locks[i] = hlk_lock_create(run.operator, soak_lock_name(i), &lock);
    }
}

static void report(void)
{
    struct soak *soak = run.soak;
    static const char *const answers[] = { "ok", "busy", "timeout", "interrupted", "unknown or lost" };
    printf("holds: %" PRIu64 "; asked:", holds);
    for (int i = 0; i < 5; i++)
        printf("%s %" PRIu64 " %s", i ? "," : "", (uint64_t)soak->answers[i], answers[i]);
    printf("; released: %" PRIu64 " ok, %" PRIu64 " lost, %" PRIu64 " unknown\n", (uint64_t)soak->answers[8],
           (uint64_t)soak->answers[9], (uint64_t)soak->answers[10]);
    printf("hand-overs: %" PRIu64 " granted, %" PRIu64 " passed locally, %" PRIu64 " polled, %" PRIu64
           " handed back (of processes that were not killed)\n",
           sum.granted, sum.passed, sum.woken_by_ttl, sum.handed_back);
    printf("faults:");
    for (int i = 0; i < FAULTS; i++)
        printf("%s %" PRIu64 " %s", i ? "," : "", run.counts[i], fault_names[i]);
    printf("\nwaits: p50 %" PRIu64 " us, p99 %" PRIu64 " us, p99.9 %" PRIu64 " us\n", soak_wait_quantile(soak, 0.5),
           soak_wait_quantile(soak, 0.99), soak_wait_quantile(soak, 0.999));
    printf("%-24s %10s %16s\n", "judged", "holds", "longest wait, ms");
    for (int i = 0; i < TURNS; i++)
        printf("%-24s %10" PRIu64 " %16.0f\n", soak_turn_name(i), judged.holds[i],
               (double)soak->longest_wait_ns[i] / 1e6);
    printf("%-24s %10" PRIu64 "\n", "woken at the condition", judged.woken);
    printf("%-24s %10s %16.0f\n", "the foreign client", "", (double)soak->longest_foreign_wait_ns / 1e6);
    printf("violations: %d (seed %" PRIu64 ")\n", soak->wrongs, soak->seed);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--process") == 0) {
        int slot = atoi(argv[2]);
        struct soak *soak = soak_map();
        return slot == FOREIGN ? foreign_main(soak) : process_main(soak, slot);
    }
    int64_t seconds = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
    if (seconds <= 0 || argc > 3) {
        fprintf(stderr, "usage: soak SECONDS [SEED]\n");
        return 2;
    }
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)soak_now() / 1000;
    printf("seed: %" PRIu64 "\n", seed);
    fflush(stdout);
    set_up(seed);
    const char *first = getenv("SOAK_ROUND"); /* for hunting: begin with this one */
    int64_t until = test_now_ms() + seconds * 1000;
    uint64_t round = first ? strtoull(first, NULL, 10) : 0;
    for (; test_now_ms() < until; round++)
        one_round(round, round ? ROUND_MS : QUIET_MS);
    report();
    for (int i = 0; i < LOCKS; i++)
        hlk_lock_destroy(run.locks[i]);
    hlk_client_close(run.operator);
    for (int i = 0; i < PROXIES; i++)
        proxy_stop(run.proxies[i]);
    redisFree(run.redis);
    server_stop(run.server);
    return run.soak->wrongs ? 1 : 0;
}
