/* A shared connection is closed while threads use it: one is in send(), one begins to wait. The test has the other
 * end. */
#include "pipeline_fixture.h"

#include "net/pipeline.h"
#include "net/pipeline_link.h"
#include "net/pipeline_wait.h"
#include "support/wait.h"

#include <pthread.h>
#include <stdatomic.h>

TestSuite(pipeline_close, .init = calls_begin, .fini = calls_end, .timeout = 20);

static atomic_bool send_halts, send_stands, send_goes, recv_stands, recv_goes, recv_halts;

ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    if (atomic_exchange(&send_halts, false)) {
        atomic_store(&send_stands, true);
        WAIT_FOR(atomic_load(&send_goes));
    }
    return __real_send(fd, bytes, len, flags);
}

ssize_t __real_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    if (atomic_exchange(&recv_halts, false)) {
        atomic_store(&recv_stands, true);
        WAIT_FOR(atomic_load(&recv_goes));
    }
    return __real_recv(fd, bytes, len, flags);
}

/* A wait that yields instead of sleeping keeps a sender of lower priority off the CPU. */
static atomic_int yields;
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

struct thread {
    pthread_t thread;
    _Atomic(pid_t) tid;
    struct hlk_call call;
    struct hlk_thread *_Atomic self;
};

static atomic_bool sent, may_wait;

static void *sends(void *arg)
{
    struct thread *t = arg;
    t->call.waiter = hlk_thread_get();
    (void)hlk_pipeline_send(peer.pipeline, &t->call, "A", 1);
    return NULL;
}

static void *sends_and_waits(void *arg)
{
    struct thread *t = arg;
    atomic_store(&t->self, t->call.waiter = hlk_thread_get());
    (void)hlk_pipeline_send(peer.pipeline, &t->call, "B", 1);
    atomic_store(&sent, true);
    WAIT_FOR(atomic_load(&may_wait));
    atomic_store(&recv_halts, true);
    (void)hlk_pipeline_wait(peer.pipeline, &t->call, INT64_MAX, 0);
    return NULL;
}

static void *closes(void *arg)
{
    struct thread *t = arg;
    atomic_store(&t->tid, gettid());
    hlk_pipeline_close(peer.pipeline);
    return NULL;
}

static void *breaks(void *arg)
{
    struct thread *t = arg;
    struct hlk_error why = { .status = HLK_E_CONNECT };
    atomic_store(&t->tid, gettid());
    hlk_pipeline_broke(peer.pipeline, &why);
    return NULL;
}

static bool is_asleep(struct thread *t)
{
    struct hlk_thread *self = atomic_load(&t->self);
    return self && atomic_load(&self->park.bits) & HLK_PARK_ASLEEP;
}

static bool is_closed(void)
{
    hlk_mutex_lock(&peer.pipeline->mu);
    bool closed = peer.pipeline->state == HLK_PIPELINE_CLOSED;
    hlk_mutex_unlock(&peer.pipeline->mu);
    return closed;
}

static struct thread sender, ender, waiter;

static void a_sender_stands(void)
{
    peer_up(&peer);
    pthread_create(&waiter.thread, NULL, sends_and_waits, &waiter);
    WAIT_FOR(atomic_load(&sent));
    atomic_store(&send_halts, true);
    pthread_create(&sender.thread, NULL, sends, &sender);
    WAIT_FOR(atomic_load(&send_stands));
}

static void all_go(void)
{
    atomic_store(&send_goes, true);
    pthread_join(ender.thread, NULL);
    atomic_store(&recv_goes, true);
    pthread_join(waiter.thread, NULL);
    pthread_join(sender.thread, NULL);
}

/* Close waits for the thread in send(). A thread that begins to wait for a reply meanwhile must not lead, because the
 * connection is about to be closed. */
Test(pipeline_close, nobody_leads_while_close_waits_for_a_sender)
{
    a_sender_stands();
    peer_says(&peer, ":1\r\n");
    pthread_create(&ender.thread, NULL, closes, &ender);
    WAIT_FOR(is_closed());
    atomic_store(&may_wait, true);
    WAIT_FOR(atomic_load(&recv_stands) || is_asleep(&waiter));
    all_go();
    cr_assert_not(atomic_load(&recv_stands));
    cr_assert_eq(atomic_load(&waiter.call.end), HLK_CALL_BROKEN);
    cr_assert_eq(atomic_load(&sender.call.end), HLK_CALL_BROKEN);
}

static void expect_sleep(void *(*ends)(void *))
{
    pthread_create(&ender.thread, NULL, ends, &ender);
    WAIT_FOR(atomic_load(&ender.tid) && (test_sleeps(atomic_load(&ender.tid)) || atomic_load(&yields) > 100));
    cr_expect_eq(atomic_load(&yields), 0);
}

Test(pipeline_close, close_sleeps_while_it_waits_for_a_sender)
{
    a_sender_stands();
    expect_sleep(closes);
    atomic_store(&may_wait, true);
    all_go();
}

Test(pipeline_close, ending_a_broken_stream_sleeps_to_await_a_sender)
{
    a_sender_stands();
    hlk_mutex_lock(&peer.pipeline->mu); /* as the leader that has read the end of the stream */
    peer.pipeline->lead = HLK_LEAD_TAKEN;
    hlk_mutex_unlock(&peer.pipeline->mu);
    expect_sleep(breaks);
    atomic_store(&may_wait, true);
    all_go();
    cr_assert_eq(atomic_load(&waiter.call.end), HLK_CALL_BROKEN);
}

Test(pipeline_close, close_sleeps_while_it_waits_for_the_leader)
{
    peer_up(&peer);
    atomic_store(&may_wait, true);
    pthread_create(&waiter.thread, NULL, sends_and_waits, &waiter);
    peer_says(&peer, ":1"); /* a part of a reply: the leader's next read blocks */
    WAIT_FOR(atomic_load(&recv_stands));
    expect_sleep(closes);
    atomic_store(&recv_goes, true);
    pthread_join(ender.thread, NULL);
    pthread_join(waiter.thread, NULL);
    cr_assert_eq(atomic_load(&waiter.call.end), HLK_CALL_BROKEN);
}
