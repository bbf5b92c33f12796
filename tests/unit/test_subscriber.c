/* Which thread reads the subscriber connection. The test has the other end and the loop. */
#include "net/subscriber.h"

#include "base/clock.h"
#include "base/park.h"
#include "net/subscriber_read.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct hlk_subscriber ps;
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

static void on_later(void *ctx, const char *channel, size_t len, bool subscribe)
{
    (void)ctx, (void)channel, (void)len, (void)subscribe;
}

static int moves;
static char moved_by[64];

static bool on_moved(void *ctx, const char *channel, size_t len, const char *words)
{
    (void)ctx;
    cr_assert(len == 1 && *channel == 'c');
    snprintf(moved_by, sizeof moved_by, "%s", words ? words : "none");
    moves++;
    return true;
}

static void on_message(void *ctx, const char *channel, size_t len, const char *payload, size_t payload_len)
{
    (void)ctx, (void)channel, (void)len, (void)payload, (void)payload_len;
    if (atomic_fetch_add(&messages, 1) == 0 && in_message)
        in_message();
}

static void init(void)
{
    struct hlk_subscriber_owner owner = { NULL,       on_up,      on_down,  on_subscribed,
                                          on_refused, on_message, on_later, on_moved };
    struct hlk_error error;
    struct hlk_conn conn;
    int fds[2];
    cr_assert_eq(hlk_loop_create(&loop, &error), HLK_OK);
    cr_assert_eq(hlk_subscriber_init(&ps, loop, &endpoint, &owner, &error), HLK_OK);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    cr_assert(hlk_conn_adopt(&conn, fds[0]));
    peer = fds[1];
    ps.dial.done(ps.dial.ctx, &conn, NULL);
}

static void fini(void)
{
    hlk_subscriber_fini(&ps);
    hlk_loop_destroy(loop);
    close(peer);
}

TestSuite(pubsub, .init = init, .fini = fini, .timeout = 20);

static void says_a_message(void)
{
    static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n";
    cr_assert_eq(write(peer, message, sizeof message - 1), (ssize_t)sizeof message - 1);
}

static struct hlk_thread *_Atomic parked;

static void *parks(void *arg)
{
    atomic_store(&parked, hlk_thread_get());
    hlk_subscriber_park(&ps, atomic_load(&parked), HLK_WAKE_CANCEL, hlk_clock_ms() + *(int *)arg);
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

/* hiredis' reader would not survive two threads. */
static void park_one_meanwhile(void)
{
    says_a_message();
    one_parks_for(50);
    cr_assert_eq(atomic_load(&messages), 1, "two read at once");
}

Test(pubsub, the_loop_keeps_the_right_to_read_while_it_reads)
{
    in_message = park_one_meanwhile;
    says_a_message();
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
    cr_assert_geq(atomic_load(&messages), 1);
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
    cr_assert_eq(atomic_load(&messages), 2);
    cr_assert_eq(ps.reader, HLK_READER_LOOP);
    says_a_message();
    one_parks_for(50); /* and as before if there is none */
    cr_assert_eq(atomic_load(&messages), 3);
}

static atomic_bool stands, may_go;

static void stand(void)
{
    atomic_store(&stands, true);
    WAIT_FOR(atomic_load(&may_go));
}

/* A wait that yields instead of sleeping keeps a reader of lower priority off the CPU. */
static atomic_int yields;
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

static _Atomic(pid_t) closer;

static void *closes(void *arg)
{
    atomic_store(&closer, gettid());
    hlk_subscriber_close(&ps);
    return arg;
}

Test(pubsub, who_hangs_up_sleeps_while_a_waiter_reads)
{
    pthread_t reader, ender;
    int ms = 10000;
    in_message = stand;
    says_a_message();
    cr_assert_eq(pthread_create(&reader, NULL, parks, &ms), 0);
    WAIT_FOR(atomic_load(&stands));
    cr_assert_eq(pthread_create(&ender, NULL, closes, NULL), 0);
    WAIT_FOR(atomic_load(&closer) && (test_sleeps(atomic_load(&closer)) || atomic_load(&yields) > 100));
    cr_expect_eq(atomic_load(&yields), 0);
    atomic_store(&may_go, true);
    pthread_join(ender, NULL);
    cr_assert_eq(ps.reader, HLK_READER_NOBODY);
    hlk_park_wake(&atomic_load(&parked)->park, HLK_WAKE_CANCEL);
    pthread_join(reader, NULL);
}

/* --- sharded */

static void says(const char *bytes)
{
    cr_assert_eq(write(peer, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    ev_run(hlk_loop_ev(loop), EVRUN_NOWAIT);
}

static bool was_sent(const char *bytes)
{
    char got[256] = "";
    ssize_t n = read(peer, got, sizeof got - 1);
    return n == (ssize_t)strlen(bytes) && strcmp(got, bytes) == 0;
}

Test(pubsub, in_a_cluster_it_speaks_of_shards)
{
    ps.sharded = true;
    hlk_subscriber_subscribe(&ps, "c", 1);
    cr_assert(was_sent("*2\r\n$10\r\nSSUBSCRIBE\r\n$1\r\nc\r\n"));
    says("*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n");
    says("*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\n0\r\n");
    cr_assert_eq(atomic_load(&messages), 1);
    hlk_subscriber_unsubscribe(&ps, "c", 1);
    cr_assert(was_sent("*2\r\n$12\r\nSUNSUBSCRIBE\r\n$1\r\nc\r\n"));
    says("*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    cr_assert_eq(moves, 0, "the answer to its own command was taken for a slot that moved");
    cr_assert(hlk_list_empty(&ps.asked));
}

Test(pubsub, a_channel_whose_slot_goes_is_reported)
{
    ps.sharded = true;
    hlk_subscriber_subscribe(&ps, "c", 1);
    says("*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n");
    hlk_subscriber_subscribe(&ps, "d", 1); /* its answer is due, and this is not it */
    says("*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    cr_assert_eq(moves, 1);
    cr_assert_str_eq(moved_by, "none");
    cr_assert_eq(atomic_load(&ps.subscribed), 1);
    cr_assert_not(hlk_list_empty(&ps.asked));
}

Test(pubsub, a_subscription_at_a_wrong_server_reports_its_words)
{
    ps.sharded = true;
    hlk_subscriber_subscribe(&ps, "c", 1);
    says("-MOVED 7 127.0.0.1:7001\r\n");
    cr_assert_eq(moves, 1);
    cr_assert_str_eq(moved_by, "MOVED 7 127.0.0.1:7001");
    cr_assert_eq(atomic_load(&ps.subscribed), 0);
}
