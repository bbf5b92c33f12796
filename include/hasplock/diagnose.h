/* diagnose.h - examines the server that locks would use, and says what each fact means for them.
 *
 * `hasplock doctor` prints the findings. A program may examine its server when it starts:
 *
 *     static void on_finding(const struct hlk_finding *finding, void *ctx)
 *     {
 *         if (finding->level >= HLK_FINDING_WARNING)
 *             log_line("%s: %s. %s %s", finding->area, finding->measured, finding->meaning, finding->advice);
 *     }
 *
 *     if (hlk_diagnose("redis://10.0.0.7", NULL, on_finding, NULL) != HLK_OK)
 *         die(hlk_last_error());
 */
#ifndef HASPLOCK_DIAGNOSE_H
#define HASPLOCK_DIAGNOSE_H

#include "client.h"

HLK_BEGIN_DECLS

enum hlk_finding_level {
    HLK_FINDING_OK      = 0,
    HLK_FINDING_NOTE    = 1,    /* Nothing is wrong: a limit to know of, or a fact that this user may not ask for. */
    HLK_FINDING_WARNING = 2,    /* Locks work. In some situation they are lost, late or slow. */
    HLK_FINDING_PROBLEM = 3     /* Locks do not work, or are lost in normal operation. */
};

struct hlk_finding {            /* owned by the library; valid during the callback */
    size_t      size;
    const char *area;           /* what was examined: "eviction". Stable; hlk_diagnose(3) lists all */
    int         level;          /* enum hlk_finding_level */
    const char *measured;       /* the fact. No secret is in it, nor in the next ones */
    const char *meaning;        /* what it means for locks */
    const char *advice;         /* what to do; "": nothing. A line that begins with "ACL SETUSER" is a whole command */
};

/* Runs inside hlk_diagnose, once for each finding. */
typedef void hlk_finding_fn(const struct hlk_finding *finding, void *ctx);

struct hlk_diagnose_opts {
    size_t      size;
    const struct hlk_client_opts *client;   /* What a client would be opened with: credentials, TLS, reply_timeout_ms;
                                             * watchdog_ms is the lease that latencies are compared with; with
                                             * HLK_OPEN_NO_PUBSUB rights for pub/sub are not needed. The rest has no
                                             * effect. NULL: the defaults. */
    const char *prefix;             /* Beginning of the names of the locks, up to 400 bytes: rights are tried for such a
                                     * name. NULL: for a name without a prefix. */
    int64_t     clock_ms;           /* How long the server's clock is observed, in ms. 1 to 60000; 0: 1000. */
    unsigned    flags;              /* HLK_DIAGNOSE_... */
    unsigned    reserved;           /* Must be 0. */
};
#define HLK_DIAGNOSE_OPTS_INIT { sizeof(struct hlk_diagnose_opts), HLK_NULL, HLK_NULL, 0, 0, 0 }

/* Which rights are needed besides those of a plain lock. Others that are missing are a note. */
#define HLK_DIAGNOSE_FENCED 0x1u
#define HLK_DIAGNOSE_FAIR   0x2u
#define HLK_DIAGNOSE_LIST   0x4u        /* hlk_lock_list */
#define HLK_DIAGNOSE_STRING 0x8u        /* HLK_LOCK_STRING */

/* Examines the server at `url`, on a connection of its own, and calls `fn` for each finding. It changes nothing on the
 * server, but for a key that exists within one script; rights are tried with commands that have no effect. The server
 * counts each right that is missing in ACL LOG. Of redis+sentinel:// it examines the Sentinels, and the master that
 * they name; of redis+cluster:// the first host that answers.
 * HLK_OK           examined; the worst level of the findings says how it is
 * HLK_E_INVALID    the URL or an option is wrong, or fn is NULL; fn was not called
 * HLK_E_CONNECT, HLK_E_AUTH, HLK_E_SERVER    no connection, or none that is logged in: the last finding, a problem,
 *                  says why
 * HLK_E_OS, HLK_E_NOMEM
 * Any thread. Blocks for about 2 s, and up to reply_timeout_ms for each host or answer that does not come. */
HLK_API HLK_MUST_USE enum hlk_status hlk_diagnose(const char *url, const struct hlk_diagnose_opts *opts,
                                                  hlk_finding_fn *fn, void *ctx);

HLK_END_DECLS

#endif
