/* status.h - the return values of all calls.
 *
 * The number is for programs, hlk_last_error() is for people. Positive: a result; the system works, and for example
 * somebody else holds the lock. Negative: a fault; read the text. Values never change. Later releases add new ones, so
 * keep a `default:` in a switch.
 *
 * What a return value says about holding is the same everywhere:
 *
 *     HLK_OK                    done
 *     any other, from acquire   the caller holds nothing more than before and must release nothing
 *     any other, from release   the lock may not be free yet; calling release again is always safe (lock.h)
 */
#ifndef HASPLOCK_STATUS_H
#define HASPLOCK_STATUS_H

#include "export.h"

HLK_BEGIN_DECLS

enum hlk_status {
    HLK_OK          = 0,

    /* Results. */
    HLK_BUSY        = 1,    /* one try: somebody else holds it, or no answer came in time */
    HLK_TIMEOUT     = 2,    /* all of wait_ms has passed: somebody else held it, or no answer came */
    HLK_INTERRUPTED = 3,    /* the wait was cancelled, or (HLK_ACQUIRE_EINTR) a signal handler ran */
    HLK_NOT_HOLDER  = 4,    /* the caller does not hold it; nothing was changed */
    HLK_LOST        = 5,    /* the caller held it and lost it: expired, broken, or unknown to the server */
    HLK_DEADLOCK    = 6,    /* the caller already holds the lock, and the lock's kind is not reentrant (lock.h);
                             * nothing was sent */
    HLK_NOT_REPLICATED = 7, /* acquired, but fewer replicas than wait_replicas (client.h) acknowledged it in time. It is
                             * released: the caller holds nothing for this call */
    HLK_BROKEN      = 8,    /* of a barrier: a party has left before all had arrived (barrier.h). The caller no longer
                             * counts as arrived */

    /* Faults. */
    HLK_E_INVALID   = -100, /* an argument is out of its range; nothing was sent */
    HLK_E_NOMEM     = -101, /* no memory; nothing was sent */
    HLK_E_OS        = -102, /* no file descriptor, no thread, ...: the text has the system's reason */
    HLK_E_CONNECT   = -103, /* no usable server within reconnect_timeout_ms (client.h): none reachable, or it is
                             * loading, busy with a script, or has too many clients. Or three answers took longer than
                             * the lease. The caller holds what it held before. From release: no server within
                             * reply_timeout_ms; the lock is not held any more all the same (lock.h) */
    HLK_E_AUTH      = -104, /* wrong credentials, or a right is missing: the text names the command or channel */
    HLK_E_SERVER    = -105, /* the server refused: wrong type under the name, out of memory, read-only, ... */
    HLK_E_UNSURE    = -106, /* sent, but not answered in time; a release, extend or break may have happened. A release
                             * is repeated in the background until the lease is over. Never from an acquire with a
                             * lease: the library takes back what was sent. hlk_semaphore_acquire: no server could be
                             * asked for 8 minutes after it was sent */
    HLK_E_FORKED    = -107, /* the handle was inherited by fork(); nothing was sent. Open a new client */
    HLK_E_CLOSED    = -108  /* the client is being closed */
};

/* A short constant name: "HLK_TIMEOUT". Never NULL, also for unknown numbers. Any thread, async-signal-safe. */
HLK_API const char *hlk_status_name(enum hlk_status status);

/* One constant English sentence for people. Never NULL. Any thread, async-signal-safe. */
HLK_API const char *hlk_status_text(enum hlk_status status);

/* Describes the last call of this thread that did not return HLK_OK: operation, lock, endpoint, cause, and where they
 * are known holder and ttl. Example:
 *
 *     acquire "invoice:42" at redis://10.0.0.7:6379/0: not acquired in 2000 ms; held by web-3 pid 7 (hold 2), ttl 9.0 s
 *
 * A call on a handle that is NULL names the last creation that failed in this thread: mostly that is why it is NULL.
 * Never NULL; "" if there was none. One line of UTF-8: control characters, and bytes that are not UTF-8, are written as
 * \xNN. Contains no password. Owned by the library, valid until this thread's next call into it. Any thread; each has
 * its own. */
HLK_API const char *hlk_last_error(void);

/* The status that belongs to hlk_last_error(), for calls that return a handle or a number. HLK_OK if there is none. */
HLK_API enum hlk_status hlk_last_status(void);

/* The library's clock in ms: CLOCK_BOOTTIME, which goes on while the host is suspended, as leases do; CLOCK_MONOTONIC
 * where that does not exist. All `_at_ms` values of this library are on it. Any thread, async-signal-safe. */
HLK_API int64_t hlk_now_ms(void);

HLK_END_DECLS

#endif
