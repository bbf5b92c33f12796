/* client.h - one process's way to the locks of one Redis.
 *
 * Open one per process and server, share it between all threads, close it at the end. It has one command connection and
 * one subscriber connection however many locks and threads, and two threads of its own: one renews leases, and reads
 * subscriptions when no waiting thread does, one runs your callbacks (all signals blocked in both).
 *
 * fork(): in the child every call on it answers HLK_E_FORKED and sends nothing; the parent goes on undisturbed. The
 * child may call hlk_client_close (frees nothing) and open its own. All descriptors are close-on-exec.
 * Process exit without close: nothing is released, leases run out. SIGPIPE never comes from this library.
 */
#ifndef HASPLOCK_CLIENT_H
#define HASPLOCK_CLIENT_H

#include "status.h"

HLK_BEGIN_DECLS

typedef struct hlk_client hlk_client;      /* opaque; any number of threads at once */

enum hlk_event_kind {
    HLK_EVENT_AT_RISK   = 1,    /* renewal is overdue: lost at held_until_at_ms unless the server answers before */
    HLK_EVENT_SAFE      = 2,    /* after AT_RISK: renewed again */
    HLK_EVENT_LOST      = 3,    /* no longer held; told once per loss: when the server says so, be it to the hold's
                                 * release, else within milliseconds of held_until_at_ms */
    HLK_EVENT_ORPHANED  = 4     /* a thread ended, or an owner was destroyed, while it held: renewal has stopped, the
                                 * lease runs out */
};

struct hlk_event {              /* the library's; valid during the callback */
    size_t      size;
    int         kind;               /* enum hlk_event_kind; ignore kinds you do not know */
    const char *lock;               /* its name */
    const char *holder;             /* as written in Redis */
    int64_t     held_until_at_ms;   /* by hlk_now_ms: lost from then on. Unless the lock was broken, or forgotten by the
                                     * server (then it is the moment that was learnt), another holder is possible a
                                     * tenth of the lease later (50 ms at least, half of the lease at most): so much
                                     * time is left to stop */
    const char *why;                /* for people: "no answer to renewals from the server", "max_hold_ms is over" */
};

/* Runs on the client's events thread, one at a time, in order. May call anything but hlk_client_close; a call that
 * blocks delays the next event. */
typedef void hlk_event_fn(const struct hlk_event *event, void *ctx);

enum hlk_log_level { HLK_LOG_ERROR = 1, HLK_LOG_WARN = 2, HLK_LOG_INFO = 3, HLK_LOG_DEBUG = 4 };

/* One line without newline, never a secret. On any thread, the caller's too; be quick, call nothing of this library. */
typedef void hlk_log_fn(int level, const char *line, void *ctx);

/* All times in ms; 0 means the default in brackets. Strings are copied. */
struct hlk_client_opts {
    size_t        size;
    const char   *username;      /* before the URL's; NULL [the URL's] */
    const char   *password;      /* before the URL's; NULL [the URL's] */
    const char   *label;         /* for CLIENT LIST, "hasplock:<label>:<pid>"; 1 to 32 of A-Z a-z 0-9 . _ -
                                  * [program's name] */
    int64_t       watchdog_ms;   /* lease of holds without a fixed one, renewed each third of it; 300 to a year
                                  * [30000] */
    int64_t       reply_ms;      /* no byte for so long: the connection counts as dead; 10 to an hour [3000] */
    int64_t       patience_ms;   /* how long a call rides out an unreachable server; < 0: as long as its own deadline
                                  * allows, without end if it has none; hlk_client_open: 10 s then [10000] */
    int64_t       at_risk_ms;    /* HLK_EVENT_AT_RISK so long before a loss; up to half of watchdog_ms; of a shorter
                                  * fixed lease soon after the acquire [a third of the lease] */
    unsigned      flags;         /* HLK_OPEN_... */
    hlk_event_fn *on_event;      /* of every lock; NULL: logged and counted only */
    void         *event_ctx;     /* borrowed until close has returned */
    hlk_log_fn   *log;           /* NULL: warnings and errors to stderr */
    void         *log_ctx;       /* borrowed until close has returned */
    int           log_level;     /* [HLK_LOG_WARN] */
    int           local_passes;  /* a lock goes from thread to thread of this process so often, within 5 ms and without
                                  * Redis, before other processes have their turn: rate against their waiting; up to
                                  * 1000; < 0: never [128] */
    int           open_every;    /* beside Redisson's clients: one in so many releases, at random, leaves the lock to
                                  * them first, if any waits, */
    int           open_ms;       /* for so long; 1 to 1000. They have no place in the queue. open_every < 0: never
                                  * [4, 3] */
};
#define HLK_CLIENT_OPTS_INIT                                                                                           \
    { sizeof(struct hlk_client_opts), HLK_NULL, HLK_NULL, HLK_NULL, 0, 0, 0, 0, 0, HLK_NULL, HLK_NULL, HLK_NULL,       \
      HLK_NULL, 0, 0, 0, 0 }

#define HLK_OPEN_LAZY     0x1u   /* do not connect yet: open cannot answer CONNECT or AUTH, the first call does */
#define HLK_OPEN_DISPATCH 0x2u   /* async completions by hlk_client_dispatch in your loop (async.h), not on ours */
#define HLK_OPEN_NO_SPIN  0x4u   /* never poll before blocking; default: only while answers come within 150 us */

/* Connects, checks credentials, starts the threads. `url`: redis://[user[:pass]@]host[:port][/db], unix:/path/of.sock,
 * local: (a private server of this user on this host). `opts` NULL: the defaults.
 * HLK_OK           *out is the client, the caller's to close
 * HLK_E_INVALID    URL or option, and which; *out is NULL, as on every other fault
 * HLK_E_CONNECT, HLK_E_AUTH, HLK_E_SERVER
 * HLK_E_OS, HLK_E_NOMEM   no descriptor, thread or memory, for a name lookup too: at once. A client that is open
 *                  already rides such a lack out like a server that is away
 * Any thread. Blocks up to patience_ms, also when name lookup hangs. */
HLK_API HLK_MUST_USE enum hlk_status hlk_client_open(hlk_client **out, const char *url,
                                                     const struct hlk_client_opts *opts);

/* Wakes everybody who waits (HLK_E_CLOSED), releases everything held, delivers what callbacks are due, joins the
 * threads, frees. Destroy locks, owners and cancels before or after; they only answer HLK_E_CLOSED meanwhile.
 * NULL is fine. One thread, once; from a callback it does nothing but log an error. Blocks up to reply_ms for the
 * calls that are inside, and as long again for what it has to give back, if need be on a new connection. */
HLK_API void hlk_client_close(hlk_client *client);

/* The client part of its holders' names in Redis: "hlk-...". Lives as long as the client. Any thread. */
HLK_API const char *hlk_client_id(const hlk_client *client);

HLK_END_DECLS

#endif
