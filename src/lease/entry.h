/* entry.h - the lock entry: this process and one lock. It embeds what the process has with Redis for that lock, which
 * is nothing or one hold (lease/hold.h), and has the local queue, the holder and the nesting count.
 *
 * Redis sees one hold at a time. Threads, owners and handles exist only in here. Only the head waiter, the first in the
 * local queue, sends commands about the lock. All other waits of the process queue behind it.
 *
 *   NONE       nothing with Redis.                                        Next: ACQUIRING
 *   ACQUIRING  the head waiter's acquire(h) is in flight.                 Next: HELD, WAITING, RELEASING, NONE
 *   WAITING    another client holds it; h has a ticket.                   Next: HELD, ACQUIRING, RELEASING, NONE
 *   HELD       field h in Redis is ours, `holder` has it `count` times.   Next: RELEASING
 *   RELEASING  entered before release(h) is written: no renewal, no       Next: NONE; HELD (no memory for the release:
 *              nesting; new waiters wait for NONE.                        nothing was sent)
 *
 * An entry that is HELD is passed from holder to holder of this process without a command to Redis, for a while. A
 * grant is a message of the client elsewhere that released the lock. It makes the entry HELD for the head waiter of
 * that moment.
 *
 * A function takes the entry's mutex itself unless its comment says otherwise. Nothing here does I/O or runs user
 * code. */
#ifndef HLK_LEASE_ENTRY_H
#define HLK_LEASE_ENTRY_H

#include "base/error.h"
#include "base/map.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "lease/events.h"
#include "lease/hold.h"
#include "node/node.h"

#define HLK_GRANT_MS 5000       /* G: the longest ttl that a grant gives to a wait under the watchdog */
#define HLK_SHORT_HOLD_MS 20    /* wait and hold together took no longer: brief in lua/lock_release.lua */
#define HLK_CONTENDED_MS 20     /* for so long after an answer BUSY permits count as short: acquires wait in line */
#define HLK_PASS_MS 5           /* an entry is passed on locally for so long, then Redis' queue has its turn */

struct hlk_entry_table;
struct hlk_format;
struct hlk_entry;
struct hlk_release_record;
struct hlk_lost_end;

enum hlk_entry_state {
    HLK_ENTRY_NONE,
    HLK_ENTRY_ACQUIRING,
    HLK_ENTRY_WAITING,
    HLK_ENTRY_HELD,
    HLK_ENTRY_RELEASING
};

/* The holder inside the process: a thread or an owner. Its number is never used again. */
struct hlk_holder {
    uint64_t id;
    atomic_uint *holds;                 /* entries it holds; lives as long as the holder */
};

/* The handle through which a hold was acquired: a loss is reported to it. */
struct hlk_handle {
    atomic_int refs;
    struct hlk_callback callback;
    void (*free)(struct hlk_handle *handle);
    /* The table's, shared by all handles because losses are rare. Rank LEAF; guards lost_fd and lost. NULL: it has a
     * parent. */
    struct hlk_mutex *mu;
    union {
        struct {
            int lost_fd;                /* -1: not created yet */
            unsigned lost;              /* holds lost through it and not released yet. Readable while > 0 */
        };
        struct hlk_handle *parent;         /* its descriptor reports these losses (handle/member_handle.c) */
    };
};

/* The user's handle. NULL for NULL. */
static inline const struct hlk_handle *hlk_handle_root(const struct hlk_handle *handle)
{
    while (handle && !handle->mu)
        handle = handle->parent;
    return handle;
}

/* NULL is fine. */
static inline void hlk_handle_retain(struct hlk_handle *handle)
{
    if (handle)
        atomic_fetch_add(&handle->refs, 1);
}
static inline void hlk_handle_release(struct hlk_handle *handle)
{
    if (handle && atomic_fetch_sub(&handle->refs, 1) == 1)
        handle->free(handle);
}

/* One wait in the local queue. */
struct hlk_local_waiter {
    struct hlk_list link;               /* under the entry's mutex, like h */
    struct hlk_holder holder;
    struct hlk_handle *handle;
    int64_t lease_ms, max_hold_ms;
    int64_t floor;                      /* fenced: tokens are larger than this */
    uint64_t h;                         /* != 0: it is the head waiter, with this hold id */
    bool fixed;                         /* lease_ms is not renewed */
    bool fenced;
    bool drops;                         /* leased permits: the release of its hold may delete their number */
    int64_t permits;                    /* of a semaphore: how many it takes; 0: a lock */
    bool no_nesting;                    /* a nested acquire is refused: HLK_ENTER_DEADLOCK */
    bool shares;                        /* it may have a hold that others of the process have too (shared_hold.h) */
    bool once;                          /* one try: does not wait, but is woken when the head waiter has its reply */
    bool completes;                     /* reported by a completion: its owner's later waits stay behind it */
    bool got;                           /* holds the lock and has left the queue */
    bool tried;                         /* it has asked for permits before, without a ticket: BUSY */
    bool passed;                        /* got: permits that another call has given back, and no hold */
    bool owes;                          /* passed, and its ticket has to be ended: release(h), hlk_entry_leave_finish */
    struct hlk_entry *line;             /* leased permits: that of the waits for as many of them. NULL: none */
    struct hlk_entry *entry;            /* in which it waits, while it is */
    struct hlk_list in_line;            /* of line->waiters, instead of asking Redis */
    /* Any thread, under the entry's mutex: only wakes. HLK_WAKE_QUEUE: check the entry; _MESSAGE: send again. Pass its
     * result to hlk_park_wake_signalled (base/park.h). */
    struct hlk_park *(*wake)(struct hlk_local_waiter *waiter, unsigned bit);
};

/* The ticket of an entry that belongs to one holder. A message concerns one of many such entries, and names its
 * hold. */
struct hlk_own_ticket {
    struct hlk_ticket ticket;
    struct hlk_entry *entry;
    struct hlk_entry *line;             /* leased permits, or NULL: line.c. Referenced, and stays */
    int64_t since_ms;                   /*   since when the holder has the hold */
    int64_t short_hold_ended_ms;        /*   of a line: when the last hold ended that was shorter than HLK_PASS_MS */
    struct hlk_map_node link;           /* in the node's holds, if link.key is set; under the table's mutex, like
                                         * hold */
    uint64_t hold;
};

/* A hold that is over, with what was not reported to its holder yet. */
struct hlk_ended_hold {
    struct hlk_ended_hold *next;
    uint64_t holder, h;
    /* Releases that are due before the holder may acquire again (LOST). 0: this is an unsure release */
    unsigned releases;
    struct hlk_handle *handle;
    const char *why;                    /* of a loss; a literal */
    struct hlk_lost_end *end;           /* its release, which waits for the holder's; referenced. NULL: no memory */
    struct hlk_holder counted;          /* the holder whose `holds` counts it */
    bool settled;                       /* the unsure release is answered: */
    enum hlk_status outcome;
    struct hlk_thread *waiter;            /* the thread that waits for it, or NULL */
};

struct hlk_entry {
    struct hlk_map_node link;           /* in node->entries, under the table's mutex; link.key is the lock's name */
    struct hlk_node *node;              /* the node that keeps the lock */
    struct hlk_mutex *mu;               /* one of the table's stripes, rank ENTRY; guards: */
    union {
        struct hlk_list waiters;        /*   the local queue: waiters, of which the first is the head waiter. Or, */
        struct hlk_list gone;           /*   without a reference: in the table's `gone`, under the table's mutex; */
    };
    struct hlk_hold hold;               /*   `h` in the functions below is a hold's id */
    uint8_t state : 3;                  /*   enum hlk_entry_state */
    bool unreported : 1;                /*   the holder's completion is not on its way yet */
    bool busy : 1;                      /*   the server's reply to the head waiter: held by another client. Stays,
                                         *   unless the wait ends by a grant */
    bool in_line : 1;                   /*   its first waiter is in the line, and does not ask (line.c) */
    bool is_line : 1;                   /*   it is such a line: its waiters are linked by in_line */
    uint8_t : 0;                        /* set at creation, then read-only: */
    uint8_t format : 5;                 /*   its number in the table's formats */
    bool per_holder : 1;                /*   it belongs to one holder; each holder has its own */
    uint16_t releases_unreported;       /* under the mutex: releases whose completion is still pending, */
    unsigned count;                     /*   how often holder has it, */
    struct hlk_holder holder;
    struct hlk_handle *handle;          /*   and through which handle it was acquired */
    struct hlk_ended_hold *ended_hold;
    struct hlk_entry *next;             /* in node->due: loop thread only */
    atomic_int refs;
    bool is_due;                        /* in node->due: loop thread only */
    char name[];                        /* link.key. It begins in what would be padding */
};

/* The ticket of an entry that belongs to one holder, or NULL; and its line. */
static inline struct hlk_own_ticket *hlk_entry_own_ticket(const struct hlk_entry *e)
{
    return e->per_holder && e->hold.ticket ? HLK_CONTAINER(e->hold.ticket, struct hlk_own_ticket, ticket) : NULL;
}
static inline struct hlk_entry *hlk_entry_line(const struct hlk_entry *e)
{
    const struct hlk_own_ticket *own = hlk_entry_own_ticket(e);
    return own ? own->line : NULL;
}

static inline const char *hlk_entry_name(const struct hlk_entry *e) { return e->name; }
static inline size_t hlk_entry_len(const struct hlk_entry *e)
{
    /* behind the name: a NUL and the format's letter, if it has one; and the holder */
    return e->link.len - (e->format ? 2 : 0) - (e->per_holder ? sizeof(uint64_t) : 0);
}

/* --- acquiring --- */

enum hlk_enter {
    HLK_ENTER_NESTED,       /* this holder has it: one hold more, nothing to send */
    /* the same, but a round trip must raise the lease: hlk_entry_raise_done or hlk_entry_raise_undo follows */
    HLK_ENTER_RAISE,
    HLK_ENTER_LOST,         /* this holder has a lost hold, which it must release first */
    HLK_ENTER_DEADLOCK,     /* this holder has it, and waiter->no_nesting: nothing has changed */
    HLK_ENTER_BUSY,         /* waiter->once, and another holder of this process has it or waits for it */
    HLK_ENTER_HEAD,         /* waiter is the head waiter: waiter->h */
    HLK_ENTER_QUEUED,       /* waiter is in the local queue: wake() follows, then hlk_entry_check */
    HLK_ENTER_ACQUIRED,     /* only from hlk_entry_check: waiter holds the lock and has left the queue */
    HLK_ENTER_NOMEM
};

/* --- releasing --- */

enum hlk_release_verdict {
    HLK_VERDICT_NOT_HOLDER,
    HLK_VERDICT_LOST,           /* it was lost; this release is counted off */
    HLK_VERDICT_NESTED,         /* an outer hold remains, nothing to send */
    HLK_VERDICT_WRITE,          /* the same, but Redis has a larger count: *count is to be written */
    HLK_VERDICT_LAST,           /* start release(h), then call hlk_entry_release_finish; RELEASING meanwhile */
    HLK_VERDICT_PASSED,         /* the next waiter of this process holds it now, nothing to send */
    HLK_VERDICT_UNSURE            /* an earlier release is still unsure: hlk_entry_wait_unsure */
};

struct hlk_release_record {        /* what a release needs to know of its hold */
    uint64_t h;
    bool doubt;
    int64_t until_ms;       /* Redis' ttl is over by then */
    int64_t kept_until_ms;  /* of a lost hold: its holder may still be at work until then */
    bool orphan;            /*   no caller will release it */
    bool was_shared;        /*   it was shared (shared_hold.h): released at kept_until_ms, and not before, */
    bool has_others;        /*   but not yet: other entries have it; */
    bool spreads;           /*   and these lose it now too */
    int64_t known_ms;       /* when the attempt was sent whose reply was the last to confirm the hold; 0: none */
    unsigned count;
    int64_t permits;        /* of a semaphore: so many are taken by it */
    bool fenced, drops;
    int64_t short_hold_ms;           /* > 0: acquired through the queue just now, at most so much of its ttl is left */
    const char *why;            /* HLK_VERDICT_LOST: a literal */
    struct hlk_member member;   /* in doubt, after a wait: a late attempt may have taken this ticket again */
};

/* --- commands: local, any thread --- */
struct hlk_view {
    unsigned count;
    uint64_t h;
    int64_t until_ms, cap_ms, token;
    int64_t lease_ms;       /* what the acquire of such a hold asks for: its fixed lease, or HLK_RENEWED. Of a multilock
                             * whose members differ 0: what their handles say */
    bool lost, replicated;
    const char *why;
};
/* The holder in this process: */
struct hlk_local_holder {
    bool held, orphaned;
    bool busy;              /* no holder here, but the server has said that another client holds it */
    int64_t until_ms;
    struct hlk_handle *handle;    /* through which it was acquired, with a reference. NULL: not held, or lost */
};

#endif
