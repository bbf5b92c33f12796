#include "client_opts.h"

#include "base/debug.h"
#include "base/opts.h"

#include <ctype.h>
#include <string.h>

#define WATCHDOG_MS 30000
#define WATCHDOG_LEAST_MS 300
#define SERVER_NAME_MOST 255
#define REPLY_MS 3000
#define REPLY_LEAST_MS 10
#define LOCAL_PASSES 128
#define LOCAL_PASSES_MOST 1000
#define OPEN_EVERY 4
#define OPEN_MS 3
#define OPEN_MS_MOST 1000
#define REPLICAS_MOST 1000
#define REPLICAS_MS 1000
#define REPLICAS_MS_MOST 60000

HLK_OPTS_NO_TAIL(struct hlk_client_opts, renew_ms);
HLK_OPTS_NO_TAIL(struct hlk_credentials, password);

static bool client_opts_label_ok(const char *label)
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
static const char *client_opts_bad_opts(const struct hlk_client_opts *opts)
{
    if (opts->label && !client_opts_label_ok(opts->label))
        return "label: 1 to 32 of A-Z a-z 0-9 . _ -";
    if (opts->watchdog_ms != 0 && (opts->watchdog_ms < WATCHDOG_LEAST_MS || opts->watchdog_ms > HLK_LEASE_MAX_MS))
        return "watchdog_ms: 300 to a year";
    if (opts->reply_timeout_ms != 0 && (opts->reply_timeout_ms < REPLY_LEAST_MS || opts->reply_timeout_ms > 3600000))
        return "reply_timeout_ms: 10 to an hour";
    if (opts->at_risk_ms < 0)
        return "at_risk_ms: not negative";
    if (opts->at_risk_ms > or_default(opts->watchdog_ms, WATCHDOG_MS) / 2)
        return "at_risk_ms: up to half of watchdog_ms";
    int64_t watchdog_ms = or_default(opts->watchdog_ms, WATCHDOG_MS);
    if (opts->renew_ms != 0 && (opts->renew_ms < watchdog_ms / HLK_LEASE_RENEWALS_MOST || opts->renew_ms < 1 ||
                                opts->renew_ms > watchdog_ms / HLK_LEASE_RENEWALS))
        return "renew_ms: a twentieth to a third of watchdog_ms";
    if (opts->flags & ~(HLK_OPEN_LAZY | HLK_OPEN_DISPATCH | HLK_OPEN_NO_SPIN | HLK_OPEN_LISTEN | HLK_OPEN_NO_PUBSUB))
        return "flags: unknown bits";
    if ((opts->flags & HLK_OPEN_LISTEN) && (opts->flags & HLK_OPEN_NO_PUBSUB))
        return "flags: HLK_OPEN_LISTEN needs what HLK_OPEN_NO_PUBSUB forbids";
    if (opts->reserved != 0)
        return "reserved: 0";
    if (opts->local_passes > LOCAL_PASSES_MOST)
        return "local_passes: up to 1000; negative: none";
    if (opts->yield_ms < 0 || opts->yield_ms > OPEN_MS_MOST)
        return "yield_ms: 1 to 1000";
    if (opts->password && opts->password_file)
        return "password_file: not together with password";
    if (opts->tls_key_file && !opts->tls_cert_file)
        return "tls_key_file: not without tls_cert_file";
    if (opts->tls_server_name && (!*opts->tls_server_name || strlen(opts->tls_server_name) > SERVER_NAME_MOST))
        return "tls_server_name: 1 to 255 bytes";
    if (opts->wait_replicas < 0 || opts->wait_replicas > REPLICAS_MOST)
        return "wait_replicas: 0 to 1000";
    if (opts->wait_replicas_timeout_ms < 0 || opts->wait_replicas_timeout_ms > REPLICAS_MS_MOST)
        return "wait_replicas_timeout_ms: 1 to 60000; 0: 1000";
    if (opts->log_level < 0 || opts->log_level > HLK_LOG_DEBUG)
        return "log_level: 1 to 4";
    return NULL;
}

static void fill_in(struct hlk_client_opts *opts)
{
    HLK_DEBUG_ASSERT(!client_opts_bad_opts(opts));
    opts->watchdog_ms = or_default(opts->watchdog_ms, WATCHDOG_MS);
    opts->reply_timeout_ms = or_default(opts->reply_timeout_ms, REPLY_MS);
    opts->reconnect_timeout_ms = or_default(opts->reconnect_timeout_ms, HLK_RECONNECT_TIMEOUT_MS);
    opts->local_passes = (int)or_default(opts->local_passes, LOCAL_PASSES);
    opts->yield_every = (int)or_default(opts->yield_every, OPEN_EVERY);
    opts->yield_ms = (int)or_default(opts->yield_ms, OPEN_MS);
    opts->wait_replicas_timeout_ms = (int)or_default(opts->wait_replicas_timeout_ms, REPLICAS_MS);
    if (opts->flags & HLK_OPEN_NO_PUBSUB) /* whether a client waits for the window may not be asked */
        opts->yield_every = -1;
}

enum hlk_status hlk_client_read_opts(const struct hlk_client_opts *given, struct hlk_client_opts *opts)
{
    HLK_DEBUG_ASSERT(opts && opts != given);
    struct hlk_client_opts defaults = HLK_CLIENT_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_last_set(HLK_E_INVALID, "open: options of size %zu are not known", given->size);
    const char *wrong = client_opts_bad_opts(opts);
    if (wrong)
        return hlk_last_set(HLK_E_INVALID, "open: %s", wrong);
    fill_in(opts);
    return HLK_OK;
}
