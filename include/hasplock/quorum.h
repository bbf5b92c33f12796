/* quorum.h - a lock over several independent Redis masters, known as RedLock: it is held while a majority of them says
 * so, and survives the loss of the others.
 *
 * The masters share nothing: no replication, no cluster. A client of all of them is opened by hlk_quorum_open; it has
 * one loop thread and one events thread, however many masters there are. An acquire asks all of them at once and
 * returns as soon as a majority (N / 2 + 1) has said yes, or as soon as a majority is impossible. So a minority that is
 * dead, slow or hung costs no time. What was granted without a majority is given back everywhere.
 *
 *     const char *urls[] = { "redis://a", "redis://b", "redis://c" };
 *     hlk_client *client;
 *     if (hlk_quorum_open(&client, urls, 3, NULL) == HLK_OK) {
 *         hlk_quorum *invoice = hlk_quorum_create(client, "invoice:42", NULL);
 *         if (hlk_quorum_acquire(invoice, 2000) == HLK_OK) {
 *             while (next_batch(&batch) && hlk_quorum_left_ms(invoice) > WRITE_TAKES_MS)
 *                 write_out(&batch);
 *             hlk_quorum_release(invoice);
 *         }
 *         hlk_quorum_destroy(invoice);
 *         hlk_client_close(client);
 *     }
 *
 * The same without this header: hlk_client_open with "redlock://a,b,c", and the calls of lock.h, guard.h and
 * multilock.h. Then the holder is the thread or the owner, as for other locks, and a lock is reentrant. This header is
 * for options of each lock, and for programs that have the masters' URLs one by one; its own calls block.
 *
 * The handle is the holder, not the thread: any thread may release what another one acquired through it, and it is not
 * reentrant. Threads that exclude each other have a handle each. Within a process the handles of one name and client
 * wait in the order in which they came, and only the first of them asks the masters.
 *
 * A hold is valid until  <moment before the first command was sent> + ttl - drift,  where drift is
 * ttl * clock_drift_factor + 2 ms. It is renewed, also by a majority, until it is released, or until max_renewals or
 * max_hold_ms ends it. After a renewal, masters that do not have the hold are asked for it again; so one that was away
 * when it was acquired makes up for one that goes away later. Events are those of client.h. HLK_EVENT_LOST comes when
 * a majority does not know the hold any more, and no later than at held_until. Another holder is possible when the
 * drift is over too, and not a tenth of the lease later as for other locks; a release of the lost hold does not change
 * that.
 *
 * What such a lock does not protect from (a clock that jumps on several masters, masters that restart without their
 * data and without restart_delay_ms, a holder that stands still): docs/safety.md. It has no fencing token.
 */
#ifndef HASPLOCK_QUORUM_H
#define HASPLOCK_QUORUM_H

#include "cancel.h"
#include "client.h"
#include "lock.h"

HLK_BEGIN_DECLS

#define HLK_QUORUM_MAX 15               /* masters */

typedef struct hlk_quorum hlk_quorum;   /* opaque; a name, how to lock it, and the hold */

enum hlk_quorum_format {
    HLK_QUORUM_STRING = 0,      /* The Redis page's: a string with the holder's token, SET NX PX. Together with redsync,
                                 * node-redlock, redlock-py, pottery and others. They publish nothing: behind one of
                                 * them a wait polls by retry_delay_ms. */
    HLK_QUORUM_HASH = 1         /* Redisson's: an RLock on each master, together with RedissonRedLock. */
};

/* All times are in ms. 0 means the default, given in brackets. Strings are copied. */
struct hlk_quorum_opts {
    size_t        size;
    int           format;           /* enum hlk_quorum_format */
    unsigned      reserved;         /* Must be 0. */
    int64_t       ttl_ms;           /* Lease of a hold in Redis. 100 to a year. [10000] */
    int64_t       node_timeout_ms;  /* A master that has not answered by then counts as one that said no. 1 to ttl_ms.
                                     * [a twentieth of ttl_ms, at least 50] */
    double        clock_drift_factor; /* How much a master's clock may be faster than this host's, as a part of the ttl.
                                     * Up to 0.5. Negative: 0. [0.01] */
    int           retry_count;      /* Tries after the first one, within the wait. Negative: none. [no limit] */
    int           retry_delay_ms;   /* A wait that gets no message asks again after this. 1 to 60000. [200] */
    int           retry_jitter_ms;  /* A random time up to this is added to each such pause. Up to 60000. Negative: 0.
                                     * [100] */
    int           max_renewals;     /* A hold is renewed this many times at most. Negative: never; it runs out after
                                     * ttl_ms. [no limit] */
    int64_t       max_hold_ms;      /* A hold lasts no longer than this; renewals end in time. [no limit] */
    int64_t       restart_delay_ms; /* A master whose process started less than this ago does not count: it may have
                                     * forgotten a hold. Set it to the longest ttl that any client uses; negative if no
                                     * master can lose data by a restart (appendfsync always). [ttl_ms] */
    hlk_event_fn *on_event;         /* Events of holds of this handle, before the client's own. NULL: none. */
    void         *event_ctx;        /* Passed to on_event. Borrowed until destroy has returned. */
};
#define HLK_QUORUM_OPTS_INIT                                                                                           \
    { sizeof(struct hlk_quorum_opts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, HLK_NULL, HLK_NULL }

/* Opens a client of `count` masters (1 to HLK_QUORUM_MAX; an odd number is the sensible one). Options and status are
 * those of hlk_client_open, but it returns as soon as a majority of the masters is connected. The others are connected
 * when they are there, and are given then what is held. The client makes hlk_quorum handles, cancels, and what a client
 * of redlock:// makes. wait_replicas is HLK_E_INVALID, and so is a URL that is there twice, or that of a cluster or of
 * Sentinels. Close it by hlk_client_close, which releases what is held. Any thread. Blocks for up to
 * reconnect_timeout_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_quorum_open(hlk_client **out, const char *const *urls, unsigned count,
                                                     const struct hlk_client_opts *opts);

/* Makes a handle. `name`: 1 to 512 bytes, copied. `opts`: NULL for the defaults. No I/O. NULL on an error, see
 * hlk_last_status(). `client` is one of hlk_quorum_open. Calls on a NULL handle return HLK_E_INVALID. Any thread. */
HLK_API HLK_MUST_USE hlk_quorum *hlk_quorum_create(hlk_client *client, const char *name,
                                                   const struct hlk_quorum_opts *opts);

/* Frees the handle. What it holds is released in the background. No other call may be using it. Its on_event does not
 * run any more; if it is running in another thread, this waits for it. No waiting for a server. NULL is fine. */
HLK_API void hlk_quorum_destroy(hlk_quorum *quorum);

/* Acquires the lock, waiting for up to `wait_ms` (HLK_NOWAIT: one try; HLK_FOREVER).
 * HLK_OK           held until hlk_quorum_held_until(); one release is due
 * HLK_BUSY         wait_ms is 0, and others hold too many of the masters, or another handle of this process has it
 * HLK_TIMEOUT      not acquired in all of wait_ms, or by retry_count more tries. Also if masters have not answered by
 *                  the end of the wait, and node_timeout_ms is not over
 * HLK_LOST         this handle lost a hold, and has not released it yet
 * HLK_DEADLOCK     this handle has the lock, or another thread acquires by it; nothing was sent
 * HLK_E_CONNECT    too few masters for a majority: with HLK_NOWAIT as soon as that is certain, else after
 *                  reconnect_timeout_ms, or at the end of the wait. The error text names each one and its reason
 * HLK_E_AUTH, SERVER   too many masters refuse: at once, but for what may pass (no replicas, out of memory, read-only),
 *                  which a wait goes through like HLK_E_CONNECT
 * HLK_E_NOMEM, INVALID, FORKED, CLOSED    see status.h
 * A master that was asked and has not answered counts as one that said no, and gets the release all the same. So never
 * HLK_E_UNSURE. Any thread. Blocks. Not a pthread cancellation point. */
HLK_API HLK_MUST_USE enum hlk_status hlk_quorum_acquire(hlk_quorum *quorum, int64_t wait_ms);

/* The same with options: wait_ms, cancel (HLK_INTERRUPTED), and lease_ms. > 0: the ttl of this hold, which is not
 * renewed. Flags are HLK_E_INVALID. */
HLK_API HLK_MUST_USE enum hlk_status hlk_quorum_acquire_with(hlk_quorum *quorum, const struct hlk_acquire_opts *opts);

/* Releases the lock on every master where it may be, also where no answer came to the acquire.
 * HLK_OK           a majority is free of it: has confirmed that, or never granted it
 * HLK_NOT_HOLDER   nothing changed
 * HLK_LOST         the hold was lost before, or a majority does not know it; nothing is held any more
 * HLK_E_UNSURE     too few answers in reply_timeout_ms. Not held any more, never renewed
 * HLK_E_SERVER, AUTH   too many masters refuse. Not held any more, never renewed
 * HLK_E_NOMEM, INVALID, FORKED, CLOSED    see status.h
 * Where no answer came it is repeated in the background until the ttl, or a longer one of an extension, is over. Any
 * thread. Blocks. */
HLK_API enum hlk_status hlk_quorum_release(hlk_quorum *quorum);

/* Extends the hold on a majority: it lasts until no sooner than `ttl_ms` (100 to a year) from now, less drift. Never
 * shortens it.
 * HLK_OK           extended
 * HLK_LOST         the hold is lost: over, or unknown to too many masters
 * HLK_NOT_HOLDER, HLK_E_INVALID   nothing was changed. INVALID also for more than max_hold_ms leaves
 * HLK_E_UNSURE     too few answers in node_timeout_ms: held for as long as before
 * HLK_E_NOMEM, FORKED, CLOSED    see status.h. Any thread. Blocks for up to node_timeout_ms. */
HLK_API HLK_MUST_USE enum hlk_status hlk_quorum_extend(hlk_quorum *quorum, int64_t ttl_ms);

/* Local, no I/O, any thread. */
HLK_API int64_t hlk_quorum_held_until(hlk_quorum *quorum);  /* Lost from then on, by hlk_now_ms. 0: not held. */
HLK_API int64_t hlk_quorum_left_ms(hlk_quorum *quorum);     /* Time from now until then. 0: not held, lost, or over.
                                                             * Check it before each effect on the outside world. */
HLK_API int     hlk_quorum_is_lost(hlk_quorum *quorum);     /* 1: it was held, is not any more, and was not released
                                                             * yet. Compares the clock itself. */
HLK_API const char *hlk_quorum_name(const hlk_quorum *quorum);  /* Lives as long as the handle. NULL for NULL. */

/* Copies the holder's token as written in Redis, "<client id>:<hold id>", to buf: cut if it is longer, always
 * terminated by NUL. HLK_OK, HLK_NOT_HOLDER, HLK_LOST, HLK_E_INVALID, FORKED, CLOSED. Local, any thread. */
HLK_API enum hlk_status hlk_quorum_hold_id(hlk_quorum *quorum, char *buf, size_t size);

HLK_END_DECLS

#endif
