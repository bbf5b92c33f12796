/* floor_message.c - one message wakes many threads, without a latch: what has to be sent and woken at least.
 *
 *     floor-message     each thread is subscribed on a connection of its own
 *     floor-broadcast   one connection for each process; its reader wakes the threads by a condition variable */
#include "floor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t came;
    struct floor_conn conn; /* opened by the first thread */
    uint64_t messages;      /* that came */
} shared = { .mutex = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER };

struct message_thread {
    struct floor_conn conn; /* of fire, and of a floor-message waiter */
    uint64_t seen;          /* shared.messages when it began */
};

static bool is_shared(const struct bench_worker *worker)
{
    return strcmp(worker->options->variant, "floor-broadcast") == 0;
}

static int subscribe(struct bench_worker *worker, struct floor_conn *conn)
{
    if (floor_connect(conn, worker->options->port, false) < 0)
        return bench_fail(worker, "no connection");
    struct floor_args args = { 0 };
    floor_arg(&args, "SUBSCRIBE");
    floor_arg(&args, worker->key);
    redisReply *reply = floor_call(conn, &args);
    int failed = reply && reply->type == REDIS_REPLY_ARRAY ? 0 : bench_fail(worker, "SUBSCRIBE");
    freeReplyObject(reply);
    return failed;
}

static void *read_messages(void *unused)
{
    (void)unused;
    for (redisReply *reply; (reply = floor_read(&shared.conn));) {
        freeReplyObject(reply);
        pthread_mutex_lock(&shared.mutex);
        shared.messages++;
        pthread_cond_broadcast(&shared.came);
        pthread_mutex_unlock(&shared.mutex);
    }
    return NULL;
}

static int join_shared(struct bench_worker *worker, struct message_thread *thread)
{
    pthread_t reader;
    int failed = 0;
    pthread_mutex_lock(&shared.mutex);
    thread->seen = shared.messages;
    if (!shared.conn.redis)
        failed = subscribe(worker, &shared.conn) < 0 || pthread_create(&reader, NULL, read_messages, NULL) != 0 ||
                 pthread_detach(reader) != 0;
    pthread_mutex_unlock(&shared.mutex);
    return failed ? -1 : 0;
}

static int message_open(struct bench_worker *worker)
{
    struct message_thread *thread = worker->state = calloc(1, sizeof *thread);
    if (!thread)
        return bench_fail(worker, "no memory");
    return is_shared(worker) ? join_shared(worker, thread) : subscribe(worker, &thread->conn);
}

static void message_close(struct bench_worker *worker)
{
    struct message_thread *thread = worker->state;
    floor_disconnect(&thread->conn);
    free(thread);
}

static int message_await(struct bench_worker *worker)
{
    struct message_thread *thread = worker->state;
    if (!is_shared(worker)) {
        redisReply *reply = floor_read(&thread->conn);
        int failed = reply ? 0 : bench_fail(worker, "the connection broke");
        freeReplyObject(reply);
        return failed;
    }
    pthread_mutex_lock(&shared.mutex);
    while (shared.messages == thread->seen)
        pthread_cond_wait(&shared.came, &shared.mutex);
    pthread_mutex_unlock(&shared.mutex);
    return 0;
}

/* Connects; the thread is not subscribed any more. */
static int message_arm(struct bench_worker *worker)
{
    struct message_thread *thread = worker->state;
    floor_disconnect(&thread->conn);
    return floor_connect(&thread->conn, worker->options->port, false);
}

static int message_fire(struct bench_worker *worker)
{
    struct message_thread *thread = worker->state;
    struct floor_args args = { 0 };
    floor_arg(&args, "PUBLISH");
    floor_arg(&args, worker->key);
    floor_arg(&args, "0");
    redisReply *reply = floor_call(&thread->conn, &args);
    int failed = reply && reply->type == REDIS_REPLY_INTEGER ? 0 : bench_fail(worker, "PUBLISH");
    freeReplyObject(reply);
    return failed;
}

void floor_message_peer(struct bench_peer *peer)
{
    peer->thread_open = message_open;
    peer->thread_close = message_close;
    peer->acquire = message_await;
    peer->release = NULL;
    peer->run_async = NULL;
    peer->hold = NULL;
    peer->drop = NULL;
    peer->stats = NULL;
    peer->arm = message_arm;
    peer->fire = message_fire;
}
