/* acquire.h - the one acquire loop, pure: what to do next, given what happened. No clock, no socket, no thread in it.
 *
 *   LINE   wait for the turn in the process's line      ASK   send acquire(h), tell me the answer
 *   JOIN   join the client's inbox                       PARK  sleep until something is heard, or until `until_ms`
 *   HARK   join the lock's channel                       FINISH leave with `status`
 *
 * A place in Redis' queue is taken by an ASK after the inbox was confirmed (of a fair lock: the waiter's own channel);
 * who finds a foreign client's hold harks, and asks once more. A message that came between an answer and the sleep is
 * remembered, a subscription that is confirmed anew asks again. */
#ifndef HLK_SYNC_ACQUIRE_H
#define HLK_SYNC_ACQUIRE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define HLK_POLL_MOST_MS 30000      /* a waiter that hears nothing asks at least so often; */
/* and the first HLK_POLL_RANKS in Redis' queue so often: the one before may have been stopped, and a grant to it is
 * over then (HLK_GRANT_MS) */
#define HLK_POLL_NEAR_MS 5000
#define HLK_POLL_RANK_MS 20         /* those behind the first leave it so much time to ask */
#define HLK_POLL_RANKS 50
#define HLK_POLL_JITTER_MS 20

enum hlk_do { HLK_DO_LINE, HLK_DO_ASK, HLK_DO_JOIN, HLK_DO_HARK, HLK_DO_PARK, HLK_DO_FINISH };

enum hlk_happened {
    HLK_HAS_TURN,           /* first in line: speaks to Redis for the process */
    HLK_IS_LINED,           /* somebody of this process is before us */
    HLK_IS_YOURS,           /* the answer: held */
    HLK_IS_STALE,           /* the answer was "yours", but came too late to count on */
    HLK_IS_BUSY,            /* the answer: somebody else holds it, see struct hlk_busy */
    HLK_IS_VOID,            /* the answer: this hold id has ended (the caller has taken a new one) */
    HLK_JOINED,             /* in the inbox or channel, confirmation to come */
    HLK_HEARS,              /* the subscription is confirmed, or confirmed anew */
    HLK_HEARD,              /* a message */
    HLK_IS_TIME,            /* until_ms has come */
    HLK_IS_OVER             /* cancelled, closed, a fault: leave with this status */
};

enum hlk_cause { HLK_ASKED_FIRST, HLK_ASKED_BY_HEARING, HLK_ASKED_BY_MESSAGE, HLK_ASKED_BY_TIME };

struct hlk_busy {           /* an answer "somebody else's" */
    int64_t ttl_ms;         /* < 0: no end */
    int64_t place;          /* so many are before it in Redis' queue; < 0: it is not in it */
    bool foreign;           /* only the lock's channel will say when it is free */
};

struct hlk_acquire {
    int64_t deadline_ms;    /* INT64_MAX: none */
    bool once;              /* one try */
    bool fair;              /* polls when the answer said; JOIN is the waiter's own channel */
    bool joined;            /* the inbox, or that channel */
    bool harks;             /* at the lock's channel */
    bool heard;             /* while the question was on its way */
    bool asking;
    bool answered;          /* it is known that others are before: by an answer, or by the line */
    enum hlk_cause cause;   /* of the last ASK */
    int64_t until_ms;       /* PARK: sleep no longer; LINE: the deadline */
    unsigned jitter_ms;     /* of this waiter's polls */
    enum hlk_status status; /* FINISH */
};

void hlk_acquire_init(struct hlk_acquire *a, int64_t deadline_ms, bool once, unsigned jitter_ms);

/* `busy` for IS_BUSY, `status` for IS_OVER; else ignored. */
enum hlk_do hlk_acquire_step(struct hlk_acquire *a, enum hlk_happened what, int64_t now_ms,
                             const struct hlk_busy *busy, enum hlk_status status);

#endif
