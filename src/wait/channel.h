/* channel.h - which wait of this client a message on a channel concerns. Subscriptions are shared by reference count.
 *
 * A wait joins a channel and gets three events, as bits. HLK_WAKE_SUBSCRIBED: the subscription is confirmed, for the
 * first time or again after a break. Messages during the break are lost, so the wait must then send once.
 * HLK_WAKE_MESSAGE: a message. HLK_WAKE_SUBSCRIBE_FAILED: the server has refused the subscription. A message goes to
 * one wait, the first; or to all of them, if that one is `for_all`. The subscription ends HLK_CHANNEL_LINGER_MS after
 * its last wait has left. Otherwise a contended lock would be subscribed and unsubscribed for each hold.
 *
 * The client's inbox is different. Each of its messages names one lock and goes to `on_inbox_message`, not to a wait.
 * Waits join the inbox to know that it is subscribed. With sharded pub/sub there is an inbox for each lock. */
#ifndef HLK_WAIT_CHANNEL_H
#define HLK_WAIT_CHANNEL_H

#include "base/map.h"
#include "base/mutex.h"
#include "net/subscriber.h"
#include "script/keys.h"

#include <stdatomic.h>

#define HLK_CHANNEL_LINGER_MS 100
#define HLK_INBOX_LINGER_MS 10000   /* without it each new wait costs one more command */

struct hlk_channel;

struct hlk_listener {                   /* embedded in a wait */
    struct hlk_list link;               /* under the channels' mutex, like channel */
    struct hlk_channel *channel;        /* NULL: not joined */
    bool for_all;                       /* what this channel says concerns each of its waits */
    atomic_bool said;                   /* with for_all: there was a message. Its reader sets it to false */
    _Atomic uint64_t number;            /*   the last one, if it is a number; else 0 */
    /* on the loop thread, or on the thread that reads the connection (net/subscriber_read.c); under the mutex: only
     * wakes */
    void (*on_event)(struct hlk_listener *listener, unsigned bit);
};

/* on the thread that reads the connection, no mutex held */
typedef void hlk_inbox_fn(void *ctx, const char *inbox_message, size_t len);

struct hlk_channels {
    hlk_loop *loop;
    char inbox[HLK_KEY_MAX];            /* its name; set by init, then read-only, like the next ones */
    size_t inbox_len;
    hlk_inbox_fn *on_inbox_message;
    void (*on_inbox)(void *ctx);       /* the inbox is subscribed, for the first time or again; called like
                                        * on_inbox_message. May be NULL */
    /* Sharded: a channel's slot is another server's, by these words or, NULL, since now. May be NULL */
    void (*on_moved)(void *ctx, const char *words);
    void *inbox_ctx;                   /* of all three */
    struct hlk_subscriber pubsub;      /* loop thread only, except for reading: net/subscriber_read.c */
    struct hlk_post post;
    struct hlk_tick tick;
    atomic_uint known;                  /* channels in the map, so that 0 is seen without the mutex */

    struct hlk_mutex mu;                /* rank CHANNELS; guards: */
    struct hlk_map map;                 /*   name -> channel */
    struct hlk_list changed;            /* to subscribe */
    struct hlk_list lingering;          /* without a listener, oldest first */
    int64_t again_at_ms;                /* when to repeat what the server refused for now; 0: nothing */
    struct hlk_listener inbox_user;     /* in the inbox for all its users: */
    unsigned inbox_users;
    struct hlk_error error;             /*   why the last subscription was refused */
};

enum hlk_status hlk_channels_init(struct hlk_channels *channels, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                  const char *client_id, hlk_inbox_fn *on_inbox_message, void *inbox_ctx,
                                  struct hlk_error *error);
void hlk_channels_close(struct hlk_channels *channels);     /* after the loop has stopped: no connection is left */
void hlk_channels_fini(struct hlk_channels *channels);      /* after the loop has stopped, without listeners */

/* False: no channel has a wait or lingers. */
static inline bool hlk_channels_in_use(const struct hlk_channels *channels)
{
    return atomic_load(&channels->known) > 0;
}

/* HLK_OK: joined and confirmed, so no message after the next command is missed. HLK_BUSY: joined, HLK_WAKE_SUBSCRIBED
 * will follow. HLK_E_NOMEM. Any thread. */
enum hlk_status hlk_channel_join(struct hlk_channels *channels, const char *name, size_t len,
                                 struct hlk_listener *listener);
/* The same, but only for a channel that is subscribed or lingers. Else HLK_NOT_HOLDER, and not joined. */
enum hlk_status hlk_channel_join_live(struct hlk_channels *channels, const char *name, size_t len,
                                      struct hlk_listener *listener);
void hlk_channel_leave(struct hlk_channels *channels, struct hlk_listener *listener);   /* no-op when not joined */
/* Keeps the inbox subscribed while a wait queues behind a holder of this process, first of all for the message of a
 * break. Each retain is followed by one release. Any thread. */
void hlk_channel_retain_inbox(struct hlk_channels *channels);
void hlk_channel_release_inbox(struct hlk_channels *channels);
/* Wakes the waits of the channels that concern, as by a message. Any thread. */
void hlk_channels_wake(struct hlk_channels *channels, bool (*concerns)(const char *name, size_t len, void *ctx),
                       void *ctx);
bool hlk_channel_confirmed(struct hlk_channels *channels, const struct hlk_listener *listener);
void hlk_channel_refusal(struct hlk_channels *channels, struct hlk_error *error);       /* after
                                                                                         * HLK_WAKE_SUBSCRIBE_FAILED */

#endif
