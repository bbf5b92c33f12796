/* park.h - how a thread of ours sleeps, and how another wakes it: one word of bits, set by wakers, taken by the
 * sleeper.
 *
 * A waker sets its bit and, only if the sleeper really sleeps, pays one system call. The sleeper goes to sleep only
 * when no bit it wants is set, in one step with saying so: no wake-up is lost, none is paid twice. Sleeping is done
 * in a semaphore, or, when the sleeper polls descriptors too (the leader of a connection), in poll with `poll_fd`
 * among them. */
#ifndef HLK_BASE_PARK_H
#define HLK_BASE_PARK_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HLK_WAKE_REPLY   0x01u      /* the answer to this thread's command is there */
#define HLK_WAKE_LEAD    0x02u      /* this thread leads the shared connection now */
#define HLK_WAKE_UP      0x04u      /* the connection is up, or it is known why not */
#define HLK_WAKE_TURN    0x08u      /* first in the process's line for a lock, or it holds it by now */
#define HLK_WAKE_MESSAGE 0x10u      /* the lock's channel spoke, or the inbox: ask */
#define HLK_WAKE_HEARING 0x20u      /* the subscription is confirmed, or confirmed anew */
#define HLK_WAKE_DEAF    0x40u      /* the subscription was refused */
#define HLK_WAKE_CANCEL  0x80u      /* the wait's cancel object was triggered */
#define HLK_WAKE_CLOSED  0x100u     /* the client is being closed */
#define HLK_WAKE_SETTLED 0x200u     /* an end that this thread waits for has its outcome */
#define HLK_WAKE_READ    0x400u     /* the right to read the subscriber connection is this thread's, or wanted back */
#define HLK_WAKE_ALL     0x7ffu
#define HLK_PARK_ASLEEP  0x80000000u    /* internal: the sleeper sleeps; whoever clears it pays the wake-up */

#define HLK_PARK_NOWHERE (-2)

struct hlk_park {
    atomic_uint bits;
    atomic_int poll_fd;             /* >= 0: woken by a write here. Set by the sleeper before it sleeps; a waker that
                                     * comes late may pay to the next sleep's place: one wake-up too many, none lost.
                                     * HLK_PARK_NOWHERE: awake again, and needs none */
    atomic_uint paying;             /* who may be writing there: the sleeper waits for them before it lets go of it */
    sem_t sem;
};

void hlk_park_init(struct hlk_park *park);

/* Any thread, never blocks. A waker in two steps: the bit, and, for the park that set answers if its sleeper sleeps
 * (else NULL), the system call. Whoever is woken may run at once, in the waker's place: so a waker that holds a mutex
 * which the woken needs pays after it has unlocked it. Parks live as long as the process (base/self.c). */
struct hlk_park *hlk_park_set(struct hlk_park *park, unsigned bit);
void hlk_park_pay(struct hlk_park *park);           /* NULL is fine */
static inline void hlk_park_wake(struct hlk_park *park, unsigned bit) { hlk_park_pay(hlk_park_set(park, bit)); }

/* The sleeper's own: */
static inline unsigned hlk_park_peek(struct hlk_park *park, unsigned mask) { return atomic_load(&park->bits) & mask; }
static inline unsigned hlk_park_take(struct hlk_park *park, unsigned mask)
{
    return atomic_fetch_and(&park->bits, ~mask) & mask;
}

/* Declares sleep; false: a bit of mask is set already, do not sleep. */
bool hlk_park_begin(struct hlk_park *park, unsigned mask);
/* After waking up for whatever reason. True: nobody had paid a wake-up. */
bool hlk_park_end(struct hlk_park *park);
/* The same after a sleep at poll_fd. Nobody writes there any more when this returns: it may be closed, and its number
 * another file's. */
void hlk_park_end_poll(struct hlk_park *park);

/* Sleeps until a bit of mask is set (true) or at_ms has come (false). eintr != NULL: sleeps in poll, and a signal
 * handler that ran ends the sleep with *eintr set. A pthread cancellation point where cancellation is enabled. */
bool hlk_park_until(struct hlk_park *park, unsigned mask, int64_t at_ms, int event_fd, bool *eintr);

#endif
