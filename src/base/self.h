/* self.h - what the library keeps for each thread that calls it: a number that is never used again, and its place to
 * sleep.
 *
 * Made at the first call, given back when the thread ends and used again by a later thread under a new number; never
 * freed, so a late waker always finds memory. */
#ifndef HLK_BASE_SELF_H
#define HLK_BASE_SELF_H

#include "base/list.h"
#include "base/park.h"

struct hlk_self {
    uint64_t id;                /* holders are numbers: threads and owners draw from one counter (hlk_self_number) */
    struct hlk_park park;
    int event_fd;               /* -1 until a wait with HLK_ACQUIRE_EINTR needs one */
    bool cancellable;           /* this call may be ended by pthread_cancel: sleeps enable it */
    atomic_uint holds;          /* sessions this thread holds, over all clients: looked at when it ends */
    struct hlk_list link;       /* the one list this thread waits in: followers, those who wait for a connection, those
                                 * who would read the subscriber connection */
    struct hlk_self *next;      /* list of the idle ones */
};

struct hlk_self *hlk_self_get(void);            /* NULL: no memory */
uint64_t hlk_self_number(void);                 /* never 0, never given before */
int hlk_self_event_fd(struct hlk_self *self);   /* made at the first use; -1: no descriptor */

/* Runs in a thread that ends, when it still holds something; in a forked child: something of the child's own. One for
 * the process, set before any thread asks. Handlers of fork that the caller sets afterwards run outside of ours. */
void hlk_self_on_exit(void (*ended)(uint64_t id));

/* fork(): children see another number than the process that opened a client. */
unsigned hlk_self_process(void);
unsigned hlk_self_process_in_handler(void);     /* the same, async-signal-safe; after some hlk_self_process() */

/* Sleeps in poll until `fd` has one of `events`, a bit of mask is set (whoever sets it writes to kick_fd), or at_ms has
 * come; not at all when a bit is set already. May wake up for nothing. A cancellation point like all sleeps: */
void hlk_self_poll(struct hlk_self *self, int fd, short events, int kick_fd, unsigned mask, int64_t at_ms);

/* Sleeps of a cancellable call, and only they, are cancellation points. */
void hlk_self_allow_cancel(struct hlk_self *self);
void hlk_self_forbid_cancel(struct hlk_self *self);

#endif
