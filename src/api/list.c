/* What is held on the server: SCAN, a step at a time (lua/lock_list.lua). In a cluster one server after the other. */
#include "api/list.h"

#include "base/debug.h"
#include "base/opts.h"
#include "handle/send.h"
#include "node/cluster_servers.h"
#include "node/topology.h"
#include "script/shared_commands.h"

#include <stdlib.h>
#include <string.h>

#define MAX_KEYS 100000
#define HEAD 2                     /* the cursor and the number of refused keys, before the locks */
#define COLUMNS 5                  /* name, ttl, holder, count, waiting */
#define KIND_COLUMNS (COLUMNS + 4) /* and of every kind: kind, number, note, what is left of its ttl */

/* --- one step --- */

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && strlen(reply->str) == reply->len;
}

static bool is_lock(redisReply *const *row)
{
    return is_text(row[0]) && row[1]->type == REDIS_REPLY_INTEGER && is_text(row[2]) &&
           row[3]->type == REDIS_REPLY_INTEGER && row[4]->type == REDIS_REPLY_INTEGER;
}

static bool has_kind(redisReply *const *row)
{
    return row[COLUMNS]->type == REDIS_REPLY_INTEGER && row[COLUMNS + 1]->type == REDIS_REPLY_INTEGER &&
           row[COLUMNS + 2]->type == REDIS_REPLY_STRING && row[COLUMNS + 3]->type == REDIS_REPLY_INTEGER;
}

static bool list_is_answer(const redisReply *reply, size_t columns)
{
    HLK_DEBUG_ASSERT(reply);
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= HEAD && (reply->elements - HEAD) % columns == 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_INTEGER;
}

/* Skips a name that no lock can have, such as one with a NUL. */
static void read_step(const struct hlk_command *cmd, void *ctx)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(cmd->call.reply);
    struct hlk_list_step *step = ctx;
    const redisReply *reply = cmd->call.reply;
    bool kinds = step->opts->kind < 0;
    size_t columns = kinds ? KIND_COLUMNS : COLUMNS;
    step->understood = list_is_answer(reply, columns);
    if (!step->understood)
        return;
    for (size_t i = HEAD; i < reply->elements && !step->stopped; i += columns) {
        redisReply *const *row = &reply->element[i];
        if (!is_lock(row) || row[0]->len == 0 || row[0]->len > HLK_NAME_MAX || (kinds && !has_kind(row)))
            continue;
        struct hlk_listed lock = { .size = sizeof lock,
                                   .name = row[0]->str,
                                   .holder = row[2]->str,
                                   .count = row[3]->integer,
                                   .ttl_ms = row[1]->integer,
                                   .waiting = row[4]->integer,
                                   .kind = kinds ? (int)row[COLUMNS]->integer : step->opts->kind,
                                   .number = kinds ? row[COLUMNS + 1]->integer : 0,
                                   .note = kinds ? row[COLUMNS + 2]->str : "",
                                   .note_left_ms = kinds ? row[COLUMNS + 3]->integer : 0 };
        step->stopped = step->fn(&lock, step->ctx) != 0;
    }
    step->refused = reply->element[1]->integer;
    if (!step->stopped) /* else the same step again: the rest of it was not given */
        step->cursor = strtoull(reply->element[0]->str, NULL, 10);
}

/* ARGV[4] of lua/lock_list.lua */
static const char *list_type(int kind)
{
    return kind == HLK_LIST_EVERY     ? "every"
           : kind == HLK_LIST_NUMBERS ? "numbers"
           : kind == HLK_LOCK_STRING  ? "string"
                                      : NULL;
}

enum hlk_status hlk_list_step(hlk_lock *handle, hlk_pipeline *server, const struct hlk_send_limits *limits,
                              struct hlk_list_step *step)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(server && limits && step->fn && step->opts && step->keys > 0);
    struct hlk_command cmd = { .type = &hlk_command_list,
                               .prefix = step->opts->prefix,
                               .cursor = step->cursor,
                               .list_type = list_type(step->opts->kind),
                               .count = step->keys < HLK_LIST_STEP_KEYS ? step->keys : HLK_LIST_STEP_KEYS,
                               .pipeline = server };
    step->stopped = false;
    step->refused = 0;
    enum hlk_status status = hlk_lock_send(handle, "list", &cmd, limits, read_step, step);
    if (status != HLK_OK || step->understood)
        return status;
    static const char what[] = "unexpected reply of the server";
    return limits->error ? hlk_error_set(limits->error, HLK_E_SERVER, what)
                         : hlk_lock_fail(handle, "list", HLK_E_SERVER, what);
}

/* --- one server, or those of a cluster --- */

/* The next server that has slots, from this one on; 0: none. */
static unsigned next_server(struct hlk_node *node, unsigned server)
{
    const struct hlk_cluster *cluster = node->cluster;
    while (cluster && hlk_node_server(node, server) && !hlk_cluster_keeps(cluster, server))
        server++;
    return cluster && hlk_node_server(node, server) ? server : 0;
}

static enum hlk_status list_servers(hlk_lock *handle, struct hlk_list_opts *opts, hlk_list_fn *fn, void *ctx)
{
    HLK_DEBUG_ASSERT(opts->max_keys > 0 && fn);
    struct hlk_node *node = hlk_lock_node(handle);
    const struct hlk_send_limits limits = { .cancel = opts->cancel };
    struct hlk_list_step step = { .opts = opts, .fn = fn, .ctx = ctx };
    if (opts->cursor == 0)
        opts->cursor = hlk_list_cursor(next_server(node, 0));
    for (step.keys = opts->max_keys; step.keys > 0 && !opts->stopped; step.keys -= HLK_LIST_STEP_KEYS) {
        unsigned number = hlk_list_server(opts->cursor);
        const struct hlk_node *server = hlk_node_server(node, number);
        if (!server)
            return hlk_lock_fail(handle, "list", HLK_E_INVALID, "the cursor is none of this client's");
        step.cursor = hlk_list_scan(opts->cursor);
        enum hlk_status status = hlk_list_step(handle, server->pipeline, &limits, &step);
        if (status != HLK_OK)
            return status;
        opts->stopped = step.stopped;
        opts->refused += step.refused;
        opts->cursor =
            hlk_list_cursor(step.cursor || step.stopped ? number : next_server(node, number + 1)) | step.cursor;
        if (opts->cursor == 0)
            break;
    }
    return HLK_OK;
}

/* NULL: valid; else the reason. */
static const char *list_bad_opts(const struct hlk_list_opts *given, struct hlk_list_opts *opts, hlk_list_fn *fn)
{
    if (!given || !fn)
        return given ? "no callback" : "no options";
    if (!hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return "options of this size are not known";
    if (opts->prefix && strlen(opts->prefix) > HLK_NAME_MAX)
        return "a prefix has up to 512 bytes";
    if (opts->max_keys < 0)
        return "max_keys is negative";
    if (opts->kind != 0 && opts->kind != HLK_LOCK_STRING && opts->kind != HLK_LIST_EVERY &&
        opts->kind != HLK_LIST_NUMBERS)
        return "kind is none of 0, HLK_LOCK_STRING, HLK_LIST_EVERY and HLK_LIST_NUMBERS";
    return NULL;
}

/* The handle gives errors their name. It is a fair lock's, which is cheap because it has no entry. */
enum hlk_status hlk_lock_list(hlk_client *client, struct hlk_list_opts *given, hlk_list_fn *fn, void *ctx)
{
    struct hlk_list_opts opts = HLK_LIST_OPTS_INIT;
    struct hlk_lock_opts kind = HLK_LOCK_OPTS_INIT;
    const char *wrong = list_bad_opts(given, &opts, fn);
    if (wrong)
        return hlk_last_set(HLK_E_INVALID, "list: %s", wrong);
    if (!opts.prefix)
        opts.prefix = "";
    if (!opts.max_keys)
        opts.max_keys = MAX_KEYS;
    opts.refused = opts.stopped = 0;
    kind.kind = HLK_LOCK_FAIR;
    enum hlk_status status = hlk_client_check(client, "list", NULL);
    if (status != HLK_OK)
        return status;
    const char *name = *opts.prefix ? opts.prefix : "*";
    hlk_lock *handle = hlk_lock_make(client, name, strlen(name), &kind);
    if (!handle)
        return hlk_last_set(HLK_E_NOMEM, "list: no memory");
    status =
        client->topology ? client->topology->locks->list(handle, &opts, fn, ctx) : list_servers(handle, &opts, fn, ctx);
    hlk_lock_destroy(handle);
    opts.prefix = given->prefix;
    opts.max_keys = given->max_keys;
    opts.size = given->size;
    memcpy(given, &opts, given->size < sizeof opts ? given->size : sizeof opts);
    return status;
}
