/* client.h - the connections of one process to Redis, and the options that apply to all its locks.
 *
 * Redis is one server, the master that sentinels name, a cluster, or several masters (redlock://): the URL says which.
 * Open one client per process and URL, share it between all threads, and close it at the end. A client has one command
 * connection and one subscriber connection to each server, however many locks and threads use it. It starts two
 * threads, with all signals blocked: the first renews leases, and reads the subscriber connection when no waiting
 * thread does; the second runs your callbacks.
 *
 * fork(): in the child, every call on the client returns HLK_E_FORKED and sends nothing. The parent is not affected.
 * The child may call hlk_client_close, which frees nothing, and open a client of its own. All descriptors are
 * close-on-exec. If the process exits without closing the client, nothing is released; the leases run out. The library
 * never raises SIGPIPE.
 */
#ifndef HASPLOCK_CLIENT_H
#define HASPLOCK_CLIENT_H

#include "status.h"

HLK_BEGIN_DECLS

typedef struct hlk_client hlk_client;      /* opaque; any number of threads at once */

enum hlk_event_kind {
    HLK_EVENT_AT_RISK   = 1,    /* Renewal is overdue. The lock is lost at held_until_at_ms unless the server answers
                                 * before. */
    HLK_EVENT_SAFE      = 2,    /* After AT_RISK: the lease was renewed. */
    HLK_EVENT_LOST      = 3,    /* The lock is no longer held. Reported once per loss: as soon as the server says so,
                                 * for instance in its answer to the release; else within milliseconds of
                                 * held_until_at_ms. */
    HLK_EVENT_ORPHANED  = 4,    /* A thread ended, or an owner was destroyed, while it held the lock. Renewal has
                                 * stopped; the lease runs out. */
    HLK_EVENT_ASKED     = 5     /* Somebody asks for the lock's release (hlk_lock_ask, hasplock break). It is held and
                                 * renewed as before: come to an end, and release it. */
};

struct hlk_event {              /* owned by the library; valid during the callback */
    size_t      size;
    int         kind;               /* enum hlk_event_kind; ignore kinds you do not know */
    const char *lock;               /* the lock's name */
    const char *holder;             /* the hold as written in Redis */
    int64_t     held_until_at_ms;   /* The lock counts as lost from this moment on, by hlk_now_ms. No other holder is
                                     * possible before a tenth of the lease later (at least 50 ms, at most half of the
                                     * lease): this is the time left to stop. It ends earlier with the last release by
                                     * the holder (this callback may call it), and when the client is closed. After a
                                     * break, or when the server lost its data, it is the moment at which the client
                                     * learned of it, and another holder may exist already. Over several masters:
                                     * quorum.h. */
    const char *why;                /* for people: "no answer to renewals from the server", "max_hold_ms is over" */
};

/* Event callback. Runs on the client's events thread, one at a time, in order. It may call anything but
 * hlk_client_close. A callback that blocks delays the next event. */
typedef void hlk_event_fn(const struct hlk_event *event, void *ctx);

enum hlk_log_level { HLK_LOG_ERROR = 1, HLK_LOG_WARN = 2, HLK_LOG_INFO = 3, HLK_LOG_DEBUG = 4 };

/* Log callback: one line, without newline, never with a secret. It runs on the thread that logs: the caller's, or the
 * one that renews leases. It must not block, because a delayed renewal can lose a lock, and it must not call this
 * library.
 * Without a callback, lines go to stderr. A thread of their own writes them, so that no other thread blocks. It drops
 * lines when more than 32 KiB are waiting, and writes how many it dropped. exit() waits for it for up to 200 ms. */
typedef void hlk_log_fn(int level, const char *line, void *ctx);

struct hlk_credentials {        /* filled by the callback below; wiped by the library */
    size_t      size;
    const char *server;             /* for people: the URL without credentials */
    char        username[256];      /* "": the default user */
    char        password[1024];     /* "": none */
};

/* Credentials callback, for passwords that change: called before each connection logs in, with the URL's, or the
 * option's, user and password filled in. 0: use what is there now; else the connection fails with HLK_E_AUTH, and is
 * tried again. Runs on the client's loop thread. It must not block, because a delayed renewal can lose a lock, and it
 * must not call this library. */
typedef int hlk_credentials_fn(struct hlk_credentials *credentials, void *ctx);

/* All times are in ms. 0 means the default, given in brackets. Strings are copied. */
struct hlk_client_opts {
    size_t        size;
    const char   *username;             /* Overrides the URL's. NULL: the URL's. */
    const char   *password;             /* Overrides the URL's. NULL: the URL's. */
    const char   *label;                /* Shown in CLIENT LIST as "hasplock:<label>:<pid>". 1 to 32 characters of
                                         * A-Z a-z 0-9 . _ - [the program's name] */
    int64_t       watchdog_ms;          /* Lease of holds that have no lease of their own; renewed each third of it, or
                                         * each renew_ms. 300 to a year. [30000] */
    int64_t       reply_timeout_ms;     /* The connection counts as dead when no byte arrives for this long, or when
                                         * less than 4 KiB of an answer that has begun do. 10 to an hour. [3000] */
    int64_t       reconnect_timeout_ms; /* How long a call waits for an unreachable server, counted from its start or
                                         * from the loss of the connection, whichever is later. < 0: until the call's
                                         * own deadline; without one it is without limit, but 10 s as long as the
                                         * server has never been reached, as for hlk_client_open. [10000] */
    int64_t       at_risk_ms;           /* HLK_EVENT_AT_RISK comes this long before the lock would be lost. Up to half
                                         * of watchdog_ms. For a shorter fixed lease it comes soon after the acquire.
                                         * [a third of the lease] */
    unsigned      flags;                /* HLK_OPEN_... */
    unsigned      reserved;             /* Must be 0. */
    hlk_event_fn *on_event;             /* Events of all locks. NULL: they are logged and counted only. */
    void         *event_ctx;            /* Passed to on_event. Borrowed until close has returned. */
    hlk_log_fn   *log;                  /* NULL: to stderr. */
    void         *log_ctx;              /* Passed to log. Borrowed until close has returned. */
    int           log_level;            /* Lines of this level and of more severe ones. [HLK_LOG_WARN] */
    int           local_passes;         /* Maximum number of consecutive hand-overs between threads of this process,
                                         * within 5 ms, before other processes get a turn; also of permits, of a
                                         * semaphore or with leases. More gives throughput, fewer give fairness. Up to
                                         * 1000; < 0: none, and readers share no hold (rwlock.h). [128] */
    int           yield_every;          /* One in this many releases, at random, leaves the lock, or what is free of a
                                         * semaphore, to clients of Redisson for yield_ms if any of them waits: they
                                         * have no position in our queue. < 0: no release does. [4] */
    int           yield_ms;             /* 1 to 1000. [3] */
    const char   *password_file;        /* The first line of this file is the password. It is read before each
                                         * connection, so that it may change. Not together with `password`. */
    hlk_credentials_fn *credentials;    /* NULL: user and password do not change. */
    void         *credentials_ctx;      /* Passed to credentials. Borrowed until close has returned. */
    /* TLS: only for a URL with rediss. The files are PEM, and are read again when one of them has changed and a
     * connection is made. */
    const char   *tls_ca_file;          /* Certificates of trusted CAs, or the server's own. NULL: the system's CAs,
                                         * unless tls_ca_dir is given. */
    const char   *tls_ca_dir;           /* A directory of such files, named by hash (openssl rehash). */
    const char   *tls_cert_file;        /* The client's certificate, with its chain. NULL: none. */
    const char   *tls_key_file;         /* Its key, not encrypted. NULL: in tls_cert_file. */
    const char   *tls_crl_file;         /* Lists of revoked certificates. Each CA of the server's chain, the root too,
                                         * must have a list in it that has not expired. NULL: not checked. */
    const char   *tls_server_name;      /* The name that the server's certificate must have, 1 to 255 bytes. NULL: the
                                         * URL's host. */
    const char   *sentinel_username;    /* For the sentinels of a redis+sentinel:// URL. The URL's, and those above, are
                                         * for the Redis servers. NULL: none. */
    const char   *sentinel_password;    /* NULL: none. */
    int           wait_replicas;        /* An acquire returns HLK_OK only when so many replicas have the hold (WAIT);
                                         * else it releases it, and returns HLK_NOT_REPLICATED. A failover to one of
                                         * them then keeps the hold. It is still no consensus: docs/safety.md. 0 to
                                         * 1000. [0] (checkLockSyncedSlaves) */
    int           wait_replicas_timeout_ms; /* So long after the lock was acquired, and no longer than the call's own
                                         * deadline. 1 to 60000. [1000] (slavesSyncTimeout) */
    int64_t       renew_ms;             /* Holds under the watchdog are renewed so often. Less survives longer outages,
                                         * and costs commands. A twentieth to a third of watchdog_ms. [a third of the
                                         * lease] */
};
#define HLK_CLIENT_OPTS_INIT                                                                                           \
    { sizeof(struct hlk_client_opts), HLK_NULL, HLK_NULL, HLK_NULL, 0, 0, 0, 0, 0, 0, HLK_NULL, HLK_NULL, HLK_NULL,    \
      HLK_NULL, 0, 0, 0, 0, HLK_NULL, HLK_NULL, HLK_NULL, HLK_NULL, HLK_NULL, HLK_NULL, HLK_NULL, HLK_NULL,            \
      HLK_NULL, HLK_NULL, HLK_NULL, 0, 0, 0 }

#define HLK_OPEN_LAZY     0x1u   /* Do not connect yet. Open cannot return CONNECT or AUTH; the first call can. */
#define HLK_OPEN_DISPATCH 0x2u   /* Run async completions in hlk_client_dispatch, on your loop (async.h). */
#define HLK_OPEN_NO_SPIN  0x4u   /* Never poll before blocking. Default: poll while answers arrive within 150 us. */
#define HLK_OPEN_LISTEN   0x8u   /* Keep the inbox subscribed from open to close. A break of one of this client's holds
                                  * is then reported at once, and a wait takes its position by its first command. Costs
                                  * a connection, and a renewal of all holds each time it is made. Default: subscribed
                                  * only while a thread waits, and for 10 s after that. No effect in a cluster. */
#define HLK_OPEN_NO_PUBSUB 0x10u /* Never subscribe, and do not check at open for the rights to SUBSCRIBE, PUBLISH and
                                  * PUBSUB NUMSUB: for servers or users without pub/sub. Only kinds of lock that poll
                                  * (HLK_LOCK_SPIN) can be created. Not together with HLK_OPEN_LISTEN. */

/* Opens a client: connects, checks credentials, starts its threads.
 * `url`: redis://[user[:pass]@]host[:port][/db], rediss:// with the same (TLS 1.2 or later; the server's certificate
 * and its name are checked), unix:/path/of.sock, or local: (a private server of this user on this host); or
 * redis+sentinel://[user[:pass]@]host[:port],host[:port]/service[/db], the master that Redis Sentinel names (port 26379
 * by default): the client follows it through failovers; or redis+cluster://[user[:pass]@]host[:port],..., a Redis
 * Cluster, by any of its servers. rediss+sentinel:// and rediss+cluster:// are the same with TLS. Or
 * redlock://[user[:pass]@]host[:port][/db],...[?option=number&...]: independent masters, of which a majority decides
 * (quorum.h); redlocks:// with TLS. Each host has its own user, port and db, and may also be unix:/path. Options are
 * the numbers of struct hlk_quorum_opts by their names; there a 0 means 0, and ttl_ms is watchdog_ms by default. Its
 * locks are HLK_LOCK_PLAIN, HLK_LOCK_NON_REENTRANT and HLK_LOCK_STRING.
 * `opts`: NULL for the defaults.
 * HLK_OK           *out is the client; the caller closes it
 * HLK_E_INVALID    the URL or an option is wrong, and the error says which. *out is NULL, as on every other error
 * HLK_E_CONNECT, HLK_E_AUTH, HLK_E_SERVER    see status.h
 * HLK_E_OS, HLK_E_NOMEM   no descriptor, thread or memory, also for the name lookup: returned at once. A client that is
 *                  already open treats such a lack like a server that is away
 * Any thread. Blocks for up to reconnect_timeout_ms, also when the name lookup hangs. */
HLK_API HLK_MUST_USE enum hlk_status hlk_client_open(hlk_client **out, const char *url,
                                                     const struct hlk_client_opts *opts);

/* Closes a client: wakes all waiting calls (HLK_E_CLOSED), releases everything held, and every lost lock that another
 * client cannot hold yet (held_until_at_ms), so end the work under them before. Delivers the callbacks that are due,
 * joins the threads, frees the client. Destroy locks, owners and cancels before or after; until then they return
 * HLK_E_CLOSED. NULL is fine. Call it once, from one thread; in a callback it only logs an error. Blocks for up to
 * reply_timeout_ms for the calls that are inside, and as long again for what it has to release, if necessary on a new
 * connection. What is not answered by then is logged (HLK_LOG_WARN), and ends with its lease; waiters pass over the
 * places in queues that are left. */
HLK_API void hlk_client_close(hlk_client *client);

/* The client's part of its holders' names in Redis: "hlk-...". Lives as long as the client. Any thread. */
HLK_API const char *hlk_client_id(const hlk_client *client);

HLK_END_DECLS

#endif
