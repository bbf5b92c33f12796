/* table.h - the sessions of a client, by name, and what they share. */
#ifndef HLK_LEASE_TABLE_H
#define HLK_LEASE_TABLE_H

#include "base/log.h"
#include "lease/session.h"
#include "lease/watchdog.h"
#include "script/undo.h"

#define HLK_STRIPES 64

struct hlk_lease_counts {               /* relaxed atomics; public meaning in inspect.h */
    atomic_uint_fast64_t held, waiting, acquired, reentered, busy, timeouts, interrupted, lost, released,
        release_unsure, release_refused,
        orphaned, renewals, renewals_late, woken, woken_by_ttl, granted, passed, handed_back;
    atomic_uint_fast64_t wait_us[32];
};

struct hlk_table {
    const char *client_id;              /* borrowed, like the next ones; read-only after init */
    hlk_loop *loop;
    struct hlk_events *events;
    struct hlk_undos *undos;
    const struct hlk_log *log;
    struct hlk_hook hook;               /* the client's own */
    int64_t watchdog_ms, at_risk_ms;
    unsigned local_passes;
    struct hlk_watchdog watchdog;
    struct hlk_lease_counts counts;
    atomic_uint_fast64_t last_h;
    atomic_uint untold;                 /* events that no memory was left for: logged by the watchdog */

    struct hlk_mutex stripes[HLK_STRIPES];
    struct hlk_mutex vias_mu;           /* rank LEAF: every handle's losses */

    struct hlk_mutex mu;                /* rank TABLE; guards: */
    struct hlk_map map;
    struct hlk_list link;               /* all tables of the process: holder.c */
};

#define HLK_COUNT(table, what) ((void)atomic_fetch_add_explicit(&(table)->counts.what, 1, memory_order_relaxed))
#define HLK_UNCOUNT(table, what) ((void)atomic_fetch_sub_explicit(&(table)->counts.what, 1, memory_order_relaxed))

void hlk_table_init(struct hlk_table *table);           /* after the borrowed parts were set */
void hlk_table_fini(struct hlk_table *table);           /* no session is left */

/* Calls fn for each session, with a reference, no mutex held; needs no memory. Sessions that come meanwhile may be
 * missed, some may be seen twice. */
void hlk_table_each(struct hlk_table *table, void (*fn)(struct hlk_session *s, void *ctx), void *ctx);

/* What end(h) says; whoever starts it sets the rest (script/undo.h). */
void hlk_table_fill_end(struct hlk_undo *undo, const struct hlk_session *s, const struct hlk_parting *parting);
/* Starts an end that nobody waits for; undo is heap, and its own from here on. */
void hlk_table_start_end(struct hlk_undo *undo, struct hlk_session *s);
/* A hold is over without a release of its holder's: both, in the background. */
void hlk_table_end(struct hlk_session *s, const struct hlk_parting *parting);
/* Got, and nobody will release it: its holder lets go of it, and of the last hold the end follows in the background. */
void hlk_table_give_back(struct hlk_session *s, uint64_t holder);
/* If h is held still, it is lost: told, and then ended, only after the holder's callbacks have returned, so that nobody
 * gets the lock before it was told. A callback that takes long only leaves the lease to run out by itself. */
void hlk_table_lose(struct hlk_session *s, uint64_t h, const char *why);
void hlk_table_lose_locked(struct hlk_session *s, const char *why);     /* h is; its mutex is locked, and let go of */

/* A message came in the client's inbox: from a script that granted, opened or broke a lock (lua/part_pass.lua). */
void hlk_table_hear(struct hlk_table *table, const char *message, size_t len);

#endif
