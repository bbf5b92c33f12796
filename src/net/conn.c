#include "net/conn.h"

#include "base/mem.h"
#include "base/nocancel.h"
#include "net/depth.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE 16384
#define KEEP_SIZE (64 * 1024) /* an empty buffer that once was larger gives its memory back */

bool hlk_buffer_add(struct hlk_buffer *buffer, const char *bytes, size_t len)
{
    if (hlk_buffer_empty(buffer))
        buffer->len = buffer->off = 0;
    if (buffer->size - buffer->len < len) {
        size_t size = buffer->size ? buffer->size : 4096;
        while (size - buffer->len < len)
            size *= 2;
        char *data = hlk_mem_realloc(buffer->data, size);
        if (!data)
            return false;
        buffer->data = data;
        buffer->size = size;
    }
    memcpy(buffer->data + buffer->len, bytes, len);
    buffer->len += len;
    return true;
}

void hlk_buffer_clear(struct hlk_buffer *buffer)
{
    buffer->len = buffer->off = 0;
    if (buffer->size > KEEP_SIZE)
        hlk_buffer_fini(buffer);
}

void hlk_buffer_fini(struct hlk_buffer *buffer)
{
    hlk_mem_free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

void hlk_conn_init(struct hlk_conn *conn)
{
    conn->fd = -1;
    conn->reader = NULL;
}

enum hlk_status hlk_conn_start(struct hlk_conn *conn, const struct sockaddr *address, socklen_t len,
                               struct hlk_error *error)
{
    conn->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (conn->fd < 0)
        return hlk_error_set(error, HLK_E_OS, "no socket: %s", strerror(errno));
    if (address->sa_family != AF_UNIX) {
        int one = 1;
        (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    }
    conn->reader = redisReaderCreate();
    if (!conn->reader) {
        hlk_conn_reset(conn);
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    }
    if (connect(conn->fd, address, len) == 0 || errno == EINPROGRESS)
        return HLK_OK;
    int why = errno;
    hlk_conn_reset(conn);
    return hlk_error_set(error, HLK_E_CONNECT, "%s", strerror(why));
}

enum hlk_status hlk_conn_connected(struct hlk_conn *conn, struct hlk_error *error)
{
    int why = 0;
    socklen_t len = sizeof why;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        why = errno;
    return why ? hlk_error_set(error, HLK_E_CONNECT, "%s", strerror(why)) : HLK_OK;
}

void hlk_conn_reset(struct hlk_conn *conn)
{
    if (conn->fd >= 0) {
        struct linger hard = { .l_onoff = 1, .l_linger = 0 };
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(conn->fd);
    }
    if (conn->reader)
        redisReaderFree(conn->reader);
    hlk_conn_init(conn);
}

bool hlk_conn_send(struct hlk_conn *conn, struct hlk_buffer *out, struct hlk_error *error)
{
    while (!hlk_buffer_empty(out)) {
        int old = hlk_nocancel_begin();
        ssize_t n = send(conn->fd, out->data + out->off, out->len - out->off, MSG_NOSIGNAL | MSG_DONTWAIT);
        hlk_nocancel_end(old);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (n < 0) {
            (void)hlk_error_set(error, HLK_E_CONNECT, "connection lost: %s", strerror(errno));
            return false;
        }
        out->off += (size_t)n;
    }
    hlk_buffer_clear(out);
    return true;
}

int hlk_conn_recv(struct hlk_conn *conn, struct hlk_error *error)
{
    char bytes[READ_SIZE];
    ssize_t n;
    int old = hlk_nocancel_begin();
    do
        n = recv(conn->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    hlk_nocancel_end(old);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n <= 0) {
        (void)hlk_error_set(error, HLK_E_CONNECT, "connection lost: %s", n ? strerror(errno) : "closed by the server");
        return -1;
    }
    if (redisReaderFeed(conn->reader, bytes, (size_t)n) != REDIS_OK) {
        (void)hlk_error_set(error, HLK_E_NOMEM, "no memory for a reply");
        return -1;
    }
    return 1;
}

redisReply *hlk_conn_reply(struct hlk_conn *conn, bool *broken, struct hlk_error *error)
{
    void *reply = NULL;
    *broken = redisReaderGetReply(conn->reader, &reply) != REDIS_OK || (!reply && hlk_reply_too_deep(conn->reader));
    if (*broken)
        (void)hlk_error_set(error, HLK_E_CONNECT, "connection reset: what came was no reply of a Redis server");
    return reply;
}
