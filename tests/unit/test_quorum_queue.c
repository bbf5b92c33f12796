/* Who of a process is next for a lock over several masters, and when it lets other processes come first. */
/* Shows: P33 */
#include "quorum/quorum.h"

#include "quorum/queue.h"
#include "support/wait.h"

#include <criterion/criterion.h>

enum { NOW = 1000000, LONG = 10, BACK = 2 }; /* LONG: passed on among its own for so long */

static struct hlk_quorums all;
static int woken;

static void wake(struct hlk_waker *waker, unsigned bit)
{
    (void)waker;
    woken += bit == HLK_WAKE_QUEUE;
}

static struct hlk_waker waker = { .wake = wake };
static struct hlk_quorum_queue *queue;

static void begin(void)
{
    hlk_mutex_init(&all.mu, HLK_RANK_ENTRY);
    hlk_mutex_lock(&all.mu);
    woken = 0;
}

static void end(void)
{
    TEARDOWN_ASSERT(all.queues.count == 0);
    hlk_mutex_unlock(&all.mu);
    hlk_map_fini(&all.queues);
    hlk_mutex_fini(&all.mu);
}

TestSuite(quorum_queue, .init = begin, .fini = end, .timeout = 20);

static struct hlk_quorum_waiter waiter_new(void)
{
    return (struct hlk_quorum_waiter){ .waker = &waker };
}

static enum hlk_status enter(const char *name, struct hlk_quorum_waiter *waiter, int64_t now_ms)
{
    return hlk_quorum_queue_enter(&all, name, strlen(name), now_ms, waiter, &queue);
}

/* It gets the lock, behind other processes or not, and releases it. */
static void has_its_turn(const char *name, bool contended, int64_t released_ms)
{
    struct hlk_quorum_waiter waiter = waiter_new();
    cr_assert_eq(enter(name, &waiter, released_ms), HLK_OK);
    queue->contended |= contended;
    hlk_quorum_queue_pass(&all, queue, released_ms);
}

static int64_t yields(const char *name, int64_t now_ms)
{
    struct hlk_quorum_waiter waiter = waiter_new();
    cr_assert_eq(enter(name, &waiter, now_ms), HLK_OK);
    hlk_quorum_queue_pass(&all, queue, now_ms);
    return waiter.yields_ms;
}

Test(quorum_queue, has_one_head_and_passes_in_order)
{
    struct hlk_quorum_waiter head = waiter_new(), second = waiter_new(), third = waiter_new();
    cr_assert_eq(enter("t", &head, NOW), HLK_OK);
    cr_assert_eq(enter("t", &second, NOW), HLK_BUSY);
    cr_assert_eq(enter("t", &third, NOW), HLK_BUSY);
    cr_assert_eq(enter("t", NULL, NOW), HLK_BUSY, "one try waits for nobody");
    hlk_quorum_queue_pass(&all, queue, NOW);
    cr_assert(second.head && !third.head && woken == 1);
    hlk_quorum_queue_leave(&all, queue, &third);
    hlk_quorum_queue_pass(&all, queue, NOW);
    cr_assert_eq(woken, 1);
}

Test(quorum_queue, passes_to_its_own_for_10_ms_and_then_yields)
{
    struct hlk_quorum_waiter waiters[3] = { waiter_new(), waiter_new(), waiter_new() };
    cr_assert_eq(enter("t", &waiters[0], NOW), HLK_OK);
    cr_assert_eq(enter("t", &waiters[1], NOW), HLK_BUSY);
    cr_assert_eq(enter("t", &waiters[2], NOW), HLK_BUSY);
    hlk_quorum_queue_pass(&all, queue, NOW);
    cr_assert_eq(waiters[1].yields_ms, 0);
    hlk_quorum_queue_pass(&all, queue, NOW + LONG);
    cr_assert_eq(waiters[2].yields_ms, 2);
    hlk_quorum_queue_pass(&all, queue, NOW + LONG);
}

/* Shows: S39 */
Test(quorum_queue, yields_to_other_waiters_if_it_comes_back_at_once)
{
    has_its_turn("t", true, NOW);
    cr_assert_eq(yields("t", NOW + BACK - 1), 1);
}

Test(quorum_queue, does_not_yield_if_it_comes_back_later)
{
    has_its_turn("t", true, NOW);
    cr_assert_eq(yields("t", NOW + BACK), 0);
}

Test(quorum_queue, does_not_yield_if_it_had_to_wait_for_nobody)
{
    has_its_turn("t", false, NOW);
    cr_assert_eq(yields("t", NOW), 0);
}

Test(quorum_queue, yields_for_its_own_lock_only)
{
    has_its_turn("t", true, NOW);
    cr_assert_eq(yields("another", NOW), 0);
    cr_assert_eq(yields("t", NOW), 1);
}

/* One try is an answer, not a wait. */
Test(quorum_queue, one_try_does_not_yield)
{
    has_its_turn("t", true, NOW);
    cr_assert_eq(enter("t", NULL, NOW), HLK_OK);
    hlk_quorum_queue_pass(&all, queue, NOW);
}

Test(quorum_queue, forgets_old_turns_and_needs_no_memory_for_them)
{
    has_its_turn("t", true, NOW);
    for (int i = 0; i < HLK_QUORUM_TURNS; i++)
        has_its_turn("another", true, NOW);
    cr_assert_eq(yields("t", NOW), 0);
    cr_assert_eq(yields("another", NOW), 1);
}

/* Whoever is passed the lock within the process has not waited for another one. */
Test(quorum_queue, remembers_whether_any_of_its_holders_had_to_wait)
{
    struct hlk_quorum_waiter head = waiter_new(), second = waiter_new();
    cr_assert_eq(enter("t", &head, NOW), HLK_OK);
    cr_assert_eq(enter("t", &second, NOW), HLK_BUSY);
    queue->contended = true;
    hlk_quorum_queue_pass(&all, queue, NOW);
    cr_assert_eq(second.yields_ms, 0);
    hlk_quorum_queue_pass(&all, queue, NOW + 1);
    cr_assert_eq(yields("t", NOW + 1), 1);
}
