/* show.c - see show.h. */
#include "show.h"

#include "again.h"
#include "holder.h"
#include "say.h"

#include <hasplock/hasplock.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define WAITERS_MAX 100 /* that are shown; the rest is counted */

struct seen { /* what the server said, at one time */
    struct hlk_lock_state state;
    struct hlk_waiter waiters[WAITERS_MAX];
    size_t waiters_len; /* may be more than WAITERS_MAX */
    int64_t free;       /* permits of a semaphore */
};

struct subject { /* what is shown */
    hlk_lock *lock;
    hlk_permits *permits; /* of a semaphore; NULL: a lock */
};

static bool answer_json(const struct options *options, const struct seen *seen)
{
    const struct hlk_lock_state *state = &seen->state;
    struct json json;
    struct holder holder;
    holder_read(&holder, state->holder);
    json_begin(&json);
    json_string(&json, "name", options->name);
    if (options->watch_ms)
        json_time(&json);
    json_bool(&json, "held", state->held);
    if (state->held) {
        holder_json(&holder, &json);
        json_int(&json, "count", state->count);
        json_int(&json, "ttl_ms", state->ttl_ms);
    }
    if (options->semaphore)
        json_int(&json, "free", seen->free);
    json_int(&json, "waiting", state->waiting);
    json_end(&json);
    return say_answer(json.line, json.len);
}

static void waiting_text(char *buf, size_t size, int64_t waiting, bool by_holder)
{
    buf[0] = '\0';
    if (waiting > 0 && by_holder)
        snprintf(buf, size, ", %" PRId64 " waiting", waiting);
    else if (waiting > 0)
        snprintf(buf, size, ", %" PRId64 " process%s waiting", waiting, waiting == 1 ? "" : "es");
}

static bool answer_text(const struct options *options, const struct seen *seen)
{
    const struct hlk_lock_state *state = &seen->state;
    char line[4096], shown_name[2100], who[1000], ttl[64], waiting[64], held[128], none[64];
    bool by_holder = options->fair || options->semaphore || options->shared || options->exclusive;
    int len, kind = options_lock(options).kind;
    struct holder holder;
    holder_held(kind, state->count, held, sizeof held);
    snprintf(none, sizeof none, "%s", holder_none(kind));
    holder_read(&holder, state->holder);
    text_shown(shown_name, sizeof shown_name, options->name);
    waiting_text(waiting, sizeof waiting, state->waiting, by_holder);
    if (options->semaphore) {
        int at = snprintf(none, sizeof none, "%" PRId64 " permit%s free, ", seen->free, seen->free == 1 ? "" : "s");
        snprintf(held, sizeof held, "%s%" PRId64 " held with a lease%s", none, state->count,
                 state->count == 1 ? "" : ", one");
        snprintf(none + at, sizeof none - (size_t)at, "none held with a lease");
    }
    if (state->ttl_ms < 0)
        snprintf(ttl, sizeof ttl, "without end (not by hasplock)");
    else
        snprintf(ttl, sizeof ttl, "ttl %.1f s", (double)state->ttl_ms / 1000);
    if (state->held)
        len = snprintf(line, sizeof line, "%s: %s by %s, %s%s\n", shown_name, held,
                       holder_shown(&holder, who, sizeof who), ttl, waiting);
    else
        len = snprintf(line, sizeof line, "%s: %s%s\n", shown_name, none, waiting);
    return say_answer(line, (size_t)len);
}

static bool waiter_json(const char *name, size_t position, const struct hlk_waiter *waiter)
{
    struct json json;
    struct holder holder;
    holder_read(&holder, waiter->holder);
    json_begin(&json);
    json_string(&json, "name", name);
    json_int(&json, "position", (int64_t)position);
    holder_json(&holder, &json);
    json_int(&json, "since_ms", waiter->since_ms);
    json_bool(&json, "fenced", waiter->fenced);
    json_end(&json);
    return say_answer(json.line, json.len);
}

/* By the clock of its host, in the time zone of ours. "" when it did not tell, or no calendar has such a moment. */
static void since_text(char *buf, size_t size, int64_t since_ms)
{
    time_t seconds = (time_t)(since_ms / 1000);
    struct tm when;
    buf[0] = '\0';
    if (since_ms > 0 && localtime_r(&seconds, &when) && !strftime(buf, size, ", since %Y-%m-%d %H:%M:%S", &when))
        buf[0] = '\0';
}

static bool waiter_text(size_t position, const struct hlk_waiter *waiter)
{
    char line[2048], who[1000], since[64];
    struct holder holder;
    holder_read(&holder, waiter->holder);
    since_text(since, sizeof since, waiter->since_ms);
    int len = snprintf(line, sizeof line, "%3zu. %s%s%s\n", position, holder_shown(&holder, who, sizeof who), since,
                       waiter->fenced ? ", fenced" : "");
    return say_answer(line, (size_t)len);
}

static bool answer_more(size_t more)
{
    char line[64];
    int len = snprintf(line, sizeof line, "     and %zu more\n", more);
    return say_answer(line, (size_t)len);
}

/* The holder as hasplock break takes it, if the first line does not have it so. Permits cannot be broken. */
static bool answer_holder(const struct options *options, const struct seen *seen)
{
    char line[1024], who[1000];
    struct holder holder;
    holder_read(&holder, seen->state.holder);
    if (options->semaphore || !seen->state.held || !holder.ours)
        return true;
    int len = snprintf(line, sizeof line, "  for break: --holder %s\n", text_shown(who, sizeof who, holder.written));
    return say_answer(line, (size_t)len);
}

static bool answer(const struct options *options, const struct seen *seen)
{
    bool quiet = options->verbosity < 0 && !options->json;
    bool said = options->json ? answer_json(options, seen) : quiet || answer_text(options, seen);
    for (size_t i = 0; said && !quiet && i < seen->waiters_len && i < WAITERS_MAX; i++)
        said = options->json ? waiter_json(options->name, i + 1, &seen->waiters[i])
                             : waiter_text(i + 1, &seen->waiters[i]);
    if (said && !quiet && !options->json && seen->waiters_len > WAITERS_MAX)
        said = answer_more(seen->waiters_len - WAITERS_MAX);
    if (said && !quiet && !options->json)
        said = answer_holder(options, seen);
    return said;
}

/* 0, or the exit code of a fault, which was said. */
static int look(const struct subject *of, struct seen *seen)
{
    struct hlk_permits_state permits = HLK_PERMITS_STATE_INIT;
    memset(seen, 0, sizeof *seen);
    seen->state.size = sizeof seen->state;
    seen->waiters[0].size = sizeof seen->waiters[0];
    if (hlk_lock_query(of->lock, &seen->state) != HLK_OK ||
        hlk_lock_waiters(of->lock, seen->waiters, WAITERS_MAX, &seen->waiters_len) != HLK_OK ||
        (of->permits && hlk_permits_query(of->permits, &permits) != HLK_OK))
        return say_fault();
    seen->free = permits.free;
    return 0;
}

/* What is only older, or renewed, is the same. */
static bool is_news(const struct seen *a, const struct seen *b)
{
    bool same = a->state.held == b->state.held && a->state.count == b->state.count &&
                a->state.waiting == b->state.waiting && a->free == b->free &&
                strcmp(a->state.holder, b->state.holder) == 0 && a->waiters_len == b->waiters_len;
    for (size_t i = 0; same && i < a->waiters_len && i < WAITERS_MAX; i++)
        same = strcmp(a->waiters[i].holder, b->waiters[i].holder) == 0;
    return !same;
}

/* Until a signal ends us, or a fault. */
static int watch(const struct subject *of, const struct options *options)
{
    static struct seen last, seen;
    bool screen = again_on_screen(options);
    for (bool first = true;; first = false) {
        int code = look(of, &seen);
        if (code)
            return code;
        if (screen && !again_clear_screen())
            return EX_IOERR;
        if ((screen || first || is_news(&last, &seen)) && !answer(options, &seen))
            return EX_IOERR;
        last = seen;
        again_pause(options);
    }
}

static int ask(const struct subject *of, const struct options *options)
{
    static struct seen seen;
    int code = look(of, &seen);
    if (code)
        return code;
    return !answer(options, &seen) ? EX_IOERR : seen.state.held ? 0 : 1;
}

int show(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    struct hlk_lock_opts lock_opts = options_lock(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    struct subject of = { NULL, NULL };
    if (options->semaphore)
        of.permits = hlk_permits_create(client, options->name, NULL);
    of.lock = options->semaphore ? hlk_permits_permit(of.permits) : hlk_lock_create(client, options->name, &lock_opts);
    int code = !of.lock ? say_fault() : options->watch_ms ? watch(&of, options) : ask(&of, options);
    if (of.permits)
        hlk_permits_destroy(of.permits);
    else
        hlk_lock_destroy(of.lock);
    hlk_client_close(client);
    return code;
}
