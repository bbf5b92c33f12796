/* Who hears a message, and how long a client stays subscribed to what nobody waits for any more. The other end of the
 * subscriber connection, the loop and the clock are in the test's hands. */
#include "wait/channel.h"

#include "base/clock.h"
#include "base/park.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct hlk_channels channels;
static hlk_loop *loop;
static struct hlk_endpoint endpoint = { .reply_ms = 3000 };
static int peer;
static int64_t now_ns = INT64_C(1000000) * 1000000;

static int64_t play(void)
{
    return now_ns;
}

static void on_letter(void *ctx, const char *letter, size_t len)
{
    (void)ctx, (void)letter, (void)len;
}

static struct hlk_listener *told; /* of the last message */
static int messages;

static void on_hear(struct hlk_listener *listener, unsigned bit)
{
    if (bit != HLK_WAKE_MESSAGE)
        return;
    told = listener;
    messages++;
}

static void init(void)
{
    struct hlk_error error;
    struct hlk_conn conn;
    int fds[2];
    hlk_clock_play(play);
    cr_assert_eq(hlk_loop_create(&loop, &error), HLK_OK);
    cr_assert_eq(hlk_channels_init(&channels, loop, &endpoint, "me", on_letter, NULL, &error), HLK_OK);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    hlk_conn_init(&conn);
    conn.fd = fds[0];
    conn.reader = redisReaderCreate();
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

/* What the loop does when a tick is due. */
static void passes(int64_t ms)
{
    now_ns += ms * 1000000;
    channels.tick.run(&channels.tick, hlk_clock_ms());
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
}

/* What the client has sent since the last time; "" when nothing. */
static const char *hears(void)
{
    static char heard[4096];
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
    ssize_t n = recv(peer, heard, sizeof heard - 1, MSG_DONTWAIT);
    heard[n > 0 ? n : 0] = '\0';
    return heard;
}

static void says(const char *bytes)
{
    cr_assert_eq(write(peer, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
}

static void confirms(const char *name)
{
    char reply[256];
    snprintf(reply, sizeof reply, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n", strlen(name), name);
    says(reply);
}

static bool unsubscribes(const char *name)
{
    const char *heard = hears();
    return strstr(heard, "UNSUBSCRIBE") && strstr(heard, name);
}

/* asks A5 redisson 6025 */
Test(channel, tells_a_message_to_one_wait_the_first)
{
    static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n";
    struct hlk_listener first = { .hear = on_hear }, second = { .hear = on_hear };
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &first), HLK_BUSY);
    cr_assert_eq(hlk_channel_join(&channels, "c", 1, &second), HLK_BUSY);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    confirms("c");
    says(message);
    cr_assert_eq(messages, 1);
    cr_assert_eq(told, &first);
    hlk_channel_leave(&channels, &first);
    says(message);
    cr_assert_eq(messages, 2);
    cr_assert_eq(told, &second);
    hlk_channel_leave(&channels, &second);
}

/* asks A1 redisson 4064, 4216, 3577, 5046 */
Test(channel, is_left_when_the_last_wait_has_gone_for_100_ms)
{
    struct hlk_listener first = { .hear = on_hear }, second = { .hear = on_hear };
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
    cr_assert(channels.tick.idle(&channels.tick));
}

Test(channel, stays_when_it_is_wanted_again_meanwhile)
{
    struct hlk_listener wait = { .hear = on_hear };
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

/* asks A1 redisson 4064, 4216, 3577, 5046: nor does the inbox stay for ever */
Test(channel, of_the_client_itself_is_left_after_10_s)
{
    hlk_channel_attend_inbox(&channels);
    cr_assert_not_null(strstr(hears(), "SUBSCRIBE"));
    confirms("hasplock_inbox:me");
    hlk_channel_leave_inbox(&channels);
    passes(9999);
    cr_assert_str_eq(hears(), "");
    passes(1);
    cr_assert(unsubscribes("hasplock_inbox:me"));
}
