/* acquire_machine.h - the acquire state machine, pure: an event goes in, the next action comes out. No clock, no
 * socket, no thread.
 *
 *   QUEUE   wait in the local queue               SEND    send acquire(h), report its reply
 *   JOIN    join the client's inbox               PARK    sleep until an event, or until `until_ms`
 *   CONFIRM    begin to confirm the hold by replicas, and sleep until its outcome, or until `until_ms`
 *   SUBSCRIBE  join the channel of foreign clients   FINISH  leave with `status`
 *
 * A machine that polls uses neither JOIN nor SUBSCRIBE. After each reply "busy" it parks for a pause
 * (hlk_acquire_machine_pauses) and sends again. Others make these pauses only while they are first in Redis' queue and
 * the reply says that the holder sends no message when it releases.
 *
 * Once the inbox is confirmed, a SEND takes a ticket in Redis' queue; for a fair lock the first SEND takes one. If the
 * reply says that a foreign client will publish the release, the machine subscribes and sends once more. A message
 * between a reply and the sleep is remembered. A subscription that is confirmed again makes it send again. */
#ifndef HLK_WAIT_ACQUIRE_MACHINE_H
#define HLK_WAIT_ACQUIRE_MACHINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define HLK_POLL_MAX_MS 30000      /* a waiter without messages sends at least so often; */
/* the first HLK_POLL_RANKS in Redis' queue so often: a waiter before them may be stopped, and its grant expires after
 * HLK_GRANT_MS */
#define HLK_POLL_NEAR_MS 5000
#define HLK_POLL_RANK_MS 20         /* each further position waits so much longer before it sends */
#define HLK_POLL_RANKS 50
#define HLK_POLL_JITTER_MS 20
#define HLK_POLL_OWN_MS 50          /* one try, or one that polls, when the server refuses a release of its own
                                     * process */

enum hlk_acquire_action {
    HLK_ACQUIRE_DO_QUEUE, HLK_ACQUIRE_DO_SEND, HLK_ACQUIRE_DO_JOIN, HLK_ACQUIRE_DO_SUBSCRIBE, HLK_ACQUIRE_DO_PARK,
    HLK_ACQUIRE_DO_CONFIRM, HLK_ACQUIRE_DO_LEAVE, HLK_ACQUIRE_DO_FINISH
};

enum hlk_acquire_event {
    HLK_ACQUIRE_ON_HEAD,            /* the head waiter: sends for the process */
    HLK_ACQUIRE_ON_QUEUED,          /* another waiter of this process is before it */
    HLK_ACQUIRE_ON_ACQUIRED,        /* the reply: acquired */
    HLK_ACQUIRE_ON_STALE,           /* the reply was "acquired", but too late to count on */
    HLK_ACQUIRE_ON_BUSY,            /* the reply: another holder has it, see struct hlk_busy */
    HLK_ACQUIRE_ON_RELEASING,       /* the reply: held by a hold of this process whose release is pending */
    HLK_ACQUIRE_ON_TOMBSTONE,       /* the reply: this hold id has a tombstone (the caller has taken a new one) */
    HLK_ACQUIRE_ON_JOINED,          /* joined the inbox or channel, not confirmed yet */
    HLK_ACQUIRE_ON_SUBSCRIBED,      /* the subscription is confirmed, for the first time or again */
    HLK_ACQUIRE_ON_MESSAGE,         /* a message */
    HLK_ACQUIRE_ON_TIME,            /* until_ms is reached */
    HLK_ACQUIRE_ON_CONFIRMED,       /* replicas have the hold */
    HLK_ACQUIRE_ON_UNCONFIRMED,     /* too few of them do */
    HLK_ACQUIRE_ON_ABORT             /* cancelled, closed, a fault: leave with this status */
};

enum hlk_cause { HLK_CAUSE_FIRST, HLK_CAUSE_SUBSCRIBED, HLK_CAUSE_MESSAGE, HLK_CAUSE_TIME };

struct hlk_busy {           /* a reply "busy" */
    int64_t ttl_ms;         /* < 0: without end */
    int64_t position;       /* its position in Redis' queue; < 0: not queued */
    bool mixed;             /* waiters of another kind of this name, which do not wake those of this one */
    bool foreign;           /* only a foreign client's message, not the inbox, will report the release */
    bool silent;            /* its holder sends no message when it releases: the first waiter polls */
};

struct hlk_acquire_machine {
    int64_t deadline_ms;    /* INT64_MAX: none */
    bool once;              /* one try */
    bool joined;            /* the inbox */
    bool subscribes;        /* in the channel of foreign clients */
    bool message_pending;   /* arrived while the command was in flight */
    bool asking;
    bool saw_end;           /* a reply RELEASING */
    bool answered;          /* the server has said that another holder has the lock, or is before it */
    bool queued_locally;    /* other waiters of this process are or were before it */
    enum hlk_cause cause;   /* of the last SEND */
    int64_t until_ms;       /* PARK: sleep until then; QUEUE: the deadline */
    unsigned jitter_ms;     /* of this waiter's polls */
    bool polls;             /* behind each holder, without subscriptions; else only behind a silent one */
    int64_t backoff_ms;     /* the next pause without jitter */
    int64_t backoff_min_ms, backoff_max_ms;
    unsigned pauses, random;
    int64_t confirm_ms;     /* a hold is to be confirmed within so long; 0: it need not be */
    bool confirming;        /* it is held, and waits for that: events of the wait before mean nothing any more */
    bool leaving;           /* it ends with `status`, unless the answer to its leave, or to what is in flight, is that
                             * it has got what it waited for */
    enum hlk_status status; /* FINISH */
};

void hlk_acquire_machine_init(struct hlk_acquire_machine *a, int64_t deadline_ms, bool once, unsigned jitter_ms);

/* After init. The pauses of polls begin with min_ms and double up to max_ms; behind the next silent holder they begin
 * again. Each is longer by a random number of ms, less than the number of pauses so far and than HLK_POLL_JITTER_MS. A
 * pause never exceeds the holder's ttl by more. */
void hlk_acquire_machine_pauses(struct hlk_acquire_machine *a, int64_t min_ms, int64_t max_ms, unsigned seed);

/* Instead of FINISH: it asks how the wait has ended, until at_ms. in_flight: an attempt is not answered yet. */
enum hlk_acquire_action hlk_acquire_machine_leave(struct hlk_acquire_machine *a, int64_t at_ms, bool in_flight);

/* `busy` is for ON_BUSY, `status` for ON_ABORT; else they are ignored. */
enum hlk_acquire_action hlk_acquire_machine_step(struct hlk_acquire_machine *a, enum hlk_acquire_event what,
                                                 int64_t now_ms, const struct hlk_busy *busy, enum hlk_status status);

#endif
