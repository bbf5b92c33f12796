/* pubsub.h - the subscriber connection of a node: one, for any number of channels. Loop thread only.
 *
 * Connects at the first subscription, again after a break, and tells its owner each time it is up, who then subscribes
 * anew. While anything is subscribed it sends a PING each second; two unanswered ones and it is broken, so that a
 * connection that died silently is noticed. What it hears is told to the owner, who knows the waiters. */
#ifndef HLK_NET_PUBSUB_H
#define HLK_NET_PUBSUB_H

#include "net/backoff.h"
#include "net/dial.h"

struct hlk_pubsub_owner {               /* all on the loop thread */
    void *ctx;
    void (*on_up)(void *ctx);                                               /* nothing is subscribed yet */
    void (*on_down)(void *ctx, const struct hlk_error *why);                /* nothing is subscribed any more */
    void (*on_subscribed)(void *ctx, const char *channel, size_t len);
    void (*on_refused)(void *ctx, const char *channel, size_t len, const struct hlk_error *why);
    void (*on_message)(void *ctx, const char *channel, size_t len, const char *payload, size_t payload_len);
};

struct hlk_pubsub {
    hlk_loop *loop;
    struct hlk_pubsub_owner owner;
    struct hlk_log log;

    bool wanted;                        /* somebody has asked for a channel since we were made */
    bool up, closed;
    struct hlk_dial dial;
    struct hlk_backoff backoff;
    struct ev_timer redial, ping;
    struct ev_io io;
    struct hlk_conn conn;
    struct hlk_buffer out;
    struct hlk_list asked;              /* commands whose answer is due, in order */
    unsigned subscribed;                /* channels; pings run while > 0 */
    unsigned silent_pings;
};

void hlk_pubsub_init(struct hlk_pubsub *ps, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                     const struct hlk_pubsub_owner *owner);
void hlk_pubsub_close(struct hlk_pubsub *ps);       /* loop thread, or after the loop has stopped */

/* When down: connects; the owner subscribes when it is told on_up. */
void hlk_pubsub_subscribe(struct hlk_pubsub *ps, const char *channel, size_t len);
void hlk_pubsub_unsubscribe(struct hlk_pubsub *ps, const char *channel, size_t len);

#endif
