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
        struct hlk_handle *parent;         /* its descriptor reports these losses (api/member_handle.c) */
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
    struct hlk_entry *line;             /* leased permits, or NULL: permit_line.c. Referenced, and stays */
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
        struct hlk_list waiters;        /*   the local queue: waiters, of whom the first is the head waiter. Or, */
        struct hlk_list gone;           /*   without a reference: in the table's `gone`, under the table's mutex; */
    };
    struct hlk_hold hold;               /*   `h` in the functions below is a hold's id */
    uint8_t state : 3;                  /*   enum hlk_entry_state */
    bool unreported : 1;                /*   the holder's completion is not on its way yet */
    bool busy : 1;                      /*   the server's reply to the head waiter: held by another client. Stays,
                                         *   unless the wait ends by a grant */
    bool in_line : 1;                   /*   its first waiter is in the line, and does not ask (permit_line.c) */
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

/* The node's entry for locks of that name and format, made if necessary, with a reference for the caller. NULL: no
 * memory. */
struct hlk_entry *hlk_entry_get(struct hlk_node *node, const struct hlk_format *format, const char *name, size_t len);
/* The same, but never makes one: NULL if there is none. */
struct hlk_entry *hlk_entry_find(struct hlk_node *node, const struct hlk_format *format, const char *name, size_t len);
/* The same for a format with an entry for each holder. make false: never makes one. */
struct hlk_entry *hlk_entry_get_own(struct hlk_node *node, const struct hlk_format *format, const char *name,
                                    size_t len, uint64_t holder, bool make);
/* The entry that waits, or waited last, with this hold id. NULL: none. */
struct hlk_entry *hlk_entry_find_hold(struct hlk_node *node, uint64_t hold);
void hlk_entry_ref(struct hlk_entry *e);
bool hlk_entry_try_ref(struct hlk_entry *e);    /* loop thread: false when it is being freed */
void hlk_entry_unref(struct hlk_entry *e);      /* any thread */

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

/* For a holder that has the entry already: NESTED; RAISE, with the count after it and the hold id; LOST. QUEUED: the
 * holder does not have it. RAISE means that fixed_lease_ms is given, or that it is 0, for the watchdog, while the
 * hold's lease is fixed. */
enum hlk_enter hlk_entry_nest(struct hlk_entry *e, uint64_t holder, int64_t fixed_lease_ms, unsigned *count,
                              uint64_t *h);
enum hlk_enter hlk_entry_enter(struct hlk_entry *e, struct hlk_local_waiter *waiter);
/* After wake(): HEAD or QUEUED; ACQUIRED; NESTED, RAISE, DEADLOCK (its owner has acquired it meanwhile) or BUSY (once),
 * which leave the queue; LOST (its owner has acquired and lost it): the caller leaves. */
enum hlk_enter hlk_entry_check(struct hlk_entry *e, struct hlk_local_waiter *waiter);

/* Before the head waiter sends. *out is the same in all attempts of one hold id. queues: this attempt takes a ticket in
 * Redis' queue. NOMEM, or HEAD. */
enum hlk_enter hlk_entry_queue(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool queues,
                               struct hlk_member *out);
/* Before the head waiter sends again: WAITING -> ACQUIRING. False: it holds the lock meanwhile. */
bool hlk_entry_resend(struct hlk_entry *e, struct hlk_local_waiter *waiter);
/* The reply was "busy". doubt: an attempt of it is in doubt. True: a grant came before the reply, and it holds the
 * lock. */
bool hlk_entry_wait(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool doubt);
/* A grant: h holds the lock for ttl_ms, after its ticket was queued for waited_ms. False: no waiter needs it,
 * release(h) is due. */
bool hlk_entry_grant(struct hlk_entry *e, uint64_t h, int64_t ttl_ms, int64_t waited_ms, int64_t token);
/* A message for h: send again. */
void hlk_entry_retry(struct hlk_entry *e, uint64_t h);
/* The head waiter sends again, whatever its hold id. */
void hlk_entry_retry_head(struct hlk_entry *e);
/* The reply was "acquired"; its attempt was sent at sent_ms. False: too late to count on the lease, send again. */
bool hlk_entry_acquired(struct hlk_entry *e, struct hlk_local_waiter *waiter, int64_t sent_ms, int64_t token,
                        bool doubt);
/* Reports that waiter `winner` holds the lock: by the return of its call, or by `complete`, which queues its
 * completion. `complete` runs under the mutex, so no later holder is reported first. Then the waiters of the same
 * holder, and those with one try, check the entry again. */
void hlk_entry_report_acquired(struct hlk_entry *e, uint64_t winner, void (*complete)(void *ctx), void *ctx);
/* The reply said that h has a tombstone: the head waiter gets a new hold id. */
void hlk_entry_renumber(struct hlk_entry *e, struct hlk_local_waiter *waiter);
/* Leaves the local queue from any position; no-op when not in it. True: the caller must start release(h) and then call
 * hlk_entry_leave_finish; the state is RELEASING meanwhile. That is so when h has a ticket in Redis' queue that no
 * successor takes over, or when an attempt of the acquire may still run (in_flight). */
bool hlk_entry_leave(struct hlk_entry *e, struct hlk_local_waiter *waiter, bool in_flight);
/* Between the two: the record for release(h), with its ticket. A successor may leave before it has sent anything. */
void hlk_entry_release_record(struct hlk_entry *e, struct hlk_release_record *out);
void hlk_entry_leave_finish(struct hlk_entry *e);

/* The id of h is about to be told, so that nobody else may have this hold from now on. False: it is not held any more,
 * or somebody else has it. */
bool hlk_entry_show_hold(struct hlk_entry *e, uint64_t holder, uint64_t h);

/* --- the permits of a semaphore: pass_permits.c. The entry is the line in which calls of this process wait --- */

/* A call gives these permits back. True: the next call in line has them, and nothing is to be sent. False: send the
 * release. Nobody waits, or only one whose command is on its way; the next one needs another number; or it is the turn
 * of Redis' queue. */
bool hlk_entry_pass_permits(struct hlk_entry *e, int64_t permits);
/* A call of this process has so many from Redis. */
void hlk_entry_note_permits(struct hlk_entry *e, int64_t permits);
/* It gives so many back to Redis, without hlk_entry_pass_permits. */
void hlk_entry_note_given_back(struct hlk_entry *e, int64_t permits);
/* The alarm of an entry that is not held; its mutex is held. If its first waiter has not asked Redis yet, it does
 * now. */
void hlk_entry_ask_at_last(struct hlk_entry *e);
/* The same for a line of leased permits (permit_line.c), if nothing was passed on meanwhile. */
void hlk_permit_line_on_alarm(struct hlk_entry *line);
/* A new call need not wait in line: a command of the head waiter is on its way, and no answer was BUSY in the last
 * HLK_CONTENDED_MS. */
bool hlk_entry_may_try_permits(struct hlk_entry *e);

/* --- a round trip that raises a lease: lease/raise.h --- */
/* Before it is sent: it lengthens the time for which release(h) is repeated. False: h is no longer held, and nothing
 * may be sent. *end: the release record. */
bool hlk_entry_raise_begin(struct hlk_entry *e, uint64_t h, int64_t lease_ms, struct hlk_release_record *end);
/* It was acquired. watchdog: the hold had a fixed lease, and is renewed from now on until its last release. False: it
 * was lost before. */
bool hlk_entry_raise_done(struct hlk_entry *e, uint64_t h, unsigned count, int64_t sent_ms, int64_t lease_ms,
                          bool watchdog);
/* No attempt of it can run any more. ran: one ran. */
void hlk_entry_raise_settle(struct hlk_entry *e, uint64_t h, int64_t lease_ms, bool ran);
/* False: h is over. Its release was started, or could not be. */
bool hlk_entry_has_hold(struct hlk_entry *e, uint64_t h);
void hlk_entry_raise_undo(struct hlk_entry *e, uint64_t holder, uint64_t h);     /* it failed: one hold less */

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
    bool orphan;            /*   nobody will release it */
    int64_t known_ms;       /* when the attempt was sent whose reply was the last to confirm the hold; 0: none */
    unsigned count;
    int64_t permits;        /* of a semaphore: so many are taken by it */
    bool fenced, drops;
    int64_t short_hold_ms;           /* > 0: acquired through the queue just now, at most so much of its ttl is left */
    const char *why;            /* HLK_VERDICT_LOST: a literal */
    struct hlk_member member;   /* in doubt, after a wait: a late attempt may have taken this ticket again */
};

enum hlk_release_verdict hlk_entry_release(struct hlk_entry *e, uint64_t holder, struct hlk_release_record *out);
void hlk_entry_keep(struct hlk_entry *e);           /* after LAST, if no release could be started: held as before */
void hlk_entry_release_finish(struct hlk_entry *e); /* release(h) is in the stream, or stored: the next waiter sends */
/* While a release's completion is pending, completions of grants are held back, so that an owner's completions stay in
 * order. A release that is sent again may run after the acquire of the next waiter. */
void hlk_entry_release_unreported(struct hlk_entry *e);
void hlk_entry_release_reported(struct hlk_entry *e);

/* The release of h was not answered in time. It is kept for the holder's next call. False: no memory. */
bool hlk_entry_note_unsure(struct hlk_entry *e, struct hlk_holder holder, uint64_t h);
bool hlk_entry_is_unsure(struct hlk_entry *e, uint64_t holder);     /* there is one, settled or not */
/* no-op when h has no unsure release */
void hlk_entry_settle_unsure(struct hlk_entry *e, uint64_t h, enum hlk_status outcome);
/* Waits for an unsure release. HLK_E_UNSURE: still unsure at at_ms, and *h is its hold; or that is its outcome, and *h
 * is 0. */
enum hlk_status hlk_entry_wait_unsure(struct hlk_entry *e, uint64_t holder, struct hlk_thread *self, int64_t at_ms,
                                      uint64_t *h);

/* --- losing --- */

/* Locks the entry's mutex if h is held and its lease is not over. False: not locked. A hold whose lease is over by the
 * clock is lost at once, whatever reply has arrived: another call may have returned LOST by the same clock. */
bool hlk_entry_lock_held(struct hlk_entry *e, uint64_t h);

/* If h is still held, it is lost: reported, then released (lease/hold_end.h). */
void hlk_entry_lose(struct hlk_entry *e, uint64_t h, const char *why);
/* The same, with the entry's mutex held. Unlocks it. */
void hlk_entry_lose_locked(struct hlk_entry *e, const char *why);
/* The same for a hold of an entry that belongs to one holder. */
void hlk_entry_lose_own(struct hlk_node *node, uint64_t h, const char *why);
/* The first half. True: the caller must start the release and then call hlk_entry_release_finish. */
bool hlk_entry_lose_begin(struct hlk_entry *e, uint64_t h, const char *why, struct hlk_release_record *out);

/* The call that acquired it fails, so no caller will release it: takes back the holder's hold. The release of the last
 * hold follows in the background. */
void hlk_entry_give_back(struct hlk_entry *e, uint64_t holder);

/* For a release, after HLK_VERDICT_LAST: the handle through which the hold was acquired, with a reference. The second
 * one reports that the server no longer had the hold when the release ran; `handle` may be NULL. */
struct hlk_handle *hlk_entry_handle(struct hlk_entry *e);
void hlk_entry_report_gone(struct hlk_entry *e, uint64_t h, const struct hlk_handle *handle, const char *why);

/* batched: a renewal is being written to the stream, and releases wait for that. The entry's mutex is held. */
void hlk_entry_batch(struct hlk_entry *e, bool batched);

/* The client is being closed. True: it was held, the caller must start release(h) and then call
 * hlk_entry_release_finish. *ending: another thread is releasing it and has not called hlk_entry_release_finish yet.
 * Its release may not be in the stream, and the entry may become held again (hlk_entry_keep). */
bool hlk_entry_close(struct hlk_entry *e, struct hlk_release_record *out, bool *ending);
void hlk_entry_forget(struct hlk_entry *e);     /* drops the ended holds: no call will read them */

/* Reports AT_RISK or SAFE. The entry's mutex is held. */
void hlk_entry_notify(struct hlk_entry *e, int kind, const char *why);

/* The holder's thread has ended without a release: renewal stops, and that is reported. Nothing in Redis is
 * released. */
void hlk_entry_orphan(struct hlk_entry *e, uint64_t holder);

/* --- commands: local, any thread --- */
struct hlk_view {
    unsigned count;
    uint64_t h;
    int64_t until_ms, cap_ms, token;
    bool lost, replicated;
    const char *why;
};
/* Enough replicas have h. */
void hlk_entry_note_replicated(struct hlk_entry *e, uint64_t h);
void hlk_entry_view(struct hlk_entry *e, uint64_t holder, struct hlk_view *out);
/* The holder in this process: */
struct hlk_local_holder {
    bool held, orphaned;
    bool busy;              /* no holder here, but the server has said that another client holds it */
    int64_t until_ms;
    struct hlk_handle *handle;    /* through which it was acquired, with a reference. NULL: not held, or lost */
};
void hlk_entry_local_holder(struct hlk_entry *e, struct hlk_local_holder *out);

#endif
