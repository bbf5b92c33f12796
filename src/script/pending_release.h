/* pending_release.h - releases, give-ups and clean-ups after a loss: each is repeated until Redis has answered it.
 *
 * A release is sent when its caller starts it. If its connection breaks, or the server asks to come later, it is sent
 * again, before everything else once a connection is up, until it is answered or its lease is over anyway. The caller
 * waits for the outcome, or leaves it to the background. */
#ifndef HLK_SCRIPT_PENDING_RELEASE_H
#define HLK_SCRIPT_PENDING_RELEASE_H

#include "script/command.h"

enum hlk_release_outcome {
    HLK_RELEASE_PENDING = 0,       /* not settled yet */
    HLK_RELEASE_DONE,              /* it was held by this hold, and is free now */
    HLK_RELEASE_ABSENT,            /* it was not, said to the first attempt: expired or broken before */
    HLK_RELEASE_ABSENT_REPEATED,   /* it is not, said to a repeated attempt: an earlier one has done it */
    /* the same, by another process of the server's than the one that knew the hold: an earlier attempt may have done
     * it, or the hold is lost with the server's data */
    HLK_RELEASE_UNKNOWN,
    HLK_RELEASE_UNSURE,            /* `noted`, and in doubt for so long that it is not repeated any more */
    HLK_RELEASE_GIVEN_UP,          /* the lease is over, or the client closed, without an answer */
    HLK_RELEASE_REFUSED            /* the server refused for good, or each attempt until the lease was over: error */
};

/* What the scripts of all formats answer to a release: */
#define HLK_RELEASED_MIXED 3    /* it was held by this hold, and others wait by another kind of lock of this name */

struct hlk_releases;

struct hlk_release {               /* heap; the pending releases' from start until settled */
    struct hlk_command cmd;
    struct hlk_list link;       /* under the pending releases' mutex: all of them */
    struct hlk_releases *releases;
    /* Once, any thread, no mutex held; frees the pending release or keeps it. `error` NULL unless REFUSED. */
    void (*settled)(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error);
    void *ctx;
    bool doubt;                 /* an attempt of the hold's acquire is in doubt */
    struct hlk_error *refusal;  /* under the mutex: each attempt was refused, the last one so. Else NULL */
    int64_t known_ms;           /* when the attempt was sent whose answer said last that it is held; 0: never */
    uint64_t acquire_epoch;     /* != 0: an attempt of it is still in flight in this stream */
    const hlk_pipeline *acquire_pipeline;   /* whose that is; NULL: of the server that the release goes to */
    int64_t until_ms;           /* the lease is over then */
    bool noted;                 /* run twice it does it twice, but for a note, which does not live for ever: in doubt it
                                 * is repeated for HLK_REPEAT_MS only */
    int64_t taken_ms;           /* of a semaphore's acquire: since when there may be a note that it has taken; 0: none.
                                 * Read by hlk_hold_end_check_note (lease/hold_end.h) */
    bool handed_back;           /* the starter's: of a grant that no call waited for any more */
    bool in_flight;             /* the waiter's: its attempt is in the stream */
    bool announced;             /* under the mutex: announced, and not started yet */
    bool kept;                  /* under the mutex: the loop starts it at start_ms */
    bool starts_now;            /* under the mutex: it was to be started before that, perhaps before start_at */
    int64_t start_ms;
    struct hlk_release *next;   /* the next of those that are started together */
    bool parked;                /* under the mutex: no attempt is in flight, waits for a connection or a later moment */
    atomic_bool optional;       /* any thread: others of its kind were enough, close does not wait for this one when no
                                 * attempt flies */
    bool mixed;                 /* DONE: others wait for it by another kind of lock of this name */
};

struct hlk_releases {
    hlk_pipeline *pipeline;     /* in a cluster that of its first server: each release has a router */
    hlk_loop *loop;
    const char *client_id;
    const struct hlk_log *log;  /* for what is left behind by close; NULL: not logged */
    /* one in so many ends leaves the lock to Redisson's clients for so long, if any listens; 0: none does */
    unsigned yield_every;
    int64_t yield_ms;
    struct hlk_tick tick;
    struct hlk_mutex mu;        /* rank RELEASES; guards: */
    struct hlk_list all;
    unsigned parked;
    bool closed;                /* nothing is sent any more: what is parked is given up */
    bool start_all;             /* none is kept any more: the client is being closed */
    int64_t try_at_ms;
    int64_t start_ms;           /* the earliest of those that are kept; INT64_MAX: none */
};

void hlk_releases_init(struct hlk_releases *releases, hlk_loop *loop, const char *client_id);
/* settles what is left as GIVEN_UP; after the pipeline was closed */
void hlk_releases_fini(struct hlk_releases *releases);
/* those that no thread drives, as GIVEN_UP, and logs that; after the pipeline was closed */
void hlk_releases_settle_all(struct hlk_releases *releases);
void hlk_releases_on_up(struct hlk_releases *releases);                         /* loop thread: a new stream begins */

/* A release that will be started later, for certain: from now on hlk_releases_has knows of it. cmd.hold is set. */
void hlk_release_announce(struct hlk_releases *releases, struct hlk_release *pending);

/* After hlk_release_announce: the loop starts it at at_ms, or hlk_release_start_now does so earlier. */
void hlk_release_start_at(struct hlk_releases *releases, struct hlk_release *pending, int64_t at_ms);
/* Starts it if it is kept; if start_at has not been called yet, that call will start it at once. Any thread, while its
 * memory is valid, also after it was started or settled. */
void hlk_release_start_now(struct hlk_releases *releases, struct hlk_release *pending);
/* Starts all that are kept. From now on start_at starts at once. */
void hlk_releases_start_all(struct hlk_releases *releases);

/* cmd's type, router, name, hold, place and fenced, until_ms, known_ms, doubt, acquire_epoch, settled, ctx are set. The
 * release is in the stream, or parked, on return: what the caller sends next comes after it. With waiter:
 * hlk_release_wait must follow. eager: a caller waits for `settled`. */
void hlk_release_start(struct hlk_releases *releases, struct hlk_release *pending, struct hlk_thread *waiter,
                       bool eager);

/* Drives it from the waiter's thread. HLK_OK: `settled` was called. Else at_ms came, and it goes on in the
 * background: HLK_E_UNSURE, an attempt has run, or may run; HLK_E_CONNECT, none was written; or the server has
 * refused each attempt, which is in *error. */
enum hlk_status hlk_release_wait(struct hlk_release *pending, struct hlk_thread *waiter, int64_t at_ms,
                                 struct hlk_error *error);

#endif
