/* What an open client was asked to be: checked, and the defaults filled in. */
#include "client.h"

#include "base/opts.h"

#include <ctype.h>
#include <string.h>

#define WATCHDOG_MS 30000
#define WATCHDOG_LEAST_MS 300
#define REPLY_MS 3000
#define REPLY_LEAST_MS 10
#define LOCAL_PASSES 128
#define LOCAL_PASSES_MOST 1000
#define OPEN_EVERY 4
#define OPEN_MS 3
#define OPEN_MS_MOST 1000

static bool label_ok(const char *label)
{
    size_t len = strlen(label);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)label[i]) && !strchr("._-", label[i]))
            return false;
    return len >= 1 && len <= 32;
}

static int64_t or_default(int64_t given, int64_t otherwise)
{
    return given ? given : otherwise;
}

/* NULL: all is well; else what is wrong. */
static const char *bad_opts(const struct hlk_client_opts *opts)
{
    if (opts->label && !label_ok(opts->label))
        return "label: 1 to 32 of A-Z a-z 0-9 . _ -";
    if (opts->watchdog_ms != 0 && (opts->watchdog_ms < WATCHDOG_LEAST_MS || opts->watchdog_ms > HLK_LEASE_MAX_MS))
        return "watchdog_ms: 300 to a year";
    if (opts->reply_ms != 0 && (opts->reply_ms < REPLY_LEAST_MS || opts->reply_ms > 3600000))
        return "reply_ms: 10 to an hour";
    if (opts->at_risk_ms < 0)
        return "at_risk_ms: not negative";
    if (opts->at_risk_ms > or_default(opts->watchdog_ms, WATCHDOG_MS) / 2)
        return "at_risk_ms: up to half of watchdog_ms";
    if (opts->flags & ~(HLK_OPEN_LAZY | HLK_OPEN_DISPATCH | HLK_OPEN_NO_SPIN))
        return "flags: unknown bits";
    if (opts->local_passes > LOCAL_PASSES_MOST)
        return "local_passes: up to 1000; negative: none";
    if (opts->open_ms < 0 || opts->open_ms > OPEN_MS_MOST)
        return "open_ms: 1 to 1000";
    if (opts->log_level < 0 || opts->log_level > HLK_LOG_DEBUG)
        return "log_level: 1 to 4";
    return NULL;
}

static void fill_in(struct hlk_client_opts *opts)
{
    opts->watchdog_ms = or_default(opts->watchdog_ms, WATCHDOG_MS);
    opts->reply_ms = or_default(opts->reply_ms, REPLY_MS);
    opts->patience_ms = or_default(opts->patience_ms, HLK_PATIENCE_MS);
    opts->local_passes = (int)or_default(opts->local_passes, LOCAL_PASSES);
    opts->open_every = (int)or_default(opts->open_every, OPEN_EVERY);
    opts->open_ms = (int)or_default(opts->open_ms, OPEN_MS);
}

enum hlk_status hlk_client_read_opts(const struct hlk_client_opts *given, struct hlk_client_opts *opts)
{
    struct hlk_client_opts defaults = HLK_CLIENT_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_last_set(HLK_E_INVALID, "open: options of size %zu are not known", given->size);
    const char *wrong = bad_opts(opts);
    if (wrong)
        return hlk_last_set(HLK_E_INVALID, "open: %s", wrong);
    fill_in(opts);
    return HLK_OK;
}
