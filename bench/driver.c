/* driver.c - see driver.h. In a round, threads open, wait for `go`, run until the end, are counted and joined. */
#include "driver.h"
#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { NESTED_BATCH = 1000, MAX_THREADS = BENCH_PAGE_THREADS };

typedef void loop_fn(const struct bench_peer *peer, struct bench_worker *worker);

static struct {
    const struct bench_peer *peer;
    struct bench_options options;
    struct bench_page *page;
    loop_fn *loop;                     /* of the round */
    pthread_barrier_t opened, started; /* the round's threads and the main thread */
    sem_t waiting;                     /* drain, wake: posted by each thread just before it acquires */
    struct bench_worker taken;         /* the main thread's, from `take` to `give` */
} driver;

static char process_error[192];

int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_sleep_until(int64_t at_ns)
{
    struct timespec at = { .tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000 };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

int64_t bench_rss_bytes(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm) {
        if (fscanf(statm, "%*s %ld", &pages) != 1)
            pages = 0;
        fclose(statm);
    }
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

int bench_fail(struct bench_worker *worker, const char *format, ...)
{
    char *text = worker ? worker->error : process_error;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof process_error, format, args);
    va_end(args);
    for (char *c = text; *c; c++) { /* the text goes unescaped into a JSON string */
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '\'';
    }
    return -1;
}

static void loop_own(const struct bench_peer *peer, struct bench_worker *worker)
{
    for (int64_t begin = bench_now_ns(); begin < worker->end_ns; worker->ops++) {
        if (peer->acquire(worker) < 0)
            return;
        int64_t held = bench_now_ns();
        if (peer->release(worker) < 0)
            return;
        int64_t done = bench_now_ns();
        bench_hist_add(&worker->acquire, held - begin);
        bench_hist_add(&worker->pair, done - begin);
        begin = done;
    }
}

/* Acquires the shared lock and releases it. */
static int pass_through(const struct bench_peer *peer, struct bench_worker *worker)
{
    int64_t begin = bench_now_ns();
    uint64_t ticket = bench_page_draw(worker->page);
    if (peer->acquire(worker) < 0)
        return -1;
    int64_t held = bench_now_ns();
    int64_t handoff = bench_page_enter(worker->page, worker->id, ticket, held);
    if (handoff >= 0)
        bench_hist_add(&worker->handoff, handoff);
    bench_hist_add(&worker->acquire, held - begin);
    bench_page_leave(worker->page, worker->id, bench_now_ns());
    return peer->release(worker);
}

static void loop_shared(const struct bench_peer *peer, struct bench_worker *worker)
{
    while (bench_now_ns() < worker->end_ns && pass_through(peer, worker) == 0)
        worker->ops++;
}

static void loop_permits(const struct bench_peer *peer, struct bench_worker *worker)
{
    uint64_t permits = peer->permits ? (uint64_t)peer->permits : 1;
    for (int64_t begin = bench_now_ns(); begin < worker->end_ns; worker->ops++) {
        if (peer->acquire(worker) < 0)
            return;
        bench_page_enter_one_of(worker->page, permits);
        bench_hist_add(&worker->acquire, bench_now_ns() - begin);
        bench_page_leave_one_of(worker->page);
        if (peer->release(worker) < 0)
            return;
        int64_t done = bench_now_ns();
        bench_hist_add(&worker->pair, done - begin);
        begin = done;
    }
}

static void loop_halves(const struct bench_peer *peer, struct bench_worker *worker)
{
    uint64_t every = (uint64_t)peer->writes_every, turn = worker->id * 7; /* not all at once */
    for (int64_t begin = bench_now_ns(); begin < worker->end_ns; worker->ops++) {
        worker->writes = every > 0 && turn++ % every == 0;
        if (peer->acquire(worker) < 0)
            return;
        bench_page_enter_half(worker->page, worker->writes);
        int64_t waited = bench_now_ns() - begin;
        bench_hist_add(&worker->acquire, waited);
        if (worker->writes)
            bench_hist_add(&worker->handoff, waited);
        bench_page_leave_half(worker->page, worker->writes);
        if (peer->release(worker) < 0)
            return;
        int64_t done = bench_now_ns();
        bench_hist_add(&worker->pair, done - begin);
        begin = done;
    }
}

static void loop_wake(const struct bench_peer *peer, struct bench_worker *worker)
{
    sem_post(&driver.waiting);
    if (peer->acquire(worker) == 0)
        worker->ops++;
}

static void loop_drain(const struct bench_peer *peer, struct bench_worker *worker)
{
    sem_post(&driver.waiting);
    if (pass_through(peer, worker) == 0)
        worker->ops++;
}

/* One pair is too short to be timed, so NESTED_BATCH of them are timed together and their mean is recorded. */
static void loop_nested(const struct bench_peer *peer, struct bench_worker *worker)
{
    if (peer->acquire(worker) < 0)
        return;
    for (int64_t begin = bench_now_ns(); begin < worker->end_ns; worker->ops += NESTED_BATCH) {
        for (int i = 0; i < NESTED_BATCH; i++) {
            if (peer->acquire(worker) < 0 || peer->release(worker) < 0)
                return;
        }
        int64_t done = bench_now_ns();
        bench_hist_add(&worker->pair, (done - begin) / NESTED_BATCH);
        begin = done;
    }
    worker->finished_ns = bench_now_ns();
    (void)peer->release(worker);
}

static void loop_async(const struct bench_peer *peer, struct bench_worker *worker)
{
    (void)peer->run_async(worker);
}

static void *worker_main(void *arg)
{
    struct bench_worker *worker = arg;
    bool open = driver.peer->thread_open(worker) == 0;
    pthread_barrier_wait(&driver.opened);
    pthread_barrier_wait(&driver.started); /* start_ns and end_ns are set now */
    if (open) {
        bench_sleep_until(worker->start_ns);
        driver.loop(driver.peer, worker);
        if (worker->finished_ns == 0)
            worker->finished_ns = bench_now_ns();
        driver.peer->thread_close(worker);
    } else {
        sem_post(&driver.waiting);
    }
    return NULL;
}

static void print_hist(const char *name, const struct bench_hist *hist)
{
    if (hist->count == 0)
        return;
    printf(",\"%s\":", name);
    bench_hist_print(hist, stdout);
}

static void print_result(struct bench_worker *workers, int count, const struct rusage *before)
{
    struct bench_worker *sum = calloc(1, sizeof *sum);
    struct rusage after;
    if (!sum)
        abort();
    getrusage(RUSAGE_SELF, &after);
    printf("{\"per_thread\":[");
    for (int i = 0; i < count; i++) {
        struct bench_worker *worker = &workers[i];
        printf("%s%" PRIu64, i ? "," : "", worker->ops);
        sum->ops += worker->ops;
        if (worker->finished_ns > sum->finished_ns)
            sum->finished_ns = worker->finished_ns;
        if (worker->error[0])
            memcpy(sum->error, worker->error, sizeof sum->error);
        bench_hist_merge(&sum->acquire, &worker->acquire);
        bench_hist_merge(&sum->pair, &worker->pair);
        bench_hist_merge(&sum->handoff, &worker->handoff);
    }
    printf("],\"ops\":%" PRIu64 ",\"finished_ns\":%" PRId64 ",\"switches\":%ld,\"error\":\"%s\"", sum->ops,
           sum->finished_ns, after.ru_nvcsw - before->ru_nvcsw, sum->error);
    print_hist("acquire", &sum->acquire);
    print_hist("pair", &sum->pair);
    print_hist("handoff", &sum->handoff);
    printf("}\n");
    free(sum);
}

/* NULL: this peer does not support it. */
static loop_fn *choose_loop(const char *scenario)
{
    if (strcmp(scenario, "async") == 0)
        return driver.peer->run_async ? loop_async : NULL;
    if (strcmp(scenario, "wake") == 0)
        return driver.peer->arm ? loop_wake : NULL;
    if (!driver.peer->acquire)
        return NULL;
    return strcmp(scenario, "own") == 0       ? loop_own
           : strcmp(scenario, "shared") == 0  ? loop_shared
           : strcmp(scenario, "permits") == 0 ? loop_permits
           : strcmp(scenario, "halves") == 0  ? loop_halves
           : strcmp(scenario, "drain") == 0   ? loop_drain
           : strcmp(scenario, "nested") == 0  ? loop_nested
                                              : NULL;
}

static bool all_want_one(loop_fn *loop)
{
    return loop == loop_shared || loop == loop_drain || loop == loop_permits || loop == loop_halves ||
           loop == loop_wake;
}

static void init_worker(struct bench_worker *worker, int index, int in_flight)
{
    worker->options = &driver.options;
    worker->page = driver.page;
    worker->index = index;
    worker->id = (uint64_t)driver.options.process * MAX_THREADS + (uint64_t)index + 1;
    worker->in_flight = in_flight;
    if (all_want_one(driver.loop))
        snprintf(worker->key, sizeof worker->key, "bench:one");
    else
        snprintf(worker->key, sizeof worker->key, "bench:own:%d:%d", driver.options.process, index);
}

static bool wait_for_go(struct bench_worker *workers, int count, double seconds)
{
    char line[128];
    int64_t start_ns = 0;
    bool go = fgets(line, sizeof line, stdin) && sscanf(line, "go %" SCNd64, &start_ns) == 1;
    for (int i = 0; i < count; i++) {
        workers[i].start_ns = start_ns;
        workers[i].end_ns = go ? start_ns + (int64_t)(seconds * 1e9) : 0;
    }
    return go;
}

static void say_all_wait(int count)
{
    for (int i = 0; i < count; i++) {
        while (sem_wait(&driver.waiting) < 0 && errno == EINTR)
            ;
    }
    printf("{\"waiting\":%d}\n", count);
    fflush(stdout);
}

static void run_round(const char *scenario, double seconds, int threads)
{
    driver.loop = choose_loop(scenario);
    if (!driver.loop || threads < 1 || threads > MAX_THREADS || (all_want_one(driver.loop) && !driver.page)) {
        printf("{\"error\":\"cannot run %s with %d\"}\n", scenario, threads);
        return;
    }
    int count = driver.loop == loop_async ? 1 : threads;
    struct bench_worker *workers = calloc((size_t)count, sizeof *workers);
    pthread_t *ids = calloc((size_t)count, sizeof *ids);
    struct rusage before;
    if (!workers || !ids)
        abort();
    pthread_barrier_init(&driver.opened, NULL, (unsigned)count + 1);
    pthread_barrier_init(&driver.started, NULL, (unsigned)count + 1);
    sem_init(&driver.waiting, 0, 0);
    for (int i = 0; i < count; i++) {
        init_worker(&workers[i], i, threads);
        if (pthread_create(&ids[i], NULL, worker_main, &workers[i]) != 0)
            abort();
    }
    pthread_barrier_wait(&driver.opened);
    printf("{\"ready\":true}\n");
    fflush(stdout);
    wait_for_go(workers, count, seconds);
    getrusage(RUSAGE_SELF, &before);
    pthread_barrier_wait(&driver.started);
    if (driver.loop == loop_drain || driver.loop == loop_wake)
        say_all_wait(count);
    for (int i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    print_result(workers, count, &before);
    pthread_barrier_destroy(&driver.opened);
    pthread_barrier_destroy(&driver.started);
    sem_destroy(&driver.waiting);
    free(workers);
    free(ids);
}

static void run_hold(int count)
{
    process_error[0] = '\0';
    int64_t begin = bench_now_ns();
    int failed = driver.peer->hold ? driver.peer->hold(count) : bench_fail(NULL, "cannot hold");
    printf("{\"held\":%d,\"took_s\":%.3f,\"error\":\"%s\"}\n", failed ? 0 : count,
           (double)(bench_now_ns() - begin) / 1e9, process_error);
}

static void run_drop(void)
{
    process_error[0] = '\0';
    int failed = driver.peer->drop ? driver.peer->drop() : bench_fail(NULL, "nothing to drop");
    printf("{\"dropped\":%s,\"error\":\"%s\"}\n", failed ? "false" : "true", process_error);
}

static void run_take(void)
{
    struct bench_worker *taken = &driver.taken;
    memset(taken, 0, sizeof *taken);
    driver.loop = loop_drain;
    init_worker(taken, 0, 0);
    int (*take)(struct bench_worker *) = driver.peer->arm ? driver.peer->arm : driver.peer->acquire;
    bool done = driver.page && take && driver.peer->thread_open(taken) == 0 && take(taken) == 0;
    if (done && !driver.peer->arm)
        bench_page_enter(driver.page, taken->id, bench_page_draw(driver.page), bench_now_ns());
    printf("{\"taken\":%s,\"error\":\"%s\"}\n", done ? "true" : "false",
           done              ? ""
           : taken->error[0] ? taken->error
                             : "cannot take");
}

static void run_give(void)
{
    int64_t released_ns = bench_now_ns();
    if (!driver.peer->fire)
        bench_page_leave(driver.page, driver.taken.id, released_ns);
    int failed = driver.peer->fire ? driver.peer->fire(&driver.taken) : driver.peer->release(&driver.taken);
    driver.peer->thread_close(&driver.taken);
    printf("{\"released_ns\":%" PRId64 ",\"error\":\"%s\"}\n", released_ns, failed ? driver.taken.error : "");
}

static void run_stats(void)
{
    printf("{\"rss\":%" PRId64, bench_rss_bytes());
    if (driver.peer->stats) {
        printf(",");
        driver.peer->stats(stdout);
    }
    printf("}\n");
}

static void serve(void)
{
    char line[128], scenario[32];
    double seconds;
    int number;
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "round %31s %lf %d", scenario, &seconds, &number) == 3)
            run_round(scenario, seconds, number);
        else if (sscanf(line, "hold %d", &number) == 1)
            run_hold(number);
        else if (strncmp(line, "stats", 5) == 0)
            run_stats();
        else if (strncmp(line, "drop", 4) == 0)
            run_drop();
        else if (strncmp(line, "take", 4) == 0)
            run_take();
        else if (strncmp(line, "give", 4) == 0)
            run_give();
        else
            printf("{\"error\":\"unknown command\"}\n");
        fflush(stdout);
    }
}

static struct bench_page *map_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *page = mmap(NULL, sizeof(struct bench_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return page == MAP_FAILED ? NULL : page;
}

static int parse(int argc, char **argv, struct bench_options *options)
{
    static const struct option known[] = {
        { "port", required_argument, NULL, 'p' },     { "variant", required_argument, NULL, 'v' },
        { "process", required_argument, NULL, 'n' },  { "page", required_argument, NULL, 'm' },
        { "lease-ms", required_argument, NULL, 'l' }, { "masters", required_argument, NULL, 's' },
        { "url", required_argument, NULL, 'u' },      { NULL, 0, NULL, 0 },
    };
    int c;
    *options = (struct bench_options){ .url = "", .masters = "", .variant = "", .lease_ms = 30000 };
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (c) {
        case 'p':
            options->port = atoi(optarg);
            break;
        case 'v':
            options->variant = optarg;
            break;
        case 'n':
            options->process = atoi(optarg);
            break;
        case 'm':
            options->page = optarg;
            break;
        case 'l':
            options->lease_ms = atoll(optarg);
            break;
        case 's':
            options->masters = optarg;
            break;
        case 'u':
            options->url = optarg;
            break;
        default:
            return -1;
        }
    }
    return options->port > 0 ? 0 : -1;
}

int bench_main(int argc, char **argv, const struct bench_peer *peer)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the driver ends with its runner */
    if (parse(argc, argv, &driver.options) < 0) {
        fprintf(stderr, "usage: %s --port N --variant NAME [--process I] [--page FILE] [--lease-ms MS]\n", argv[0]);
        return 64;
    }
    driver.peer = peer;
    driver.page = driver.options.page ? map_page(driver.options.page) : NULL;
    if (peer->open(&driver.options) < 0) {
        fprintf(stderr, "%s: %s\n", driver.options.variant, process_error);
        return 1;
    }
    printf("{\"ready\":true,\"version\":\"%s\"}\n", peer->version ? peer->version : "");
    fflush(stdout);
    serve();
    if (peer->close)
        peer->close();
    return 0;
}
