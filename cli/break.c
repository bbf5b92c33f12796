/* break.c - see break.h. The holder is asked, and waited for. With --now the lock is taken from it. The lease is
 * queried just before: if the lock changes hands in between, it is not that of the holder that lost the lock, and is
 * not printed. */
#include "break.h"

#include "holder.h"
#include "kind.h"
#include "say.h"
#include "url.h"

#include <hasplock/hasplock.h>

#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define ASKED_MS 30000 /* how long a holder that was asked is waited for, by default */
#define LOOK_MS 50
#define LISTENS_MS 1000 /* so late a holder may subscribe */

enum asked { NOT_ASKED, CANNOT_BE_ASKED, ASKED };

struct outcome {
    enum asked asked;
    bool broken;
    struct holder holder; /* from whom it was taken, or who holds it instead; written "": nobody */
    int64_t ttl_ms;       /* what was left of the holder's lease; -1: it has no end */
    bool knows_ttl;
};

static bool answer_json(const char *name, const struct outcome *outcome)
{
    struct json json;
    json_begin(&json);
    json_string(&json, "name", name);
    json_bool(&json, "broken", outcome->broken);
    if (outcome->asked)
        json_bool(&json, "asked", outcome->asked == ASKED);
    if (outcome->holder.written[0])
        holder_json(&outcome->holder, &json);
    if (outcome->holder.written[0] && outcome->knows_ttl)
        json_int(&json, "ttl_ms", outcome->ttl_ms);
    json_end(&json);
    return say_answer(json.line, json.len);
}

/* Of several masters none notifies the holder. */
static bool notifies(const struct options *options, const struct holder *holder)
{
    return holder->ours && !url_has_masters(options->url);
}

/* A holder without a notification learns it from its next renewal, at the latest when its lease ends. */
static const char *when_known(const struct options *options, const struct outcome *outcome, char *buf, size_t size)
{
    char within[64];
    snprintf(within, sizeof within, "within %.1f s", (double)outcome->ttl_ms / 1000);
    if (!notifies(options, &outcome->holder))
        snprintf(buf, size, "it is not notified until its next renewal");
    else
        snprintf(buf, size, "a hasplock run ends at once, a program that does not listen knows it %s",
                 !outcome->knows_ttl || outcome->ttl_ms < 0 ? "by its next renewal" : within);
    return buf;
}

static bool answer_text(const struct options *options, const struct outcome *outcome)
{
    char line[4096], shown_name[2100], who[1000], known[200];
    int len;
    text_shown(shown_name, sizeof shown_name, options->name);
    holder_shown(&outcome->holder, who, sizeof who);
    if (outcome->asked == CANNOT_BE_ASKED)
        len = snprintf(line, sizeof line, "%s: held by %s, which does not listen, or is dead; --now takes the lock\n",
                       shown_name, who);
    else if (outcome->asked)
        len = snprintf(line, sizeof line,
                       outcome->broken ? "%s: released by %s\n"
                                       : "%s: held by %s, although asked to release it; --now takes the lock\n",
                       shown_name, who);
    else if (outcome->broken)
        len = snprintf(line, sizeof line, "%s: taken from %s; %s\n", shown_name, who,
                       when_known(options, outcome, known, sizeof known));
    else if (outcome->holder.written[0])
        len = snprintf(line, sizeof line, "%s: held by %s, who is not that holder; nothing was changed\n", shown_name,
                       who);
    else
        len = snprintf(line, sizeof line, "%s: %s, nothing to break\n", shown_name,
                       holder_none(options_lock(options).kind));
    return say_answer(line, (size_t)len);
}

static int answer(const struct options *options, const struct outcome *outcome)
{
    bool said = options->json            ? answer_json(options->name, outcome)
                : options->verbosity < 0 ? true
                                         : answer_text(options, outcome);
    return !said ? EX_IOERR : outcome->broken ? 0 : 1;
}

static void pause_shortly(void)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
    nanosleep(&pause, NULL);
}

/* A run that has just acquired the lock is about to subscribe. */
static enum hlk_status request(hlk_lock *lock, const struct options *options, const char *holder)
{
    bool may_come = strncmp(holder, "hlk-", 4) == 0 && !url_has_masters(options->url);
    int64_t until_ms = hlk_now_ms() + LISTENS_MS;
    enum hlk_status status = hlk_lock_ask(lock, holder);
    while (status == HLK_NOT_HOLDER && may_come && hlk_now_ms() < until_ms) {
        pause_shortly();
        status = hlk_lock_ask(lock, holder);
    }
    return status;
}

static bool is_held_by(const struct hlk_lock_state *state, const char *holder)
{
    return state->held && strcmp(state->holder, holder) == 0;
}

/* *outcome: has `asked` released the lock until then? False: see hlk_last_error(). */
static bool wait_for(hlk_lock *lock, const char *asked, int64_t until_ms, struct outcome *outcome)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    for (bool held = true; held;) {
        if (hlk_lock_query(lock, &state) != HLK_OK)
            return false;
        held = is_held_by(&state, asked);
        outcome->broken = !held;
        if (hlk_now_ms() >= until_ms)
            break;
        if (held)
            pause_shortly();
    }
    return true;
}

/* Of several readers the one is asked that the query names, and then the next one. */
static int ask(hlk_lock *lock, const struct options *options, int kind)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct outcome outcome = { .asked = NOT_ASKED };
    char asked[sizeof state.holder] = "";
    int64_t until_ms = hlk_now_ms() + (options->wait_ms == HLK_FOREVER ? ASKED_MS : options->wait_ms);
    if (options->holder && kind == HLK_LOCK_READ) {
        say(SAY_ERROR, "error", "one of several readers cannot be asked alone: --holder needs --now");
        return EX_USAGE;
    }
    for (;;) {
        if (hlk_lock_query(lock, &state) != HLK_OK)
            return say_fault();
        if (!state.held || (options->holder && strcmp(options->holder, state.holder) != 0))
            break;
        snprintf(asked, sizeof asked, "%s", state.holder);
        outcome.ttl_ms = state.ttl_ms;
        outcome.knows_ttl = true;
        enum hlk_status status = request(lock, options, asked);
        if (status != HLK_OK && status != HLK_NOT_HOLDER)
            return say_fault();
        outcome.asked = status == HLK_OK ? ASKED : CANNOT_BE_ASKED;
        outcome.broken = false;
        if (status == HLK_OK && !wait_for(lock, asked, until_ms, &outcome))
            return say_fault();
        if (!outcome.broken || kind != HLK_LOCK_READ)
            break;
    }
    holder_read(&outcome.holder, outcome.asked ? asked : state.holder);
    return answer(options, &outcome);
}

static int take(hlk_lock *lock, const struct options *options)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct outcome outcome = { .asked = NOT_ASKED };
    char holder[sizeof state.holder];
    if (hlk_lock_query(lock, &state) != HLK_OK)
        return say_fault();
    enum hlk_status status = hlk_lock_break_holder(lock, options->holder, holder, sizeof holder);
    if (status != HLK_OK && status != HLK_NOT_HOLDER)
        return say_fault();
    outcome.broken = status == HLK_OK;
    outcome.ttl_ms = state.ttl_ms;
    outcome.knows_ttl = strcmp(holder, state.holder) == 0;
    holder_read(&outcome.holder, holder);
    return answer(options, &outcome);
}

/* 0: it is a lock, or nothing. Else the exit code: why it cannot be broken was said. */
static int refuse(int kind)
{
    static const char permits[] = "a semaphore has no holder to break: a permit comes back when its lease is over";
    static const char latch[] = "a latch has no holder to break: hasplock latch reset deletes its count";
    static const char number[] = "a number has no holder to break: it may be a latch, a semaphore, or other data";
    if (kind == HLK_FOUND_STRING)
        return kind_refuse_string();
    if (!kind_is_permits(kind) && !kind_is_number(kind))
        return 0;
    say(SAY_ERROR, "error", "%s", kind_is_permits(kind) ? permits : kind == HLK_FOUND_LATCH ? latch : number);
    return EX_SOFTWARE;
}

static int find_and_take(hlk_client *client, const struct options *options)
{
    struct hlk_lock_opts opts = options_lock(options);
    struct hlk_lock_found found;
    int code = kind_find(client, options, &found);
    if (code == 0)
        code = refuse(found.kind);
    if (code)
        return code;
    opts.kind = kind_of_lock(&found);
    hlk_lock *lock = hlk_lock_create(client, options->name, &opts);
    code = !lock ? say_fault() : options->now ? take(lock, options) : ask(lock, options, opts.kind);
    hlk_lock_destroy(lock);
    return code;
}

int break_lock(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    int code = find_and_take(client, options);
    hlk_client_close(client);
    return code;
}
