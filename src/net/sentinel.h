/* sentinel.h - the connection to one Redis Sentinel: asks it for the master of a service, and receives its messages.
 *
 * The connection is subscribed to +switch-master. A sentinel answers no question on such a connection, so a round of
 * questions unsubscribes, asks, and subscribes again, in one write. A round starts when a message names the service,
 * and each HLK_SENTINEL_POLL_MS, which also shows whether the sentinel is alive. Loop thread only. */
#ifndef HLK_NET_SENTINEL_H
#define HLK_NET_SENTINEL_H

#include "net/backoff.h"
#include "net/dial.h"

#define HLK_SENTINEL_POLL_MS 5000
#define HLK_SENTINEL_TIMEOUT_MS 1000    /* for an answer, or reply_timeout_ms if that is less */
#define HLK_SENTINEL_ID 41

struct hlk_sentinel;

struct hlk_sentinel_answer {
    char host[HLK_DIAL_HOST];
    int port;                           /* of the master; 0: it does not know the service */
    uint64_t epoch;                     /* of the configuration: the higher one is the newer one. 0: not known */
};

struct hlk_sentinel_owner {
    void *ctx;
    void (*on_answer)(void *ctx, struct hlk_sentinel *sentinel);    /* sentinel->answer is new */
    void (*on_failure)(void *ctx, struct hlk_sentinel *sentinel);   /* sentinel->error is; it is dialled again later */
    /* another sentinel of the service, named by this one */
    void (*on_other)(void *ctx, const char *host, int port, const char *id);
};

struct hlk_sentinel {
    struct hlk_list link;               /* the owner's, like the next four */
    bool learned;                       /* named by another sentinel, not by the URL */
    bool answered;                      /* in the current search */
    struct hlk_sentinel_answer newest;  /* the one with the highest epoch; port 0: none named a master yet */
    bool outvoted;                      /* by a majority that monitors the service anew; `answer` does not count */
    hlk_loop *loop;
    struct hlk_sentinel_owner owner;
    const char *service;
    const struct hlk_buffer *round;     /* hlk_sentinel_round */
    char name[HLK_DIAL_HOST + 8];       /* host:port */
    char id[HLK_SENTINEL_ID];           /* its run id; "": not known */

    bool asking;                        /* it is being dialled, or a round is unanswered */
    bool switched;                      /* the round was started by a message, or one came during it */
    /* of the round before the last one; of the last one; of the current one, so far */
    struct hlk_sentinel_answer before, answer, next;
    struct hlk_error error;             /* why it is not connected; HLK_OK: it is, or was not asked yet */

    struct hlk_endpoint endpoint;
    struct hlk_dial dial;
    struct hlk_conn conn;               /* fd -1: none */
    struct hlk_buffer out;
    struct hlk_watch io;
    struct hlk_alarm alarm;             /* no answer; the next poll; the next dial */
    struct hlk_backoff backoff;
    unsigned due;                       /* answers of the round that are missing */
};

/* The questions of a round, for all sentinels of a service. False: no memory. */
bool hlk_sentinel_round(struct hlk_buffer *round, const char *service);

/* NULL: no memory. `like` gives all of the endpoint but the URL: host, port, user and password (NULL: none) are the
 * sentinel's. `round` and the service within `like` are borrowed. */
struct hlk_sentinel *hlk_sentinel_create(hlk_loop *loop, const struct hlk_endpoint *like, const char *host, int port,
                                         const char *username, const char *password, const struct hlk_buffer *round,
                                         const struct hlk_sentinel_owner *owner);
void hlk_sentinel_destroy(struct hlk_sentinel *sentinel);       /* also when the loop has ended */

/* Starts a round, on a new connection if necessary; no-op during a round. on_answer or on_failure follows, on_failure
 * possibly before this returns. */
void hlk_sentinel_ask(struct hlk_sentinel *sentinel);

#endif
