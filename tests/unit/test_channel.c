/* Which wait gets a message, and how long a client stays subscribed to a channel without waits. The test has the other
 * end of the subscriber connection, the loop and the clock. */
#include "wait/channel.h"

#include "base/clock.h"
#include "base/park.h"
#include "script/command.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct hlk_channels channels;
static hlk_loop *loop;
static struct hlk_endpoint endpoint = { .reply_timeout_ms = 3000 };
static int peer;
static int64_t now_ns = INT64_C(1000000) * 1000000;

static int64_t play(void)
{
    return now_ns;
}

static void on_inbox_message(void *ctx, const char *inbox_message, size_t len)
{
    (void)ctx, (void)inbox_message, (void)len;
}

static struct hlk_listener *reported; /* the listener of the last message */
static int messages;
static unsigned heard_bits;

static void on_listener(struct hlk_listener *listener, unsigned bit)
{
    heard_bits |= bit;
    if (bit != HLK_WAKE_MESSAGE)
        return;
    reported = listener;
    messages++;
}

static void init(void)
{
    struct hlk_error error;
    struct hlk_conn conn;
    int fds[2];
    hlk_clock_play(play);
    cr_assert_eq(hlk_loop_create(&loop, &error), HLK_OK);
    cr_assert_eq(hlk_channels_init(&channels, loop, &endpoint, "me", on_inbox_message, NULL, &error), HLK_OK);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    cr_assert(hlk_conn_adopt(&conn, fds[0]));
    peer = fds[1];
    channels.pubsub.dial.done(channels.pubsub.dial.ctx, &conn, NULL);
}

static void fini(void)
{
    hlk_channels_close(&channels);
    hlk_channels_fini(&channels);
    hlk_loop_destroy(loop);
    close(peer);
    hlk_clock_play(NULL);
}

TestSuite(channel, .init = init, .fini = fini, .timeout = 20);

/* Runs the loop for `ms`, with its ticks. */
static void passes(int64_t ms)
{
    now_ns += ms * 1000000;
    channels.tick.run(&channels.tick, hlk_clock_ms());
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
}

/* The bytes that the client has sent since the last call; "": none. */
static const char *hears(void)
{
    static char message_pending[4096];
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
    ssize_t n = recv(peer, message_pending, sizeof message_pending - 1, MSG_DONTWAIT);
    message_pending[n > 0 ? n : 0] = '\0';
    return message_pending;
}

static void says(const char *bytes)
{
    cr_assert_eq(write(peer, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT); /* one round of the loop handles one descriptor: */
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT); /* the posts may come first */
}

static void confirms(const char *name)
{
    char reply[256];
    snprintf(reply, sizeof reply, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n", strlen(name), name);
    says(reply);
}

static bool unsubscribes(const char *name)
{
    const char *message_pending = hears();
    return strstr(message_pending, "UNSUBSCRIBE") && strstr(message_pending, name);
}

/* asks A5 redisson 6025 */
Test(channel, tells_a_message_to_one_wait_the_first)
{
    static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n";
    struct hlk_listener first = { .on_event = on_listener }, second = { .on_event = on_listener };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &first), HLK_BUSY);
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &second), HLK_BUSY);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    confirms("c");
    says(message);
    cr_assert_eq(messages, 1);
    cr_assert_eq(reported, &first);
    hlk_channel_leave(&channels, &first);
    says(message);
    cr_assert_eq(messages, 2);
    cr_assert_eq(reported, &second);
    hlk_channel_leave(&channels, &second);
}

/* asks A1 redisson 4064, 4216, 3577, 5046 */
Test(channel, is_left_when_the_last_wait_has_gone_for_100_ms)
{
    struct hlk_listener first = { .on_event = on_listener }, second = { .on_event = on_listener };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &first), HLK_BUSY);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    confirms("c");
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &second), HLK_OK, "one subscription for both");
    hlk_channel_leave(&channels, &first);
    passes(60000);
    cr_assert_str_eq(hears(), "");
    hlk_channel_leave(&channels, &second);
    passes(99);
    cr_assert_str_eq(hears(), "");
    passes(1);
    cr_assert(unsubscribes("c"));
    cr_assert_eq(channels.tick.due_ms(&channels.tick), INT64_MAX);
}

Test(channel, stays_when_it_is_wanted_again_meanwhile)
{
    struct hlk_listener wait = { .on_event = on_listener };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    confirms("c");
    hlk_channel_leave(&channels, &wait);
    passes(99);
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_OK);
    passes(60000);
    cr_assert_str_eq(hears(), "");
    hlk_channel_leave(&channels, &wait);
}

/* asks A1 redisson 4064, 4216, 3577, 5046: the same for the inbox */
Test(channel, of_the_client_itself_is_left_after_10_s)
{
    hlk_channel_retain_inbox(&channels);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    confirms("hasplock_inbox:me");
    hlk_channel_release_inbox(&channels);
    passes(9999);
    cr_assert_str_eq(hears(), "");
    passes(1);
    cr_assert(unsubscribes("hasplock_inbox:me"));
}

/* --- what the server refuses */

static const char busy[] =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";

Test(channel, that_is_refused_for_now_is_asked_for_again)
{
    static const char *const refusals[] = { busy, "-LOADING Redis is loading the dataset in memory\r\n",
                                            "-MASTERDOWN Link with MASTER is down.\r\n",
                                            "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
                                            "-CLUSTERDOWN The cluster is down\r\n" };
    struct hlk_listener wait = { .on_event = on_listener };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        says(refusals[i]);
        cr_assert_eq(heard_bits, 0u, "%s", refusals[i]);
        cr_assert_lt(channels.tick.due_ms(&channels.tick), INT64_MAX);
        cr_assert_str_eq(hears(), "");
        passes(HLK_PAUSE_MS - 1);
        cr_assert_str_eq(hears(), "", "a pause comes first");
        passes(1);
        cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
        passes(HLK_PAUSE_MS);
        cr_assert_str_eq(hears(), "", "once");
    }
    confirms("c");
    cr_assert_eq(heard_bits, HLK_WAKE_SUBSCRIBED);
    cr_assert_eq(channels.pubsub.subscribed, 1u);
    hlk_channel_leave(&channels, &wait);
    passes(100);
    cr_assert(unsubscribes("c"));
    cr_assert_eq(channels.pubsub.subscribed, 0u);
}

Test(channel, that_is_refused_for_good_is_told_its_waits)
{
    struct hlk_listener wait = { .on_event = on_listener };
    struct hlk_error error;
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    (void)hears();
    says("-NOPERM this user has no permissions to access one of the channels used as arguments\r\n");
    cr_assert_eq(heard_bits, HLK_WAKE_SUBSCRIBE_FAILED);
    hlk_channel_refusal(&channels, &error);
    cr_assert_eq(error.status, HLK_E_AUTH);
    cr_assert_not_null(strstr(error.text, "SUBSCRIBE c: "), "%s", error.text);
    passes(1000);
    cr_assert_str_eq(hears(), "");
    hlk_channel_leave(&channels, &wait);
    passes(100);
    cr_assert_str_eq(hears(), "", "it was never subscribed");
}

Test(channel, that_nobody_wants_any_more_is_not_asked_for_again)
{
    struct hlk_listener wait = { .on_event = on_listener };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    (void)hears();
    says(busy);
    hlk_channel_leave(&channels, &wait);
    passes(60000);
    cr_assert_str_eq(hears(), "");
    cr_assert_eq(channels.tick.due_ms(&channels.tick), INT64_MAX);
}

/* Otherwise the server would count a listener that does not exist, and others would leave the lock to it. */
Test(channel, whose_unsubscribe_is_refused_for_now_is_left_later)
{
    struct hlk_listener wait = { .on_event = on_listener };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    (void)hears();
    confirms("c");
    hlk_channel_leave(&channels, &wait);
    passes(100);
    cr_assert(unsubscribes("c"));
    says(busy);
    cr_assert_eq(channels.pubsub.subscribed, 1u);
    passes(HLK_PAUSE_MS - 1);
    cr_assert_str_eq(hears(), "");
    passes(1);
    cr_assert(unsubscribes("c"));
    cr_assert_eq(channels.pubsub.subscribed, 0u);
    cr_assert_eq(channels.tick.due_ms(&channels.tick), INT64_MAX);
}

Test(channel, whose_unsubscribe_is_refused_stays_for_a_new_wait)
{
    struct hlk_listener wait = { .on_event = on_listener };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    (void)hears();
    confirms("c");
    hlk_channel_leave(&channels, &wait);
    passes(100);
    cr_assert(unsubscribes("c"));
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    says(busy);
    confirms("c");
    passes(60000);
    cr_assert_str_eq(hears(), "");
    hlk_channel_leave(&channels, &wait);
}

/* Two answers of one form: that of the server by itself, which was on its way, and that to the command. */
Test(channel, whose_slot_goes_meanwhile_counts_once)
{
    static const char gone[] = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n";
    struct hlk_listener wait = { .on_event = on_listener };
    channels.pubsub.sharded = true;
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    (void)hears();
    says("*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n");
    hlk_channel_leave(&channels, &wait);
    passes(100);
    cr_assert(unsubscribes("c"));
    says(gone);
    says(gone);
    cr_assert_eq(atomic_load(&channels.pubsub.subscribed), 0u);
}

Test(channel, whose_slot_goes_is_subscribed_again)
{
    struct hlk_listener wait = { .on_event = on_listener };
    channels.pubsub.sharded = true;
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &wait), HLK_BUSY);
    (void)hears();
    says("*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n");
    says("*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    cr_assert_eq(atomic_load(&channels.pubsub.subscribed), 0u);
    passes(HLK_PAUSE_MS);
    cr_assert_not_null(strstr(hears(), "SSUBSCRIBE"));
    says("*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n");
    cr_assert_eq(atomic_load(&channels.pubsub.subscribed), 1u);
    hlk_channel_leave(&channels, &wait);
}
