/* session.h - what this process has with Redis for one lock: nothing, or one hold id; and who of the process is in
 * line.
 *
 * Redis sees one hold at a time; threads, owners and handles exist in here only. Exactly one wait of the process
 * speaks to Redis about a lock (the asker, first in line); the others wait for their turn behind it, however many
 * they are.
 *
 *   NONE     nothing with Redis.                                   Next: ASKING
 *   ASKING   the asker's acquire(h) is on its way.                 Next: HELD, WAITING, ENDING, NONE
 *   WAITING  somebody outside holds it; h is in Redis' queue.      Next: HELD, ASKING, ENDING, NONE
 *   HELD     field h in Redis is ours, `holder` has it `count` times.   Next: ENDING
 *   ENDING   entered before end(h) is written: no renewal, nobody gets in; newcomers wait for NONE. Next: NONE;
 *            HELD (no memory for the end: nothing was sent)
 *
 * A session that is HELD goes from holder to holder of this process without a word to Redis, for a while; a grant, a
 * message from whoever released it elsewhere, makes it HELD for the first in line, whoever that is by then.
 *
 * All functions but those that say so take the session's mutex themselves. Nothing here does I/O or runs user code. */
#ifndef HLK_LEASE_SESSION_H
#define HLK_LEASE_SESSION_H

#include "base/error.h"
#include "base/map.h"
#include "base/mutex.h"
#include "base/self.h"
#include "lease/events.h"
#include "lease/lease.h"
#include "net/loop.h"
#include "script/keys.h"

#define HLK_GRANT_MS 5000       /* G: the longest ttl that a grant gives to a wait under the watchdog */
#define HLK_PASS_MS 5           /* a session goes from thread to thread for so long, then Redis' queue has its turn */

struct hlk_table;
struct hlk_session;
struct hlk_parting;

enum hlk_session_state {
    HLK_SESSION_NONE,
    HLK_SESSION_ASKING,
    HLK_SESSION_WAITING,
    HLK_SESSION_HELD,
    HLK_SESSION_ENDING
};

/* Who holds, inside the process: a thread or an owner, by a number that is never used again. */
struct hlk_holder {
    uint64_t id;
    atomic_uint *holds;                 /* sessions it holds; lives as long as the holder */
};

/* The handle a hold was taken through: told when it is lost. */
struct hlk_via {
    atomic_int refs;
    struct hlk_hook hook;
    void (*free)(struct hlk_via *via);
    /* The table's for all handles, losses are rare; rank LEAF; guards lost_fd and lost. NULL: it has a parent. */
    struct hlk_mutex *mu;
    union {
        struct {
            int lost_fd;                /* -1: nobody asked for it */
            unsigned lost;              /* holds lost through it and not released yet: readable while > 0 */
        };
        struct hlk_via *parent;         /* whose descriptor tells of these losses (sync/seat.c) */
    };
};

/* A place in line. */
struct hlk_turn {
    struct hlk_list link;               /* under the session's mutex, like h */
    struct hlk_holder holder;
    struct hlk_via *via;
    int64_t lease_ms, max_hold_ms;
    int64_t floor;                      /* fenced: tokens above it */
    uint64_t h;                         /* != 0: it is the asker, by this hold id */
    bool fixed;                         /* lease_ms is not renewed */
    bool fenced;
    bool once;                          /* does not wait: wants to know as soon as the asker's answer is there */
    bool completes;                     /* told by a completion: until then its owner's others stay in line behind it */
    bool got;                           /* holds the lock, and out of line: by a grant, or from its predecessor */
    /* any thread, under the session's mutex: only wakes. HLK_WAKE_TURN: look; _MESSAGE: ask the server. What it answers
     * is to be paid (base/park.h) */
    struct hlk_park *(*wake)(struct hlk_turn *turn, unsigned bit);
};

/* The session's place in Redis' queue, and what goes with it: made when it first waits, or has a token. Under the
 * session's mutex. */
struct hlk_place {
    uint64_t h;                         /* whose; 0: nobody's */
    struct hlk_member member;
    bool queued;                        /* a copy that takes the place was, or is about to be sent: */
    int64_t first_ms;                   /* before the first copy that enqueued it was sent: grants count from then */
    int64_t lease_ms;
    bool fixed, fenced;
    int64_t noted_ttl_ms;               /* > 0: a grant that came before the answer to acquire(h), or to an end */
    int64_t noted_token;
    int64_t token, last_token;          /* of the hold, and of its block; 0: not fenced */
    int64_t got_ms;                     /* when the session was won, and how often it was passed on since */
    unsigned passes;
};

/* What a holder still has to hear about a hold that is over. */
struct hlk_past {
    struct hlk_past *next;
    uint64_t holder, h;
    /* that are due before the holder may acquire again (LOST); 0: an unsure release */
    unsigned releases;
    struct hlk_via *via;
    const char *why;                    /* of a loss; a literal */
    struct hlk_holder counted;          /* in whose `holds` it is */
    bool settled;                       /* the unsure release has its outcome: */
    enum hlk_status outcome;
    struct hlk_self *waiter;            /*   somebody waits for it */
};

struct hlk_session {
    struct hlk_map_node node;           /* table's, under its mutex; node.key is the lock's name */
    struct hlk_table *table;
    struct hlk_mutex *mu;               /* one of the table's stripes, rank SESSION; guards: */
    struct hlk_list line;               /*   turns; the first one is the asker while ASKING or WAITING */
    uint8_t state : 4;                  /*   enum hlk_session_state */
    bool doubt : 1;                     /*   a copy of h's acquire is in doubt */
    bool untold : 1;                    /*   the holder's completion is not on its way yet */
    bool batched : 1;                   /*   a renewal of it is being put into the stream: no end may get before it */
    bool fair;                          /*   a fair lock's: one for each holder. Set when made, then read-only */
    uint16_t ends_untold;               /*   ends whose completion is not on its way yet */
    unsigned count;
    unsigned written;                   /*   the count that Redis has */
    atomic_int refs;
    uint64_t h;
    struct hlk_holder holder;
    struct hlk_via *via;
    union {
        struct hlk_lease lease;
        struct hlk_post free;           /*   when the last reference is gone */
    };
    struct hlk_past *past;
    struct hlk_place *place;            /*   NULL: never waited */
    struct hlk_alarm alarm;             /* fires on the loop; freed there only */
    struct hlk_list due;                /* loop thread only: the watchdog's batch */
};

/* The table's, found or made; a reference is the caller's. NULL: no memory. */
struct hlk_session *hlk_session_get(struct hlk_table *table, const char *name, size_t len);
/* The same, if there is one; else NULL. */
struct hlk_session *hlk_session_find(struct hlk_table *table, const char *name, size_t len);
/* The same of a fair lock, whose holders have a session each. make false: only if it is there. */
struct hlk_session *hlk_session_get_fair(struct hlk_table *table, const char *name, size_t len, uint64_t holder,
                                         bool make);
void hlk_session_ref(struct hlk_session *s);
bool hlk_session_try_ref(struct hlk_session *s);    /* loop thread: false when it is on its way out */
void hlk_session_unref(struct hlk_session *s);      /* any thread */

static inline const char *hlk_session_name(const struct hlk_session *s) { return s->node.key; }
static inline size_t hlk_session_len(const struct hlk_session *s)
{
    return s->node.len - (s->fair ? 1 + sizeof(uint64_t) : 0); /* name, NUL, holder: no name has a NUL */
}

void hlk_via_ref(struct hlk_via *via);
void hlk_via_unref(struct hlk_via *via);            /* NULL is fine */

/* --- getting in --- */

enum hlk_enter {
    HLK_ENTER_NESTED,       /* held by this holder: one hold more, nothing to send */
    /* the same, but the lease is to be raised by a round trip: hlk_session_raised or _lowered */
    HLK_ENTER_RAISE,
    HLK_ENTER_LOST,         /* this holder has a lost hold to release first */
    HLK_ENTER_BUSY,         /* turn->once, and another holder of this process has it or waits for it */
    HLK_ENTER_TURN,         /* turn is the asker: turn->h */
    HLK_ENTER_LINE,         /* turn is in line: wake() comes; then hlk_session_look */
    HLK_ENTER_GOT,          /* from hlk_session_look: it holds the lock, out of line */
    HLK_ENTER_NOMEM
};

/* Only a holder's own: NESTED; RAISE (holds after it, and the hold's id): fixed_lease_ms is given, or it is 0, the
 * watchdog's, and the hold's lease is fixed; LOST; LINE: it needs a turn. */
enum hlk_enter hlk_session_nest(struct hlk_session *s, uint64_t holder, int64_t fixed_lease_ms, unsigned *count,
                                uint64_t *h);
enum hlk_enter hlk_session_enter(struct hlk_session *s, struct hlk_turn *turn);
/* After wake(): TURN, LINE; GOT; NESTED or RAISE (the same owner got it meanwhile) or BUSY (once): out of line; LOST
 * (the same owner got it, and lost it): the caller leaves. */
enum hlk_enter hlk_session_look(struct hlk_session *s, struct hlk_turn *turn);

/* The asker is about to ask. *out is the same in all copies of one hold id; queues: this copy will take a place in
 * Redis' queue. NOMEM, or TURN. */
enum hlk_enter hlk_session_queue(struct hlk_session *s, struct hlk_turn *turn, bool queues, struct hlk_member *out);
/* The asker asks again: WAITING -> ASKING. False: it has got it meanwhile. */
bool hlk_session_asks(struct hlk_session *s, struct hlk_turn *turn);
/* The asker's answer was "somebody else's". doubt: some copy of it is. True: a grant was before the answer, it has got
 * it. */
bool hlk_session_waits(struct hlk_session *s, struct hlk_turn *turn, bool doubt);
/* Told by the server: h is held by us, for ttl_ms from the first copy's sending on. False: nobody wants it, end(h). */
bool hlk_session_grant(struct hlk_session *s, uint64_t h, int64_t ttl_ms, int64_t token);
/* Told by the server: h is to ask. */
void hlk_session_open(struct hlk_session *s, uint64_t h);
/* The asker's answer was "yours", sent at sent_ms. False: too late to hold anything by it, ask again. */
bool hlk_session_won(struct hlk_session *s, struct hlk_turn *turn, int64_t sent_ms, int64_t token, bool doubt);
/* A win is told: by its call's return, or by `tell`, which puts its completion on its way, under the mutex, so that
 * nobody who holds later is told before. Then those in line who need not wait for their turn (same holder, or one try)
 * look again. */
void hlk_session_tell_line(struct hlk_session *s, uint64_t winner, void (*tell)(void *ctx), void *ctx);
/* The server says that h is void: the asker gets a new one. */
void hlk_session_renumber(struct hlk_session *s, struct hlk_turn *turn);
/* Leaves the line, wherever it is. True: end(h) is the caller's to start, then hlk_session_left; ENDING meanwhile. That
 * is so when h is in Redis' queue, and the next in line does not take its place over, or when a copy of the acquire may
 * run yet (flies). No-op when not in it. */
bool hlk_session_leave(struct hlk_session *s, struct hlk_turn *turn, bool flies);
/* Between the two: what end(h) is about, h and its place. An heir may leave before it has asked. */
void hlk_session_leaving(struct hlk_session *s, struct hlk_parting *out);
void hlk_session_left(struct hlk_session *s);

/* --- a nested hold's round trip --- */
/* watchdog: the hold had a fixed lease, and is renewed from now on until its last release. False: lost before. */
bool hlk_session_raised(struct hlk_session *s, uint64_t h, unsigned count, int64_t sent_ms, int64_t lease_ms,
                        bool watchdog);
/* Not answered: its ttl in Redis may be longer now than its holder counts on, and end(h) is owed for so long. */
void hlk_session_may_last(struct hlk_session *s, uint64_t h, int64_t ends_ms);
void hlk_session_lower(struct hlk_session *s, uint64_t holder, uint64_t h);     /* it failed: one hold less */

/* --- letting go --- */

enum hlk_let_go {
    HLK_LET_NOT_HOLDER,
    HLK_LET_LOST,           /* it was lost; it is off the holder's account */
    HLK_LET_NESTED,         /* an outer hold remains; nothing to send */
    HLK_LET_WRITE,          /* the same, but Redis has a larger count: *count is to be written */
    HLK_LET_LAST,           /* end(h) is to be started, then hlk_session_ended. ENDING meanwhile */
    HLK_LET_PASSED,         /* the next in this process's line holds it now; nothing to send */
    HLK_LET_OWED            /* an earlier release is unsure still: hlk_session_wait_owed */
};

struct hlk_parting {        /* what an end needs to know */
    uint64_t h;
    bool doubt;
    int64_t until_ms;       /* Redis' ttl is over then, at the latest */
    unsigned count;
    bool fenced;
    const char *why;            /* HLK_LET_LOST: a literal */
    struct hlk_member place;    /* in doubt, and it has waited: a late copy may have put it in line again */
};

enum hlk_let_go hlk_session_let_go(struct hlk_session *s, uint64_t holder, struct hlk_parting *out);
void hlk_session_keep(struct hlk_session *s);           /* LAST, but no end could be started: held as before */
void hlk_session_ended(struct hlk_session *s);          /* end(h) is in the stream, or parked: the next in line asks */
/* An end will be told by a completion; it is on its way. In between no completion of a grant is: it may come first when
 * end(h) had to be sent again, behind the acquire of the next one. */
void hlk_session_end_untold(struct hlk_session *s);
void hlk_session_end_told(struct hlk_session *s);

/* The release of h was not answered in time; remembered for the holder until it asks again. False: no memory. */
bool hlk_session_owe(struct hlk_session *s, struct hlk_holder holder, uint64_t h);
void hlk_session_settle(struct hlk_session *s, uint64_t h, enum hlk_status outcome);    /* no-op when nobody owes h */
/* Waits for an unsure release; HLK_E_UNSURE when it is so still at at_ms. */
enum hlk_status hlk_session_wait_owed(struct hlk_session *s, uint64_t holder, struct hlk_self *self, int64_t at_ms);

/* --- losing --- */

/* Called with the session's mutex held; lets go of it. If h is held still: LOST is told, and end(h) is the caller's to
 * start (true; not before it was told), then hlk_session_ended: hlk_table_lose does it all. */
bool hlk_session_lose_locked(struct hlk_session *s, const char *why, struct hlk_parting *out);
bool hlk_session_lose(struct hlk_session *s, uint64_t h, const char *why, struct hlk_parting *out);

/* A release, after HLK_LET_LAST: through which handle the hold was taken, with a reference; and, when the server then
 * says that the hold had not been there any more, what its holder is told. `via` may be NULL. */
struct hlk_via *hlk_session_via(struct hlk_session *s);
void hlk_session_tell_gone(struct hlk_session *s, uint64_t h, const struct hlk_via *via);

/* The client is being closed. True: it was held, end(h) is the caller's to start, then hlk_session_ended. *ending:
 * another thread has let go of it and has not called hlk_session_ended yet, its end may not be in the stream; it may be
 * held again, too (hlk_session_keep). */
bool hlk_session_close(struct hlk_session *s, struct hlk_parting *out, bool *ending);
void hlk_session_forget(struct hlk_session *s);     /* nobody will ask about past holds any more */

/* Tells an event of the hold, AT_RISK or SAFE. The session's mutex is held. */
void hlk_session_tell(struct hlk_session *s, int kind, const char *why);

/* The holder has ended without letting go: renewal stops, told; frees nothing in Redis. */
void hlk_session_orphan(struct hlk_session *s, uint64_t holder);

/* --- questions: local, any thread --- */
struct hlk_view { unsigned count; uint64_t h; int64_t until_ms, cap_ms, token; bool lost; const char *why; };
void hlk_session_view(struct hlk_session *s, uint64_t holder, struct hlk_view *out);
/* Who of this process holds it: */
struct hlk_neighbour {
    bool held, orphaned;
    int64_t until_ms;
    struct hlk_via *via;    /* through which handle, with a reference; NULL: not held, or a lost one */
};
void hlk_session_neighbour(struct hlk_session *s, struct hlk_neighbour *out);

#endif
