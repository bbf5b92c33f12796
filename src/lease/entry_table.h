/* entry_table.h - the entries of a client, by name, and the data that they share. */
#ifndef HLK_LEASE_ENTRY_TABLE_H
#define HLK_LEASE_ENTRY_TABLE_H

#include "base/log.h"
#include "lease/entry.h"
#include "script/format.h"

#define HLK_STRIPES 64
/* Further grants are left to expire, because messages may be forged in any number (docs/safety.md) */
#define HLK_HAND_BACKS_MOST 1024

struct hlk_lease_counts {               /* relaxed atomics; public meaning in inspect.h */
    atomic_uint_fast64_t held, waiting, acquired, reentered, busy, timeouts, interrupted, lost, released,
        release_unsure, release_refused,
        orphaned, renewals, renewals_late, woken, woken_by_ttl, granted, passed, handed_back;
    atomic_uint_fast64_t wait_us[32];
};

/* Of the entries whose mutex is one of the stripes: lease/shared_hold.h. Under that mutex. */
struct hlk_shared_stripe {
    struct hlk_list holds;              /* struct hlk_shared_hold */
    int64_t left_ms;                    /* when a hold that may be shared was last released, */
    uint64_t left_by;                   /*   by which holder, */
    uint32_t left_of;                   /*   and of which lock: the hash of its name */
    uint64_t closings;                  /* so often somebody asked that no more holders enter */
    bool closed;                        /* the client is being closed: none is shared any more */
};

struct hlk_entry_table {
    const char *client_id;              /* borrowed, like the next ones; read-only after init */
    hlk_loop *loop;
    struct hlk_events *events;
    const struct hlk_log *log;
    const struct hlk_format *formats[HLK_FORMATS_MAX];  /* indexed by hlk_entry.format. NULL: none */
    struct hlk_callback callback;               /* the client's own */
    int64_t watchdog_ms, at_risk_ms;
    uint8_t renewals;                   /* of a hold under the watchdog, in the time of its lease */
    unsigned local_passes;
    struct hlk_lease_counts counts;
    atomic_uint_fast64_t last_h;
    atomic_uint handing_back;           /* hand-backs that are not settled yet */
    atomic_uint unreported;             /* events that could not be reported for lack of memory: the watchdog logs
                                         * them */

    struct hlk_mutex stripes[HLK_STRIPES];
    pthread_cond_t unbatched[HLK_STRIPES]; /* one for each stripe: signalled when an entry of it leaves a batch */
    _Atomic(int64_t) refused_ms[HLK_STRIPES]; /* hlk_entry_table_refused */
    struct hlk_shared_stripe shared[HLK_STRIPES];
    struct hlk_mutex handles_mu;           /* rank LEAF: every handle's losses */

    struct hlk_node *nodes;             /* the client's, borrowed */
    unsigned node_count;

    atomic_uint holds_of_calls;         /* `holds` of holders that are one call each: it is not read */
    atomic_uint walks;                  /* hlk_entry_table_each_of, now */

    struct hlk_mutex mu;                /* rank TABLE; guards the nodes' maps of entries, and: */
    struct hlk_list gone;               /* entries without a reference: freed in the next tick, unless found before */
    struct hlk_tick renew;              /* the watchdog's, like on_alarm */
    void (*on_alarm)(struct hlk_alarm *alarm);
    struct hlk_tick tick;               /* frees the entries in `gone`: the loop may still use an alarm of one */
    struct hlk_list link;               /* in the list of all tables of the process: holder.c */
    /* Of a client whose locks have no entries: a holder ended without a release. NULL: none. */
    void (*_Atomic on_orphan)(struct hlk_entry_table *table, uint64_t holder);
};

#define HLK_COUNT(table, what) ((void)atomic_fetch_add_explicit(&(table)->counts.what, 1, memory_order_relaxed))
#define HLK_UNCOUNT(table, what) ((void)atomic_fetch_sub_explicit(&(table)->counts.what, 1, memory_order_relaxed))

void hlk_entry_table_init(struct hlk_entry_table *table);           /* after the borrowed parts were set */
void hlk_entry_table_fini(struct hlk_entry_table *table);           /* no entry is left */

/* Calls fn for each entry, with a reference and no mutex held. Needs no memory. Entries that are added meanwhile may be
 * missed, and some may be visited twice. No hold moves from one entry to another meanwhile: none is missed. */
void hlk_entry_table_each(struct hlk_entry_table *table, void (*fn)(struct hlk_entry *e, void *ctx), void *ctx);
/* The same for the entries of one node. */
void hlk_entry_table_each_of(struct hlk_node *node, void (*fn)(struct hlk_entry *e, void *ctx), void *ctx);

/* Since when the server refuses the commands of head waiters one after the other; 0: it does not. Only a hint: all
 * entries of a stripe share it. */
static inline _Atomic(int64_t) *hlk_entry_table_refused(const struct hlk_entry *e)
{
    return &e->node->table->refused_ms[e->mu - e->node->table->stripes];
}

static inline const struct hlk_format *hlk_entry_format(const struct hlk_entry *e)
{
    return e->node->table->formats[e->format];
}

/* Of the stripes, that of the entries for locks of this name and format. */
unsigned hlk_entry_table_stripe(const struct hlk_format *format, const char *name, size_t len);

/* From now on messages about h find e, an entry that belongs to one holder. False: no memory. */
bool hlk_entry_table_note_hold(struct hlk_entry *e, uint64_t h);

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

#endif
