/* break.c - see break.h. The holder is queried just before, because hlk_lock_break does not return it. If the lock
 * changes hands in between, the named holder is not the one that lost it. */
#include "break.h"

#include "holder.h"
#include "say.h"

#include <hasplock/hasplock.h>

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

/* ttl_ms: what was left of the lease. */
static bool answer_json(const char *name, bool broken, const struct holder *holder, int64_t ttl_ms)
{
    struct json json;
    json_begin(&json);
    json_string(&json, "name", name);
    json_bool(&json, "broken", broken);
    if (broken && holder->written[0]) {
        holder_json(holder, &json);
        json_int(&json, "ttl_ms", ttl_ms);
    }
    json_end(&json);
    return say_answer(json.line, json.len);
}

/* Of several masters none notifies the holder. */
static bool notifies(const struct options *options, const struct holder *holder)
{
    return holder->ours && strncmp(options->url, "redlock", strlen("redlock")) != 0;
}

/* A holder without a notification learns it from its next renewal, at the latest when its lease ends. */
static const char *when_known(bool notified, int64_t ttl_ms, char *buf, size_t size)
{
    static const char next_renewal[] = "by its next renewal";
    char within[64];
    snprintf(within, sizeof within, "within %.1f s", (double)ttl_ms / 1000);
    if (!notified)
        snprintf(buf, size, "it is not told, and learns %s", next_renewal);
    else
        snprintf(buf, size, "a hasplock run ends at once, a program that does not listen knows it %s",
                 ttl_ms < 0 ? next_renewal : within);
    return buf;
}

static bool answer_text(const struct options *options, bool broken, const struct holder *holder, int64_t ttl_ms)
{
    char line[4096], shown_name[2100], who[1000], known[200];
    int len;
    text_shown(shown_name, sizeof shown_name, options->name);
    if (!broken)
        len = snprintf(line, sizeof line, "%s: free, nothing to break\n", shown_name);
    else if (!holder->written[0])
        len = snprintf(line, sizeof line, "%s: taken from a holder who had just come\n", shown_name);
    else
        len = snprintf(line, sizeof line, "%s: taken from %s; %s\n", shown_name, holder_shown(holder, who, sizeof who),
                       when_known(notifies(options, holder), ttl_ms, known, sizeof known));
    return say_answer(line, (size_t)len);
}

static int take(hlk_lock *lock, const struct options *options)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct holder holder;
    if (hlk_lock_query(lock, &state) != HLK_OK)
        return say_fault();
    enum hlk_status status = hlk_lock_break(lock);
    if (status != HLK_OK && status != HLK_NOT_HOLDER)
        return say_fault();
    bool broken = status == HLK_OK;
    holder_read(&holder, state.holder);
    bool said = options->json            ? answer_json(options->name, broken, &holder, state.ttl_ms)
                : options->verbosity < 0 ? true
                                         : answer_text(options, broken, &holder, state.ttl_ms);
    return !said ? EX_IOERR : broken ? 0 : 1;
}

int break_lock(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    struct hlk_lock_opts lock_opts = options_lock(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    hlk_lock *lock = hlk_lock_create(client, options->name, &lock_opts);
    int code = lock ? take(lock, options) : say_fault();
    hlk_lock_destroy(lock);
    hlk_client_close(client);
    return code;
}
