/* Callers that wait at a shared connection: which one leads and reads for the others, and how they leave. The test has
 * the other end. */
#include "net/pipeline.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"
#include "net/pipeline_wait.h"
#include "pipeline_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

TestSuite(pipeline, .init = calls_begin, .fini = calls_end, .timeout = 20);

/* --- waiting callers --- */

Test(pipeline, a_lone_caller_leads_for_itself)
{
    struct hlk_call mine = { .waiter = hlk_thread_get() };
    peer_up(&peer);
    cr_assert_eq(hlk_pipeline_send(peer.pipeline, &mine, "A", 1), HLK_OK);
    peer_says(&peer, ":5\r\n");
    cr_assert(hlk_pipeline_wait(peer.pipeline, &mine, INT64_MAX, 0));
    cr_assert_eq(mine.reply->integer, 5);
    cr_assert_eq(peer.pipeline->lead, HLK_LEAD_FREE);
    cr_assert_eq(peer.pipeline->callers, 0u);
    freeReplyObject(mine.reply);
}

Test(pipeline, a_caller_reads_for_those_before_it)
{
    struct asked a = { .ends = 0 };
    struct hlk_call mine = { .waiter = hlk_thread_get() };
    peer_up(&peer);
    ask(&a, "A");
    hlk_pipeline_send(peer.pipeline, &mine, "B", 1);
    peer_says(&peer, ":1\r\n:2\r\n");
    cr_assert(hlk_pipeline_wait(peer.pipeline, &mine, INT64_MAX, 0));
    cr_assert_eq(a.answer, 1);
    cr_assert_eq(mine.reply->integer, 2);
    freeReplyObject(mine.reply);
}

Test(pipeline, a_caller_whose_time_is_over_leaves_its_call)
{
    struct asked a = { .call.waiter = hlk_thread_get() };
    peer_up(&peer);
    hlk_pipeline_send(peer.pipeline, &a.call, "A", 1);
    cr_assert_not(hlk_pipeline_wait(peer.pipeline, &a.call, hlk_clock_ms(), 0));
    cr_assert_eq(peer.pipeline->lead, HLK_LEAD_FREE);
    cr_assert(hlk_pipeline_leave(peer.pipeline, &a.call, on_done));
    cr_assert_eq(peer.pipeline->callers, 0u);
    cr_assert_eq(a.ends, 0);
    peer_answers(&peer, ":3\r\n"); /* its reply is still counted */
    cr_assert_eq(a.answer, 3);
}

static int64_t each_look_is_a_ms_later(void)
{
    return peer.now_ns += 1000000;
}

/* However much is left to read for others. */
Test(pipeline, a_caller_whose_time_is_over_does_not_read_on)
{
    enum { OTHERS = 8, LONG = 20000 };
    static char answer[LONG + 16];
    struct asked others[OTHERS], a = { .call.waiter = hlk_thread_get() };
    memset(others, 0, sizeof others);
    (void)snprintf(answer, sizeof answer, "$%d\r\n", LONG);
    memset(answer + strlen(answer), 'x', LONG);
    strcat(answer, "\r\n");
    peer_up(&peer);
    for (int i = 0; i < OTHERS; i++)
        ask(&others[i], "A");
    hlk_pipeline_send(peer.pipeline, &a.call, "B", 1);
    for (int i = 0; i < OTHERS; i++)
        peer_says(&peer, answer);
    int64_t at_ms = hlk_clock_ms() + 5;
    hlk_clock_play(each_look_is_a_ms_later);
    cr_assert_not(hlk_pipeline_wait(peer.pipeline, &a.call, at_ms, 0));
    cr_assert_eq(others[OTHERS - 1].ends, 0);
    cr_assert(hlk_pipeline_leave(peer.pipeline, &a.call, on_done));
    peer_answers(&peer, ":3\r\n");
    cr_assert_eq(a.answer, 3);
}

Test(pipeline, a_caller_who_is_called_away_leaves_its_call)
{
    struct asked a = { .call.waiter = hlk_thread_get() };
    peer_up(&peer);
    hlk_pipeline_send(peer.pipeline, &a.call, "A", 1);
    hlk_park_wake(&a.call.waiter->park, HLK_WAKE_CANCEL);
    cr_assert_not(hlk_pipeline_wait(peer.pipeline, &a.call, INT64_MAX, HLK_WAKE_CANCEL));
    cr_assert(hlk_pipeline_leave(peer.pipeline, &a.call, on_done));
    peer_answers(&peer, ":3\r\n");
    cr_assert_eq(a.answer, 3);
    (void)hlk_park_take(&hlk_thread_get()->park, HLK_WAKE_ALL);
}

Test(pipeline, who_leaves_too_late_has_the_answer)
{
    struct asked a = { .call.waiter = hlk_thread_get() };
    peer_up(&peer);
    hlk_pipeline_send(peer.pipeline, &a.call, "A", 1);
    peer_answers(&peer, ":3\r\n");
    cr_assert_not(hlk_pipeline_leave(peer.pipeline, &a.call, on_done));
    cr_assert_eq(a.ends, 0);
    freeReplyObject(a.call.reply);
}

Test(pipeline, a_caller_sees_a_silent_server_too)
{
    struct hlk_call mine = { .waiter = hlk_thread_get() };
    peer_up(&peer);
    hlk_pipeline_send(peer.pipeline, &mine, "A", 1);
    peer_passes(&peer, 3000);
    cr_assert(hlk_pipeline_wait(peer.pipeline, &mine, INT64_MAX, 0));
    cr_assert_eq(atomic_load(&mine.end), HLK_CALL_BROKEN);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN);
}

/* --- leader and followers: threads --- */

struct thread {
    pthread_t thread;
    struct hlk_call call;
    struct hlk_thread *_Atomic self;
    unsigned mask;
    bool ended;
    int left; /* how often `left_done` got it */
    long long answer;
};

static void *waits(void *arg)
{
    struct thread *t = arg;
    t->call.waiter = hlk_thread_get();
    (void)hlk_pipeline_send(peer.pipeline, &t->call, "A", 1);
    atomic_store(&t->self, t->call.waiter);
    t->ended = hlk_pipeline_wait(peer.pipeline, &t->call, INT64_MAX, t->mask);
    if (t->ended) {
        t->answer = t->call.reply ? t->call.reply->integer : -1;
        if (t->call.reply)
            freeReplyObject(t->call.reply);
    }
    return NULL;
}

static void left_done(struct hlk_call *call)
{
    struct thread *t = HLK_CONTAINER(call, struct thread, call);
    t->left++;
    if (call->reply) {
        t->answer = call->reply->integer;
        freeReplyObject(call->reply);
    }
}

static struct hlk_thread *leader(void)
{
    hlk_mutex_lock(&peer.pipeline->mu);
    struct hlk_thread *self = peer.pipeline->leader;
    hlk_mutex_unlock(&peer.pipeline->mu);
    return self;
}

static bool asleep(struct thread *t)
{
    struct hlk_thread *self = atomic_load(&t->self);
    return self && atomic_load(&self->park.bits) & HLK_PARK_ASLEEP;
}

static void start(struct thread *t)
{
    cr_assert_eq(pthread_create(&t->thread, NULL, waits, t), 0);
    while (!asleep(t))
        sched_yield();
}

Test(pipeline, the_first_leads_and_hands_on_at_its_answer)
{
    struct thread a = { .mask = 0 }, b = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    cr_assert_eq(leader(), atomic_load(&a.self));
    peer_says(&peer, ":1\r\n");
    pthread_join(a.thread, NULL);
    cr_assert_eq(leader(), atomic_load(&b.self));
    peer_says(&peer, ":2\r\n");
    pthread_join(b.thread, NULL);
    cr_assert_eq(a.answer, 1);
    cr_assert_eq(b.answer, 2);
    cr_assert_eq(peer.pipeline->lead, HLK_LEAD_FREE);
}

Test(pipeline, the_newest_follower_leads_next)
{
    struct thread a = { .mask = 0 }, b = { .mask = 0 }, c = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    start(&c);
    peer_says(&peer, ":1\r\n");
    pthread_join(a.thread, NULL);
    cr_assert_eq(leader(), atomic_load(&c.self)); /* the others' replies come before its own */
    peer_says(&peer, ":2\r\n");
    pthread_join(b.thread, NULL);
    cr_assert_eq(leader(), atomic_load(&c.self));
    peer_says(&peer, ":3\r\n");
    pthread_join(c.thread, NULL);
    cr_assert_eq(b.answer, 2);
    cr_assert_eq(c.answer, 3);
}

Test(pipeline, a_leader_that_leaves_passes_the_lead)
{
    struct thread a = { .mask = HLK_WAKE_CANCEL }, b = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    hlk_park_wake(&atomic_load(&a.self)->park, HLK_WAKE_CANCEL);
    pthread_join(a.thread, NULL);
    cr_assert_not(a.ended);
    cr_assert_eq(leader(), atomic_load(&b.self));
    cr_assert(hlk_pipeline_leave(peer.pipeline, &a.call, left_done));
    peer_says(&peer, ":1\r\n:2\r\n");
    pthread_join(b.thread, NULL);
    cr_assert_eq(a.left, 1);
    cr_assert_eq(a.answer, 1);
    cr_assert_eq(b.answer, 2);
}

Test(pipeline, a_follower_that_leaves_is_never_made_leader)
{
    struct thread a = { .mask = 0 }, b = { .mask = HLK_WAKE_CANCEL };
    peer_up(&peer);
    start(&a);
    start(&b);
    hlk_park_wake(&atomic_load(&b.self)->park, HLK_WAKE_CANCEL);
    pthread_join(b.thread, NULL);
    cr_assert(hlk_pipeline_leave(peer.pipeline, &b.call, left_done));
    peer_says(&peer, ":1\r\n");
    pthread_join(a.thread, NULL);
    cr_assert_null(leader());
    cr_assert_eq(peer.pipeline->lead, HLK_LEAD_FREE);
    peer_answers(&peer, ":2\r\n");
    cr_assert_eq(b.left, 1);
    cr_assert_eq(b.answer, 2);
}

Test(pipeline, a_break_ends_leader_and_followers)
{
    struct thread a = { .mask = 0 }, b = { .mask = 0 }, c = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    start(&c);
    close(peer.fd);
    peer.fd = -1;
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    pthread_join(c.thread, NULL);
    cr_assert(a.ended && b.ended && c.ended);
    cr_assert_eq(atomic_load(&c.call.end), HLK_CALL_BROKEN);
    cr_assert_eq(peer.pipeline->callers, 0u);
}

Test(pipeline, close_ends_those_who_wait)
{
    struct thread a = { .mask = 0 }, b = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    hlk_pipeline_close(peer.pipeline);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    cr_assert(a.ended && b.ended);
}

/* More callers than are woken in one step. While the first are woken, another one, whose call has not ended yet, begins
 * to wait. It must not lead a connection that is gone. */
static struct late {
    struct thread t;
    sem_t go;
} late;

static void *waits_late(void *arg)
{
    (void)arg;
    late.t.call.waiter = hlk_thread_get();
    (void)hlk_pipeline_send(peer.pipeline, &late.t.call, "A", 1);
    atomic_store(&late.t.self, late.t.call.waiter);
    sem_wait(&late.go);
    late.t.ended = hlk_pipeline_wait(peer.pipeline, &late.t.call, INT64_MAX, 0);
    return NULL;
}

static void while_others_are_told(struct hlk_call *call)
{
    (void)call;
    cr_assert_eq(atomic_load(&late.t.call.end), HLK_CALL_IN_FLIGHT, "not told yet");
    sem_post(&late.go);
    while (!(atomic_load(&atomic_load(&late.t.self)->park.bits) & HLK_PARK_ASLEEP))
        sched_yield();
}

Test(pipeline, a_wait_begun_while_a_break_is_told_is_told_too)
{
    enum { TOLD_AT_ONCE = HLK_ENDS_MAX };
    static struct hlk_thread others[TOLD_AT_ONCE];
    static struct hlk_call theirs[TOLD_AT_ONCE];
    struct hlk_call first = { .done = while_others_are_told };
    struct hlk_error why = { .status = HLK_E_CONNECT };
    peer_up(&peer);
    sem_init(&late.go, 0, 0);
    hlk_pipeline_send(peer.pipeline, &first, "A", 1);
    for (int i = 0; i < TOLD_AT_ONCE; i++) {
        hlk_park_init(&others[i].park);
        theirs[i].waiter = &others[i];
        hlk_pipeline_send(peer.pipeline, &theirs[i], "A", 1);
    }
    cr_assert_eq(pthread_create(&late.t.thread, NULL, waits_late, NULL), 0);
    while (!atomic_load(&late.t.self))
        sched_yield();
    hlk_pipeline_broke(peer.pipeline, &why);
    pthread_join(late.t.thread, NULL);
    cr_assert(late.t.ended);
    cr_assert_eq(peer.pipeline->lead, HLK_LEAD_FREE);
    cr_assert_eq(peer.pipeline->callers, 0u);
}

/* --- how long a call waits for a connection --- */

Test(pipeline, reconnect_timeout_counts_from_the_call_or_the_loss)
{
    int64_t began = hlk_clock_ms();
    peer_up(&peer);
    peer_passes(&peer, 5000);
    cr_assert_eq(hlk_pipeline_reconnect_until(peer.pipeline, began, 1000), hlk_clock_ms() + 1000, "connected");
    int64_t lost = hlk_clock_ms();
    peer_breaks(&peer);
    peer_passes(&peer, 300);
    cr_assert_eq(hlk_pipeline_reconnect_until(peer.pipeline, began, 1000), lost + 1000);
    cr_assert_eq(hlk_pipeline_reconnect_until(peer.pipeline, hlk_clock_ms(), 1000), lost + 1300,
                 "begun after the loss");
    cr_assert_eq(hlk_pipeline_reconnect_until(peer.pipeline, began, -1), INT64_MAX);
    peer_up(&peer);
    peer_passes(&peer, 300);
    lost = hlk_clock_ms();
    peer_breaks(&peer);
    cr_assert_eq(hlk_pipeline_reconnect_until(peer.pipeline, began, 1000), lost + 1000, "the last loss");
}

Test(pipeline, reconnect_timeout_counts_from_becoming_a_replica)
{
    peer_up(&peer);
    peer_passes(&peer, HLK_PIPELINE_REDIAL_MS);
    int64_t left = hlk_clock_ms();
    hlk_pipeline_look_again(peer.pipeline, hlk_pipeline_epoch(peer.pipeline));
    peer_passes(&peer, 200);
    peer_breaks(&peer);
    cr_assert_eq(hlk_pipeline_reconnect_until(peer.pipeline, 0, 1000), left + 1000);
}

/* --- the same server process? --- */

static void meet(uint64_t server)
{
    hlk_mutex_lock(&peer.pipeline->mu);
    hlk_pipeline_begin_epoch(peer.pipeline, server, 0);
    hlk_mutex_unlock(&peer.pipeline->mu);
}

Test(pipeline, a_server_is_the_same_process_until_another_answers)
{
    meet(7);
    int64_t first = hlk_clock_ms();
    cr_assert_eq(hlk_pipeline_server_since(peer.pipeline), first);
    peer_passes(&peer, 1000);
    meet(7);
    cr_assert_eq(hlk_pipeline_server_since(peer.pipeline), first);
    peer_passes(&peer, 1000);
    meet(8);
    cr_assert_eq(hlk_pipeline_server_since(peer.pipeline), first + 2000);
    peer_passes(&peer, 1000);
    meet(7);
    cr_assert_eq(hlk_pipeline_server_since(peer.pipeline), first + 3000, "what was before is not asked again");
}

Test(pipeline, an_unknown_server_may_be_another_one_each_time)
{
    meet(0);
    peer_passes(&peer, 1000);
    meet(0);
    cr_assert_eq(hlk_pipeline_server_since(peer.pipeline), hlk_clock_ms());
    peer_passes(&peer, 1000);
    meet(7);
    peer_passes(&peer, 1000);
    meet(0);
    cr_assert_eq(hlk_pipeline_server_since(peer.pipeline), hlk_clock_ms());
}

/* What was written to the old process in the same millisecond was not written to the new one. */
Test(pipeline, a_server_back_within_a_millisecond_is_another_one)
{
    struct asked a = { .ends = 0 };
    meet(7);
    peer_up(&peer);
    ask(&a, "A");
    peer_breaks(&peer);
    meet(8);
    cr_assert_gt(hlk_pipeline_server_since(peer.pipeline), a.call.sent_ns / 1000000);
}
