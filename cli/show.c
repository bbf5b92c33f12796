/* show.c - see show.h. With --watch the name may have become another kind of lock at each look. */
#include "show.h"

#include "again.h"
#include "holder.h"
#include "kind.h"
#include "note.h"
#include "say.h"
#include "url.h"

#include <hasplock/hasplock.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define WAITERS_MAX 100 /* that are shown; the rest is counted */

struct seen { /* what the server said, at one time */
    struct hlk_lock_found found;
    struct hlk_lock_state state;
    struct hlk_waiter waiters[WAITERS_MAX];
    size_t waiters_len;    /* may be more than WAITERS_MAX */
    int64_t free;          /* permits of a semaphore */
    struct note_said said; /* by its holder */
};

struct subject { /* what is shown */
    hlk_client *client;
    hlk_lock *lock;       /* NULL: none was made yet */
    hlk_permits *permits; /* of a semaphore; NULL: a lock */
    int kind;             /* of `lock` */
};

/* A latch is held while its count is above 0. */
static bool is_held(const struct seen *seen)
{
    return kind_is_number(seen->found.kind) ? seen->found.number > 0 : seen->state.held;
}

static bool has_no_more_than_waits(const struct seen *seen)
{
    return seen->found.kind == HLK_FOUND_NOTHING && seen->state.waiting == 0 &&
           (seen->found.parties > 0 || seen->found.waiters > 0);
}

static void begin_json(struct json *json, const struct options *options)
{
    json_begin(json);
    json_string(json, "name", options->name);
    if (options->watch_ms)
        json_time(json);
}

static bool answer_json(const struct options *options, const struct seen *seen)
{
    const struct hlk_lock_state *state = &seen->state;
    const char *kind = kind_word(seen->found.kind);
    struct json json;
    struct holder holder;
    holder_read(&holder, state->holder);
    begin_json(&json, options);
    json_bool(&json, "held", is_held(seen));
    if (kind)
        json_string(&json, "kind", kind);
    if (state->held) {
        holder_json(&holder, &json);
        json_int(&json, "count", state->count);
        json_int(&json, "ttl_ms", state->ttl_ms);
        note_json(&seen->said, &json);
    }
    if (kind_is_permits(seen->found.kind))
        json_int(&json, "free", seen->free);
    if (kind_is_number(seen->found.kind))
        json_int(&json, "count", seen->found.number);
    else
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
    char line[4096], shown_name[2100], who[1000], ttl[64], waiting[64], held[128];
    int len, kind = seen->found.kind;
    bool by_holder = kind != HLK_LOCK_PLAIN && kind != HLK_LOCK_STRING && kind != HLK_FOUND_NOTHING;
    bool has_words = state->held || kind_is_permits(kind) || kind_is_number(kind); /* also if nobody holds it */
    struct holder holder;
    kind_held(kind, state->count, kind_is_permits(kind) ? seen->free : seen->found.number, held, sizeof held);
    holder_read(&holder, state->holder);
    text_shown(shown_name, sizeof shown_name, options->name);
    waiting_text(waiting, sizeof waiting, state->waiting, by_holder);
    if (state->ttl_ms < 0)
        snprintf(ttl, sizeof ttl, "without end (not by hasplock)");
    else
        snprintf(ttl, sizeof ttl, "ttl %.1f s", (double)state->ttl_ms / 1000);
    if (state->held)
        len = snprintf(line, sizeof line, "%s: %s by %s, %s%s\n", shown_name, held,
                       holder_shown(&holder, who, sizeof who), ttl, waiting);
    else
        len = snprintf(line, sizeof line, "%s: %s%s\n", shown_name,
                       has_words ? held : holder_none(kind_is_given(options) ? kind : HLK_LOCK_PLAIN), waiting);
    return say_answer(line, (size_t)len);
}

/* Those who wait at the barrier, or the condition, of that name: it has keys of its own. */
static bool answer_waits(const struct options *options, int kind, int64_t waiting)
{
    char line[2400], shown_name[2100], waits[64];
    struct json json;
    if (waiting == 0)
        return true;
    if (options->json) {
        begin_json(&json, options);
        json_string(&json, "kind", kind_word(kind));
        json_int(&json, "waiting", waiting);
        json_end(&json);
        return say_answer(json.line, json.len);
    }
    int len = snprintf(line, sizeof line, "%s: %s\n", text_shown(shown_name, sizeof shown_name, options->name),
                       kind_waiting(kind, waiting, waits, sizeof waits));
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

/* What the holder says of itself. */
static bool answer_said(const struct note_said *said)
{
    char line[2400], held[NOTE_SHOWN], note[2100];
    bool told = true;
    if (*note_held(said, held, sizeof held))
        told = say_answer(line, (size_t)snprintf(line, sizeof line, "  held %s\n", held));
    if (told && *said->note)
        told = say_answer(
            line, (size_t)snprintf(line, sizeof line, "  note: %s\n", text_shown(note, sizeof note, said->note)));
    return told;
}

/* The holder as hasplock break takes it, if the first line does not have it so. Permits cannot be broken. */
static bool answer_holder(const struct seen *seen)
{
    char line[1024], who[1000];
    struct holder holder;
    holder_read(&holder, seen->state.holder);
    if (kind_is_permits(seen->found.kind) || !seen->state.held || !holder.ours)
        return true;
    int len = snprintf(line, sizeof line, "  for break: --holder %s\n", text_shown(who, sizeof who, holder.written));
    return say_answer(line, (size_t)len);
}

static bool answer(const struct options *options, const struct seen *seen)
{
    bool quiet = options->verbosity < 0 && !options->json;
    bool said = quiet || has_no_more_than_waits(seen) ||
                (options->json ? answer_json(options, seen) : answer_text(options, seen));
    if (said && !quiet && !options->json)
        said = answer_said(&seen->said);
    for (size_t i = 0; said && !quiet && i < seen->waiters_len && i < WAITERS_MAX; i++)
        said = options->json ? waiter_json(options->name, i + 1, &seen->waiters[i])
                             : waiter_text(i + 1, &seen->waiters[i]);
    if (said && !quiet && !options->json && seen->waiters_len > WAITERS_MAX)
        said = answer_more(seen->waiters_len - WAITERS_MAX);
    if (said && !quiet && !options->json)
        said = answer_holder(seen);
    return said && (quiet || (answer_waits(options, HLK_FOUND_BARRIER, seen->found.parties) &&
                              answer_waits(options, HLK_FOUND_CONDITION, seen->found.waiters)));
}

static void drop_lock(struct subject *of)
{
    if (of->permits)
        hlk_permits_destroy(of->permits);
    else
        hlk_lock_destroy(of->lock);
    of->permits = NULL;
    of->lock = NULL;
}

/* False: see hlk_last_error(). */
static bool make_lock(struct subject *of, const struct options *options, int kind)
{
    struct hlk_lock_opts opts = options_lock(options);
    if (of->lock && of->kind == kind)
        return true;
    drop_lock(of);
    opts.kind = of->kind = kind;
    if (kind == HLK_LOCK_PERMIT)
        of->permits = hlk_permits_create(of->client, options->name, NULL);
    of->lock = of->permits ? hlk_permits_permit(of->permits) : hlk_lock_create(of->client, options->name, &opts);
    return of->lock != NULL;
}

/* 0, or the exit code of a fault, which was said. */
static int look(struct subject *of, const struct options *options, struct seen *seen)
{
    struct hlk_permits_state permits = HLK_PERMITS_STATE_INIT;
    memset(seen, 0, sizeof *seen);
    note_read(&seen->said, "", 0);
    int code = kind_find(of->client, options, &seen->found);
    if (code || kind_is_number(seen->found.kind))
        return code;
    if (seen->found.kind == HLK_FOUND_STRING)
        return kind_refuse_string();
    if (!make_lock(of, options, kind_is_permits(seen->found.kind) ? HLK_LOCK_PERMIT : kind_of_lock(&seen->found)))
        return say_fault();
    seen->state.size = sizeof seen->state;
    seen->waiters[0].size = sizeof seen->waiters[0];
    if (hlk_lock_query(of->lock, &seen->state) != HLK_OK ||
        hlk_lock_waiters(of->lock, seen->waiters, WAITERS_MAX, &seen->waiters_len) != HLK_OK ||
        (of->permits && hlk_permits_query(of->permits, &permits) != HLK_OK))
        return say_fault();
    seen->free = permits.free;
    if (seen->state.held && !url_has_masters(options->url))
        note_find(&seen->said, of->lock, seen->state.holder);
    return 0;
}

/* What is only older, or renewed, is the same. */
static bool is_news(const struct seen *a, const struct seen *b)
{
    bool same = a->state.held == b->state.held && a->state.count == b->state.count &&
                a->state.waiting == b->state.waiting && a->free == b->free && a->found.kind == b->found.kind &&
                a->found.number == b->found.number && a->found.parties == b->found.parties &&
                a->found.waiters == b->found.waiters && strcmp(a->state.holder, b->state.holder) == 0 &&
                a->waiters_len == b->waiters_len;
    for (size_t i = 0; same && i < a->waiters_len && i < WAITERS_MAX; i++)
        same = strcmp(a->waiters[i].holder, b->waiters[i].holder) == 0;
    return !same;
}

/* Until a signal ends us, or a fault. */
static int watch(struct subject *of, const struct options *options)
{
    static struct seen last, seen;
    bool screen = again_on_screen(options);
    for (bool first = true;; first = false) {
        int code = look(of, options, &seen);
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

static int ask(struct subject *of, const struct options *options)
{
    static struct seen seen;
    int code = look(of, options, &seen);
    if (code)
        return code;
    return !answer(options, &seen) ? EX_IOERR : is_held(&seen) || has_no_more_than_waits(&seen) ? 0 : 1;
}

int show(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    struct subject of = { .lock = NULL };
    if (hlk_client_open(&of.client, options->url, &opts) != HLK_OK)
        return say_fault();
    int code = options->watch_ms ? watch(&of, options) : ask(&of, options);
    drop_lock(&of);
    hlk_client_close(of.client);
    return code;
}
