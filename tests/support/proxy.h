/* proxy.h - stands between client and server, knows where a request and a reply begin and end, and does harm on
 * command.
 *
 * One thread of the test's process, one upstream connection per client connection. Requests are counted over all
 * connections from 1 on, only those that match the filter. One fault can be armed at a time; it strikes the k-th match
 * from then on, once.
 *
 *     struct proxy *proxy = proxy_start(server);
 *     hlk_client_open(&client, proxy_url(proxy), &opts);
 *     proxy_arm(proxy, PROXY_SWALLOW, PROXY_SCRIPTS, 2);          the second script from now gets no answer
 *
 * Every call may be made from any thread and has taken effect when it returns.
 */
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
    PROXY_CUT_BEFORE,   /* the request never arrives: both sides of its connection are closed instead */
    PROXY_CUT_AFTER,    /* it arrives and runs, then its connection is closed: nobody sees the reply */
    PROXY_SWALLOW,      /* its reply is dropped, the connection stays */
    PROXY_HOLD          /* it and all that follows on its connection waits here until proxy_deliver, also when the
                         * client closes the connection meanwhile: a request that the network delivers late */
};

struct proxy *proxy_start(const struct server *server);     /* upstream by the server's Unix socket */
void proxy_stop(struct proxy *proxy);                       /* closes everything. NULL is fine */

/* For the library; by TCP with the least-rights user when the server has one, else by Unix socket. */
const char *proxy_url(const struct proxy *proxy);
int proxy_port(const struct proxy *proxy);                  /* the proxy listens on loopback TCP too */

void proxy_arm(struct proxy *proxy, enum proxy_fault fault, enum proxy_filter filter, uint64_t k);
bool proxy_struck(struct proxy *proxy);                     /* the armed fault has happened */
void proxy_wait_struck(struct proxy *proxy);                /* waits for that (wait.h) */

/* Delivers what PROXY_HOLD holds back; returns when the server has answered all of it. `first_only`: the k-th request
 * alone, the rest of its connection is thrown away. Replies go to the client if it is still there. */
void proxy_deliver(struct proxy *proxy, bool first_only);

void proxy_move(struct proxy *proxy, const struct server *server);  /* new connections go there; open ones stay */
void proxy_cut_all(struct proxy *proxy);                    /* closes every connection, here and upstream */
void proxy_refuse(struct proxy *proxy, bool on);            /* nobody listens: connection refused. Open ones stay */
void proxy_freeze(struct proxy *proxy, bool on);            /* a black hole: connections are accepted, no byte passes in
                                                             * either direction; off: what piled up goes on */
void proxy_freeze_subscribers(struct proxy *proxy, bool on); /* the same, only for connections that have subscribed */
void proxy_delay(struct proxy *proxy, int64_t to_server_ms, int64_t to_client_ms);  /* each request; each reply */

void proxy_drop_messages(struct proxy *proxy, bool on);         /* published messages; confirmations still pass */
void proxy_hold_confirmations(struct proxy *proxy, bool on);    /* answers to SUBSCRIBE wait (with all behind them);
                                                                 * off: they go on */

uint64_t proxy_count(struct proxy *proxy, enum proxy_filter filter);    /* requests seen since the start */
uint64_t proxy_seen(struct proxy *proxy, const char *text);             /* those with `text` within an argument */
void     proxy_forget(struct proxy *proxy);                              /* from now on proxy_seen sees nothing new:
                                                                         * for hours of traffic */
uint64_t proxy_messages(struct proxy *proxy);                           /* published messages seen, dropped ones too */
uint64_t proxy_accepted(struct proxy *proxy);                           /* connections ever taken */
int      proxy_open_connections(struct proxy *proxy);

#endif
