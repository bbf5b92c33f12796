#include "quorum/opts.h"

#include "base/debug.h"
#include "base/error.h"
#include "base/opts.h"
#include "lease/lease.h"

#define TTL_MS 10000
#define DRIFT_FACTOR 0.01
#define DRIFT_FACTOR_MOST 0.5
#define RETRY_DELAY_MS 200
#define RETRY_JITTER_MS 100
#define RETRY_MOST_MS 60000
#define NODE_TIMEOUT_LEAST_MS 50

HLK_OPTS_NO_TAIL(struct hlk_quorum_opts, event_ctx);

static bool quorum_lease_ok(int64_t ms)
{
    return ms == 0 || (ms >= HLK_LEASE_MIN_MS && ms <= HLK_LEASE_MAX_MS);
}

const char *hlk_quorum_opts_wrong(const struct hlk_quorum_opts *opts)
{
    if (!hlk_quorum_layout_get(opts->format))
        return "unknown format";
    if (opts->reserved != 0)
        return "reserved is not 0";
    if (!quorum_lease_ok(opts->ttl_ms))
        return "ttl_ms is not 0 and not between 100 and a year";
    if (opts->node_timeout_ms < 0 || opts->node_timeout_ms > (opts->ttl_ms ? opts->ttl_ms : TTL_MS))
        return "node_timeout_ms is negative, or longer than ttl_ms";
    if (!(opts->clock_drift_factor <= DRIFT_FACTOR_MOST))
        return "clock_drift_factor is more than 0.5";
    if (opts->retry_delay_ms < 0 || opts->retry_delay_ms > RETRY_MOST_MS || opts->retry_jitter_ms > RETRY_MOST_MS)
        return "retry_delay_ms is negative, or it or retry_jitter_ms is more than a minute";
    if (opts->max_hold_ms < 0)
        return "max_hold_ms is negative";
    if (opts->restart_delay_ms > HLK_LEASE_MAX_MS)
        return "restart_delay_ms is more than a year";
    return NULL;
}

static int64_t not_negative(int64_t given, int64_t otherwise)
{
    return given < 0 ? 0 : given ? given : otherwise;
}

void hlk_quorum_opts_complete(struct hlk_quorum_opts *opts)
{
    HLK_DEBUG_ASSERT(!hlk_quorum_opts_wrong(opts));
    if (!opts->ttl_ms)
        opts->ttl_ms = TTL_MS;
    if (!opts->node_timeout_ms) {
        int64_t part = opts->ttl_ms / 20;
        opts->node_timeout_ms = part > NODE_TIMEOUT_LEAST_MS ? part : NODE_TIMEOUT_LEAST_MS;
    }
    opts->clock_drift_factor = opts->clock_drift_factor < 0   ? 0
                               : opts->clock_drift_factor > 0 ? opts->clock_drift_factor
                                                              : DRIFT_FACTOR;
    if (!opts->retry_delay_ms)
        opts->retry_delay_ms = RETRY_DELAY_MS;
    opts->retry_jitter_ms = (int)not_negative(opts->retry_jitter_ms, RETRY_JITTER_MS);
    opts->restart_delay_ms = not_negative(opts->restart_delay_ms, opts->ttl_ms);
}

enum hlk_status hlk_quorum_opts_read(const struct hlk_quorum_opts *given, struct hlk_quorum_opts *opts)
{
    HLK_DEBUG_ASSERT(opts && opts != given);
    struct hlk_quorum_opts defaults = HLK_QUORUM_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_last_set(HLK_E_INVALID, "create quorum: options of size %zu are not known", given->size);
    const char *wrong = hlk_quorum_opts_wrong(opts);
    if (wrong)
        return hlk_last_set(HLK_E_INVALID, "create quorum: %s", wrong);
    hlk_quorum_opts_complete(opts);
    return HLK_OK;
}
