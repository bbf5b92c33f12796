/* thread.h - the thread context: what the library keeps for each thread that calls it. It has a number that is never
 * used again, and the thread's park.
 *
 * It is made at the first call. When the thread ends, a later thread uses it under a new number. It is never freed, so
 * a late waker always finds valid memory. */
#ifndef HLK_BASE_THREAD_H
#define HLK_BASE_THREAD_H

#include "base/list.h"
#include "base/park.h"

struct hlk_thread {
    uint64_t id;                /* threads and owners draw their numbers from one counter (hlk_thread_next_id) */
    struct hlk_park park;
    int event_fd;               /* -1 until a wait with HLK_ACQUIRE_EINTR needs one */
    bool cancellable;           /* pthread_cancel may end this call: its sleeps enable it */
    atomic_uint holds;          /* entries this thread holds, over all clients; checked when it ends */
    struct hlk_list link;       /* in the one list in which this thread waits: followers, waiters for a connection,
                                 * candidates for reading the subscriber connection */
    struct hlk_thread *next;    /* next of the unused contexts */
};

struct hlk_thread *hlk_thread_get(void);            /* NULL: no memory, or no pthread key is left */
uint64_t hlk_thread_next_id(void);                  /* never 0, never the same twice */
int hlk_thread_event_fd(struct hlk_thread *self);   /* made at the first use; -1: no descriptor */

/* Sets the callback for a thread that ends while it holds something. In a forked child it runs only for what the child
 * itself holds. One per process; set before the first hlk_thread_get. Fork handlers that the caller registers later run
 * outside of ours. */
void hlk_thread_on_exit(void (*ended)(uint64_t id));

/* A number that differs between a process and its forked children. */
unsigned hlk_thread_process(void);
unsigned hlk_thread_process_in_handler(void);     /* async-signal-safe; after the first hlk_thread_process() */

/* Sleeps in poll until `fd` has one of `events`, a bit of mask is set (its setter writes to kick_fd), or at_ms is
 * reached. Returns at once when a bit is set already. May return early. A cancellation point, as all sleeps are. */
void hlk_thread_poll(struct hlk_thread *self, int fd, short events, int kick_fd, unsigned mask, int64_t at_ms);

/* Only the sleeps of a cancellable call are cancellation points. */
void hlk_thread_allow_cancel(struct hlk_thread *self);
void hlk_thread_forbid_cancel(struct hlk_thread *self);

#endif
