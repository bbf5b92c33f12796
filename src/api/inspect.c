#include "api/inspect.h"

#include "base/debug.h"
#include "handle/send.h"
#include "node/topology.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* {ttl, listeners, holder, count, waiters, {member...}}: lua/lock_query.lua, lua/fair_query.lua. Any other reply says
 * nothing about the lock, and must not count as free. */
static bool inspect_is_answer(const redisReply *reply)
{
    HLK_DEBUG_ASSERT(reply);
    static const int types[] = { REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,
                                 REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY };
    const size_t n = sizeof types / sizeof *types;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (reply->element[i]->type != types[i])
            return false;
    }
    return true;
}

static enum hlk_status not_understood(hlk_lock *lock, const char *operation)
{
    return hlk_lock_fail(lock, operation, HLK_E_SERVER, "unexpected reply of the server");
}

struct state {
    struct hlk_lock_state lock;
    bool understood;
};

static void read_state(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    const redisReply *reply = cmd->call.reply;
    struct state *to = ctx;
    struct hlk_lock_state *out = &to->lock;
    to->understood = inspect_is_answer(reply);
    if (!to->understood)
        return;
    int64_t ttl = reply->element[0]->integer, listen = reply->element[1]->integer, queued = reply->element[4]->integer;
    out->waiting = listen > queued ? listen : queued;
    out->count = reply->element[3]->integer;
    if (out->count == 0)
        return;
    out->held = 1;
    out->ttl_ms = ttl;
    size_t len = reply->element[2]->len < sizeof out->holder - 1 ? reply->element[2]->len : sizeof out->holder - 1;
    memcpy(out->holder, reply->element[2]->str, len);
    out->holder[len] = '\0';
}

/* The hold of the handle's holder; 0: it has none. */
static uint64_t hold_of_caller(const hlk_lock *lock)
{
    struct hlk_view view;
    hlk_lock_view_exposing_id(lock, &view);
    return view.lost || view.count == 0 ? 0 : view.h;
}

static bool is_hold(const hlk_lock *lock, uint64_t hold, const char *holder)
{
    char field[HLK_FIELD_MAX];
    (void)hlk_field(field, lock->client->id, hold);
    return hold && strcmp(field, holder) == 0;
}

enum hlk_status hlk_lock_query_at(hlk_lock *lock, hlk_pipeline *at, int64_t max_ms, struct hlk_lock_state *out,
                                  struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(out && (at != NULL) == (error != NULL));
    struct state state = { HLK_LOCK_STATE_INIT, false };
    struct hlk_command cmd = { .type = &lock->kind->format->query, .hold = hold_of_caller(lock), .pipeline = at };
    const struct hlk_send_limits limits = { .max_ms = max_ms, .error = error };
    enum hlk_status status = hlk_lock_send(lock, "query", &cmd, &limits, read_state, &state);
    if (status != HLK_OK)
        return status;
    if (!state.understood)
        return error ? hlk_error_set(error, HLK_E_SERVER, "unexpected reply of the server")
                     : not_understood(lock, "query");
    *out = state.lock;
    out->mine = out->held && is_hold(lock, cmd.hold, out->holder);
    return HLK_OK;
}

enum hlk_status hlk_lock_query(hlk_lock *lock, struct hlk_lock_state *out)
{
    struct hlk_lock_state found = HLK_LOCK_STATE_INIT;
    enum hlk_status status = hlk_lock_check(lock, "query");
    if (status != HLK_OK)
        return status;
    const struct hlk_lock_group *group = hlk_lock_group(lock);
    if (group && !group->query)
        return hlk_lock_not_of_multilock(lock, "query");
    if (!out || out->size < sizeof out->size)
        return hlk_lock_fail(lock, "query", HLK_E_INVALID, "set out->size before the call");
    status = group ? group->query(lock, &found) : hlk_lock_query_at(lock, NULL, 0, &found, NULL);
    if (status != HLK_OK)
        return status;
    found.size = out->size;
    memcpy(out, &found, out->size < sizeof found ? out->size : sizeof found);
    return HLK_OK;
}

struct waiters { /* output array; `size` is the distance of its elements */
    unsigned char *out;
    size_t size, max, n;
    bool understood;
};

static void copy_text(char *to, size_t size, const char *from, size_t len)
{
    HLK_DEBUG_ASSERT(size > 0 && from);
    len = len < size - 1 ? len : size - 1;
    memcpy(to, from, len);
    to[len] = '\0';
}

/* "<client id>:<hold id> <ttl> <tokens> <floor> <since>" (include_pass.lua). A foreign one is kept as it is. */
static void read_waiter(const redisReply *member, struct hlk_waiter *out)
{
    const char *colon = member->str ? strrchr(member->str, ':') : NULL;
    int64_t ttl, tokens, since;
    int field = 0, end = 0;
    if (colon)
        (void)sscanf(colon, ":%*u%n %" SCNd64 " %" SCNd64 " %*u %" SCNd64 "%n", &field, &ttl, &tokens, &since, &end);
    bool ours = end > 0 && colon[end] == '\0';
    copy_text(out->holder, sizeof out->holder, member->str ? member->str : "",
              ours ? (size_t)(colon - member->str) + (size_t)field : member->len);
    if (!ours)
        return;
    out->since_ms = since;
    out->lease_ms = ttl;
    out->fenced = tokens > 0;
}

static void read_waiters(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    const redisReply *reply = cmd->call.reply;
    struct waiters *to = ctx;
    to->understood = inspect_is_answer(reply);
    if (!to->understood)
        return;
    const redisReply *members = reply->element[5];
    to->n = (size_t)reply->element[4]->integer;
    for (size_t i = 0; i < members->elements && i < to->max; i++) {
        struct hlk_waiter waiter = { .size = to->size };
        read_waiter(members->element[i], &waiter);
        memcpy(to->out + i * to->size, &waiter, to->size < sizeof waiter ? to->size : sizeof waiter);
    }
}

enum hlk_status hlk_lock_waiters(hlk_lock *lock, struct hlk_waiter *out, size_t max, size_t *n)
{
    if (n)
        *n = 0;
    enum hlk_status status = hlk_lock_check(lock, "waiters");
    if (status != HLK_OK)
        return status;
    const struct hlk_lock_group *group = hlk_lock_group(lock);
    if (group && !group->query)
        return hlk_lock_not_of_multilock(lock, "waiters");
    if (!n || max > HLK_WAITERS_MAX || (max > 0 && !out))
        return hlk_lock_fail(lock, "waiters", HLK_E_INVALID, "%s",
                             !n     ? "no room for their number"
                             : !out ? "no room for them"
                                    : "more than HLK_WAITERS_MAX");
    if (max > 0 && out->size < sizeof out->size)
        return hlk_lock_fail(lock, "waiters", HLK_E_INVALID, "set out[0].size before the call");
    if (group) /* its waiters have no queue at the masters */
        return HLK_OK;
    struct waiters to = { .out = (unsigned char *)out, .size = max > 0 ? out->size : 0, .max = max };
    struct hlk_command cmd = { .type = &lock->kind->format->query, .count = (int64_t)max };
    status = hlk_lock_send(lock, "waiters", &cmd, NULL, read_waiters, &to);
    if (status == HLK_OK && !to.understood)
        return not_understood(lock, "waiters");
    *n = to.n;
    return status;
}

enum hlk_status hlk_client_counters(const hlk_client *client, struct hlk_counters *out)
{
    if (!client)
        return hlk_last_null("counters", "client");
    if (!out || out->size < sizeof out->size)
        return hlk_last_set(HLK_E_INVALID, "counters: set out->size before the call");
    if (client->process != hlk_thread_process())
        return hlk_last_set(HLK_E_FORKED, "counters: %s", hlk_status_text(HLK_E_FORKED));
    const struct hlk_lease_counts *from = &client->table.counts;
    struct hlk_pipeline_counts wire = { 0 };
    struct hlk_node *server;
    for (unsigned i = 0; i < client->node_count; i++)
        for (unsigned k = 0; (server = hlk_node_server(&client->nodes[i], k)); k++)
            hlk_pipeline_counts(server->pipeline, &wire);
    struct hlk_counters all = {
        .size = out->size,
        .held = from->held,
        .waiting = from->waiting,
        .acquired = from->acquired,
        .reentered = from->reentered,
        .busy = from->busy,
        .timeouts = from->timeouts,
        .interrupted = from->interrupted,
        .lost = from->lost,
        .released = from->released,
        .release_unsure = from->release_unsure,
        .release_refused = from->release_refused,
        .orphaned = from->orphaned,
        .renewals = from->renewals,
        .renewals_late = from->renewals_late,
        .woken = from->woken,
        .woken_by_ttl = from->woken_by_ttl,
        .granted = from->granted,
        .passed = from->passed,
        .handed_back = from->handed_back,
        .commands = wire.commands,
        .writes = wire.writes,
        .reconnects = wire.reconnects,
        .connected = wire.connected,
    };
    for (int i = 0; i < 32; i++)
        all.wait_us[i] = from->wait_us[i];
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
    return HLK_OK;
}
