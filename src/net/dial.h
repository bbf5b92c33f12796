/* dial.h - one attempt to get a connection that is ready for use: name lookup, connect, TLS, AUTH, SELECT, the owner's
 * greeting.
 *
 * A name may have several addresses. They are tried one after the other, in two rounds. In the first one an address has
 * HLK_DIAL_BRIEF_MS for each step until its server says something. If all of them fail, and some only were silent, they
 * are all tried once more, with the rest of reply_timeout_ms. A server that admits no client for now is passed over
 * too. The connection to a replica is kept, and used only if no address is a master's.
 *
 * Runs on the loop thread without blocking it: lookups and the start of a `local:` server happen on threads of their
 * own, which are left behind when they hang. */
#ifndef HLK_NET_DIAL_H
#define HLK_NET_DIAL_H

#include "base/log.h"
#include "net/conn.h"
#include "net/credentials.h"
#include "net/loop.h"
#include "net/resolve.h"
#include "net/url.h"

#include <limits.h>

struct hlk_tls_context;

#define HLK_DIAL_HOST 256
#define HLK_DIAL_BRIEF_MS 250           /* RFC 8305: connection attempt delay */
#define HLK_GREETING_LATE UINT_MAX

/* Where the server is, when its URL does not say that: asked before each attempt. Loop thread only. */
struct hlk_search {
    struct hlk_list link;               /* the locator's; the caller may take it out */
    /* host: a name or an address; or NULL, see error */
    void (*found)(struct hlk_search *search, const char *host, int port, const struct hlk_error *error);
};

struct hlk_locator {
    void *ctx;
    void (*find)(void *ctx, struct hlk_search *search);     /* `found` follows, maybe at once */
};

struct hlk_endpoint {                   /* set by open, then read-only */
    struct hlk_url url;
    const struct hlk_locator *locator;  /* SENTINEL: finds the master, whose role is checked. Else NULL */
    bool is_sentinel;                   /* the server is one */
    struct hlk_tls_context *tls;        /* url.tls: its state is the loop thread's */
    struct hlk_credentials_source credentials;
    char client_name[96];               /* for CLIENT SETNAME */
    int64_t reply_timeout_ms;
    struct hlk_log log;
};

struct hlk_greeting {                   /* what the owner says first, sent with AUTH and SELECT in one write */
    struct hlk_buffer bytes;
    unsigned replies;                   /* how many commands that is */
    struct hlk_buffer late;             /* one more, which is sent when check says HLK_BUSY; i: HLK_GREETING_LATE */
    /* looks at reply i: HLK_OK and HLK_BUSY go on, else the dial fails with it */
    enum hlk_status (*check)(unsigned i, const redisReply *reply, struct hlk_error *error);
    /* reply i as a number for the server's process, another one for another process; 0: it says nothing about that */
    uint64_t (*server)(unsigned i, const redisReply *reply);
    /* how long that process has run, by reply i, at least; < 0: it says nothing about that */
    int64_t (*uptime_ms)(unsigned i, const redisReply *reply);
    bool bears_refusals;                /* PING and SELECT may be refused: a missing right is no failure */
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
    bool handshaking;                   /* TLS */
    struct hlk_watch io;
    struct ev_timer timer;
    struct hlk_search search;
    char host[HLK_DIAL_HOST];           /* what is looked up; "": nothing is */
    int port;
    struct hlk_resolve *lookup;
    struct hlk_local_start *local_start;            /* the start of a local: server */
    struct addrinfo *addresses, *next;
    bool silent;                        /* an address was left because it had been silent for HLK_DIAL_BRIEF_MS */
    bool again;                         /* this is the second round of the addresses */
    bool second_best;                   /* this address is a replica's, and there are others */
    struct hlk_conn spare;              /* that of an address that was second best, ready for use; fd -1: none */
    uint64_t spare_server;              /* and what became `server` and `uptime_ms` there */
    int64_t spare_uptime_ms;
    struct hlk_conn conn;
    struct hlk_buffer out;
    unsigned own, expected, seen;       /* replies: of our own greeting, in all, so far */
    unsigned auth_replies;
    bool asks_role;                     /* of a locator's server, and of a name with several addresses, */
    unsigned role_reply;                /* by the command of this index */
    bool is_replica;
    uint64_t server;                    /* what the greeting has learnt of it; 0: not known */
    int64_t uptime_ms;                  /* -1: not known */
    struct hlk_error error;
};

void hlk_dial_init(struct hlk_dial *dial, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                   const struct hlk_greeting *greeting, hlk_dialled_fn *done, void *ctx);
void hlk_dial_start(struct hlk_dial *dial);     /* not while active */
void hlk_dial_stop(struct hlk_dial *dial);      /* any time; `done` is not called */

/* One command formatted into buffer. False: no memory. */
bool hlk_buffer_add_command(struct hlk_buffer *buffer, int argc, const char **argv, const size_t *lens);

#endif
