/* wait_for.h - what an operation under way waits for, and what its events wake.
 *
 * An operation is a step function: it handles what has happened, sends what is to be sent, and says what to wait for
 * next. It never sleeps. Its driver waits: a blocked thread, or completions (acquire/async_driver.h). */
#ifndef HLK_WAIT_WAIT_FOR_H
#define HLK_WAIT_WAIT_FOR_H

#include "base/debug.h"
#include "base/thread.h"

#include <stdint.h>

#define HLK_WAKE_TIME 0x1000u   /* until_ms has come, as far as the driver knows */

/* Events are bits (base/park.h) and hints: a step checks the cause. */
#define HLK_WAKE_LEAVE (HLK_WAKE_CANCEL | HLK_WAKE_CLOSED)

enum hlk_wait_what {
    HLK_WAIT_START,             /* nothing yet */
    HLK_WAIT_REPLY,             /* the reply to the attempt in flight */
    HLK_WAIT_CONNECTION,        /* the server is connected, or enough of several are */
    HLK_WAIT_PAUSE,             /* until_ms has come. For example, the server has refused the command for now */
    HLK_WAIT_QUEUE,             /* it becomes the head waiter, or holds the lock */
    HLK_WAIT_MESSAGES,          /* a message or a subscription, or it holds the lock */
    HLK_WAIT_REPLICAS,          /* replicas confirm the hold */
    HLK_WAIT_DONE               /* nothing any more */
};

struct hlk_wait_for {
    enum hlk_wait_what what;    /* cancel and close end each of them */
    int64_t until_ms;           /* then the driver reports that its time is over; INT64_MAX: never */
};

/* What an event wakes: a blocked thread, or an operation without one. */
struct hlk_waker {
    struct hlk_thread *thread;  /* NULL: none, and `wake` is called */
    void (*wake)(struct hlk_waker *waker, unsigned bit);    /* any thread, under any mutex of rank below POST */
};

static inline void hlk_waker_wake(struct hlk_waker *waker, unsigned bit)
{
    HLK_DEBUG_ASSERT(waker->thread || waker->wake);
    if (waker->thread)
        hlk_park_wake(&waker->thread->park, bit);
    else
        waker->wake(waker, bit);
}

#endif
