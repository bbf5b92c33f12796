/* conn.h - one non-blocking socket to Redis with a reader on it, and nothing else: no hiredis context.
 *
 * Close-on-exec, never SIGPIPE, TCP_NODELAY. A connection that failed is reset (SO_LINGER 0), never closed politely:
 * what the server has not read by then is mostly gone with it, though it may still run
 * (docs/decisions/tombstone.md). */
#ifndef HLK_NET_CONN_H
#define HLK_NET_CONN_H

#include "base/error.h"

#include "net/resp.h"

#include <stdint.h>
#include <sys/socket.h>

struct hlk_buffer {                     /* bytes that grow; sent from `off` on */
    char *data;
    size_t len, size, off;
};

bool hlk_buffer_add(struct hlk_buffer *buffer, const char *bytes, size_t len);  /* false: no memory, nothing added */
void hlk_buffer_clear(struct hlk_buffer *buffer);
void hlk_buffer_fini(struct hlk_buffer *buffer);
static inline bool hlk_buffer_empty(const struct hlk_buffer *buffer) { return buffer->off == buffer->len; }

struct hlk_conn {
    int fd;                             /* -1: none */
    struct hlk_resp *resp;
    struct hlk_tls *tls;                /* NULL: plain */
    size_t sealed;                      /* TLS: plain bytes from hlk_buffer.off on that are encrypted and unsent */
    int64_t heard_ns;                   /* when the last byte came; these two are the reading thread's */
    int64_t begun_ns;                   /* when the reply began that is not whole yet; 0: there is none */
};

void hlk_conn_init(struct hlk_conn *conn);
/* Begins to connect. HLK_OK: writable when done, then hlk_conn_connected. */
enum hlk_status hlk_conn_start(struct hlk_conn *conn, const struct sockaddr *address, socklen_t len,
                               struct hlk_error *error);
enum hlk_status hlk_conn_connected(struct hlk_conn *conn, struct hlk_error *error);
bool hlk_conn_adopt(struct hlk_conn *conn, int fd);     /* a socket that is connected; false: no memory */
/* TLS: the next step of the handshake; reads at most once. 1: done; 0: the socket must be readable, or writable if
 * *blocked; -1: refused or broken, see error. */
int hlk_conn_handshake(struct hlk_conn *conn, bool *blocked, struct hlk_error *error);
void hlk_conn_reset(struct hlk_conn *conn);

/* Sends what fits; until all of `out` is sent, what is in it must stay there. False: broken, see error. One thread may
 * send while another one receives. */
bool hlk_conn_send(struct hlk_conn *conn, struct hlk_buffer *out, struct hlk_error *error);
/* Reads once. 1: something came; 0: nothing there; -1: broken or closed, see error. */
int hlk_conn_recv(struct hlk_conn *conn, struct hlk_error *error);
/* The next whole reply (the caller's to free), or NULL with *broken set when the bytes are no replies. */
redisReply *hlk_conn_reply(struct hlk_conn *conn, bool *broken, struct hlk_error *error);

/* When it counts as dead, if an answer is due since `since_ns`: no byte came for reply_timeout_ms, or the one that
 * has begun comes more slowly than HLK_REPLY_PACE bytes in reply_timeout_ms. The reading thread's. */
#define HLK_REPLY_PACE 4096
int64_t hlk_conn_dead_ns(const struct hlk_conn *conn, int64_t since_ns, int64_t reply_timeout_ms);

#endif
