/* park.h - how a thread sleeps, and how another wakes it: one word of bits, set by wakers and cleared by the sleeper.
 *
 * A waker sets its bit. It makes the wake-up system call only if the sleeper is asleep. The sleeper checks its bits and
 * declares its sleep in one atomic step, so no wake-up is lost and none is made twice. The sleeper waits on a
 * semaphore, or, if it also polls descriptors (the leader of a connection), in poll with `poll_fd` among them. */
#ifndef HLK_BASE_PARK_H
#define HLK_BASE_PARK_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HLK_WAKE_REPLY   0x01u              /* the reply to this thread's command has arrived */
#define HLK_WAKE_LEAD    0x02u              /* this thread leads the shared connection now */
#define HLK_WAKE_UP      0x04u              /* the connection is up, or the attempt has failed */
#define HLK_WAKE_QUEUE    0x08u             /* this waiter is the head waiter now, or holds the lock */
#define HLK_WAKE_MESSAGE 0x10u              /* a message on the lock's channel or in the inbox: send again */
#define HLK_WAKE_SUBSCRIBED 0x20u           /* the subscription is confirmed, for the first time or again */
#define HLK_WAKE_SUBSCRIBE_FAILED    0x40u  /* the subscription was refused */
#define HLK_WAKE_CANCEL  0x80u              /* the wait's cancel object was triggered */
#define HLK_WAKE_CLOSED  0x100u             /* the client is being closed */
#define HLK_WAKE_SETTLED 0x200u             /* a release that this thread waits for has its outcome */
#define HLK_WAKE_READ    0x400u             /* this thread may read the subscriber connection now, or has to give that
                                             * right back */
#define HLK_WAKE_ALL     0x7ffu
#define HLK_PARK_ASLEEP  0x80000000u    /* internal: asleep; the thread that clears it makes the wake-up call */

#define HLK_PARK_NOWHERE (-2)

struct hlk_park {
    atomic_uint bits;
    atomic_int poll_fd;             /* >= 0: woken by a write here. The sleeper sets it before it sleeps. A late waker
                                     * may write to the descriptor of the next sleep: one wake-up too many, none lost.
                                     * HLK_PARK_NOWHERE: awake again, no wake-up is needed */
    atomic_uint paying;             /* wakers that may be writing to poll_fd: the sleeper waits for them before it gives
                                     * poll_fd up */
    sem_t sem;
    sem_t paid;                     /* posted by the last of those wakers, if the sleeper waits for it */
};

void hlk_park_init(struct hlk_park *park);

/* Any thread, never blocks. Waking has two steps: signal sets the bit; wake_signalled makes the system call for the
 * park that signal returned (NULL: the sleeper is not asleep). The woken thread may preempt the waker at once. So a
 * waker that holds a mutex which the woken thread needs calls wake_signalled after unlocking it. Parks live as long as
 * the process (base/thread.c). */
struct hlk_park *hlk_park_signal(struct hlk_park *park, unsigned bit);
void hlk_park_wake_signalled(struct hlk_park *park);           /* NULL is fine */
static inline void hlk_park_wake(struct hlk_park *park, unsigned bit) { hlk_park_wake_signalled(hlk_park_signal(park,
                                 bit)); }

/* For the sleeper only: */
static inline unsigned hlk_park_peek(struct hlk_park *park, unsigned mask) { return atomic_load(&park->bits) & mask; }
static inline unsigned hlk_park_take(struct hlk_park *park, unsigned mask)
{
    return atomic_fetch_and(&park->bits, ~mask) & mask;
}

/* Declares the sleep. False: a bit of mask is set already, do not sleep. */
bool hlk_park_begin(struct hlk_park *park, unsigned mask);
/* Ends the declared sleep, however it was interrupted. True: no waker has made a wake-up call for it. */
bool hlk_park_end(struct hlk_park *park);
/* The same after a sleep in poll with poll_fd. When it returns, no waker writes to poll_fd any more: the descriptor may
 * be closed. */
void hlk_park_end_poll(struct hlk_park *park);

/* Sleeps until a bit of mask is set (true) or at_ms is reached (false). eintr != NULL: sleeps in poll, and a signal
 * handler that ran ends the sleep and sets *eintr. A pthread cancellation point where cancellation is enabled. */
bool hlk_park_until(struct hlk_park *park, unsigned mask, int64_t at_ms, int event_fd, bool *eintr);

#endif
