/* Who reads the subscriber connection. The other end is in the test's hands, and so is the loop. */
#include "net/pubsub.h"

#include "base/clock.h"
#include "base/park.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct hlk_pubsub ps;
static hlk_loop *loop;
static struct hlk_endpoint endpoint;
static int peer;
static atomic_int messages;
static void (*in_message)(void);

static void on_up(void *ctx)
{
    (void)ctx;
}

static void on_down(void *ctx, const struct hlk_error *why)
{
    (void)ctx, (void)why;
}

static void on_subscribed(void *ctx, const char *channel, size_t len)
{
    (void)ctx, (void)channel, (void)len;
}

static void on_refused(void *ctx, const char *channel, size_t len, const struct hlk_error *why)
{
    (void)ctx, (void)channel, (void)len, (void)why;
}

static void on_message(void *ctx, const char *channel, size_t len, const char *payload, size_t payload_len)
{
    (void)ctx, (void)channel, (void)len, (void)payload, (void)payload_len;
    if (atomic_fetch_add(&messages, 1) == 0 && in_message)
        in_message();
}

static void init(void)
{
    struct hlk_pubsub_owner owner = { NULL, on_up, on_down, on_subscribed, on_refused, on_message };
    struct hlk_error error;
    struct hlk_conn conn;
    int fds[2];
    cr_assert_eq(hlk_loop_create(&loop, &error), HLK_OK);
    cr_assert_eq(hlk_pubsub_init(&ps, loop, &endpoint, &owner, &error), HLK_OK);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    hlk_conn_init(&conn);
    conn.fd = fds[0];
    conn.reader = redisReaderCreate();
    peer = fds[1];
    ps.dial.done(ps.dial.ctx, &conn, NULL);
}

static void fini(void)
{
    hlk_pubsub_fini(&ps);
    hlk_loop_destroy(loop);
    close(peer);
}

TestSuite(pubsub, .init = init, .fini = fini, .timeout = 20);

static void says_a_message(void)
{
    static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n";
    cr_assert_eq(write(peer, message, sizeof message - 1), (ssize_t)sizeof message - 1);
}

static void *parks(void *arg)
{
    hlk_pubsub_park(&ps, hlk_self_get(), HLK_WAKE_CANCEL, hlk_clock_ms() + *(int *)arg);
    return NULL;
}

static void one_parks_for(int ms)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, parks, &ms), 0);
    pthread_join(thread, NULL);
}

Test(pubsub, a_parked_waiter_reads)
{
    says_a_message();
    one_parks_for(50);
    cr_assert_eq(atomic_load(&messages), 1);
    cr_assert_eq(ps.reader, HLK_READER_NOBODY);
}

/* Two at one reader would be the end of both. */
static void park_one_meanwhile(void)
{
    says_a_message();
    one_parks_for(50);
    cr_assert_eq(atomic_load(&messages), 1, "two read at once");
}

Test(pubsub, while_the_loop_reads_nobody_takes_the_right_from_it)
{
    in_message = park_one_meanwhile;
    says_a_message();
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
    cr_assert_geq(atomic_load(&messages), 1);
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
    cr_assert_eq(atomic_load(&messages), 2);
    cr_assert_eq(ps.reader, HLK_READER_LOOP);
    says_a_message();
    one_parks_for(50); /* and when it does not, as before */
    cr_assert_eq(atomic_load(&messages), 3);
}
