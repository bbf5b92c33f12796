/* ours.c - hasplock as a peer: one client for each process, shared by all threads.
 *
 *     ours             the defaults: polls before it blocks while replies come quickly
 *     ours-nospin      HLK_OPEN_NO_SPIN
 *     ours-fair        fair locks
 *     ours-nopass      never passes a lock on within the process (local_passes off)
 *     ours-relasync    blocking acquire, release without waiting for its completion
 *     ours-unix, ours-tls, ours-sentinel, ours-cluster    the defaults, by --url
 *     ours-quorum-N    a lock over N masters (ours_quorum.c)
 *     ours-permit, -8      HLK_LOCK_PERMIT, of which there are 1, 8
 *     ours-semaphore, -8   hlk_semaphore, of 1, 8 permits (ours_semaphore.c)
 *     ours-read, ours-write, ours-rw   halves of hlk_rwlock; with -nopass: local_passes off (ours_rw.c)
 *     ours-latch       hlk_latch (ours_latch.c)
 *     ours-barrier-N   hlk_barrier of N parties (ours_barrier.c)
 *     ours-condition, -all   hlk_condition: turns by signals; a broadcast (ours_condition.c)
 *     ours-multilock   a multilock of 5 locks; -3, -3-async: of 3 (ours_multilock.c)
 *     ours-open        a client for each acquire and release (ours_open.c)
 *     ours-dispatch    async, completions by hlk_client_dispatch; both completions are waited for
 *     ours-forget      the same, releases without a completion
 *     ours-events      async, completions on the client's events thread; both completions are waited for */
#include "ours.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* of the log: a million locks at risk would write a million lines, which would distort the result */
enum { LINES = 5 };

static struct {
    const struct bench_options *options;
    hlk_client *client;
    int permits; /* that the variant has; 0: it is a lock */
    atomic_int logged;
} process;

static bool is_variant(const char *name)
{
    return strcmp(process.options->variant, name) == 0;
}

static void log_line(int level, const char *line, void *ctx)
{
    (void)level, (void)ctx;
    int before = atomic_fetch_add(&process.logged, 1);
    if (before < LINES)
        fprintf(stderr, "hasplock: %s%s\n", line, before == LINES - 1 ? " (no more of this process is shown)" : "");
}

static int from_environment(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

static int process_open(const struct bench_options *options)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    char url[64];
    process.options = options;
    opts.label = "bench";
    opts.watchdog_ms = options->lease_ms;
    opts.log = log_line;
    opts.yield_every = from_environment("HLK_BENCH_OPEN_EVERY");
    opts.yield_ms = from_environment("HLK_BENCH_OPEN_MS");
    opts.local_passes = strstr(options->variant, "-nopass") ? -1 : from_environment("HLK_BENCH_LOCAL_PASSES");
    if (is_variant("ours-nospin"))
        opts.flags |= HLK_OPEN_NO_SPIN;
    if (is_variant("ours-dispatch") || is_variant("ours-forget"))
        opts.flags |= HLK_OPEN_DISPATCH;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", options->port);
    enum hlk_status status = hlk_client_open(&process.client, *options->url ? options->url : url, &opts);
    return status == HLK_OK ? 0 : bench_fail(NULL, "%s: %s", hlk_status_name(status), hlk_last_error());
}

static void process_close(void)
{
    hlk_client_close(process.client);
}

static int thread_open(struct bench_worker *worker)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = process.permits ? HLK_LOCK_PERMIT : is_variant("ours-fair") ? HLK_LOCK_FAIR : HLK_LOCK_PLAIN;
    opts.permits = process.permits;
    worker->state = hlk_lock_create(process.client, worker->key, &opts);
    return worker->state ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
}

static void thread_close(struct bench_worker *worker)
{
    hlk_lock_destroy(worker->state);
}

static int acquire(struct bench_worker *worker)
{
    enum hlk_status status = hlk_lock_acquire(worker->state, HLK_FOREVER);
    return status == HLK_OK ? 0 : bench_fail(worker, "acquire: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int release(struct bench_worker *worker)
{
    enum hlk_status status = hlk_lock_release(worker->state);
    return status == HLK_OK ? 0 : bench_fail(worker, "release: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int release_unwaited(struct bench_worker *worker)
{
    enum hlk_status status = hlk_lock_release_async(worker->state, NULL, NULL);
    return status == HLK_OK ? 0 : bench_fail(worker, "release: %s: %s", hlk_status_name(status), hlk_last_error());
}

static int run_async(struct bench_worker *worker)
{
    return ours_async_run(process.client, worker, !is_variant("ours-forget"));
}

static int hold(int count)
{
    return ours_hold(process.client, count);
}

static void stats(FILE *out)
{
    ours_stats(process.client, out);
    fprintf(out, ",\"logged\":%d", atomic_load(&process.logged));
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

int main(int argc, char **argv)
{
    static char version[32];
    struct bench_peer peer = {
        .version = version,
        .open = process_open,
        .close = process_close,
        .thread_open = thread_open,
        .thread_close = thread_close,
        .acquire = acquire,
        .release = release,
        .run_async = run_async,
        .hold = hold,
        .drop = ours_drop,
        .stats = stats,
    };
    snprintf(version, sizeof version, "hasplock %s", hlk_version());
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "ours-relasync") == 0)
            peer.release = release_unwaited;
        if (starts_with(argv[i], "ours-quorum"))
            ours_quorum_peer(&peer);
        if (starts_with(argv[i], "ours-permit") || starts_with(argv[i], "ours-semaphore"))
            process.permits = peer.permits = strstr(argv[i], "-8") ? 8 : 1;
        if (starts_with(argv[i], "ours-semaphore"))
            ours_semaphore_peer(&peer, &process.client);
        if (starts_with(argv[i], "ours-read") || starts_with(argv[i], "ours-write") || starts_with(argv[i], "ours-rw"))
            ours_rw_peer(&peer, argv[i], &process.client);
        if (strcmp(argv[i], "ours-latch") == 0)
            ours_latch_peer(&peer, &process.client);
        if (starts_with(argv[i], "ours-barrier"))
            ours_barrier_peer(&peer, &process.client);
        if (starts_with(argv[i], "ours-condition"))
            ours_condition_peer(&peer, strstr(argv[i], "-all") != NULL, &process.client);
        if (strcmp(argv[i], "ours-open") == 0)
            ours_open_peer(&peer);
        if (starts_with(argv[i], "ours-multilock"))
            ours_multilock_peer(&peer, argv[i], &process.client);
    }
    return bench_main(argc, argv, &peer);
}
