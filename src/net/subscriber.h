/* subscriber.h - the subscriber connection of a node: one, for any number of channels. Loop thread only, but for
 * reading: subscriber_read.c.
 *
 * Connects at the first subscription, and again after a break. Each time it is up it tells its owner, which then
 * subscribes anew. While anything is subscribed it sends a PING each second. After two without an answer the
 * connection counts as broken: so one that died silently is noticed. Messages go to the owner's callbacks. */
#ifndef HLK_NET_SUBSCRIBER_H
#define HLK_NET_SUBSCRIBER_H

#include "base/mutex.h"
#include "base/thread.h"
#include "net/backoff.h"
#include "net/dial.h"

struct hlk_subscriber_owner {               /* the first two on the loop thread, the rest on whichever thread reads */
    void *ctx;
    void (*on_up)(void *ctx);                                               /* nothing is subscribed yet */
    void (*on_down)(void *ctx, const struct hlk_error *why);                /* nothing is subscribed any more */
    void (*on_subscribed)(void *ctx, const char *channel, size_t len);
    void (*on_refused)(void *ctx, const char *channel, size_t len, const struct hlk_error *why);
    void (*on_message)(void *ctx, const char *channel, size_t len, const char *payload, size_t payload_len);
    /* The server did not do it now (it is loading, busy with a script, ...): the owner asks again after a pause. */
    void (*on_later)(void *ctx, const char *channel, size_t len, bool subscribe);
    /* Sharded: the channel's slot is another server's, by these words or, NULL, since now. It is not subscribed. True:
     * it was, to the owner's knowledge. Else the owner has unsubscribed it. */
    bool (*on_moved)(void *ctx, const char *channel, size_t len, const char *words);
};

enum hlk_reader { HLK_READER_NOBODY, HLK_READER_LOOP, HLK_READER_WAITER };

struct hlk_subscriber {
    hlk_loop *loop;
    struct hlk_subscriber_owner owner;
    struct hlk_log log;

    bool sharded;                       /* SSUBSCRIBE and so on; set before the first channel */
    bool wanted;                        /* a channel was asked for since it was made */
    bool up, closed;
    struct hlk_dial dial;
    struct hlk_backoff backoff;
    struct ev_timer redial, ping;
    struct hlk_watch io;
    struct hlk_conn conn;               /* its reader's: the thread with the right to read */
    struct hlk_buffer out;
    atomic_uint subscribed;             /* channels; pings run while > 0 */
    atomic_uint silent_pings;
    struct hlk_tick tick;
    struct hlk_post resume, broke;
    int kick_fd;                        /* wakes a waiter that reads */

    struct hlk_mutex mu;                /* rank LEAF; guards: */
    struct hlk_list asked;              /*   commands whose answer is due, in order */
    enum hlk_reader reader;
    struct hlk_thread *reading;         /*   WAITER */
    struct hlk_list parked;             /*   threads that would read */
    unsigned eager;                     /*   waits that cannot: async ones, and those that signals end */
    bool readable;                      /*   up, and not about to be hung up */
    pthread_cond_t given_up;            /*   a waiter has, of a connection that is not readable any more */
    bool loop_inside;                   /*   the loop is at it: no waiter takes the right from it now */
    bool broken;                        /*   a waiter found it so: why */
    struct hlk_error why;
};

/* HLK_E_OS: no descriptor. */
enum hlk_status hlk_subscriber_init(struct hlk_subscriber *ps, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                    const struct hlk_subscriber_owner *owner, struct hlk_error *error);
void hlk_subscriber_fini(struct hlk_subscriber *ps);
void hlk_subscriber_close(struct hlk_subscriber *ps);       /* loop thread, or after the loop has stopped */

/* When down: connects; the owner subscribes when it is told on_up. */
void hlk_subscriber_subscribe(struct hlk_subscriber *ps, const char *channel, size_t len);
void hlk_subscriber_unsubscribe(struct hlk_subscriber *ps, const char *channel, size_t len);

/* Loop thread: the endpoint may mean another server by now. What is connected, or being dialled, is dialled anew. */
void hlk_subscriber_move(struct hlk_subscriber *ps);

#endif
