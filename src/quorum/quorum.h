/* quorum.h - a handle of a lock over several masters, and what the handles of one client have in common. */
#ifndef HLK_QUORUM_QUORUM_H
#define HLK_QUORUM_QUORUM_H

#include "handle/handle.h"
#include "net/spin.h"
#include "quorum/format.h"
#include "quorum/validity.h"
#include "wait/wait_for.h"

enum hlk_quorum_state {
    HLK_QUORUM_FREE,
    HLK_QUORUM_ACQUIRING,
    HLK_QUORUM_HELD,
    HLK_QUORUM_LOST,            /* until it is released */
    HLK_QUORUM_RELEASING
};

/* The handles of one name: one of them sends to the masters, or holds. The others wait, first come, first served. */
struct hlk_quorum_queue {
    struct hlk_map_node node;
    struct hlk_list waiters;
    unsigned users;             /* its head and its waiters */
    bool taken;
    bool contended;             /* one of them had to wait for other processes */
    int64_t since_ms;           /* the lock has gone from one of them to the next since then */
    char name[];
};

struct hlk_quorum_waiter {
    struct hlk_list link;
    struct hlk_waker *waker;    /* gets HLK_WAKE_QUEUE */
    const struct hlk_quorum *quorum;
    bool head;
    int64_t yields_ms;          /* it pauses for so long before its first command; 0: it does not */
};

/* A release after which this process had no waiter left, and other processes may have some. */
struct hlk_quorum_turn {
    uint32_t name;              /* the lock's, as a hash */
    int64_t ms;
};

#define HLK_QUORUM_TURNS 16     /* the latest releases. After one that was forgotten there is no pause */

/* One of a client's masters (connect.c). */
struct hlk_quorum_master {
    struct hlk_quorums *all;
    struct hlk_post connected;
};

#define HLK_QUORUM_TWIN "it is the same server as another master, and does not count"

/* Of a client of hlk_quorum_open. */
struct hlk_quorums {
    struct hlk_client_topology topology;
    struct hlk_mutex mu;        /* rank ENTRY; guards the handles' holds, and: */
    struct hlk_map queues;      /*   by name */
    struct hlk_list all;        /*   handles */
    struct hlk_map holders;     /*   those of an hlk_lock's holders (lock.c) */
    struct hlk_quorum_turn turns[HLK_QUORUM_TURNS];
    unsigned next_turn;
    struct hlk_spin spin;
    struct hlk_quorum_master masters[HLK_QUORUM_MAX];
    atomic_uint twins;          /* a bit for each that is a server which another URL means too: it does not count */
    struct hlk_quorum_opts opts;/* of an hlk_lock: those of the URL, completed; format is its kind's */
};

/* Of a client of several masters. */
static inline struct hlk_quorums *hlk_quorums_of(const hlk_client *client)
{
    return HLK_CONTAINER(client->topology, struct hlk_quorums, topology);
}

/* A public handle, which is its own holder; or what one holder of an hlk_lock has of it, with holder.id set. */
struct hlk_quorum {
    atomic_int refs;            /* the user's, or that of all->holders; and each round's */
    hlk_client *client;         /* referenced */
    struct hlk_quorums *all;    /* the client's */
    const struct hlk_quorum_layout *layout;
    struct hlk_quorum_opts opts;/* completed */
    struct hlk_post end;        /* frees it on the loop thread */
    struct hlk_alarm alarm;
    struct hlk_list connecting; /* loop thread: a master has connected, and is to be asked for the hold */

    struct hlk_list link;       /* under all->mu, like the next ones */
    enum hlk_quorum_state state;
    struct hlk_quorum_queue *queue; /* while it is its head */
    struct hlk_round *round;    /* HELD: that acquired it */
    struct hlk_validity validity;
    const char *why;            /* LOST */
    unsigned count;             /* releases due */

    struct hlk_holder holder;   /* id is read-only. An orphan's has no `holds` */
    struct hlk_handle *handle;  /* through which the holder acquired it; referenced */
    struct hlk_map_node node;   /* in all->holders */
    unsigned users;             /* calls that use it */
    struct hlk_list reports;    /* completions of its calls, in their order (report.c) */
    bool renewed;               /* HELD: its lease is not fixed */
    bool missed;                /* HELD: a master that had it does not have it, and no majority has renewed it since */
    bool orphaned;              /* its holder ended without a release */

    size_t name_len;
    char name[];                /* and a NUL. With a holder: and the rest of the key in all->holders */
};

/* The completion of one call of a holder. */
struct hlk_quorum_report {
    struct hlk_list link;
    struct hlk_job *job;
    bool ready;
};

/* What a hold is acquired for. */
struct hlk_quorum_terms {
    bool renewed;
    int64_t ttl_ms;
    int64_t max_hold_ms;        /* 0: no limit */
    struct hlk_handle *handle;  /* NULL: a public handle */
    bool no_nesting;            /* HLK_DEADLOCK instead */
    bool contended;             /* others had it when it was asked for */
    struct hlk_quorum_report *report;   /* added when it is held; NULL: no completion */
};

/* With `extra` bytes behind the name's NUL. NULL: no memory; the thread's error is not set. */
struct hlk_quorum *hlk_quorum_make(hlk_client *client, const char *name, size_t len, size_t extra,
                                   const struct hlk_quorum_opts *opts);

enum hlk_status hlk_quorum_fail(const struct hlk_quorum *quorum, const char *operation, enum hlk_status status,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* HLK_OK, or HLK_E_INVALID, FORKED, CLOSED with the thread's error set. */
enum hlk_status hlk_quorum_check(const struct hlk_quorum *quorum, const char *operation);

void hlk_quorum_ref(struct hlk_quorum *quorum);
void hlk_quorum_on_end(struct hlk_post *post);
void hlk_quorum_unref(struct hlk_quorum *quorum);
/* all->mu held, and given back. A holder's, of which nothing is left, and which no call uses, is dropped: after the
 * last change that may have made it so, and under the same mutex. */
void hlk_quorum_unlock(struct hlk_quorum *quorum);

extern const struct hlk_lock_group hlk_quorum_locks;

#endif
