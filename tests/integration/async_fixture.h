/* async_fixture.h - what the tests of async calls share. A test runs in two modes: completions run on the events
 * thread, or by hlk_client_dispatch in the test's own loop. */
#ifndef HLK_TEST_INTEGRATION_ASYNC_FIXTURE_H
#define HLK_TEST_INTEGRATION_ASYNC_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* --- the test's loop */

extern bool dispatching;
extern hlk_client *loop_client;

hlk_client *open_for(bool dispatch);
/* A client that the test opened itself. */
void loop_use(hlk_client *client, bool dispatch);

/* One round of the loop: poll, dispatch. */
void turn(void);

#define LOOP_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        int64_t loop_started_ = test_now_ms();                                                                         \
        while (!(condition)) {                                                                                         \
            turn();                                                                                                    \
            if (!dispatching)                                                                                          \
                test_sleep_ms(1);                                                                                      \
            if (test_now_ms() - loop_started_ > WAIT_MS)                                                               \
                test_give_up("%s:%d: looped in vain for: %s", __FILE__, __LINE__, #condition);                         \
        }                                                                                                              \
    } while (0)

/* --- a completion that records how it ran */

struct done {
    atomic_int runs;
    enum hlk_status status;
    hlk_lock *lock;
    bool was_inside_call, was_inside_dispatch;
    pthread_t thread;
    char error[512];
    atomic_int order;
    bool release;               /* the completion releases the lock */
};

void remember(hlk_lock *lock, enum hlk_status status, void *ctx);
void acquire(hlk_lock *lock, int64_t wait_ms, hlk_cancel *cancel, struct done *done);
void release(hlk_lock *lock, struct done *done);
enum hlk_status result(struct done *done);

/* Defines the test twice, in suite `events` and in suite `dispatch`, with the client of open(dispatch). */
#define IN_BOTH_MODES_OF(open, events, dispatch, name)                                                                 \
    static void name(hlk_client *client);                                                                              \
    Test(events, name)                                                                                                 \
    {                                                                                                                  \
        name(open(false));                                                                                             \
    }                                                                                                                  \
    Test(dispatch, name)                                                                                               \
    {                                                                                                                  \
        name(open(true));                                                                                              \
    }                                                                                                                  \
    static void name(hlk_client *client)

#define IN_BOTH_MODES(events, dispatch, name) IN_BOTH_MODES_OF(open_for, events, dispatch, name)

#endif
