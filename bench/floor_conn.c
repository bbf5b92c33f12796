/* floor_conn.c - see floor_conn.h. */
#include "floor_conn.h"

#include "driver.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { SPIN_NS = 60000 }; /* slightly more than one round trip on loopback */

int floor_connect(struct floor_conn *conn, int port, bool spin)
{
    conn->spin = spin;
    conn->redis = redisConnect("127.0.0.1", port);
    if (conn->redis && conn->redis->err == 0)
        return 0;
    return bench_fail(NULL, "connect to port %d: %s", port, conn->redis ? conn->redis->errstr : "no memory");
}

void floor_disconnect(struct floor_conn *conn)
{
    if (conn->redis)
        redisFree(conn->redis);
    conn->redis = NULL;
}

int floor_load(struct floor_conn *conn, struct floor_script *script)
{
    redisReply *reply = redisCommand(conn->redis, "SCRIPT LOAD %s", script->text);
    int ok = reply && reply->type == REDIS_REPLY_STRING && reply->len == 40;
    if (ok)
        memcpy(script->sha, reply->str, sizeof script->sha);
    else
        bench_fail(NULL, "SCRIPT LOAD: %s", reply ? reply->str : conn->redis->errstr);
    freeReplyObject(reply);
    return ok ? 0 : -1;
}

void floor_arg(struct floor_args *args, const char *text)
{
    args->argv[args->argc] = text;
    args->len[args->argc++] = strlen(text);
}

/* Polls first, then waits until the socket is readable. */
static ssize_t spin_recv(int fd, char *buf, size_t size)
{
    int64_t give_up = bench_now_ns() + SPIN_NS;
    for (;;) {
        ssize_t n = recv(fd, buf, size, MSG_DONTWAIT);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            return n;
        if (bench_now_ns() < give_up)
            continue;
        struct pollfd readable = { .fd = fd, .events = POLLIN };
        poll(&readable, 1, -1);
        give_up = INT64_MAX;
    }
}

redisReply *floor_read(struct floor_conn *conn)
{
    void *reply = NULL;
    if (!conn->spin)
        return redisGetReply(conn->redis, &reply) == REDIS_OK ? reply : NULL;

    int done = 0;
    while (!done) {
        if (redisBufferWrite(conn->redis, &done) != REDIS_OK)
            return NULL;
    }
    char buf[16 * 1024];
    while (redisReaderGetReply(conn->redis->reader, &reply) == REDIS_OK && !reply) {
        ssize_t n = spin_recv(conn->redis->fd, buf, sizeof buf);
        if (n <= 0 || redisReaderFeed(conn->redis->reader, buf, (size_t)n) != REDIS_OK)
            return NULL;
    }
    return reply;
}

redisReply *floor_call(struct floor_conn *conn, struct floor_args *args)
{
    if (redisAppendCommandArgv(conn->redis, args->argc, args->argv, args->len) != REDIS_OK)
        return NULL;
    return floor_read(conn);
}
