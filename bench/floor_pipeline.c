/* floor_pipeline.c - the ceiling: pairs of hash scripts, formatted once, sent in one write; then all replies are read.
 *
 * A release is sent without waiting for its acquire, and nothing is formatted or decided between two writes. So this is
 * the limit of one Redis thread for these scripts on one connection. */
#include "floor.h"
#include "floor_scripts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct pipeline {
    struct floor_conn conn;
    struct floor_script acquire, release;
    char *commands; /* owned; all of one write */
    size_t size;
};

static int add(struct pipeline *pipeline, struct floor_args *args)
{
    char *command = NULL;
    long long len = redisFormatCommandArgv(&command, args->argc, args->argv, args->len);
    char *grown = len > 0 ? realloc(pipeline->commands, pipeline->size + (size_t)len) : NULL;
    if (grown) {
        memcpy(grown + pipeline->size, command, (size_t)len);
        pipeline->commands = grown;
        pipeline->size += (size_t)len;
    }
    redisFreeCommand(command);
    return grown ? 0 : -1;
}

static int add_pair(struct pipeline *pipeline, int index)
{
    char key[32], channel[64], holder[64];
    snprintf(key, sizeof key, "bench:own:0:%d", index);
    snprintf(channel, sizeof channel, "redisson_lock__channel:{%s}", key);
    snprintf(holder, sizeof holder, "6b1c0f3e-ceiling:%d", index);

    struct floor_args take = { 0 }, give = { 0 };
    floor_arg(&take, "EVALSHA");
    floor_arg(&take, pipeline->acquire.sha);
    floor_arg(&take, "1");
    floor_arg(&take, key);
    floor_arg(&take, FLOOR_LEASE_MS);
    floor_arg(&take, holder);
    floor_arg(&give, "EVALSHA");
    floor_arg(&give, pipeline->release.sha);
    floor_arg(&give, "2");
    floor_arg(&give, key);
    floor_arg(&give, channel);
    floor_arg(&give, FLOOR_LEASE_MS);
    floor_arg(&give, holder);
    return add(pipeline, &take) < 0 || add(pipeline, &give) < 0 ? -1 : 0;
}

static int send_all(struct pipeline *pipeline)
{
    for (size_t sent = 0; sent < pipeline->size;) {
        ssize_t n = send(pipeline->conn.redis->fd, pipeline->commands + sent, pipeline->size - sent, MSG_NOSIGNAL);
        if (n <= 0)
            return -1;
        sent += (size_t)n;
    }
    return 0;
}

static int turn(struct bench_worker *worker, struct pipeline *pipeline)
{
    int64_t begin = bench_now_ns();
    if (send_all(pipeline) < 0)
        return bench_fail(worker, "send failed");
    for (int i = 0; i < worker->in_flight; i++) {
        redisReply *got = floor_read(&pipeline->conn);
        redisReply *gone = floor_read(&pipeline->conn);
        bool right =
            got && got->type == REDIS_REPLY_NIL && gone && gone->type == REDIS_REPLY_INTEGER && gone->integer == 1;
        freeReplyObject(got);
        freeReplyObject(gone);
        if (!right)
            return bench_fail(worker, "pair %d: unexpected reply", i);
    }
    int64_t took = bench_now_ns() - begin;
    for (int i = 0; i < worker->in_flight; i++)
        bench_hist_add(&worker->pair, took);
    worker->ops += (uint64_t)worker->in_flight;
    return 0;
}

int floor_pipeline_run(struct bench_worker *worker)
{
    struct pipeline pipeline = { .acquire = { .text = FLOOR_HASH_ACQUIRE }, .release = { .text = FLOOR_HASH_RELEASE } };
    int failed = -1;
    if (floor_connect(&pipeline.conn, worker->options->port, false) < 0)
        return bench_fail(worker, "no connection");
    if (floor_load(&pipeline.conn, &pipeline.acquire) < 0 || floor_load(&pipeline.conn, &pipeline.release) < 0)
        goto out;
    for (int i = 0; i < worker->in_flight; i++) {
        if (add_pair(&pipeline, i) < 0)
            goto out;
    }
    failed = 0;
    while (!failed && bench_now_ns() < worker->end_ns)
        failed = turn(worker, &pipeline);
out:
    if (failed && worker->error[0] == '\0')
        bench_fail(worker, "could not prepare the pipeline");
    floor_disconnect(&pipeline.conn);
    free(pipeline.commands);
    return failed;
}
