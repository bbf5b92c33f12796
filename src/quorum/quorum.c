/* Handles: making them, and what needs no server. */
#include "quorum/quorum.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "base/opts.h"
#include "lease/lease.h"
#include "quorum/round.h"

#include <string.h>

#define TTL_MS 10000
#define DRIFT_FACTOR 0.01
#define DRIFT_FACTOR_MOST 0.5
#define RETRY_DELAY_MS 200
#define RETRY_JITTER_MS 100
#define RETRY_MOST_MS 60000
#define NODE_TIMEOUT_LEAST_MS 50

/* --- options --- */

HLK_OPTS_NO_TAIL(struct hlk_quorum_opts, event_ctx);

static bool quorum_lease_ok(int64_t ms)
{
    return ms == 0 || (ms >= HLK_LEASE_MIN_MS && ms <= HLK_LEASE_MAX_MS);
}

/* NULL: all is well; else what is wrong. */
static const char *quorum_bad_opts(const struct hlk_quorum_opts *opts)
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

static void quorum_fill_in(struct hlk_quorum_opts *opts)
{
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

static enum hlk_status quorum_read_opts(const struct hlk_quorum_opts *given, struct hlk_quorum_opts *opts)
{
    struct hlk_quorum_opts defaults = HLK_QUORUM_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_last_set(HLK_E_INVALID, "create quorum: options of size %zu are not known", given->size);
    const char *wrong = quorum_bad_opts(opts);
    if (wrong)
        return hlk_last_set(HLK_E_INVALID, "create quorum: %s", wrong);
    quorum_fill_in(opts);
    return HLK_OK;
}

/* --- making --- */

hlk_quorum *hlk_quorum_create(hlk_client *client, const char *name, const struct hlk_quorum_opts *given)
{
    struct hlk_quorum_opts opts;
    if (hlk_client_check(client, "create quorum", name) != HLK_OK)
        return NULL;
    size_t len = name ? strnlen(name, HLK_NAME_MAX + 1) : 0;
    if (!client->part) {
        (void)hlk_last_set(HLK_E_INVALID, "create quorum: the client is none of hlk_quorum_open");
        return NULL;
    }
    if (len == 0 || len > HLK_NAME_MAX) {
        (void)hlk_last_set(HLK_E_INVALID, "create quorum: a name has 1 to %d bytes", HLK_NAME_MAX);
        return NULL;
    }
    if (quorum_read_opts(given, &opts) != HLK_OK)
        return NULL;
    struct hlk_quorum *quorum = hlk_mem_zalloc(sizeof *quorum + len + 1);
    if (!quorum) {
        (void)hlk_last_set(HLK_E_NOMEM, "create quorum: no memory");
        return NULL;
    }
    atomic_init(&quorum->refs, 1);
    hlk_client_ref(client);
    quorum->client = client;
    quorum->all = HLK_CONTAINER(client->part, struct hlk_quorums, part);
    quorum->layout = hlk_quorum_layout_get(opts.format);
    quorum->opts = opts;
    quorum->end.run = hlk_quorum_on_end;
    quorum->alarm.fire = hlk_quorum_on_alarm;
    quorum->name_len = len;
    memcpy(quorum->name, name, len);
    hlk_mutex_lock(&quorum->all->mu);
    hlk_list_push_back(&quorum->all->all, &quorum->link);
    hlk_mutex_unlock(&quorum->all->mu);
    return quorum;
}

void hlk_quorum_let_go(struct hlk_quorum *quorum)
{
    struct hlk_round *round = hlk_quorum_take(quorum);
    if (!round)
        return;
    hlk_round_release(round);
    hlk_quorum_taken(quorum);
    hlk_round_unref(round);
}

void hlk_quorum_destroy(hlk_quorum *quorum)
{
    if (!quorum || quorum->client->process != hlk_thread_process())
        return;
    int old = hlk_nocancel_begin();
    if (!atomic_load(&quorum->client->closing))
        hlk_quorum_let_go(quorum);
    hlk_events_silence(&quorum->client->events, quorum);
    hlk_quorum_unref(quorum);
    hlk_nocancel_end(old);
}

/* --- what needs no server --- */

/* Of a hold that is valid now; else 0. */
static int64_t valid_until(hlk_quorum *quorum, int64_t now_ms)
{
    if (!quorum || quorum->client->process != hlk_thread_process())
        return 0;
    hlk_mutex_lock(&quorum->all->mu);
    int64_t until = quorum->state == HLK_QUORUM_HELD ? quorum->validity.until_ms : 0;
    hlk_mutex_unlock(&quorum->all->mu);
    return now_ms < until ? until : 0;
}

int64_t hlk_quorum_held_until(hlk_quorum *quorum)
{
    return valid_until(quorum, hlk_clock_ms());
}

int64_t hlk_quorum_left_ms(hlk_quorum *quorum)
{
    int64_t now = hlk_clock_ms(), until = valid_until(quorum, now);
    return until ? until - now : 0;
}

int hlk_quorum_is_lost(hlk_quorum *quorum)
{
    if (!quorum || quorum->client->process != hlk_thread_process())
        return 0;
    int64_t now = hlk_clock_ms();
    hlk_mutex_lock(&quorum->all->mu);
    bool lost =
        quorum->state == HLK_QUORUM_LOST || (quorum->state == HLK_QUORUM_HELD && now >= quorum->validity.until_ms);
    hlk_mutex_unlock(&quorum->all->mu);
    return lost;
}

const char *hlk_quorum_name(const hlk_quorum *quorum)
{
    return quorum ? quorum->name : NULL;
}

enum hlk_status hlk_quorum_hold_id(hlk_quorum *quorum, char *buf, size_t size)
{
    char holder[HLK_FIELD_MAX] = "";
    if (buf && size)
        buf[0] = '\0';
    enum hlk_status status = hlk_quorum_check(quorum, "hold id");
    if (status != HLK_OK)
        return status;
    if (!buf || size == 0)
        return hlk_quorum_fail(quorum, "hold id", HLK_E_INVALID, "no room for it");
    if (hlk_quorum_is_lost(quorum))
        return hlk_quorum_fail(quorum, "hold id", HLK_LOST, "the hold was lost");
    hlk_mutex_lock(&quorum->all->mu);
    bool held = quorum->state == HLK_QUORUM_HELD;
    size_t len = held ? hlk_field(holder, quorum->client->id, quorum->round->hold) : 0;
    hlk_mutex_unlock(&quorum->all->mu);
    if (!held)
        return hlk_quorum_fail(quorum, "hold id", HLK_NOT_HOLDER, "not held by this handle");
    len = len < size - 1 ? len : size - 1;
    memcpy(buf, holder, len);
    buf[len] = '\0';
    return HLK_OK;
}
