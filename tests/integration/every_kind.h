/* every_kind.h - the kinds of lock as a table, and the places where they are kept: one server, a server with replicas,
 * a quorum, a cluster. What holds for each kind is a function in every_promise.c or every_fault.c; each
 * test_every_kind*.c makes a test of each promise for each kind at its place.
 *
 * A kind that is not in the table fails every_kind.has_a_row_for_each_kind. The lock is "t". */
#ifndef HLK_TEST_INTEGRATION_EVERY_KIND_H
#define HLK_TEST_INTEGRATION_EVERY_KIND_H

#include "support/fixture.h"

#include <pthread.h>
#include <stdatomic.h>

/* Each lock; those that a quorum has; and with a semaphore, whose calls have no holder and no lease. */
#define EACH_QUORUM_LOCK(is) is(plain) is(non_reentrant) is(string)
#define EACH_LOCK(is)                                                                                                  \
    EACH_QUORUM_LOCK(is) is(fenced) is(fair) is(spin) is(non_reentrant_fair) is(read) is(write) is(permit)
#define EACH_KIND(is) EACH_LOCK(is) is(semaphore)

/* One of each format of keys (src/kinds): for what takes long. */
#define EACH_FORMAT_OF_LOCKS(is) is(plain) is(fair) is(string) is(read) is(permit)

#define EVERY_NUMBER(kind) EVERY_##kind,
enum { EACH_KIND(EVERY_NUMBER) EVERY_KINDS };

enum { EVERY_SEMAPHORE_KIND = 23 }; /* of a semaphore: src/kinds/kinds.c */

struct every_kind {
    const char *name;
    int kind;                   /* HLK_LOCK_..., or EVERY_SEMAPHORE_KIND */
    int other;                  /* the number here of a kind that excludes it: mostly the same */
    bool nests;                 /* else its holder's second acquire is HLK_DEADLOCK */
    bool shared;                /* two holders may have it */
    bool fenced;
    bool has_number;            /* of permits, which stays in Redis */
};
extern const struct every_kind every_kinds[EVERY_KINDS];

struct every_place {
    void (*begin)(unsigned flags);
    void (*end)(void);
    hlk_client *(*open)(const struct hlk_client_opts *opts);
    void (*close)(hlk_client *client);
    void (*each_server)(void (*fn)(redisContext *redis));
    void (*allow)(const char *glob);    /* server_allow */
    /* At the next script: of the lock's server, of most masters, once for each. wait_struck waits until it has struck,
     * of the masters one at least, and disarms the others. */
    void (*arm)(enum proxy_fault fault);
    void (*wait_struck)(void);
    void (*restart)(bool keep_data);    /* the lock's server; of a quorum one master */
    int64_t watchdog_ms;        /* short, for a loss or a renewal that a test waits for */
    bool counts_waits;          /* in hlk_counters.waiting */
    bool has_margin;            /* of a tenth of the lease, between held_until and the next holder */
};
extern const struct every_place every_one_server;
extern const struct every_place *every_place;       /* of this test program */

void every_begin(const struct every_kind *kind, unsigned flags);    /* of fixture.h */
void every_end(void);                                               /* no-op without the first one */

void every_allow(const char *glob);                                 /* a key that may be left */
/* A hold in doubt leaves a tombstone, and a semaphore's call a note. */
void every_allow_tombstones(const struct every_kind *kind);

struct hlk_client_opts every_opts(void);
hlk_client *every_open(const struct hlk_client_opts *opts);
/* Until n calls of it wait, if the place counts that. */
void every_wait_for_waiters(hlk_client *client, unsigned n);

/* --- a handle --- */

struct every_handle {
    hlk_lock *lock;             /* NULL: a semaphore's */
    hlk_semaphore *semaphore;
};

struct every_handle every_make(const struct every_kind *kind, hlk_client *client, hlk_owner *owner);
void every_destroy(struct every_handle handle);
/* The same, and destroyed by every_end. */
struct every_handle every_handle(const struct every_kind *kind, hlk_client *client, hlk_owner *owner);
/* A handle that excludes this kind. */
struct every_handle every_other(const struct every_kind *kind, hlk_client *client);

enum hlk_status every_acquire_with(struct every_handle handle, const struct hlk_acquire_opts *opts);
enum hlk_status every_acquire(struct every_handle handle, int64_t wait_ms);
enum hlk_status every_release(struct every_handle handle);

/* --- a thread that acquires, holds until call_end, and releases --- */

struct every_call {
    struct every_handle handle;
    struct hlk_acquire_opts opts;
    pthread_t thread;
    enum hlk_status status, released;
    char error[512];
    int64_t answered_ms;
    atomic_bool answered, ends;
};

void call_start(struct every_call *call, struct every_handle handle, const struct hlk_acquire_opts *opts);
void call_start_wait(struct every_call *call, struct every_handle handle, int64_t wait_ms);
enum hlk_status call_status(struct every_call *call);   /* of the acquire; waits for it */
enum hlk_status call_end(struct every_call *call);      /* of the release, or of the acquire if that was not HLK_OK */
/* One try by another thread, which releases again. */
enum hlk_status every_try(struct every_handle handle);

/* --- without a blocked thread --- */

struct every_done {
    atomic_int runs;
    enum hlk_status status;
    char error[512];
};

void every_acquire_async(struct every_handle handle, const struct hlk_acquire_opts *opts, struct every_done *done);
void every_release_async(struct every_handle handle, struct every_done *done);
/* Waits; with HLK_OPEN_DISPATCH it dispatches meanwhile. */
enum hlk_status every_result(hlk_client *client, struct every_done *done);

/* --- what most promises begin and end with --- */

enum {
    RECONNECT_MS = 15000, /* of a wait that is to end by a grant */
    LEASE_MS = 1000, /* fixed: of a hold that is to be over */
    LONG_MS = 60000
};

void every_acquired(struct every_handle handle);        /* acquires, and fails the test if that fails */
void every_released(struct every_handle handle);
void every_is_held(struct every_handle other);          /* another thread's try through this handle is BUSY */
void every_is_free(struct every_handle other);          /* acquires and releases */
void call_acquired(struct every_call *call);            /* the same of a call that was started */
hlk_client *every_open_with_watchdog(void);             /* with the place's short watchdog */

#endif
