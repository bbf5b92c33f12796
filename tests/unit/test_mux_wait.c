/* Who waits at a shared connection: who leads and reads for the others, who leaves. The other end is in the test's
 * hands. */
#include "calls.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

TestSuite(mux, .init = calls_begin, .fini = calls_end, .timeout = 20);

/* --- who waits --- */

Test(mux, a_lone_caller_leads_for_itself)
{
    struct hlk_call mine = { .waiter = hlk_self_get() };
    peer_up(&peer);
    cr_assert_eq(hlk_mux_send(peer.mux, &mine, "A", 1), HLK_OK);
    peer_says(&peer, ":5\r\n");
    cr_assert(hlk_mux_wait(peer.mux, &mine, INT64_MAX, 0));
    cr_assert_eq(mine.reply->integer, 5);
    cr_assert_eq(peer.mux->lead, HLK_LEAD_FREE);
    cr_assert_eq(peer.mux->callers, 0u);
    freeReplyObject(mine.reply);
}

Test(mux, a_caller_reads_for_those_before_it)
{
    struct asked a = { .ends = 0 };
    struct hlk_call mine = { .waiter = hlk_self_get() };
    peer_up(&peer);
    ask(&a, "A");
    hlk_mux_send(peer.mux, &mine, "B", 1);
    peer_says(&peer, ":1\r\n:2\r\n");
    cr_assert(hlk_mux_wait(peer.mux, &mine, INT64_MAX, 0));
    cr_assert_eq(a.answer, 1);
    cr_assert_eq(mine.reply->integer, 2);
    freeReplyObject(mine.reply);
}

Test(mux, a_caller_whose_time_is_over_leaves_its_call)
{
    struct asked a = { .call.waiter = hlk_self_get() };
    peer_up(&peer);
    hlk_mux_send(peer.mux, &a.call, "A", 1);
    cr_assert_not(hlk_mux_wait(peer.mux, &a.call, hlk_clock_ms(), 0));
    cr_assert_eq(peer.mux->lead, HLK_LEAD_FREE);
    cr_assert(hlk_mux_leave(peer.mux, &a.call, on_done));
    cr_assert_eq(peer.mux->callers, 0u);
    cr_assert_eq(a.ends, 0);
    peer_answers(&peer, ":3\r\n"); /* its reply is counted still */
    cr_assert_eq(a.answer, 3);
}

Test(mux, a_caller_who_is_called_away_leaves_its_call)
{
    struct asked a = { .call.waiter = hlk_self_get() };
    peer_up(&peer);
    hlk_mux_send(peer.mux, &a.call, "A", 1);
    hlk_park_wake(&a.call.waiter->park, HLK_WAKE_CANCEL);
    cr_assert_not(hlk_mux_wait(peer.mux, &a.call, INT64_MAX, HLK_WAKE_CANCEL));
    cr_assert(hlk_mux_leave(peer.mux, &a.call, on_done));
    peer_answers(&peer, ":3\r\n");
    cr_assert_eq(a.answer, 3);
    (void)hlk_park_take(&hlk_self_get()->park, HLK_WAKE_ALL);
}

Test(mux, who_leaves_too_late_has_the_answer)
{
    struct asked a = { .call.waiter = hlk_self_get() };
    peer_up(&peer);
    hlk_mux_send(peer.mux, &a.call, "A", 1);
    peer_answers(&peer, ":3\r\n");
    cr_assert_not(hlk_mux_leave(peer.mux, &a.call, on_done));
    cr_assert_eq(a.ends, 0);
    freeReplyObject(a.call.reply);
}

Test(mux, a_caller_sees_a_silent_server_too)
{
    struct hlk_call mine = { .waiter = hlk_self_get() };
    peer_up(&peer);
    hlk_mux_send(peer.mux, &mine, "A", 1);
    peer_passes(&peer, 3000);
    cr_assert(hlk_mux_wait(peer.mux, &mine, INT64_MAX, 0));
    cr_assert_eq(atomic_load(&mine.end), HLK_CALL_BROKEN);
    cr_assert_eq(peer.mux->state, HLK_MUX_DOWN);
}

/* --- leader and followers: threads --- */

struct thread {
    pthread_t thread;
    struct hlk_call call;
    struct hlk_self *_Atomic self;
    unsigned mask;
    bool ended;
    int left; /* how often `left_done` got it */
    long long answer;
};

static void *waits(void *arg)
{
    struct thread *t = arg;
    t->call.waiter = hlk_self_get();
    (void)hlk_mux_send(peer.mux, &t->call, "A", 1);
    atomic_store(&t->self, t->call.waiter);
    t->ended = hlk_mux_wait(peer.mux, &t->call, INT64_MAX, t->mask);
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

static struct hlk_self *leader(void)
{
    hlk_mutex_lock(&peer.mux->mu);
    struct hlk_self *self = peer.mux->leader;
    hlk_mutex_unlock(&peer.mux->mu);
    return self;
}

static bool asleep(struct thread *t)
{
    struct hlk_self *self = atomic_load(&t->self);
    return self && atomic_load(&self->park.bits) & HLK_PARK_ASLEEP;
}

static void start(struct thread *t)
{
    cr_assert_eq(pthread_create(&t->thread, NULL, waits, t), 0);
    while (!asleep(t))
        sched_yield();
}

Test(mux, the_first_leads_and_hands_on_when_it_has_its_answer)
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
    cr_assert_eq(peer.mux->lead, HLK_LEAD_FREE);
}

Test(mux, the_newest_follower_leads_next)
{
    struct thread a = { .mask = 0 }, b = { .mask = 0 }, c = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    start(&c);
    peer_says(&peer, ":1\r\n");
    pthread_join(a.thread, NULL);
    cr_assert_eq(leader(), atomic_load(&c.self)); /* the others' answers come before its own */
    peer_says(&peer, ":2\r\n");
    pthread_join(b.thread, NULL);
    cr_assert_eq(leader(), atomic_load(&c.self));
    peer_says(&peer, ":3\r\n");
    pthread_join(c.thread, NULL);
    cr_assert_eq(b.answer, 2);
    cr_assert_eq(c.answer, 3);
}

Test(mux, a_leader_that_leaves_passes_the_lead)
{
    struct thread a = { .mask = HLK_WAKE_CANCEL }, b = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    hlk_park_wake(&atomic_load(&a.self)->park, HLK_WAKE_CANCEL);
    pthread_join(a.thread, NULL);
    cr_assert_not(a.ended);
    cr_assert_eq(leader(), atomic_load(&b.self));
    cr_assert(hlk_mux_leave(peer.mux, &a.call, left_done));
    peer_says(&peer, ":1\r\n:2\r\n");
    pthread_join(b.thread, NULL);
    cr_assert_eq(a.left, 1);
    cr_assert_eq(a.answer, 1);
    cr_assert_eq(b.answer, 2);
}

Test(mux, a_follower_that_leaves_is_never_made_leader)
{
    struct thread a = { .mask = 0 }, b = { .mask = HLK_WAKE_CANCEL };
    peer_up(&peer);
    start(&a);
    start(&b);
    hlk_park_wake(&atomic_load(&b.self)->park, HLK_WAKE_CANCEL);
    pthread_join(b.thread, NULL);
    cr_assert(hlk_mux_leave(peer.mux, &b.call, left_done));
    peer_says(&peer, ":1\r\n");
    pthread_join(a.thread, NULL);
    cr_assert_null(leader());
    cr_assert_eq(peer.mux->lead, HLK_LEAD_FREE);
    peer_answers(&peer, ":2\r\n");
    cr_assert_eq(b.left, 1);
    cr_assert_eq(b.answer, 2);
}

Test(mux, a_break_ends_leader_and_followers)
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
    cr_assert_eq(peer.mux->callers, 0u);
}

Test(mux, close_ends_those_who_wait)
{
    struct thread a = { .mask = 0 }, b = { .mask = 0 };
    peer_up(&peer);
    start(&a);
    start(&b);
    hlk_mux_close(peer.mux);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    cr_assert(a.ended && b.ended);
}

/* More than are told at once: while the first are told, one whose call is not ended yet begins to wait. It must not
 * lead a connection that is not there. */
static struct late {
    struct thread t;
    sem_t go;
} late;

static void *waits_late(void *arg)
{
    (void)arg;
    late.t.call.waiter = hlk_self_get();
    (void)hlk_mux_send(peer.mux, &late.t.call, "A", 1);
    atomic_store(&late.t.self, late.t.call.waiter);
    sem_wait(&late.go);
    late.t.ended = hlk_mux_wait(peer.mux, &late.t.call, INT64_MAX, 0);
    return NULL;
}

static void while_others_are_told(struct hlk_call *call)
{
    (void)call;
    cr_assert_eq(atomic_load(&late.t.call.end), HLK_CALL_FLYING, "not told yet");
    sem_post(&late.go);
    while (!(atomic_load(&atomic_load(&late.t.self)->park.bits) & HLK_PARK_ASLEEP))
        sched_yield();
}

Test(mux, who_begins_to_wait_while_a_break_is_told_is_told_too)
{
    enum { TOLD_AT_ONCE = HLK_ENDS_MOST };
    static struct hlk_self others[TOLD_AT_ONCE];
    static struct hlk_call theirs[TOLD_AT_ONCE];
    struct hlk_call first = { .done = while_others_are_told };
    struct hlk_error why = { .status = HLK_E_CONNECT };
    peer_up(&peer);
    sem_init(&late.go, 0, 0);
    hlk_mux_send(peer.mux, &first, "A", 1);
    for (int i = 0; i < TOLD_AT_ONCE; i++) {
        hlk_park_init(&others[i].park);
        theirs[i].waiter = &others[i];
        hlk_mux_send(peer.mux, &theirs[i], "A", 1);
    }
    cr_assert_eq(pthread_create(&late.t.thread, NULL, waits_late, NULL), 0);
    while (!atomic_load(&late.t.self))
        sched_yield();
    hlk_mux_broke(peer.mux, &why);
    pthread_join(late.t.thread, NULL);
    cr_assert(late.t.ended);
    cr_assert_eq(peer.mux->lead, HLK_LEAD_FREE);
    cr_assert_eq(peer.mux->callers, 0u);
}
