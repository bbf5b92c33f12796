/* What is held on the server: SCAN, a step at a time (lua/lock_list.lua). In a cluster one server after the other. */
#include "api/handle.h"

#include "base/opts.h"
#include "node/cluster.h"

#include <stdlib.h>
#include <string.h>

#define MAX_KEYS 100000
#define STEP_KEYS 500 /* about 1 ms of the server's time */
#define HEAD 2        /* the cursor and the number of refused keys, before the locks */
#define COLUMNS 5     /* name, ttl, holder, count, waiting */
#define SERVER_BIT 54 /* of the cursor, in a cluster: from here on which server it is of. SCAN counts by fewer */

struct step {
    struct hlk_list_opts *opts;
    hlk_list_fn *fn;
    void *ctx;
    bool understood;
    struct hlk_node *node;
};

static uint64_t cursor_of(unsigned server)
{
    return (uint64_t)server << SERVER_BIT;
}

static unsigned server_of(uint64_t cursor)
{
    return (unsigned)(cursor >> SERVER_BIT);
}

/* The next server that has slots, from this one on; 0: none. */
static unsigned next_server(const struct step *step, unsigned server)
{
    const struct hlk_cluster *cluster = step->node->cluster;
    while (cluster && hlk_node_server(step->node, server) && !hlk_cluster_keeps(cluster, server))
        server++;
    return cluster && hlk_node_server(step->node, server) ? server : 0;
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && strlen(reply->str) == reply->len;
}

static bool is_lock(redisReply *const *row)
{
    return is_text(row[0]) && row[1]->type == REDIS_REPLY_INTEGER && is_text(row[2]) &&
           row[3]->type == REDIS_REPLY_INTEGER && row[4]->type == REDIS_REPLY_INTEGER;
}

static bool list_is_answer(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= HEAD && (reply->elements - HEAD) % COLUMNS == 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_INTEGER;
}

/* Skips a name that no lock can have, such as one with a NUL. */
static void read_step(const struct hlk_command *cmd, void *ctx)
{
    struct step *step = ctx;
    const redisReply *reply = cmd->call.reply;
    step->understood = list_is_answer(reply);
    if (!step->understood)
        return;
    for (size_t i = HEAD; i < reply->elements && !step->opts->stopped; i += COLUMNS) {
        redisReply *const *row = &reply->element[i];
        if (!is_lock(row) || row[0]->len == 0 || row[0]->len > HLK_NAME_MAX)
            continue;
        struct hlk_listed lock = { sizeof lock,     row[0]->str,     row[2]->str,
                                   row[3]->integer, row[1]->integer, row[4]->integer };
        step->opts->stopped = step->fn(&lock, step->ctx) != 0;
    }
    step->opts->refused += reply->element[1]->integer;
    if (step->opts->stopped) /* the same step again: the rest of it was not given */
        return;
    unsigned server = server_of(step->opts->cursor);
    uint64_t cursor = strtoull(reply->element[0]->str, NULL, 10);
    step->opts->cursor = cursor ? cursor_of(server) | cursor : cursor_of(next_server(step, server + 1));
}

static enum hlk_status list(hlk_lock *handle, struct step *step)
{
    struct hlk_list_opts *opts = step->opts;
    struct hlk_send_limits patience = { .cancel = opts->cancel };
    if (opts->cursor == 0)
        opts->cursor = cursor_of(next_server(step, 0));
    for (int64_t seen = 0; seen < opts->max_keys; seen += STEP_KEYS) {
        struct hlk_command cmd = { .type = &hlk_command_list,
                                   .prefix = opts->prefix,
                                   .cursor = opts->cursor & (cursor_of(1) - 1),
                                   .strings = opts->kind == HLK_LOCK_STRING,
                                   .count = opts->max_keys - seen < STEP_KEYS ? opts->max_keys - seen : STEP_KEYS };
        struct hlk_node *server = hlk_node_server(step->node, server_of(opts->cursor));
        if (!server)
            return hlk_lock_fail(handle, "list", HLK_E_INVALID, "the cursor is none of this client's");
        cmd.pipeline = server->pipeline;
        enum hlk_status status = hlk_lock_send(handle, "list", &cmd, &patience, read_step, step);
        if (status != HLK_OK)
            return status;
        if (!step->understood)
            return hlk_lock_fail(handle, "list", HLK_E_SERVER, "unexpected reply of the server");
        if (opts->cursor == 0 || opts->stopped)
            return HLK_OK;
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
    if (opts->kind != 0 && opts->kind != HLK_LOCK_STRING)
        return "kind is neither 0 nor HLK_LOCK_STRING";
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
    if (client->part)
        return hlk_last_set(HLK_E_INVALID, "list: not of several masters; open a client of one of them");
    const char *name = *opts.prefix ? opts.prefix : "*";
    hlk_lock *handle = hlk_lock_make(client, name, strlen(name), &kind);
    if (!handle)
        return hlk_last_set(HLK_E_NOMEM, "list: no memory");
    struct step step = { .opts = &opts, .fn = fn, .ctx = ctx, .node = hlk_lock_node(handle) };
    status = list(handle, &step);
    hlk_lock_destroy(handle);
    opts.prefix = given->prefix;
    opts.max_keys = given->max_keys;
    opts.size = given->size;
    memcpy(given, &opts, given->size < sizeof opts ? given->size : sizeof opts);
    return status;
}
