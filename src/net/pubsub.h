/* pubsub.h - the subscriber connection of a node: one, for any number of channels. Loop thread only, but for reading:
 * pubsub_read.c.
 *
 * Connects at the first subscription, again after a break, and tells its owner each time it is up, who then subscribes
 * anew. While anything is subscribed it sends a PING each second; two unanswered ones and it is broken, so that a
 * connection that died silently is noticed. What it hears is told to the owner, who knows the waiters. */
#ifndef HLK_NET_PUBSUB_H
#define HLK_NET_PUBSUB_H

#include "base/mutex.h"
#include "base/self.h"
#include "net/backoff.h"
#include "net/dial.h"

struct hlk_pubsub_owner {               /* the first two on the loop thread, the rest on whichever thread reads */
    void *ctx;
    void (*on_up)(void *ctx);                                               /* nothing is subscribed yet */
    void (*on_down)(void *ctx, const struct hlk_error *why);                /* nothing is subscribed any more */
    void (*on_subscribed)(void *ctx, const char *channel, size_t len);
    void (*on_refused)(void *ctx, const char *channel, size_t len, const struct hlk_error *why);
    void (*on_message)(void *ctx, const char *channel, size_t len, const char *payload, size_t payload_len);
};

enum hlk_reader { HLK_READER_NOBODY, HLK_READER_LOOP, HLK_READER_WAITER };

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
    struct hlk_conn conn;               /* its reader: whoever has the right to read */
    struct hlk_buffer out;
    unsigned subscribed;                /* channels; pings run while > 0 */
    atomic_uint silent_pings;
    struct hlk_tick tick;
    struct hlk_post resume, broke;
    int kick_fd;                        /* wakes a waiter that reads */

    struct hlk_mutex mu;                /* rank LEAF; guards: */
    struct hlk_list asked;              /*   commands whose answer is due, in order */
    enum hlk_reader reader;
    struct hlk_self *reading;           /*   WAITER */
    struct hlk_list parked;             /*   selves that would read */
    unsigned eager;                     /*   waits that cannot: async ones, and those that signals end */
    bool readable;                      /*   up, and not about to be hung up */
    bool loop_inside;                   /*   the loop is at it: nobody takes the right from it now */
    bool broken;                        /*   a waiter found it so: why */
    struct hlk_error why;
};

/* HLK_E_OS: no descriptor. */
enum hlk_status hlk_pubsub_init(struct hlk_pubsub *ps, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                const struct hlk_pubsub_owner *owner, struct hlk_error *error);
void hlk_pubsub_fini(struct hlk_pubsub *ps);
void hlk_pubsub_close(struct hlk_pubsub *ps);       /* loop thread, or after the loop has stopped */

/* When down: connects; the owner subscribes when it is told on_up. */
void hlk_pubsub_subscribe(struct hlk_pubsub *ps, const char *channel, size_t len);
void hlk_pubsub_unsubscribe(struct hlk_pubsub *ps, const char *channel, size_t len);

/* Loop thread: the endpoint may mean another server by now. What is connected, or being dialled, is dialled anew. */
void hlk_pubsub_move(struct hlk_pubsub *ps);

/* --- reading: pubsub_read.c --- */

/* Sleeps until a bit of mask is set or at_ms has come; reads for all meanwhile, if nobody else does. Any thread; a
 * pthread cancellation point like hlk_park_until. */
void hlk_pubsub_park(struct hlk_pubsub *ps, struct hlk_self *self, unsigned mask, int64_t at_ms);
void hlk_pubsub_eager(struct hlk_pubsub *ps, bool more);    /* a wait that cannot read begins, or ends. Any thread */

bool hlk_pubsub_read(struct hlk_pubsub *ps, struct hlk_error *error);   /* whoever has the right: what is there */
/* The loop: */
bool hlk_pubsub_loop_reads(struct hlk_pubsub *ps);      /* it has the right */
bool hlk_pubsub_loop_begins(struct hlk_pubsub *ps);     /* the same, and keeps it until it ends */
void hlk_pubsub_loop_ends(struct hlk_pubsub *ps);
bool hlk_pubsub_loop_takes(struct hlk_pubsub *ps);      /* nobody had the right: the loop has it */
void hlk_pubsub_readable(struct hlk_pubsub *ps);        /* a new connection: the loop reads it */
void hlk_pubsub_reclaim(struct hlk_pubsub *ps);         /* nobody reads any more, before it hangs up */

#endif
