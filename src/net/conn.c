#include "net/conn.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "net/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE 16384
#define KEEP_SIZE (64 * 1024) /* an empty buffer that once was larger gives its memory back */

bool hlk_buffer_add(struct hlk_buffer *buffer, const char *bytes, size_t len)
{
    HLK_DEBUG_ASSERT(buffer->off <= buffer->len && buffer->len <= buffer->size);
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
    *conn = (struct hlk_conn){ .fd = -1 };
}

bool hlk_conn_adopt(struct hlk_conn *conn, int fd)
{
    hlk_conn_init(conn);
    conn->resp = hlk_resp_create();
    if (!conn->resp)
        return false;
    conn->fd = fd;
    conn->heard_ns = hlk_clock_ns();
    return true;
}

enum hlk_status hlk_conn_start(struct hlk_conn *conn, const struct sockaddr *address, socklen_t len,
                               struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(address && len > 0);
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return hlk_error_set(error, HLK_E_OS, "no socket: %s", strerror(errno));
    if (!hlk_conn_adopt(conn, fd)) {
        close(fd);
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    }
    if (address->sa_family != AF_UNIX) {
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    }
    if (connect(conn->fd, address, len) == 0 || errno == EINPROGRESS)
        return HLK_OK;
    int why = errno;
    hlk_conn_reset(conn);
    return hlk_error_set(error, HLK_E_CONNECT, "%s", strerror(why));
}

enum hlk_status hlk_conn_connected(struct hlk_conn *conn, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(conn->fd >= 0);
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
    hlk_resp_destroy(conn->resp);
    hlk_tls_destroy(conn->tls);
    hlk_conn_init(conn);
}

/* The number of bytes that fit; -1: broken, see error. */
static ssize_t send_bytes(const struct hlk_conn *conn, const char *bytes, size_t len, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(len > 0);
    ssize_t n;
    int old = hlk_nocancel_begin();
    do
        n = send(conn->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    hlk_nocancel_end(old);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n < 0)
        (void)hlk_error_set(error, HLK_E_CONNECT, "connection lost: %s", strerror(errno));
    return n;
}

/* The number of bytes that came; 0: nothing there; -1: broken or closed, see error. */
static ssize_t receive_bytes(const struct hlk_conn *conn, char *bytes, size_t size, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(size > 0);
    ssize_t n;
    int old = hlk_nocancel_begin();
    do
        n = recv(conn->fd, bytes, size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    hlk_nocancel_end(old);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n > 0)
        return n;
    (void)hlk_error_set(error, HLK_E_CONNECT, "connection lost: %s", n ? strerror(errno) : "closed by the server");
    return -1;
}

/* --- TLS --- */

/* Sends what is encrypted. 1: all of it; 0: no more fits; -1: broken, see error. */
static int send_sealed(const struct hlk_conn *conn, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(conn->tls);
    const char *bytes;
    size_t len;
    for (;;) {
        if (!hlk_tls_output(conn->tls, &bytes, &len)) {
            (void)hlk_error_set(error, HLK_E_NOMEM, "no memory for what is sent");
            return -1;
        }
        if (len == 0)
            return 1;
        ssize_t n = send_bytes(conn, bytes, len, error);
        if (n <= 0)
            return (int)n;
        hlk_tls_sent(conn->tls, (size_t)n);
    }
}

static bool send_tls(struct hlk_conn *conn, struct hlk_buffer *out, struct hlk_error *error)
{
    int sent;
    while ((sent = send_sealed(conn, error)) > 0) {
        out->off += conn->sealed;
        conn->sealed = 0;
        if (hlk_buffer_empty(out)) {
            hlk_buffer_clear(out);
            return true;
        }
        conn->sealed = hlk_tls_write(conn->tls, out->data + out->off, out->len - out->off, error);
        if (conn->sealed == 0)
            return false;
    }
    return sent == 0;
}

static bool feed_tls(struct hlk_conn *conn, const char *bytes, size_t len, struct hlk_error *error)
{
    if (hlk_tls_feed(conn->tls, bytes, len))
        return true;
    (void)hlk_error_set(error, HLK_E_NOMEM, "no memory for a reply");
    return false;
}

int hlk_conn_handshake(struct hlk_conn *conn, bool *blocked, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(conn->tls);
    char bytes[READ_SIZE];
    *blocked = false;
    for (bool fed = false;; fed = true) {
        struct hlk_error ignored;
        int done = hlk_tls_handshake(conn->tls, error);
        int sent = send_sealed(conn, done < 0 ? &ignored : error); /* an alert is sent when it was refused */
        if (done < 0 || sent < 0)
            return -1;
        *blocked = sent == 0;
        if (done > 0)
            return 1;
        ssize_t n = fed ? 0 : receive_bytes(conn, bytes, sizeof bytes, error);
        if (n <= 0)
            return (int)n;
        if (!feed_tls(conn, bytes, (size_t)n, error))
            return -1;
    }
}

/* Gives the reader what the session makes of the bytes. */
static int receive_tls(struct hlk_conn *conn, const char *bytes, size_t len, struct hlk_error *error)
{
    char plain[READ_SIZE];
    bool came = false;
    int n;
    if (!feed_tls(conn, bytes, len, error))
        return -1;
    while ((n = hlk_tls_read(conn->tls, plain, sizeof plain, error)) > 0) {
        came = true;
        if (!hlk_resp_feed(conn->resp, plain, (size_t)n)) {
            (void)hlk_error_set(error, HLK_E_NOMEM, "no memory for a reply");
            return -1;
        }
    }
    return n < 0 && !came ? -1 : 1; /* else the end of it is read next */
}

/* --- both --- */

bool hlk_conn_send(struct hlk_conn *conn, struct hlk_buffer *out, struct hlk_error *error)
{
    if (conn->tls)
        return send_tls(conn, out, error);
    while (!hlk_buffer_empty(out)) {
        ssize_t n = send_bytes(conn, out->data + out->off, out->len - out->off, error);
        if (n <= 0)
            return n == 0;
        out->off += (size_t)n;
    }
    hlk_buffer_clear(out);
    return true;
}

int hlk_conn_recv(struct hlk_conn *conn, struct hlk_error *error)
{
    char bytes[READ_SIZE];
    ssize_t n = receive_bytes(conn, bytes, sizeof bytes, error);
    if (n <= 0)
        return (int)n;
    conn->heard_ns = hlk_clock_ns();
    if (conn->tls)
        return receive_tls(conn, bytes, (size_t)n, error);
    if (!hlk_resp_feed(conn->resp, bytes, (size_t)n)) {
        (void)hlk_error_set(error, HLK_E_NOMEM, "no memory for a reply");
        return -1;
    }
    return 1;
}

redisReply *hlk_conn_reply(struct hlk_conn *conn, bool *broken, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(conn->resp);
    const char *why;
    redisReply *reply = hlk_resp_next(conn->resp, &why);
    *broken = why != NULL;
    if (why)
        (void)hlk_error_set(error, HLK_E_CONNECT, "connection reset: %s", why);
    if (reply || !hlk_resp_amid(conn->resp))
        conn->begun_ns = 0;
    else if (!conn->begun_ns)
        conn->begun_ns = conn->heard_ns;
    return reply;
}

int64_t hlk_conn_dead_ns(const struct hlk_conn *conn, int64_t since_ns, int64_t reply_timeout_ms)
{
    HLK_DEBUG_ASSERT(since_ns > 0);
    int64_t reply_ns = reply_timeout_ms * 1000000;
    int64_t silent_ns = (since_ns > conn->heard_ns ? since_ns : conn->heard_ns) + reply_ns;
    if (!conn->begun_ns)
        return silent_ns;
    int64_t slow_ns = conn->begun_ns + reply_ns * (int64_t)(1 + hlk_resp_amid(conn->resp) / HLK_REPLY_PACE);
    return slow_ns < silent_ns ? slow_ns : silent_ns;
}
