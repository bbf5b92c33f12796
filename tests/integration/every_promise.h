/* every_promise.h - what holds for each kind of lock. A promise is a function that asserts it for one kind, at the
 * place of the test program (every_kind.h). */
#ifndef HLK_TEST_INTEGRATION_EVERY_PROMISE_H
#define HLK_TEST_INTEGRATION_EVERY_PROMISE_H

#include "every_kind.h"

#include <criterion/criterion.h>

/* Of each kind, a semaphore too: promise, and flags of every_begin. */
#define EACH_PROMISE_OF_CALLS(is, kind)                                                                                \
    is(kind, is_acquired_and_released, 0)                                                                              \
    is(kind, is_tried_once_when_its_deadline_has_passed, 0)                                                            \
    is(kind, completes, 0)                                                                                             \
    is(kind, completes_in_dispatch, 0)                                                                                 \
    is(kind, is_cancelled, 0)                                                                                          \
    is(kind, leaves_although_writes_are_refused, 0)                                                                    \
    is(kind, leaves_no_ticket_unsaid, 0)                                                                               \
    is(kind, outlasts_a_refusal_of_writes, 0)                                                                          \
    is(kind, ends_by_a_signal, 0)                                                                                      \
    is(kind, ends_with_its_client, 0)                                                                                  \
    is(kind, has_handles_that_come_and_go, 0)                                                                          \
    is(kind, has_async_handles_that_come_and_go, 0)

/* Of those that have a holder and a lease. */
#define EACH_PROMISE_OF_HOLDS(is, kind)                                                                                \
    is(kind, nests_or_is_a_deadlock, 0)                                                                                \
    is(kind, ends_by_its_lease, 0)                                                                                     \
    is(kind, is_renewed, 0)                                                                                            \
    is(kind, is_extended, 0)                                                                                           \
    is(kind, is_lost_when_redis_forgets_it, 0)                                                                         \
    is(kind, knows_owners, 0)                                                                                          \
    is(kind, is_free_when_its_client_closes, 0)

/* Where commands and answers are lost: every_fault.c, as those that follow. */
#define EACH_PROMISE_OF_LOST_ANSWERS(is, kind)                                                                         \
    is(kind, survives_a_cut_before_its_command, STAGE_PROXY)                                                           \
    is(kind, survives_a_cut_before_its_answer, STAGE_PROXY)                                                            \
    is(kind, survives_an_answer_that_never_comes, STAGE_PROXY)                                                         \
    is(kind, completes_after_a_cut_before_its_command, STAGE_PROXY)                                                    \
    is(kind, completes_after_a_cut_before_its_answer, STAGE_PROXY)                                                     \
    is(kind, completes_after_an_answer_that_never_comes, STAGE_PROXY)

/* Where a lock is on one server. */
#define EACH_PROMISE_OF_RESTARTS(is, kind)                                                                             \
    is(kind, stays_when_its_server_restarts_with_data, SERVER_AOF)                                                     \
    is(kind, is_gone_when_its_server_restarts_without, 0)

/* Where it is on most of the masters. */
#define EACH_PROMISE_OF_RESTARTS_OF_A_MASTER(is, kind)                                                                 \
    is(kind, stays_when_its_server_restarts_with_data, SERVER_AOF)                                                     \
    is(kind, stays_when_a_master_restarts_without, 0)

/* Where there is a holder. */
#define EACH_PROMISE_OF_KILLS(is, kind) is(kind, is_free_when_its_holder_is_killed, 0)

#define EVERY_DECLARE(kind, promise, flags) void promise(const struct every_kind *kind);
EACH_PROMISE_OF_CALLS(EVERY_DECLARE, k)
EACH_PROMISE_OF_HOLDS(EVERY_DECLARE, k)
EACH_PROMISE_OF_LOST_ANSWERS(EVERY_DECLARE, k)
EACH_PROMISE_OF_RESTARTS(EVERY_DECLARE, k)
EVERY_DECLARE(k, stays_when_a_master_restarts_without, 0)
EACH_PROMISE_OF_KILLS(EVERY_DECLARE, k)

/* Threads that make a handle, acquire, release and destroy it, EVERY_ROUNDS times each. None may fail. */
enum { EVERY_VISITORS = 4, EVERY_ROUNDS = 100 };
struct every_visitor {
    const struct every_kind *kind;
    hlk_client *client;
    pthread_t thread;
    enum hlk_status status;
    char error[512];
};
void visitors_start(struct every_visitor *visitors, const struct every_kind *kind);
void visitors_end(struct every_visitor *visitors);

/* The suite of a kind, and its test of one promise. */
#define EVERY_SUITE(kind) TestSuite(every_kind_##kind, .fini = every_end, .timeout = 90);
#define EVERY_TEST(kind, promise, flags)                                                                               \
    Test(every_kind_##kind, promise)                                                                                   \
    {                                                                                                                  \
        every_begin(&every_kinds[EVERY_##kind], flags);                                                                \
        promise(&every_kinds[EVERY_##kind]);                                                                           \
    }

#endif
