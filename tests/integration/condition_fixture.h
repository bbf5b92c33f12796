/* condition_fixture.h - what the tests of conditions share. The condition is "t". */
#ifndef HLK_TEST_INTEGRATION_CONDITION_FIXTURE_H
#define HLK_TEST_INTEGRATION_CONDITION_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define WAITERS "hasplock_condition:{t}"
#define LEASES  "hasplock_condition_leases:{t}"
#define POLL_MS 5000 /* without a message a wait asks so often */

void condition_start(void);
void condition_start_proxied(void);
void condition_start_durable(void);

hlk_condition *condition_make(hlk_client *client, int64_t lease_ms);
int64_t condition_waiting(void);        /* so many wait for a signal, by Redis */
int64_t condition_signalled(void);      /* so many were signalled, and do not hold their lock again */
int64_t condition_listening(void);      /* so many listen to their channels */

struct waiting { /* a thread that acquires a lock, waits once, and releases what it holds then */
    hlk_condition *condition;
    hlk_lock *lock;
    struct hlk_acquire_opts opts; /* of the wait; size 0: the usual ones */
    int64_t lease_ms;             /* of the lock; 0: renewed */
    int times;                    /* it acquires the lock so often; 0: once */
    enum hlk_status status;
    int holds;                    /* after the wait */
    int64_t left_ms, took_ms;
    char error[512];
    atomic_bool answered;
    pthread_t thread;
};

void waiting_start(struct waiting *waiting, hlk_condition *condition, hlk_lock *lock);
/* The same, and it waits and listens: `before` others do. */
void waiting_start_as(struct waiting *waiting, hlk_condition *condition, hlk_lock *lock, int64_t before);
enum hlk_status waiting_ended(struct waiting *waiting);
/* HLK_OK within two polls, with the lock held once. */
void waiting_is_woken(struct waiting *waiting);

#endif
