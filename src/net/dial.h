/* dial.h - one attempt to get a connection that is ready for use: name lookup, connect, AUTH, SELECT, the owner's
 * greeting.
 *
 * Runs on the loop thread without blocking it: lookups and the start of a `local:` server happen on threads of their
 * own, which are left behind when they hang. */
#ifndef HLK_NET_DIAL_H
#define HLK_NET_DIAL_H

#include "base/log.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/resolve.h"
#include "net/url.h"

struct hlk_endpoint {                   /* set by open, then read-only */
    struct hlk_url url;
    char client_name[96];               /* for CLIENT SETNAME */
    int64_t reply_ms;
    struct hlk_log log;
};

struct hlk_greeting {                   /* what the owner says first, sent with AUTH and SELECT in one write */
    struct hlk_buffer bytes;
    unsigned replies;                   /* how many commands that is */
    /* looks at reply i: HLK_OK goes on, else the dial fails with it */
    enum hlk_status (*check)(unsigned i, const redisReply *reply, struct hlk_error *error);
};

/* conn is the callee's now, or NULL: see error. On the loop thread; may start the dial again. */
typedef void hlk_dialled_fn(void *ctx, struct hlk_conn *conn, const struct hlk_error *error);

struct hlk_dial {                       /* loop thread only */
    hlk_loop *loop;
    const struct hlk_endpoint *endpoint;
    const struct hlk_greeting *greeting;
    hlk_dialled_fn *done;
    void *ctx;

    bool active;
    struct ev_io io;
    struct ev_timer timer;
    struct hlk_resolve *lookup;
    struct hlk_aside *aside;            /* the start of a local: server */
    struct addrinfo *addresses, *next;
    struct hlk_conn conn;
    struct hlk_buffer out;
    unsigned own, expected, seen;       /* replies: of our own greeting, in all, so far */
    unsigned auth_replies;
    struct hlk_error error;
};

void hlk_dial_init(struct hlk_dial *dial, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                   const struct hlk_greeting *greeting, hlk_dialled_fn *done, void *ctx);
void hlk_dial_start(struct hlk_dial *dial);     /* not while active */
void hlk_dial_stop(struct hlk_dial *dial);      /* any time; `done` is not called */

/* One command formatted into buffer. False: no memory. */
bool hlk_command_add(struct hlk_buffer *buffer, int argc, const char **argv, const size_t *lens);

#endif
