/* waiting.c - see waiting.h. When the wait ends, the thread may still be waiting for a reply. Nothing waits for the
 * thread then, and it shows nothing any more. */
#include "waiting.h"

#include "around.h"
#include "helper.h"
#include "holder.h"
#include "say.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SOON_MS 100      /* a wait that is shorter is not shown */
#define LOOKS 5          /* at most so many, SOON_MS apart, for its position; then it is reported without */
#define TERMINAL_MS 1000 /* when the line first appears, and how often it is updated */
#define COLUMNS 80       /* of a terminal of unknown width */
#define COLUMNS_LEAST 40

static bool is_connected(const struct waiting *w)
{
    struct hlk_counters counters = { .size = sizeof counters };
    return hlk_client_counters(w->client, &counters) != HLK_OK || counters.connected > 0;
}

/* False: unknown. *away: because no server answers. A query without a connection would last as long as the wait. */
static bool look(const struct waiting *w, struct locks_obstacle *seen, bool *away)
{
    *seen = (struct locks_obstacle){ 0 };
    *away = !is_connected(w);
    if (*away)
        return false;
    enum hlk_status status = locks_look(w->locks, w->nested, seen);
    *away = status == HLK_E_CONNECT;
    return status == HLK_OK && seen->state.held;
}

static const char *position_text(int64_t position, char *buf, size_t size)
{
    static const char *const ends[] = { "th", "st", "nd", "rd" };
    bool teens = position % 100 >= 11 && position % 100 <= 13;
    snprintf(buf, size, "%" PRId64 "%s in the queue", position, ends[position % 10 > 3 || teens ? 0 : position % 10]);
    return buf;
}

/* A terminal's line is cut at its end, so the important part comes first. */
static const char *describe(const struct waiting *w, const struct locks_obstacle *seen, char *buf, size_t size)
{
    struct holder holder;
    char who[400], position[64] = "", held[48], which[LOCKS_WHICH];
    int64_t waited_ms = hlk_now_ms() - w->asked_at_ms;
    if (seen->position)
        position_text(seen->position, position, sizeof position);
    if (w->options->permits > 1)
        snprintf(held, sizeof held, "%" PRId64 " permits held, one", seen->state.count);
    else
        holder_held(seen->kind, seen->state.count, held, sizeof held);
    holder_read(&holder, seen->state.holder);
    holder_shown(&holder, who, sizeof who);
    locks_which(w->options, seen->name, which);
    if (w->terminal)
        snprintf(buf, size, "waiting %" PRId64 " s%s%s: %s%s by %s, ttl %" PRId64 " s", waited_ms / 1000,
                 *position ? ", " : "", position, which, held, who, seen->state.ttl_ms / 1000);
    else
        snprintf(buf, size, "waiting: %s%s by %s, ttl %.1f s%s%s", which, held, who, (double)seen->state.ttl_ms / 1000,
                 *position ? "; " : "", position);
    return buf;
}

static void say_once(const struct waiting *w, const struct locks_obstacle *seen)
{
    struct json fields;
    char text[700];
    say_begin(&fields, "waiting");
    locks_add_json(w->locks, seen->name, seen->state.holder, &fields);
    json_int(&fields, "ttl_ms", seen->state.ttl_ms);
    json_int(&fields, "position", seen->position);
    json_int(&fields, "waited_ms", hlk_now_ms() - w->asked_at_ms);
    say_with(&fields, SAY_VERBOSE, "%s", describe(w, seen, text, sizeof text));
}

/* Not while in the background: the terminal then belongs to another job. */
static void show_line(struct waiting *w, const char *text)
{
    struct winsize window = { 0 };
    if (tcgetpgrp(STDERR_FILENO) != getpgrp())
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col < COLUMNS_LEAST)
        window.ws_col = COLUMNS;
    say_status(text, window.ws_col);
    w->shown = true;
}

/* Its first command may be in flight, or may have taken no ticket. */
static bool may_be_queued_soon(struct waiting *w, const struct locks_obstacle *seen)
{
    return !w->terminal && !w->reported && !w->nested && seen->position == 0 && ++w->looks < LOOKS;
}

static bool is_shown_by_now(const struct waiting *w)
{
    return w->terminal && hlk_now_ms() >= w->asked_at_ms + TERMINAL_MS;
}

/* Under the mutex. */
static void report_away(struct waiting *w)
{
    char text[64];
    snprintf(text, sizeof text, "waiting %" PRId64 " s: no server answers", (hlk_now_ms() - w->asked_at_ms) / 1000);
    if (is_shown_by_now(w))
        show_line(w, text);
}

/* One look is enough, except for what is updated, and of readers: it names one of them, and not a run around this one
 * as long as it names others. */
static bool looks_again(const struct waiting *w)
{
    const struct options *o = w->options;
    return w->terminal || (o->json && o->wait_ms != HLK_FOREVER) || (w->nested && (o->shared || o->exclusive));
}

/* Under the mutex. False: nothing more to show. */
static bool report_look(struct waiting *w, const struct locks_obstacle *seen)
{
    char text[700];
    snprintf(w->holder, sizeof w->holder, "%s", seen->state.holder);
    w->lock = seen->name;
    w->itself = w->nested && around_has(seen->state.holder);
    if (w->itself)
        hlk_cancel_trigger(w->cancel);
    else if (is_shown_by_now(w))
        show_line(w, describe(w, seen, text, sizeof text));
    else if (!w->terminal && !w->reported)
        say_once(w, seen);
    w->reported = true;
    return !w->itself && looks_again(w);
}

/* Under the mutex. Waits until at_ms, or until the wait is over. */
static bool is_over_at(struct waiting *w, int64_t at_ms)
{
    while (!w->over && hlk_now_ms() < at_ms) {
        int64_t left_ms = at_ms - hlk_now_ms();
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(left_ms / 1000);
        until.tv_nsec += (long)(left_ms % 1000) * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&w->changed, &w->mu, &until);
    }
    return w->over;
}

static void *report_wait(void *ctx)
{
    struct waiting *w = ctx;
    struct locks_obstacle seen;
    bool more = true;
    int64_t next_ms = w->asked_at_ms + (w->nested ? 0 : w->terminal ? TERMINAL_MS : SOON_MS);
    pthread_mutex_lock(&w->mu);
    while (more && !is_over_at(w, next_ms)) {
        pthread_mutex_unlock(&w->mu);
        bool away, known = look(w, &seen, &away);
        pthread_mutex_lock(&w->mu);
        known = known && !may_be_queued_soon(w, &seen);
        if (known && !w->over)
            more = report_look(w, &seen);
        else if (away && !w->over)
            report_away(w);
        next_ms = hlk_now_ms() + (known || (away && w->terminal) ? TERMINAL_MS : SOON_MS);
    }
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

static bool has_anything_to_report(struct waiting *w)
{
    const struct options *o = w->options;
    w->nested = o->wait_ms != 0 && o->permits < 2 && around_any(); /* of several permits one may come free */
    w->terminal = !o->json && o->verbosity == 0 && isatty(STDERR_FILENO);
    return w->nested || (o->wait_ms != 0 && (w->terminal || o->json || o->verbosity > 0));
}

/* With all signals blocked: SIGCHLD would be lost in a thread that has not blocked it. */
static bool start_reporter(struct waiting *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&w->thread, NULL, report_wait, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void waiting_begin(struct waiting *w, const struct options *options, hlk_client *client, const struct locks *locks,
                   hlk_cancel *cancel)
{
    pthread_condattr_t monotonic;
    *w = (struct waiting){
        .options = options, .client = client, .locks = locks, .cancel = cancel, .asked_at_ms = hlk_now_ms(), .lock = ""
    };
    pthread_mutex_init(&w->mu, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->started = has_anything_to_report(w) && start_reporter(w);
}

void waiting_end(struct waiting *w)
{
    pthread_mutex_lock(&w->mu);
    w->over = true;
    bool shown = w->shown;
    if (shown)
        say_status("", COLUMNS);
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mu);
    if (shown)
        helper_flush();
}

void waiting_join(struct waiting *w)
{
    if (w->started)
        pthread_join(w->thread, NULL);
    w->started = false;
}

bool waiting_for_itself(struct waiting *w)
{
    pthread_mutex_lock(&w->mu);
    bool itself = w->itself;
    pthread_mutex_unlock(&w->mu);
    return itself;
}

const char *waiting_lock(struct waiting *w)
{
    pthread_mutex_lock(&w->mu);
    const char *lock = w->lock;
    pthread_mutex_unlock(&w->mu);
    return lock;
}

void waiting_holder_json(struct waiting *w, struct json *fields)
{
    char holder[sizeof w->holder];
    pthread_mutex_lock(&w->mu);
    memcpy(holder, w->holder, sizeof holder);
    pthread_mutex_unlock(&w->mu);
    if (*holder)
        locks_add_json(w->locks, waiting_lock(w), holder, fields);
}
