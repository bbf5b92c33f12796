/* proxy.h - a proxy between client and server. It parses requests and replies, and injects faults on command.
 *
 * It is one thread of the test's process, with one upstream connection for each client connection. Requests that match
 * the filter are counted over all connections, from 1 on. One fault can be armed at a time. It strikes once, at the
 * k-th match from then on.
 *
 *     struct proxy *proxy = proxy_start(server);
 *     hlk_client_open(&client, proxy_url(proxy), &opts);
 *     proxy_arm(proxy, PROXY_SWALLOW, PROXY_SCRIPTS, 2);          the second script from now gets no reply
 *
 * Any thread may call these functions. A call has taken effect when it returns. */
#ifndef HLK_TEST_PROXY_H
#define HLK_TEST_PROXY_H

#include "support/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

enum proxy_filter {
    PROXY_ALL,          /* every request */
    PROXY_SCRIPTS,      /* EVALSHA and EVAL */
    PROXY_SUBSCRIBES    /* SUBSCRIBE and UNSUBSCRIBE */
};

enum proxy_fault {
    PROXY_NONE,
    PROXY_CUT_BEFORE,   /* the request never arrives: both sides of its connection are closed */
    PROXY_CUT_AFTER,    /* it arrives and runs, then its connection is closed: the reply is lost */
    PROXY_SWALLOW,      /* it runs; its reply and all that follow are dropped, and the connection stays */
    PROXY_SKIP,         /* it runs; its reply is dropped and the later ones pass, as no connection does: whoever reads
                         * them is out of step */
    PROXY_FLOOD,        /* proxy_flood */
    PROXY_HOLD_REPLY,   /* it runs; its reply and all that follow wait here until proxy_deliver */
    PROXY_HOLD          /* it and all that follow on its connection wait here until proxy_deliver, even if the client
                         * closes the connection: the network delivers them late */
};

struct proxy *proxy_start(const struct server *server);     /* upstream by the server's Unix socket */
/* At another address of this host than 127.0.0.1: one of netns.h. */
struct proxy *proxy_start_at(const struct server *server, const char *address);
void proxy_stop(struct proxy *proxy);                       /* closes all connections. NULL is fine */

/* For the library; by TCP with the least-rights user when the server has one, else by Unix socket. */
const char *proxy_url(const struct proxy *proxy);
int proxy_port(const struct proxy *proxy);                  /* the proxy listens on loopback TCP too */

void proxy_arm(struct proxy *proxy, enum proxy_fault fault, enum proxy_filter filter, uint64_t k);
/* A broken server: the k-th match, and with `lasts` also each later match, is answered by `head` and then by endless
 * copies of `body`, one every `gap_ms`, or without pause (0). "" for none. The strings must live as long as the
 * proxy. */
void proxy_flood(struct proxy *proxy, enum proxy_filter filter, uint64_t k, bool lasts, const char *head,
                 const char *body, int64_t gap_ms);
bool proxy_struck(struct proxy *proxy);                     /* the armed fault has happened */
void proxy_wait_struck(struct proxy *proxy);                /* waits for it (wait.h) */

/* Delivers what PROXY_HOLD and PROXY_HOLD_REPLY have held back. Returns when the server has answered all of it.
 * `first_only`: only the k-th request; the rest of its connection is discarded. Replies go to the client if it is still
 * connected. */
void proxy_deliver(struct proxy *proxy, bool first_only);

void proxy_move(struct proxy *proxy, const struct server *server);  /* for new connections; open ones stay */
void proxy_cut_all(struct proxy *proxy);                    /* closes every connection, here and upstream */
void proxy_refuse(struct proxy *proxy, bool on);            /* connection refused. Open connections stay */
void proxy_freeze(struct proxy *proxy, bool on);            /* connections are accepted, and no byte passes in either
                                                             * direction; off: the delayed bytes pass */
void proxy_freeze_subscribers(struct proxy *proxy, bool on); /* the same, only for connections that have subscribed */
void proxy_delay(struct proxy *proxy, int64_t to_server_ms, int64_t to_client_ms);  /* each request; each reply */

void proxy_drop_messages(struct proxy *proxy, bool on);         /* published messages; confirmations still pass */
void proxy_hold_confirmations(struct proxy *proxy, bool on);    /* replies to SUBSCRIBE, and all that follow, wait; off:
                                                                 * they pass */

uint64_t proxy_count(struct proxy *proxy, enum proxy_filter filter);    /* requests seen since the start */
uint64_t proxy_seen(struct proxy *proxy, const char *text);             /* those with `text` within an argument */
void     proxy_forget(struct proxy *proxy);                              /* from now on proxy_seen counts no new
                                                                          * requests: for long tests */
uint64_t proxy_messages(struct proxy *proxy);                           /* published messages, also dropped ones */
uint64_t proxy_accepted(struct proxy *proxy);                           /* connections accepted since the start */
int      proxy_open_connections(struct proxy *proxy);

#endif
