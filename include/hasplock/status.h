/* status.h - what every call answers.
 *
 * One number decides, one text explains. Positive: an answer, the system works (somebody else holds it). Negative: a
 * fault, read the text. Values never change; later releases add new ones, so keep a `default:` in a switch.
 *
 * What an answer promises about holding is the same everywhere:
 *
 *     HLK_OK                    done
 *     any other, from acquire   the caller holds nothing more than before and owes no release
 *     any other, from release   nothing is promised to be free yet; calling it again is always safe (lock.h)
 */
#ifndef HASPLOCK_STATUS_H
#define HASPLOCK_STATUS_H

#include "export.h"

HLK_BEGIN_DECLS

enum hlk_status {
    HLK_OK          = 0,

    /* Answers. */
    HLK_BUSY        = 1,    /* held by somebody else, and no wait was asked for */
    HLK_TIMEOUT     = 2,    /* held by somebody else until wait_ms had passed; never told earlier */
    HLK_INTERRUPTED = 3,    /* the wait was cancelled, or (HLK_ACQUIRE_EINTR) a signal handler ran */
    HLK_NOT_HOLDER  = 4,    /* the caller does not hold it; nothing was changed */
    HLK_LOST        = 5,    /* the caller held it, and no longer does: expired, broken, or unknown to the server */
    HLK_DEADLOCK    = 6,    /* granting this would make the caller wait for itself; no call of this release says so */

    /* Faults. */
    HLK_E_INVALID   = -100, /* an argument is out of its range; nothing was sent */
    HLK_E_NOMEM     = -101, /* no memory; nothing was sent */
    HLK_E_OS        = -102, /* no file descriptor, no thread, ...: the text has errno's */
    HLK_E_CONNECT   = -103, /* no server within patience_ms (client.h), or one that lets nobody in (loading, busy with
                             * a script, full of clients); nothing was sent, the caller holds what it held before. Of a
                             * release, no server within reply_ms: not held any more all the same (lock.h) */
    HLK_E_AUTH      = -104, /* wrong credentials, or a right is missing: the text names the command or channel */
    HLK_E_SERVER    = -105, /* the server refused: wrong type under the name, out of memory, read-only, ... */
    HLK_E_UNSURE    = -106, /* sent, not answered in time: it may have happened. The library takes it back (acquire)
                             * or repeats it (release) in the background until the lease is over; nothing to do */
    HLK_E_FORKED    = -107, /* this process got the handle by fork(); nothing was sent. Open a new client */
    HLK_E_CLOSED    = -108  /* the client is being closed */
};

/* A short constant name: "HLK_TIMEOUT". Never NULL, also for numbers unknown to it. Any thread, async-signal-safe. */
HLK_API const char *hlk_status_name(enum hlk_status status);

/* One constant English sentence for people. Never NULL. Any thread, async-signal-safe. */
HLK_API const char *hlk_status_text(enum hlk_status status);

/* The story of the last call of this thread that did not answer HLK_OK: operation, lock, holder if known, endpoint,
 * ttl, cause. Example:
 *
 *     acquire "invoice:42" at redis://10.0.0.7:6379/0: not got in 2000 ms; held by web-3 pid 4711 (hold 2), ttl 9.0 s
 *
 * Never NULL; "" when there was none. Owned by the library, valid until this thread's next call into it. Holds no
 * password. Any thread; each has its own. */
HLK_API const char *hlk_last_error(void);

/* The status that belongs to hlk_last_error(), for calls that return a handle or a number; HLK_OK if there is none. */
HLK_API enum hlk_status hlk_last_status(void);

/* The library's clock in ms: CLOCK_BOOTTIME where there is one (leases run out while a host sleeps, so its clock must
 * too), else CLOCK_MONOTONIC. All `_at_ms` values of this library are on it. Any thread, async-signal-safe. */
HLK_API int64_t hlk_now_ms(void);

HLK_END_DECLS

#endif
