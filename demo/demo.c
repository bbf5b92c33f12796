/* demo.c - the demo of what the lock is for. Several processes with several threads each sell one stock, which is in a
 * real SQLite file: first without the lock, then with it. One holder is killed, and one is stopped.
 *
 * This file has the two phases, and the cleanup, which runs in any case: the workers, the files, the hidden cursor. */
#include "demo_masters.h"
#include "demo_options.h"
#include "demo_picture.h"
#include "demo_report.h"
#include "demo_run.h"
#include "demo_stock.h"
#include "demo_text.h"
#include "demo_worker.h"
#include "say.h"
#include "signals.h"

#include <hasplock/hasplock.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_WITHOUT 4 /* long enough to lose some hundred updates on any machine */
#define SECONDS_WITH 12   /* two leases run out in it */
#define TIDY_MS 1000      /* limit for the cleanup of tickets of killed workers */

struct demo { /* everything that must be released */
    struct demo_options settings;
    struct demo_masters masters; /* of --redlock */
    struct demo_view view;
    hlk_client *client; /* checks that a server runs, at the start, and that the lock is free, at the end */
    char dir[64];       /* "": not made yet */
    FILE *picture;      /* written under a temporary name beside the final one */
    char picture_path[PATH_MAX];
    struct demo_run runs[2]; /* without, with */
    struct demo_result results[2];
};

static volatile sig_atomic_t ended_by;

static void on_signal(int signal_number)
{
    ended_by = signal_number;
}

/* PIPE too: `hasplock demo | head` must not leave anything behind. */
static void catch_signals(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    struct sigaction action = { .sa_handler = on_signal }, old;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

static int no_picture(const char *name, const char *why)
{
    char shown[256];
    say(SAY_ERROR, "error", "--svg: cannot write \"%s\": %s", text_shown(shown, sizeof shown, name), why);
    return EX_CANTCREAT;
}

/* Finds before the work the errors that rename would find after it. */
static int picture_check(const char *name)
{
    struct stat st;
    if (!*name)
        return no_picture(name, "the name is empty");
    if (stat(name, &st) == 0 && S_ISDIR(st.st_mode))
        return no_picture(name, strerror(EISDIR));
    return 0;
}

/* The picture is opened now, so that a name that cannot be written is an error before the work. */
static int picture_open(struct demo *demo)
{
    const char *name = demo->settings.svg;
    int len = snprintf(demo->picture_path, sizeof demo->picture_path, "%s.%d.new", name, (int)getpid());
    errno = ENAMETOOLONG;
    int fd = len >= (int)sizeof demo->picture_path
                 ? -1
                 : open(demo->picture_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    demo->picture = fd < 0 ? NULL : fdopen(fd, "w");
    if (demo->picture)
        return 0;
    demo->picture_path[0] = '\0';
    return no_picture(name, strerror(errno));
}

static int picture_write(struct demo *demo)
{
    bool ok = demo_picture_write(demo->picture, &demo->runs[0], &demo->results[0], &demo->runs[1], &demo->results[1]);

    ok = fclose(demo->picture) == 0 && ok;
    demo->picture = NULL;
    if (ok && rename(demo->picture_path, demo->settings.svg) == 0) {
        demo->picture_path[0] = '\0';
        return 0;
    }
    return no_picture(demo->settings.svg, strerror(errno));
}

static int dir_make(struct demo *demo)
{
    const char *base = getenv("TMPDIR");

    base = base && *base == '/' && strlen(base) < sizeof demo->dir - 32 ? base : "/tmp";
    snprintf(demo->dir, sizeof demo->dir, "%s/hasplock-demo-XXXXXX", base);
    if (mkdtemp(demo->dir))
        return 0;
    say(SAY_ERROR, "error", "cannot make a folder in %s: %s", base, strerror(errno));
    demo->dir[0] = '\0';
    return EX_CANTCREAT;
}

/* The files are "stock-0" and "stock-1", each with two companions of SQLite. */
static void dir_remove(struct demo *demo)
{
    static const char *const ends[] = { "", "-wal", "-shm" };
    char path[sizeof demo->dir + 32];

    if (!demo->dir[0])
        return;
    demo_masters_end(&demo->masters);
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/stock-%d%s", demo->dir, phase, ends[i]);
            unlink(path);
        }
    rmdir(demo->dir);
}

/* One record for each order, with spare ones for orders after the last item. Without the lock there may be more orders
 * than items; the first ones are enough. */
static uint32_t hold_cap(const struct demo_options *s, bool locked)
{
    uint32_t most = (uint32_t)s->items + 16 * DEMO_MAX_THREADS;
    return locked ? most : most < 4096 ? most : 4096;
}

static int phase_prepare(struct demo *demo, bool locked)
{
    const struct demo_options *s = &demo->settings;
    struct demo_run *run = &demo->runs[locked];
    char error[256] = "";

    run->shared = demo_shared_create(demo->dir, hold_cap(s, locked), &run->shared_fd);
    if (!run->shared) {
        say(SAY_ERROR, "error", "no room in %s: %s", demo->dir, strerror(errno));
        return EX_OSERR;
    }
    run->view = &demo->view;
    run->masters = locked && s->redlock ? &demo->masters : NULL;
    run->signal = &ended_by;
    run->limit_ns = INT64_C(1000000000) * (s->seconds ? s->seconds : locked ? SECONDS_WITH : SECONDS_WITHOUT);

    struct demo_order *order = &run->shared->order;
    order->locked = locked;
    order->processes = s->processes;
    order->threads = s->threads;
    order->items = s->items;
    order->seed = s->seed;
    snprintf(order->url, sizeof order->url, "%s", s->url);
    snprintf(order->lock, sizeof order->lock, "hasplock-demo:%d-%" PRIx64, (int)getpid(), demo_now_ns());
    snprintf(order->stock, sizeof order->stock, "%s/stock-%d", demo->dir, locked);
    if (demo_stock_make(order->stock, s->items, error, sizeof error))
        return 0;
    say(SAY_ERROR, "error", "cannot make the stock: %s", error);
    return EX_CANTCREAT;
}

static int phase_run(struct demo *demo, bool locked)
{
    struct demo_run *run = &demo->runs[locked];
    struct demo_view *view = &demo->view;
    struct json fields;

    int code = phase_prepare(demo, locked);
    if (code)
        return code;
    demo_view_line(view, "\n%s%d. %s the lock%s   each order: %s", demo_on(view, 's'), locked + 1,
                   locked ? "With" : "Without", demo_off(view),
                   locked ? "acquire, read the stock, think, write, release" : "read the stock, think, write it back");
    demo_view_fields(view, &fields, "phase");
    json_bool(&fields, "locked", locked);
    json_string(&fields, "stock", run->shared->order.stock);
    if (view->mode == DEMO_JSON)
        demo_view_event(view, &fields, "%s", "");
    code = demo_run(run);
    if (code)
        return code;
    if (!demo_result_read(run, &demo->results[locked]))
        return EX_IOERR;
    demo_report_phase(view, run, &demo->results[locked]);
    return 0;
}

static int server_open(struct demo *demo)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.label = "demo";
    opts.log = say_log;
    opts.watchdog_ms = DEMO_WATCHDOG_MS; /* so long a master that has just started does not count */
    return hlk_client_open(&demo->client, demo->settings.url, &opts) == HLK_OK ? 0 : say_fault();
}

/* The same over several masters, where a state cannot be asked for. */
static int masters_check(struct demo *demo)
{
    hlk_lock *lock = hlk_lock_create(demo->client, demo->runs[1].shared->order.lock, NULL);
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT);

    if (status == HLK_OK)
        status = hlk_lock_release(lock);
    hlk_lock_destroy(lock);
    if (status == HLK_OK || status == HLK_E_UNSURE) /* it was free; its release goes on in the background */
        return 0;
    if (status != HLK_BUSY)
        return say_fault();
    say(SAY_ERROR, "error", "after all releases the lock is still held: %s", hlk_last_error());
    return 1;
}

/* After the last release the lock must be free on the server. Returns 0; 1: it is not free; or the code of a fault. */
static int server_check(struct demo *demo)
{
    if (demo->settings.redlock)
        return masters_check(demo);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    hlk_lock *lock = hlk_lock_create(demo->client, demo->runs[1].shared->order.lock, NULL);
    enum hlk_status status = hlk_lock_query(lock, &state);

    hlk_lock_destroy(lock);
    if (status != HLK_OK)
        return say_fault();
    if (!state.held)
        return 0;
    say(SAY_ERROR, "error", "after all releases the lock is still held by %s", state.holder);
    return 1;
}

static int masters_open(struct demo *demo)
{
    if (!demo_masters_start(&demo->masters, demo->dir))
        return EX_UNAVAILABLE;
    demo->settings.url = demo->masters.url;
    return server_open(demo);
}

static void no_log(int level, const char *line, void *ctx)
{
    (void)level, (void)line, (void)ctx;
}

/* Killed workers may leave the lock held and tickets in its queue. An acquire and a release remove the tickets of dead
 * clients, as soon as the server has noticed that they are dead. True: nothing is left. */
static bool lock_is_tidy(hlk_lock *lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;

    if (hlk_lock_query(lock, &state) != HLK_OK || (!state.held && state.waiting == 0))
        return true; /* no server, nothing to clean */
    (void)!hlk_lock_break(lock);
    if (hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK)
        (void)hlk_lock_release(lock);
    return false;
}

/* Uses a client of its own with short timeouts, because there may be no server any more. */
static void lock_tidy(const struct demo *demo)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    hlk_client *client = NULL;

    opts.label = "demo";
    opts.log = no_log;
    opts.reconnect_timeout_ms = TIDY_MS / 2;
    opts.reply_timeout_ms = TIDY_MS / 2;
    if (!demo->runs[1].shared || demo->settings.redlock ||
        hlk_client_open(&client, demo->settings.url, &opts) != HLK_OK)
        return;
    hlk_lock *lock = hlk_lock_create(client, demo->runs[1].shared->order.lock, NULL);
    int64_t until_ms = hlk_now_ms() + TIDY_MS;
    while (lock && !lock_is_tidy(lock) && hlk_now_ms() < until_ms)
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    hlk_lock_destroy(lock);
    hlk_client_close(client);
}

static void begin(struct demo *demo)
{
    const struct demo_options *s = &demo->settings;
    char url[256], word[DEMO_WORD];
    struct demo_view *view = &demo->view;
    struct json fields;

    demo_view_init(view, s->mode);
    demo_view_fields(view, &fields, "start");
    json_string(&fields, "version", hlk_version());
    json_string(&fields, "url", demo_url(url, sizeof url, s->url));
    json_int(&fields, "masters", s->redlock ? DEMO_MASTERS : 1);
    json_int(&fields, "processes", s->processes);
    json_int(&fields, "threads", s->threads);
    json_int(&fields, "items", s->items);
    json_int(&fields, "seed", (int64_t)s->seed);
    json_int(&fields, "lease_ms", DEMO_WATCHDOG_MS);
    if (view->mode == DEMO_JSON)
        demo_view_event(view, &fields, "%s", "");
    demo_view_line(view, "%shasplock demo%s   %d processes x %d threads sell %s items from one SQLite file",
                   demo_on(view, 's'), demo_off(view), s->processes, s->threads, demo_number(word, s->items));
    if (s->redlock)
        snprintf(url, sizeof url, "a majority of %d servers (redlock://)", DEMO_MASTERS);
    demo_view_line(view, "                in %s, lock by %s, lease %d ms", demo->dir, url, DEMO_WATCHDOG_MS);
}

static int work(struct demo *demo)
{
    bool redlock = demo->settings.redlock;
    int code = picture_check(demo->settings.svg);
    if (!redlock)
        code = code ? code : server_open(demo); /* this may take long; a signal still ends the process by default */
    if (code)
        return code;
    catch_signals();
    code = picture_open(demo);
    code = code ? code : dir_make(demo);
    if (redlock)
        code = code ? code : masters_open(demo);
    if (code)
        return code;
    begin(demo);
    code = phase_run(demo, false);
    code = code ? code : phase_run(demo, true);
    code = code ? code : picture_write(demo);
    if (code)
        return code;
    int left_behind = server_check(demo);
    if (left_behind > 1)
        return left_behind;
    return demo_report_end(&demo->view, &demo->runs[1], &demo->results[0], &demo->results[1], demo->settings.svg,
                           left_behind);
}

static void clean_up(struct demo *demo)
{
    demo_view_close(&demo->view);
    lock_tidy(demo); /* while our client keeps a local: server running */
    hlk_client_close(demo->client);
    for (int phase = 0; phase < 2; phase++) {
        if (demo->runs[phase].shared)
            close(demo->runs[phase].shared_fd);
        demo_shared_destroy(demo->runs[phase].shared);
    }
    dir_remove(demo);
    if (demo->picture)
        fclose(demo->picture);
    if (demo->picture_path[0])
        unlink(demo->picture_path);
}

int main(int argc, char **argv)
{
    static struct demo demo;

    say_setup("demo", false, 0);
    if (!demo_options_read(&demo.settings, argc, argv))
        return EX_USAGE;
    if (demo.settings.help)
        return say_answer(DEMO_HELP, strlen(DEMO_HELP)) ? 0 : EX_IOERR;
    if (demo.settings.worker >= 0)
        return demo_worker_main(demo.settings.worker);
    int code = work(&demo);
    clean_up(&demo);
    if (ended_by) {
        signal(ended_by, SIG_DFL);
        signals_die_of(ended_by);
    }
    if (code == 0 && (fflush(stdout) != 0 || ferror(stdout))) { /* an earlier error was printed already */
        say(SAY_ERROR, "error", "cannot write to stdout");
        return EX_IOERR;
    }
    return code;
}
