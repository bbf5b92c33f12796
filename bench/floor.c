/* floor.c - the floors: raw hiredis, one blocking connection for each thread, no library in between.
 *
 *     floor         SET NX PX, and a script that compares the token and deletes. Contended, it polls without pause
 *     floor-spin    the same, polling the socket before it blocks
 *     floor-hash    Redisson's hash format by scripts
 *     floor-hash-spin   the same, polling the socket before it blocks
 *     floor-open    as floor, a new connection for each acquire
 *     floor-blpop   hand-over of a token by BLPOP and LPUSH: no lease, no owner, so no lock; the physical limit
 *     floor-message, floor-broadcast    a message that wakes many threads (floor_message.c)
 *     ceiling       64 pairs of hash scripts in one write (floor_pipeline.c)
 *     floor-batch   held hash locks, renewed 100 in a script (floor_batch.c) */
#include "floor.h"
#include "floor_scripts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct floor_thread {
    struct floor_conn conn;
    char token[64];
    char channel[96];
};

static struct floor_script token_release = { .text = FLOOR_TOKEN_RELEASE };
static struct floor_script hash_acquire = { .text = FLOOR_HASH_ACQUIRE };
static struct floor_script hash_release = { .text = FLOOR_HASH_RELEASE };

static const struct bench_options *options; /* borrowed from the frame; set once, by process_open */

static int broken(struct bench_worker *worker, const char *what, redisReply *reply)
{
    bench_fail(worker, "%s: %s", what, reply && reply->type == REDIS_REPLY_ERROR ? reply->str : "unexpected reply");
    freeReplyObject(reply);
    return -1;
}

static int seed_token(struct floor_conn *conn)
{
    freeReplyObject(redisCommand(conn->redis, "DEL bench:one"));
    freeReplyObject(redisCommand(conn->redis, "LPUSH bench:one token"));
    return conn->redis->err ? -1 : 0;
}

static bool is_variant(const char *name)
{
    return strcmp(options->variant, name) == 0;
}

/* Loads the scripts on a connection that is closed again, because only the threads' connections are counted. */
static int process_open(const struct bench_options *given)
{
    struct floor_conn conn;
    int failed = -1;
    options = given;
    if (floor_connect(&conn, options->port, false) < 0)
        goto out;
    if (is_variant("floor-blpop") && options->process == 0 && seed_token(&conn) < 0) {
        bench_fail(NULL, "no token: %s", conn.redis->errstr);
        goto out;
    }
    if (floor_load(&conn, &token_release) == 0 && floor_load(&conn, &hash_acquire) == 0 &&
        floor_load(&conn, &hash_release) == 0)
        failed = 0;
out:
    floor_disconnect(&conn);
    return failed;
}

static int thread_open(struct bench_worker *worker)
{
    struct floor_thread *thread = calloc(1, sizeof *thread);
    bool spins = is_variant("floor-spin") || is_variant("floor-hash-spin");
    if (!thread || floor_connect(&thread->conn, worker->options->port, spins) < 0) {
        free(thread);
        return bench_fail(worker, "no connection");
    }
    snprintf(thread->token, sizeof thread->token, "6b1c0f3e-floor-%d:%" PRIu64, worker->options->process, worker->id);
    snprintf(thread->channel, sizeof thread->channel, "redisson_lock__channel:{%s}", worker->key);
    worker->state = thread;
    return 0;
}

static void thread_close(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    floor_disconnect(&thread->conn);
    free(thread);
}

static int token_acquire(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    for (;;) {
        struct floor_args args = { 0 };
        floor_arg(&args, "SET");
        floor_arg(&args, worker->key);
        floor_arg(&args, thread->token);
        floor_arg(&args, "NX");
        floor_arg(&args, "PX");
        floor_arg(&args, FLOOR_LEASE_MS);
        redisReply *reply = floor_call(&thread->conn, &args);
        if (!reply || (reply->type != REDIS_REPLY_STATUS && reply->type != REDIS_REPLY_NIL))
            return broken(worker, "SET", reply);
        bool got = reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (got)
            return 0;
    }
}

static int fresh_acquire(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    floor_disconnect(&thread->conn);
    if (floor_connect(&thread->conn, worker->options->port, false) < 0)
        return bench_fail(worker, "no connection");
    return token_acquire(worker);
}

static int expect_integer(struct bench_worker *worker, const char *what, redisReply *reply, long long least)
{
    if (!reply || reply->type != REDIS_REPLY_INTEGER || reply->integer < least)
        return broken(worker, what, reply);
    freeReplyObject(reply);
    return 0;
}

static int token_give_back(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    struct floor_args args = { 0 };
    floor_arg(&args, "EVALSHA");
    floor_arg(&args, token_release.sha);
    floor_arg(&args, "1");
    floor_arg(&args, worker->key);
    floor_arg(&args, thread->token);
    return expect_integer(worker, "release", floor_call(&thread->conn, &args), 1);
}

static int hash_take(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    struct floor_args args = { 0 };
    floor_arg(&args, "EVALSHA");
    floor_arg(&args, hash_acquire.sha);
    floor_arg(&args, "1");
    floor_arg(&args, worker->key);
    floor_arg(&args, FLOOR_LEASE_MS);
    floor_arg(&args, thread->token);
    redisReply *reply = floor_call(&thread->conn, &args);
    if (!reply || reply->type != REDIS_REPLY_NIL)
        return broken(worker, "acquire", reply);
    freeReplyObject(reply);
    return 0;
}

static int hash_give_back(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    struct floor_args args = { 0 };
    floor_arg(&args, "EVALSHA");
    floor_arg(&args, hash_release.sha);
    floor_arg(&args, "2");
    floor_arg(&args, worker->key);
    floor_arg(&args, thread->channel);
    floor_arg(&args, FLOOR_LEASE_MS);
    floor_arg(&args, thread->token);
    return expect_integer(worker, "release", floor_call(&thread->conn, &args), 0); /* 0: an outer hold remains */
}

static int blpop_take(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    struct floor_args args = { 0 };
    floor_arg(&args, "BLPOP");
    floor_arg(&args, worker->key);
    floor_arg(&args, "0");
    redisReply *reply = floor_call(&thread->conn, &args);
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return broken(worker, "BLPOP", reply);
    freeReplyObject(reply);
    return 0;
}

static int blpop_give_back(struct bench_worker *worker)
{
    struct floor_thread *thread = worker->state;
    struct floor_args args = { 0 };
    floor_arg(&args, "LPUSH");
    floor_arg(&args, worker->key);
    floor_arg(&args, "token");
    return expect_integer(worker, "LPUSH", floor_call(&thread->conn, &args), 1);
}

static int hold(int count)
{
    return floor_batch_hold(count, options);
}

int main(int argc, char **argv)
{
    static char version[32];
    struct bench_peer peer = {
        .version = version,
        .open = process_open,
        .thread_open = thread_open,
        .thread_close = thread_close,
        .acquire = token_acquire,
        .release = token_give_back,
        .run_async = floor_pipeline_run,
        .hold = hold,
        .drop = floor_batch_drop,
        .stats = floor_batch_stats,
    };
    snprintf(version, sizeof version, "hiredis %d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    for (int i = 1; i < argc; i++) { /* the variant chooses the functions, the frame parses the rest */
        if (strcmp(argv[i], "floor-hash") == 0 || strcmp(argv[i], "floor-hash-spin") == 0) {
            peer.acquire = hash_take;
            peer.release = hash_give_back;
        } else if (strcmp(argv[i], "floor-blpop") == 0) {
            peer.acquire = blpop_take;
            peer.release = blpop_give_back;
        } else if (strcmp(argv[i], "floor-open") == 0) {
            peer.acquire = fresh_acquire;
        } else if (strcmp(argv[i], "floor-message") == 0 || strcmp(argv[i], "floor-broadcast") == 0) {
            floor_message_peer(&peer);
        }
    }
    return bench_main(argc, argv, &peer);
}
