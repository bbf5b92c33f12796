/* The cancel object's flag and its writes, in each order that threads can produce. The test runs the loop. */
#include "wait/cancel.h"

#include "peer.h"

#include <criterion/criterion.h>
#include <sys/eventfd.h>

static struct peer peer;
static hlk_cancel *cancel;
static struct hlk_cancel_wait ann, bob;
static int woken;

static void count(struct hlk_cancel_wait *wait)
{
    (void)wait;
    woken++;
}

static void no_client(hlk_client *client)
{
    (void)client;
}

/* How many waits the loop wakes in one round. */
static int wakes(void)
{
    woken = 0;
    (void)ev_run(hlk_loop_ev(peer.loop), EVRUN_NOWAIT);
    return woken;
}

static void meet(void)
{
    struct hlk_error error;
    peer_open(&peer);
    cancel = hlk_cancel_make(peer.loop, NULL, no_client, &error);
    cr_assert_not_null(cancel);
    ann.wake = bob.wake = count;
    cr_assert_eq(wakes(), 0);
}

static void part(void)
{
    hlk_cancel_leave(cancel, &ann);
    hlk_cancel_leave(cancel, &bob);
    hlk_loop_unwatch(peer.loop, &cancel->watch);
    hlk_cancel_destroy(cancel);
    peer_close(&peer);
    peer_free(&peer);
}

TestSuite(cancel, .init = meet, .fini = part, .timeout = 20);

/* hlk_cancel_trigger in two steps, for events in between. */
static void set_flag(void)
{
    cr_assert_eq(atomic_exchange(&cancel->triggered, 1), 0);
}

static void write_late(void)
{
    cr_assert_eq(eventfd_write(cancel->fd, 1), 0);
}

Test(cancel, wakes_all_who_have_joined_and_lets_nobody_join)
{
    cr_assert(hlk_cancel_join(cancel, &ann));
    cr_assert(hlk_cancel_join(cancel, &bob));
    cr_assert_eq(wakes(), 0);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(wakes(), 2);
    hlk_cancel_leave(cancel, &ann);
    cr_assert_not(hlk_cancel_join(cancel, &ann));
}

Test(cancel, is_quiet_once_it_has_woken)
{
    cr_assert(hlk_cancel_join(cancel, &ann));
    hlk_cancel_trigger(cancel);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(wakes(), 1);
    cr_assert_eq(wakes(), 0, "a loop that is woken without end does nothing else");
}

Test(cancel, works_again_after_each_reset)
{
    for (int i = 0; i < 3; i++) {
        cr_assert(hlk_cancel_join(cancel, &ann));
        hlk_cancel_trigger(cancel);
        cr_assert_eq(wakes(), 1);
        hlk_cancel_leave(cancel, &ann);
        hlk_cancel_reset(cancel);
    }
}

Test(cancel, hears_a_trigger_after_a_late_write_of_a_reset_one)
{
    set_flag();
    hlk_cancel_reset(cancel);
    write_late();
    cr_assert(hlk_cancel_join(cancel, &ann));
    cr_assert_eq(wakes(), 0, "that one was reset before ann came");
    hlk_cancel_trigger(cancel);
    cr_assert_eq(wakes(), 1);
}

Test(cancel, hears_a_trigger_whose_write_comes_after_a_late_one)
{
    set_flag();
    hlk_cancel_reset(cancel);
    cr_assert(hlk_cancel_join(cancel, &ann));
    set_flag();
    write_late(); /* the first trigger's */
    cr_assert_eq(wakes(), 1);
    hlk_cancel_leave(cancel, &ann);
    hlk_cancel_reset(cancel);
    cr_assert(hlk_cancel_join(cancel, &bob));
    write_late(); /* the second trigger's */
    cr_assert_eq(wakes(), 0);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(wakes(), 1);
}

Test(cancel, hears_a_trigger_when_the_loop_missed_the_last_one)
{
    cr_assert(hlk_cancel_join(cancel, &ann));
    hlk_cancel_trigger(cancel);
    hlk_cancel_reset(cancel);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(wakes(), 1);
    hlk_cancel_reset(cancel);
    cr_assert_eq(wakes(), 0);
}

Test(cancel, of_a_trigger_that_was_reset_nothing_is_left)
{
    hlk_cancel_trigger(cancel);
    hlk_cancel_reset(cancel);
    cr_assert(hlk_cancel_join(cancel, &ann));
    cr_assert_eq(wakes(), 0);
    cr_assert_eq(hlk_cancel_triggered(cancel), 0);
}
