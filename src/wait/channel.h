/* channel.h - which of our waits a message on a channel concerns: subscriptions shared by reference count.
 *
 * A wait joins a channel and hears three things, as bits: HLK_WAKE_HEARING when the subscription is confirmed (and each
 * time it is confirmed anew after a break: then it must ask the server once, whatever was said meanwhile is gone),
 * HLK_WAKE_MESSAGE, HLK_WAKE_DEAF when the server refuses the subscription. One message is told to one wait: the first.
 * The last wait that leaves takes the subscription with it, HLK_CHANNEL_LINGER_MS later: a lock that is fought over
 * would be subscribed and unsubscribed for each hold.
 *
 * One channel is different, the client's inbox: its messages concern one lock each, say which, and are told to
 * `on_letter`, not to a wait. Waits join it to know that it hears. */
#ifndef HLK_WAIT_CHANNEL_H
#define HLK_WAIT_CHANNEL_H

#include "base/map.h"
#include "base/mutex.h"
#include "net/pubsub.h"
#include "script/keys.h"

#include <stdatomic.h>

#define HLK_CHANNEL_LINGER_MS 100
#define HLK_INBOX_LINGER_MS 10000   /* without it each new wait costs a question more */

struct hlk_channel;

struct hlk_listener {                   /* embedded in a wait */
    struct hlk_list link;               /* under the channels' mutex, like channel */
    struct hlk_channel *channel;        /* NULL: not joined */
    /* on the loop thread or on whichever reads the connection (net/pubsub_read.c), under the mutex: only wakes */
    void (*hear)(struct hlk_listener *listener, unsigned bit);
};

typedef void hlk_letter_fn(void *ctx, const char *letter, size_t len); /* whoever reads the connection, no mutex held */

struct hlk_channels {
    hlk_loop *loop;
    char inbox[HLK_KEY_MAX];            /* its name; set by init, then read-only, like the next ones */
    size_t inbox_len;
    hlk_letter_fn *on_letter;
    void *letter_ctx;
    struct hlk_pubsub pubsub;           /* loop thread only, but for reading: net/pubsub_read.c */
    struct hlk_post post;
    struct hlk_tick tick;
    atomic_uint known;                  /* channels in the map: 0 is seen without the mutex */

    struct hlk_mutex mu;                /* rank CHANNELS; guards: */
    struct hlk_map map;                 /*   name -> channel */
    struct hlk_list changed;            /*   to be subscribed */
    struct hlk_list lingering;          /*   without listener; oldest first */
    struct hlk_listener attendant;      /*   in the inbox for all who attend it, however many: */
    unsigned attending;
    struct hlk_error error;             /*   why the last subscription was refused */
};

enum hlk_status hlk_channels_init(struct hlk_channels *channels, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                  const char *client_id, hlk_letter_fn *on_letter, void *letter_ctx,
                                  struct hlk_error *error);
void hlk_channels_close(struct hlk_channels *channels);     /* after the loop has stopped: no connection is left */
void hlk_channels_fini(struct hlk_channels *channels);      /* after the loop has stopped; nobody listens any more */

/* HLK_OK: joined, and confirmed already: the next question to the server misses nothing. HLK_BUSY: joined, a HEARING
 * will come. HLK_E_NOMEM. Any thread. */
enum hlk_status hlk_channel_join(struct hlk_channels *channels, const char *name, size_t len,
                                 struct hlk_listener *listener);
/* The same, only if it is subscribed already (somebody listens, or did just now); else HLK_NOT_HOLDER, not joined. */
enum hlk_status hlk_channel_join_live(struct hlk_channels *channels, const char *name, size_t len,
                                      struct hlk_listener *listener);
void hlk_channel_leave(struct hlk_channels *channels, struct hlk_listener *listener);   /* no-op when not joined */
/* Somebody of this process waits behind a holder of this process: the inbox hears meanwhile, of a break first of all.
 * Each attend is followed by one leave_inbox; any thread. */
void hlk_channel_attend_inbox(struct hlk_channels *channels);
void hlk_channel_leave_inbox(struct hlk_channels *channels);
bool hlk_channel_confirmed(struct hlk_channels *channels, const struct hlk_listener *listener);
void hlk_channel_refusal(struct hlk_channels *channels, struct hlk_error *error);       /* after DEAF */

#endif
