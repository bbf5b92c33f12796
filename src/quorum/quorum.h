/* quorum.h - a handle of a lock over several masters, and what the handles of one client have in common. */
#ifndef HLK_QUORUM_QUORUM_H
#define HLK_QUORUM_QUORUM_H

#include "api/handle.h"
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

/* --- opts.c --- */

/* NULL: all is well; else what is wrong. */
const char *hlk_quorum_opts_wrong(const struct hlk_quorum_opts *opts);
void hlk_quorum_opts_complete(struct hlk_quorum_opts *opts);
/* Checked and completed. HLK_OK, or HLK_E_INVALID with the thread's error set. */
enum hlk_status hlk_quorum_opts_read(const struct hlk_quorum_opts *given, struct hlk_quorum_opts *opts);

/* --- handle.c --- */

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
/* all->mu held, and given back. A holder's, of which nothing is left, and which nobody uses, is dropped: after the last
 * change that may have made it so, and under the same mutex. */
void hlk_quorum_unlock(struct hlk_quorum *quorum);

/* --- queue.c; all->mu held --- */

/* HLK_OK: at its head. HLK_BUSY: behind others; `waiter` is in it unless it is NULL. HLK_E_NOMEM. */
enum hlk_status hlk_quorum_queue_enter(struct hlk_quorums *all, const char *name, size_t len, int64_t now_ms,
                                       struct hlk_quorum_waiter *waiter, struct hlk_quorum_queue **out);
/* A waiter that is not the head leaves. */
void hlk_quorum_queue_leave(struct hlk_quorums *all, struct hlk_quorum_queue *queue, struct hlk_quorum_waiter *waiter);
/* The head leaves, and the next waiter becomes the head. */
void hlk_quorum_queue_pass(struct hlk_quorums *all, struct hlk_quorum_queue *queue, int64_t now_ms);

/* --- hold.c: from the acquire to its end --- */

/* The round's majority holds. False: nothing is left of it, or the client is being closed. */
bool hlk_quorum_begin(struct hlk_quorum *quorum, struct hlk_round *round, struct hlk_quorum_queue *queue,
                      const struct hlk_quorum_terms *terms);
/* How often a hold may be renewed; < 0: any number of times. */
int hlk_quorum_renewals(const struct hlk_quorum *quorum);
/* all->mu held: one release less is due. True: that was the last one. */
bool hlk_quorum_count_off(struct hlk_quorum *quorum);
/* Out of HELD, for a release: its round, which is the caller's; NULL: not HELD. A hold that is over becomes LOST.
 * *outer: it stays HELD, and one release less is due. `outer` NULL: all of them are. */
struct hlk_round *hlk_quorum_begin_release(struct hlk_quorum *quorum, bool *outer);
/* The release is in the streams: the next one of this process may send. */
void hlk_quorum_release_sent(struct hlk_quorum *quorum);
/* It is not held any more, for `why`; reported. No-op unless that round's hold is HELD. */
void hlk_quorum_lose(struct hlk_quorum *quorum, const struct hlk_round *round, const char *why);
/* Asks masters again that have not granted it, if it is certain that nobody else has held it meanwhile. */
void hlk_quorum_retake(struct hlk_quorum *quorum);
/* The same, once a majority has confirmed that it has the hold: a master has connected. */
void hlk_quorum_retake_if_held(struct hlk_quorum *quorum);
/* The on_no of a renewal: the hold is lost as soon as no majority can have it. */
void hlk_quorum_on_no(struct hlk_round *renewal, unsigned i);
void hlk_quorum_on_alarm(struct hlk_alarm *alarm);
/* A loss that the clock alone knows so far is made one. */
void hlk_quorum_expire(struct hlk_quorum *quorum);
/* A holder has ended without a release: renewals stop, and that is reported. */
void hlk_quorum_orphan(struct hlk_quorums *all, uint64_t holder);
/* Close: no call will ask for a loss any more. */
void hlk_quorum_drop_loss(struct hlk_quorum *quorum);

/* --- report.c: a holder's completions, in the order of its calls. A call without the lock adds none --- */

/* all->mu held. */
void hlk_quorum_report_add(struct hlk_quorum *quorum, struct hlk_quorum_report *report);
/* Its outcome is known: completes it as soon as those before it are, or at once if it was not added. The caller has a
 * reference to the quorum. */
void hlk_quorum_report_complete(struct hlk_quorum *quorum, struct hlk_quorum_report *report);

/* --- acquire.c, release.c: for lock.c. The thread's error is set, with `operation` --- */

/* Blocks. HLK_OK: held, once more if it was before. */
enum hlk_status hlk_quorum_acquire_as(struct hlk_quorum *quorum, const struct hlk_acquire_opts *opts,
                                      const struct hlk_quorum_terms *terms, struct hlk_thread *self);
enum hlk_status hlk_quorum_release_as(struct hlk_quorum *quorum, struct hlk_thread *self);
/* Not HELD: why. forgets: of a lost hold one release less is due. */
enum hlk_status hlk_quorum_not_held(struct hlk_quorum *quorum, const char *operation, bool forgets);
void hlk_quorum_count_released(struct hlk_client *client, enum hlk_status status);
enum hlk_status hlk_quorum_extend_as(struct hlk_quorum *quorum, struct hlk_thread *self, int64_t ttl_ms);

/* --- release.c: the parts of an extension, and of a release, that do not wait --- */

/* The round of an extension by ttl_ms, which is the caller's; not sent. NULL: *error says why. */
struct hlk_round *hlk_quorum_extension(struct hlk_quorum *quorum, int64_t ttl_ms, struct hlk_error *error);
/* The masters' answers to it, as far as they are there. for_good: the hold is renewed from now on. */
enum hlk_status hlk_quorum_extended(struct hlk_quorum *quorum, struct hlk_round *round, bool for_good,
                                    struct hlk_error *error);
/* Releases one hold, or all of them; of a lost one, one release less is due. Waits for no answer. */
void hlk_quorum_release_nowait(struct hlk_quorum *quorum, bool all);

/* --- lock.c, lock_async.c --- */

/* What `holder` has of the lock, for one call, which ends with leave. NULL: there is nothing; with `make`: no
 * memory. */
struct hlk_quorum *hlk_quorum_enter(const hlk_lock *lock, struct hlk_holder holder, bool make);
void hlk_quorum_leave(struct hlk_quorum *quorum);
enum hlk_status hlk_quorum_lock_no_memory(const hlk_lock *lock, const char *operation);
struct hlk_quorum_terms hlk_quorum_lock_terms(hlk_lock *lock, const struct hlk_quorum *quorum,
                                              const struct hlk_acquire_opts *opts);
enum hlk_status hlk_quorum_lock_acquire_async(hlk_lock *lock, const struct hlk_acquire_opts *opts, hlk_owner *owner,
                                              hlk_done_fn *done, void *ctx);
enum hlk_status hlk_quorum_lock_release_async(hlk_lock *lock, hlk_done_fn *done, void *ctx);

/* --- inspect.c --- */

enum hlk_status hlk_quorum_lock_query(hlk_lock *lock, struct hlk_lock_state *out);
enum hlk_status hlk_quorum_lock_break(hlk_lock *lock, const char *only, char holder[HLK_FIELD_MAX]);
enum hlk_status hlk_quorum_lock_list(hlk_lock *handle, struct hlk_list_opts *opts, hlk_list_fn *fn, void *ctx);

extern const struct hlk_lock_group hlk_quorum_locks;

#endif
