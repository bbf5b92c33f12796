/* hold.h - one claim in Redis: its hold id, its lease, and its ticket in Redis' queue. It knows no thread, no nesting
 * and no local queue: those are the entry's (lease/entry.h), which embeds it. Guarded by the entry's mutex. */
#ifndef HLK_LEASE_HOLD_H
#define HLK_LEASE_HOLD_H

#include "lease/lease.h"
#include "net/loop.h"
#include "script/keys.h"

/* What an entry has from Redis is passed on within the process for a while; after that it goes to Redis' queue. From
 * busy_ms on: of permits only, for the decision whether the first waiter asks Redis. */
struct hlk_passing {
    int64_t got_ms;                     /* when the entry was acquired, and how often it was passed on since */
    unsigned passes;
    int64_t busy_ms;                    /* when the last answer BUSY came */
    int64_t passed_ms;                  /* when some were last passed on */
    int64_t in_use;                     /* how many are used here. A hint: others may release a semaphore's */
    int64_t waits;                      /* for how many the line waits */
    int64_t asks_ms;                    /* when the first waiter asks, by the alarm; 0: that is not set */
};

/* The ticket in Redis' queue, and what belongs to it. Made at the first wait, or for the first token. */
struct hlk_ticket {
    uint64_t h;                         /* of which hold; 0: none */
    struct hlk_member member;
    bool queued;                        /* an attempt that takes the ticket was sent, or is about to be: */
    int64_t first_ms;                   /* before the first such attempt was sent */
    int64_t lease_ms;
    bool fixed, fenced;
    int64_t noted_ttl_ms;               /* > 0: a grant that came before the reply to acquire(h) or release(h) */
    int64_t noted_granted_ms;           /* a time before the grant was written */
    int64_t noted_token;
    int64_t token, last_token;          /* of the hold, and the last of its block; 0: not fenced */
    struct hlk_passing passing;         /* stays from ticket to ticket */
};

/* It begins with the first attempt of its acquire, and ends with the answer to its release. */
struct hlk_hold {
    uint64_t id;                        /* 0: none yet. That of the last hold stays until the next one begins */
    struct hlk_lease lease;
    struct hlk_ticket *ticket;          /* NULL: never waited */
    struct hlk_alarm alarm;             /* for the lease. Fires on the loop; freed there only */
    unsigned written;                   /* how often it is held, by what Redis has */
    bool replicated : 1;                /* replicas have confirmed it */
    bool doubt : 1;                     /* an attempt of its acquire is in doubt */
    bool broken : 1;                    /* it was broken before the reply to its acquire arrived */
    bool batched : 1;                   /* a renewal of it is being written to the stream: no release may overtake it */
    bool passes : 1;                    /* it may be passed on to the line (pass_holds.c), */
    bool id_exposed : 1;                     /*   unless its id was told to a caller */
    bool drops : 1;                     /* its release may delete the number of permits */
    bool is_shared : 1;                 /* other entries may have the same hold (shared_hold.h) */
};

/* An attempt that takes h's ticket was sent, or is about to be. */
static inline bool hlk_hold_queued(const struct hlk_hold *hold, uint64_t h)
{
    return hold->ticket && hold->ticket->h == h && hold->ticket->queued;
}

/* A grant of h was noted, because it came too early. */
static inline bool hlk_hold_noted(const struct hlk_hold *hold, uint64_t h)
{
    return hold->ticket && hold->ticket->h == h && hold->ticket->noted_ttl_ms > 0;
}

#endif
