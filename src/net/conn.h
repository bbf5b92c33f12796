/* conn.h - one non-blocking socket to Redis with hiredis' reader on it, and nothing else: no hiredis context.
 *
 * Close-on-exec, never SIGPIPE, TCP_NODELAY. A connection that failed is reset (SO_LINGER 0), never closed politely:
 * what the server has not read by then is mostly gone with it, though it may still run (docs/protocol.md, void set). */
#ifndef HLK_NET_CONN_H
#define HLK_NET_CONN_H

#include "base/error.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
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
    redisReader *reader;
};

void hlk_conn_init(struct hlk_conn *conn);
/* Begins to connect. HLK_OK: writable when done, then hlk_conn_connected. */
enum hlk_status hlk_conn_start(struct hlk_conn *conn, const struct sockaddr *address, socklen_t len,
                               struct hlk_error *error);
enum hlk_status hlk_conn_connected(struct hlk_conn *conn, struct hlk_error *error);
void hlk_conn_reset(struct hlk_conn *conn);

/* Sends what fits. False: broken, see error. */
bool hlk_conn_send(struct hlk_conn *conn, struct hlk_buffer *out, struct hlk_error *error);
/* Reads once. 1: something came; 0: nothing there; -1: broken or closed, see error. */
int hlk_conn_recv(struct hlk_conn *conn, struct hlk_error *error);
/* The next whole reply (the caller's to free), or NULL with *broken set when the bytes are no replies. */
redisReply *hlk_conn_reply(struct hlk_conn *conn, bool *broken, struct hlk_error *error);

#endif
