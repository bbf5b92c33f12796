/* floor_batch.c - held locks. Each is renewed every third of its lease, BATCH in a script, spread evenly over that
 * time.
 *
 * One thread sleeps between two batches. This is the cost of renewal for a program that keeps nothing but the names. */
#include "floor.h"
#include "floor_scripts.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100, NAME_SIZE = 24 };

static const char HOLDER[] = "6b1c0f3e-floor-batch:1";

static struct {
    struct floor_conn conn; /* used by the renewing thread while it runs */
    struct floor_script acquire, renew;
    char (*names)[NAME_SIZE]; /* owned */
    char lease[24];
    int64_t lease_ns;
    int count;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint_fast64_t renewals, lost;
} batch = { .acquire = { .text = FLOOR_HASH_ACQUIRE }, .renew = { .text = FLOOR_HASH_RENEW } };

static int renew(int first)
{
    char numkeys[16];
    int count = batch.count - first < BATCH ? batch.count - first : BATCH;
    struct floor_args args = { 0 };
    snprintf(numkeys, sizeof numkeys, "%d", count);
    floor_arg(&args, "EVALSHA");
    floor_arg(&args, batch.renew.sha);
    floor_arg(&args, numkeys);
    for (int i = 0; i < count; i++)
        floor_arg(&args, batch.names[first + i]);
    floor_arg(&args, batch.lease);
    floor_arg(&args, HOLDER);
    redisReply *reply = floor_call(&batch.conn, &args);
    if (!reply || reply->type != REDIS_REPLY_INTEGER) {
        freeReplyObject(reply);
        return -1;
    }
    atomic_fetch_add(&batch.renewals, (uint_fast64_t)reply->integer);
    atomic_fetch_add(&batch.lost, (uint_fast64_t)(count - reply->integer));
    freeReplyObject(reply);
    return 0;
}

static void *renew_all(void *arg)
{
    (void)arg;
    int64_t start = bench_now_ns(), third = batch.lease_ns / 3;
    for (int64_t turn = 0; !atomic_load(&batch.stop); turn++) {
        for (int first = 0; first < batch.count && !atomic_load(&batch.stop); first += BATCH) {
            bench_sleep_until(start + turn * third + third * first / batch.count);
            if (renew(first) < 0)
                return NULL;
        }
    }
    return NULL;
}

static int take_all(void)
{
    enum { AT_ONCE = 1000 };
    for (int first = 0; first < batch.count; first += AT_ONCE) {
        int count = batch.count - first < AT_ONCE ? batch.count - first : AT_ONCE;
        for (int i = 0; i < count; i++) {
            struct floor_args args = { 0 };
            floor_arg(&args, "EVALSHA");
            floor_arg(&args, batch.acquire.sha);
            floor_arg(&args, "1");
            floor_arg(&args, batch.names[first + i]);
            floor_arg(&args, batch.lease);
            floor_arg(&args, HOLDER);
            redisAppendCommandArgv(batch.conn.redis, args.argc, args.argv, args.len);
        }
        for (int i = 0; i < count; i++) {
            redisReply *reply = floor_read(&batch.conn);
            bool got = reply && reply->type == REDIS_REPLY_NIL;
            freeReplyObject(reply);
            if (!got)
                return bench_fail(NULL, "acquire: unexpected reply");
        }
    }
    return 0;
}

int floor_batch_hold(int count, const struct bench_options *options)
{
    batch.count = count;
    batch.lease_ns = options->lease_ms * 1000000;
    snprintf(batch.lease, sizeof batch.lease, "%" PRId64, options->lease_ms);
    batch.names = calloc((size_t)count, sizeof *batch.names);
    if (!batch.names)
        return bench_fail(NULL, "no memory");
    for (int i = 0; i < count; i++)
        snprintf(batch.names[i], NAME_SIZE, "bench:held:%d", i);
    if (floor_connect(&batch.conn, options->port, false) < 0 || floor_load(&batch.conn, &batch.acquire) < 0 ||
        floor_load(&batch.conn, &batch.renew) < 0 || take_all() < 0)
        return -1;
    atomic_store(&batch.stop, false);
    return pthread_create(&batch.thread, NULL, renew_all, NULL) ? bench_fail(NULL, "no thread") : 0;
}

int floor_batch_drop(void)
{
    if (!batch.names)
        return bench_fail(NULL, "nothing is held");
    atomic_store(&batch.stop, true);
    pthread_join(batch.thread, NULL);
    freeReplyObject(redisCommand(batch.conn.redis, "FLUSHALL"));
    floor_disconnect(&batch.conn);
    free(batch.names);
    batch.names = NULL;
    return 0;
}

void floor_batch_stats(FILE *out)
{
    fprintf(out, "\"renewals\":%" PRIu64 ",\"lost\":%" PRIu64, (uint64_t)atomic_load(&batch.renewals),
            (uint64_t)atomic_load(&batch.lost));
}
