/* show.c - see show.h. */
#include "show.h"

#include "holder.h"
#include "say.h"

#include <hasplock/hasplock.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define LINE_MOST 100 /* places that are named; the rest is counted */

static bool answer_json(const char *name, const struct hlk_lock_state *state, const struct holder *holder)
{
    struct json json;
    json_begin(&json);
    json_string(&json, "name", name);
    json_bool(&json, "held", state->held);
    if (state->held) {
        holder_json(holder, &json);
        json_int(&json, "count", state->count);
        json_int(&json, "ttl_ms", state->ttl_ms);
    }
    json_int(&json, "waiting", state->waiting);
    json_end(&json);
    return say_answer(json.line, json.len);
}

static void waiting_text(char *buf, size_t size, int64_t waiting, bool fair)
{
    buf[0] = '\0';
    if (waiting > 0 && fair)
        snprintf(buf, size, ", %" PRId64 " waiting", waiting);
    else if (waiting > 0)
        snprintf(buf, size, ", %" PRId64 " process%s waiting", waiting, waiting == 1 ? "" : "es");
}

static bool answer_text(const struct options *options, const struct hlk_lock_state *state, const struct holder *holder)
{
    char line[4096], shown_name[2100], who[1000], ttl[64], waiting[64];
    int len;
    say_shown(shown_name, sizeof shown_name, options->name);
    waiting_text(waiting, sizeof waiting, state->waiting, options->fair);
    if (state->ttl_ms < 0)
        snprintf(ttl, sizeof ttl, "without end (not by hasplock)");
    else
        snprintf(ttl, sizeof ttl, "ttl %.1f s", (double)state->ttl_ms / 1000);
    if (state->held)
        len = snprintf(line, sizeof line, "%s: held by %s, %s%s\n", shown_name, holder_shown(holder, who, sizeof who),
                       ttl, waiting);
    else
        len = snprintf(line, sizeof line, "%s: free%s\n", shown_name, waiting);
    return say_answer(line, (size_t)len);
}

static bool waiter_json(const char *name, size_t place, const struct hlk_waiter *waiter, const struct holder *holder)
{
    struct json json;
    json_begin(&json);
    json_string(&json, "name", name);
    json_int(&json, "place", (int64_t)place);
    holder_json(holder, &json);
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

static bool waiter_text(size_t place, const struct hlk_waiter *waiter, const struct holder *holder)
{
    char line[2048], who[1000], since[64];
    since_text(since, sizeof since, waiter->since_ms);
    int len = snprintf(line, sizeof line, "%3zu. %s%s%s\n", place, holder_shown(holder, who, sizeof who), since,
                       waiter->fenced ? ", fenced" : "");
    return say_answer(line, (size_t)len);
}

static bool answer_more(size_t more)
{
    char line[64];
    int len = snprintf(line, sizeof line, "     and %zu more\n", more);
    return say_answer(line, (size_t)len);
}

/* A line for each place in the queue. 0, or the exit code. */
static int show_line(hlk_lock *lock, const struct options *options)
{
    static struct hlk_waiter line[LINE_MOST];
    size_t n;
    bool said = true;
    line[0].size = sizeof line[0];
    if (hlk_lock_waiters(lock, line, LINE_MOST, &n) != HLK_OK)
        return say_fault();
    for (size_t i = 0; said && i < n && i < LINE_MOST; i++) {
        struct holder holder;
        holder_read(&holder, line[i].holder);
        said = options->json ? waiter_json(options->name, i + 1, &line[i], &holder)
                             : waiter_text(i + 1, &line[i], &holder);
    }
    if (said && n > LINE_MOST && !options->json)
        said = answer_more(n - LINE_MOST);
    return said ? 0 : EX_IOERR;
}

static int ask(hlk_lock *lock, const struct options *options)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct holder holder;
    if (hlk_lock_query(lock, &state) != HLK_OK)
        return say_fault();
    holder_read(&holder, state.holder);
    bool said = options->json            ? answer_json(options->name, &state, &holder)
                : options->verbosity < 0 ? true
                                         : answer_text(options, &state, &holder);
    if (!said)
        return EX_IOERR;
    int code = options->verbosity < 0 && !options->json ? 0 : show_line(lock, options);
    return code ? code : state.held ? 0 : 1;
}

int show(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    struct hlk_lock_opts lock_opts = options_lock(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    hlk_lock *lock = hlk_lock_create(client, options->name, &lock_opts);
    int code = lock ? ask(lock, options) : say_fault();
    hlk_lock_destroy(lock);
    hlk_client_close(client);
    return code;
}
