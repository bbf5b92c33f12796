/* The steps of an acquire, whoever drives them. The test is the driver: it decides what becomes of an attempt, and
 * which events come together. The client has no server, and tries to reach none until the operation subscribes. */
#include "acquire/acquire_step.h"

#include "base/clock.h"
#include "support/wait.h"

#include <criterion/criterion.h>

static hlk_client *client;
static hlk_lock *lock;
static struct hlk_acquire_op *op;
static hlk_cancel *cancel;
static unsigned sent;                   /* attempts */
static enum hlk_progress next_progress; /* of the next attempt */

static void open_client(void)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.flags = HLK_OPEN_LAZY;
    opts.reply_timeout_ms = 100;
    cr_assert_eq(hlk_client_open(&client, "unix:/tmp/hlk-no-such-server.sock", &opts), HLK_OK, "%s", hlk_last_error());
    lock = hlk_lock_create(client, "t", NULL);
    cancel = hlk_cancel_create(client);
    next_progress = HLK_COMMAND_IN_FLIGHT;
}

static void close_client(void)
{
    if (op) {
        op->in_flight = false; /* no attempt is in the stream */
        hlk_acquire_abandon(op);
        hlk_acquire_op_free(op);
    }
    hlk_client_close(client);
    hlk_cancel_destroy(cancel);
    hlk_lock_destroy(lock);
}

TestSuite(acquire_step, .init = open_client, .fini = close_client, .timeout = 60);

static enum hlk_progress send_nothing(struct hlk_acquire_op *o)
{
    sent++;
    o->cmd.attempts++;
    o->cmd.resends = true;
    o->cmd.until_ms = hlk_clock_ms() + WAIT_MS;
    o->in_flight = next_progress == HLK_COMMAND_IN_FLIGHT;
    return next_progress;
}

static struct hlk_waker waker;

static enum hlk_wait_what begin(int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    struct hlk_thread *self = hlk_thread_get();
    opts.wait_ms = wait_ms;
    opts.cancel = cancel;
    struct hlk_acquire_terms terms;
    cr_assert(hlk_acquire_terms_of(lock, self, &terms));
    op = hlk_acquire_op_make(&terms, &opts);
    hlk_acquire_terms_end(&terms);
    waker.thread = self;
    op->waker = &waker;
    op->send = send_nothing;
    return hlk_acquire_start(op, HLK_ENTER_QUEUED, 0, 0).what;
}

static enum hlk_wait_what step(unsigned events)
{
    return hlk_acquire_step(op, events).what;
}

/* The attempt is answered: another client of hasplock holds the lock. */
static enum hlk_wait_what busy(void)
{
    static const char text[] = "*3\r\n:30000\r\n$11\r\nhlk-x-1-2:3\r\n:0\r\n";
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    cr_assert_eq(redisReaderFeed(reader, text, sizeof text - 1), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    op->cmd.call.reply = reply;
    atomic_store(&op->cmd.call.end, HLK_CALL_ANSWERED);
    return step(HLK_WAKE_REPLY);
}

static enum hlk_wait_what breaks(void)
{
    atomic_store(&op->cmd.call.end, HLK_CALL_BROKEN);
    return step(HLK_WAKE_REPLY);
}

/* Subscribed, queued, and behind another client. */
static void wait_for_messages(void)
{
    cr_assert_eq(begin(HLK_FOREVER), HLK_WAIT_REPLY);
    cr_assert_eq(busy(), HLK_WAIT_MESSAGES);
    cr_assert_eq(step(HLK_WAKE_SUBSCRIBED), HLK_WAIT_REPLY);
    cr_assert_eq(busy(), HLK_WAIT_MESSAGES);
    cr_assert_eq(sent, 2);
}

Test(acquire_step, a_subscription_with_a_message_costs_one_command)
{
    cr_assert_eq(begin(HLK_FOREVER), HLK_WAIT_REPLY);
    cr_assert_eq(busy(), HLK_WAIT_MESSAGES);
    cr_assert_eq(step(HLK_WAKE_SUBSCRIBED | HLK_WAKE_MESSAGE), HLK_WAIT_REPLY);
    cr_assert_eq(busy(), HLK_WAIT_MESSAGES);
    cr_assert_eq(sent, 2);
}

Test(acquire_step, a_message_during_an_attempt_costs_one_more)
{
    wait_for_messages();
    cr_assert_eq(step(HLK_WAKE_MESSAGE), HLK_WAIT_REPLY);
    cr_assert_eq(step(HLK_WAKE_MESSAGE), HLK_WAIT_REPLY, "the same attempt");
    cr_assert_eq(sent, 3);
    cr_assert_eq(busy(), HLK_WAIT_REPLY, "its reply may be older than the message");
    cr_assert_eq(sent, 4);
}

Test(acquire_step, a_cancel_goes_before_a_message)
{
    wait_for_messages();
    hlk_cancel_trigger(cancel);
    cr_assert_eq(step(HLK_WAKE_MESSAGE | HLK_WAKE_CANCEL), HLK_WAIT_DONE);
    cr_assert_eq(op->machine.status, HLK_INTERRUPTED);
    cr_assert_eq(sent, 2);
}

Test(acquire_step, a_bit_without_its_cause_changes_nothing)
{
    wait_for_messages();
    cr_assert_eq(
        step(HLK_WAKE_CANCEL | HLK_WAKE_CLOSED | HLK_WAKE_UP | HLK_WAKE_SETTLED | HLK_WAKE_QUEUE | HLK_WAKE_TIME),
        HLK_WAIT_MESSAGES);
    cr_assert_eq(sent, 2);
}

/* It ends by its deadline, and not by one more attempt that may run. */
static void break_at_the_deadline(int64_t wait_ms, enum hlk_status status)
{
    cr_assert_eq(begin(wait_ms), HLK_WAIT_REPLY);
    op->machine.deadline_ms = hlk_clock_ms();
    cr_assert_eq(breaks(), HLK_WAIT_DONE);
    cr_assert_eq(op->machine.status, status);
    cr_assert_eq(sent, 1);
}

Test(acquire_step, an_attempt_broken_at_the_deadline_is_not_repeated)
{
    break_at_the_deadline(WAIT_MS, HLK_TIMEOUT);
}

Test(acquire_step, a_try_broken_at_the_deadline_is_not_repeated)
{
    break_at_the_deadline(HLK_NOWAIT, HLK_BUSY);
}

Test(acquire_step, an_attempt_that_breaks_before_is_repeated)
{
    cr_assert_eq(begin(WAIT_MS), HLK_WAIT_REPLY);
    cr_assert_eq(breaks(), HLK_WAIT_REPLY);
    cr_assert_eq(sent, 2);
    cr_assert(op->cmd.doubt);
}

/* No attempt can be sent, and it waits for that. Then it sends. */
static void wait_and_send(enum hlk_progress unsent, enum hlk_wait_what what, unsigned event)
{
    next_progress = unsent;
    cr_assert_eq(begin(HLK_FOREVER), what);
    cr_assert_eq(step(HLK_WAKE_TIME), what, "too early");
    if (event == HLK_WAKE_TIME)
        op->wait_for.until_ms = hlk_clock_ms();
    next_progress = HLK_COMMAND_IN_FLIGHT;
    cr_assert_eq(step(event), HLK_WAIT_REPLY);
    cr_assert_eq(sent, 2);
}

Test(acquire_step, a_pause_ends_by_its_time)
{
    wait_and_send(HLK_COMMAND_PAUSED, HLK_WAIT_PAUSE, HLK_WAKE_TIME);
}

Test(acquire_step, waits_for_a_connection_and_sends_when_it_is_up)
{
    wait_and_send(HLK_COMMAND_UNCONNECTED, HLK_WAIT_CONNECTION, HLK_WAKE_UP);
}

Test(acquire_step, a_pause_without_a_retry_ends_with_the_refusal)
{
    next_progress = HLK_COMMAND_PAUSED;
    cr_assert_eq(begin(HLK_FOREVER), HLK_WAIT_PAUSE);
    (void)hlk_error_set(&op->error, HLK_E_SERVER, "BUSY");
    op->cmd.resends = false;
    op->wait_for.until_ms = hlk_clock_ms();
    cr_assert_eq(step(HLK_WAKE_TIME), HLK_WAIT_DONE);
    cr_assert_eq(op->machine.status, HLK_E_SERVER);
    cr_assert_eq(sent, 1);
}

static unsigned closings(void)
{
    unsigned n = 0;
    for (struct hlk_list *node = client->waits.next; node != &client->waits; node = node->next)
        n++;
    return n;
}

/* One try, too. Close then does not wait for the end of the pause. */
Test(acquire_step, a_pause_is_found_by_close)
{
    hlk_cancel *none = cancel;
    cancel = NULL; /* a cancel object registers the operation from the beginning */
    next_progress = HLK_COMMAND_PAUSED;
    cr_assert_eq(begin(HLK_NOWAIT), HLK_WAIT_PAUSE);
    cr_assert_eq(closings(), 1);
    cancel = none;
}

/* Behind another owner's attempt. It waits for no message, but close must not wait for that attempt. */
Test(acquire_step, one_try_behind_another_is_found_by_close)
{
    cr_assert_eq(begin(HLK_FOREVER), HLK_WAIT_REPLY);
    struct hlk_acquire_op *first = op;
    hlk_owner *owner = hlk_owner_create(client, NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *mine = lock, *owned = hlk_lock_create(client, "t", &opts);
    hlk_cancel *none = cancel;
    lock = owned;
    cancel = NULL;
    unsigned before = closings();
    cr_assert_eq(begin(HLK_NOWAIT), HLK_WAIT_QUEUE);
    cr_assert_eq(closings(), before + 1);
    hlk_acquire_abandon(op);
    hlk_acquire_op_free(op);
    op = first;
    lock = mine;
    cancel = none;
    hlk_lock_destroy(owned);
    hlk_owner_destroy(owner);
}

/* A cluster's slot has no server that is known, and the deadline comes. */
static void without_a_server(int64_t wait_ms, unsigned attempts, enum hlk_status status)
{
    next_progress = HLK_COMMAND_PAUSED;
    cr_assert_eq(begin(wait_ms), HLK_WAIT_PAUSE);
    (void)hlk_error_set(&op->error, HLK_E_CONNECT, "no server is known for the slot");
    op->cmd.attempts = attempts;
    op->machine.deadline_ms = op->wait_for.until_ms = hlk_clock_ms();
    cr_assert_eq(step(HLK_WAKE_TIME), HLK_WAIT_DONE);
    cr_assert_eq(op->machine.status, status);
    cr_assert_eq(sent, 1);
}

Test(acquire_step, without_a_server_for_a_slot_a_sent_wait_times_out)
{
    without_a_server(WAIT_MS, 1, HLK_TIMEOUT);
}

Test(acquire_step, without_a_server_for_a_slot_a_sent_try_is_busy)
{
    without_a_server(HLK_NOWAIT, 1, HLK_BUSY);
}

Test(acquire_step, without_a_server_for_a_slot_an_unsent_wait_fails)
{
    without_a_server(WAIT_MS, 0, HLK_E_CONNECT);
}

Test(acquire_step, without_a_connection_in_time_it_is_not_connected)
{
    next_progress = HLK_COMMAND_UNCONNECTED;
    cr_assert_eq(begin(HLK_FOREVER), HLK_WAIT_CONNECTION);
    op->wait_for.until_ms = hlk_clock_ms();
    cr_assert_eq(step(HLK_WAKE_TIME), HLK_WAIT_DONE);
    cr_assert_eq(op->machine.status, HLK_E_CONNECT);
}
