/* acquire.h - the one acquire loop, pure: what to do next, given what happened. No clock, no socket, no thread in it.
 *
 *   LINE   wait for the turn in the process's line      ASK   send acquire(h), tell me the answer
 *   JOIN   join the lock's channel                       PARK  sleep until something is heard, or until `until_ms`
 *   FINISH leave with `status`
 *
 * Every ASK comes after the subscription was confirmed, or before anything could be missed: a message that came
 * between an answer and the sleep is remembered, a subscription that is confirmed anew asks again. */
#ifndef HLK_SYNC_ACQUIRE_H
#define HLK_SYNC_ACQUIRE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define HLK_POLL_MOST_MS 30000      /* a waiter that hears nothing asks at least so often */
#define HLK_POLL_JITTER_MS 20
#define HLK_POLITE_MS 2             /* some round trips: a waiter elsewhere hears of the release and asks */

enum hlk_do { HLK_DO_LINE, HLK_DO_ASK, HLK_DO_JOIN, HLK_DO_PARK, HLK_DO_FINISH };

enum hlk_happened {
    HLK_HAS_TURN,           /* first in line: speaks to Redis for the process */
    HLK_HAS_POLITE_TURN,    /* the same, but other processes are to have their chance first */
    HLK_IS_LINED,           /* somebody of this process is before us */
    HLK_IS_YOURS,           /* the answer: held */
    HLK_IS_STALE,           /* the answer was "yours", but came too late to count on */
    HLK_IS_BUSY,            /* the answer: somebody else holds it, with ttl */
    HLK_IS_VOID,            /* the answer: this hold id has ended (the caller has taken a new one) */
    HLK_JOINED,             /* in the channel, confirmation to come */
    HLK_HEARS,              /* the subscription is confirmed, or confirmed anew */
    HLK_HEARD,              /* a message */
    HLK_IS_TIME,            /* until_ms has come */
    HLK_IS_OVER             /* cancelled, closed, a fault: leave with this status */
};

enum hlk_cause { HLK_ASKED_FIRST, HLK_ASKED_BY_HEARING, HLK_ASKED_BY_MESSAGE, HLK_ASKED_BY_TIME };

struct hlk_acquire {
    int64_t deadline_ms;    /* INT64_MAX: none */
    bool once;              /* one try */
    bool joined, confirmed;
    bool heard;             /* while the question was on its way */
    bool asking;
    bool polite;            /* waits for others to ask first: our own release's message is no reason to hurry */
    bool answered;          /* it is known that others are before: by an answer, or by the line */
    enum hlk_cause cause;   /* of the last ASK */
    int64_t until_ms;       /* PARK: sleep no longer; LINE: the deadline */
    unsigned jitter_ms;     /* of this waiter's polls */
    enum hlk_status status; /* FINISH */
};

void hlk_acquire_init(struct hlk_acquire *a, int64_t deadline_ms, bool once, unsigned jitter_ms);

/* `ttl_ms` for IS_BUSY (< 0: no end), `status` for IS_OVER; else ignored. */
enum hlk_do hlk_acquire_step(struct hlk_acquire *a, enum hlk_happened what, int64_t now_ms, int64_t ttl_ms,
                             enum hlk_status status);

#endif
