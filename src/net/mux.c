/* The stream of a shared connection and who leads it. The connection's life (dialling, states, the loop's turn) is in
 * mux_link.c. Windows that are easy to get wrong, each with a test in tests/race: a reply that arrives while its
 * owner is still in send(); a leader that leaves; a call whose caller left; a follower that leaves while it is being
 * made leader. */
#include "net/mux_inner.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct hlk_call *hlk_mux_first(const struct hlk_mux *mux)
{
    struct hlk_list *node = hlk_list_first(&mux->flight);
    return node ? HLK_CONTAINER(node, struct hlk_call, link) : NULL;
}

/* --- the ends of calls --- */

void hlk_mux_end_call(struct hlk_mux *mux, struct hlk_call *call, enum hlk_call_end end, struct hlk_ends *ends)
{
    hlk_list_remove(&call->link);
    if (call->last_of_write)
        mux->writes--;
    if (!call->waiter) {
        mux->eager -= !call->lazy;
        hlk_list_push_back(&ends->calls, &call->link);
        atomic_store(&call->end, end);
        return;
    }
    mux->callers--;
    if (call->waiter != mux->leader) {
        hlk_list_remove(&call->waiter->link);
        ends->waiters[ends->waiting++] = call->waiter;
    }
    atomic_store(&call->end, end); /* from here on the call is its caller's, who may be polling for this */
}

static void tell(struct hlk_ends *ends)
{
    hlk_mutex_assert_none();
    for (unsigned i = 0; i < ends->waiting; i++)
        hlk_park_wake(&ends->waiters[i]->park, HLK_WAKE_REPLY);
    ends->waiting = 0;
    struct hlk_list *node;
    while ((node = hlk_list_pop(&ends->calls))) {
        struct hlk_call *call = HLK_CONTAINER(node, struct hlk_call, link);
        call->done(call);
    }
}

/* --- writing --- */

static bool may_write(const struct hlk_mux *mux)
{
    return (mux->state == HLK_MUX_UP || mux->state == HLK_MUX_READYING) && !mux->sending && !mux->stuffed &&
           !mux->corked && !hlk_buffer_empty(&mux->queued) &&
           (mux->callers <= HLK_MUX_FEW || mux->writes < HLK_MUX_WRITES);
}

/* True: neighbours among them may be combined. */
static bool stamp_unsent(struct hlk_mux *mux)
{
    int64_t now = hlk_clock_ns();
    struct hlk_list *node = &mux->first_unsent->link;
    struct hlk_call *call = NULL;
    bool was_part = false, neighbours = false;
    for (; node != &mux->flight; node = node->next) {
        call = HLK_CONTAINER(node, struct hlk_call, link);
        call->sent_ns = now;
        mux->counts.commands++;
        neighbours |= was_part && call->part;
        was_part = call->part;
    }
    call->last_of_write = true;
    mux->writes++;
    mux->counts.writes++;
    return neighbours;
}

void hlk_mux_flush(struct hlk_mux *mux)
{
    hlk_mutex_assert_held(&mux->mu);
    while (may_write(mux)) {
        if (!stamp_unsent(mux) || !hlk_mux_combine(mux)) {
            struct hlk_buffer empty = mux->wire;
            mux->wire = mux->queued;
            mux->queued = empty;
        }
        mux->first_unsent = NULL;
        mux->sending = true;
        hlk_mutex_unlock(&mux->mu);
        struct hlk_error ignored;
        bool ok = hlk_conn_send(&mux->conn, &mux->wire, &ignored);
        if (!ok)
            shutdown(mux->conn.fd, SHUT_RDWR); /* the leader reads the end of it, and ends the calls */
        hlk_mutex_lock(&mux->mu);
        mux->sending = false;
        if (!ok)
            mux->wire.len = mux->wire.off = 0;
        if (ok && !hlk_buffer_empty(&mux->wire)) {
            mux->stuffed = true;
            if (mux->leader)
                hlk_park_wake(&mux->leader->park, HLK_WAKE_UP); /* poll for writing too */
            else if (mux->lead == HLK_LEAD_LOOP)
                hlk_loop_post(mux->loop, &mux->adopt);
        }
    }
}

bool hlk_mux_unstuff(struct hlk_mux *mux, struct hlk_error *error)
{
    hlk_mutex_lock(&mux->mu);
    bool mine = mux->stuffed && !mux->sending;
    mux->sending = mux->sending || mine;
    hlk_mutex_unlock(&mux->mu);
    if (!mine)
        return true;
    bool ok = hlk_conn_send(&mux->conn, &mux->wire, error);
    hlk_mutex_lock(&mux->mu);
    mux->sending = false;
    mux->stuffed = ok && !hlk_buffer_empty(&mux->wire);
    hlk_mutex_unlock(&mux->mu);
    return ok;
}

enum hlk_status hlk_mux_send(hlk_mux *mux, struct hlk_call *call, const char *bytes, size_t len)
{
    atomic_store(&call->end, HLK_CALL_FLYING);
    call->reply = NULL;
    call->sent_ns = 0;
    call->last_of_write = false;
    call->len = (unsigned)len;
    call->parts = 0;
    hlk_mutex_lock(&mux->mu);
    bool ours = mux->state == HLK_MUX_READYING && hlk_loop_here(mux->loop);
    enum hlk_status status = mux->state == HLK_MUX_CLOSED               ? HLK_E_CLOSED
                             : mux->state != HLK_MUX_UP && !ours        ? HLK_E_CONNECT
                             : hlk_buffer_add(&mux->queued, bytes, len) ? HLK_OK
                                                                        : HLK_E_NOMEM;
    if (status != HLK_OK) {
        hlk_mutex_unlock(&mux->mu);
        return status;
    }
    call->epoch = mux->epoch;
    if (call->part && (!mux->owner.combine || mux->alone > 0)) {
        call->part = 0;
        mux->alone -= mux->alone > 0;
    }
    hlk_list_push_back(&mux->flight, &call->link);
    if (!mux->first_unsent)
        mux->first_unsent = call;
    bool eager = !call->waiter && !call->lazy;
    mux->callers += call->waiter != NULL;
    mux->eager += eager;
    bool adopt = eager && mux->lead != HLK_LEAD_TAKEN && !ours;
    if (!adopt && (call->waiter || !mux->batching))
        hlk_mux_flush(mux); /* a call with `done` may be over, and gone, after it */
    hlk_mutex_unlock(&mux->mu);
    if (adopt && mux->owner.on_work)
        mux->owner.on_work(mux->owner.ctx);
    else if (adopt)
        hlk_loop_post(mux->loop, &mux->adopt);
    hlk_loop_need_ticks(mux->loop); /* a server that falls silent is noticed by a tick when nobody waits */
    return HLK_OK;
}

/* --- leaving for another server --- */

/* mu held. The leader, or the loop's next tick, reads the end of it. */
static void end_when_answered(struct hlk_mux *mux)
{
    const struct hlk_call *call = hlk_mux_first(mux);
    if (mux->state == HLK_MUX_LEAVING && !(call && call->sent_ns))
        shutdown(mux->conn.fd, SHUT_RDWR);
}

void hlk_mux_look_again(hlk_mux *mux, uint64_t epoch)
{
    hlk_mutex_lock(&mux->mu);
    bool leaves =
        mux->state == HLK_MUX_UP && mux->epoch == epoch && hlk_clock_ms() - mux->up_ms >= HLK_MUX_LOOK_AGAIN_MS;
    if (leaves) {
        mux->state = HLK_MUX_LEAVING;
        mux->moving = true;
        (void)hlk_error_set(&mux->error, HLK_E_CONNECT, "the server has become a replica; connecting anew");
        end_when_answered(mux);
    }
    hlk_mutex_unlock(&mux->mu);
    if (leaves)
        hlk_loop_need_ticks(mux->loop);
}

/* --- reading: the leader --- */

/* False: one of them answers nothing that was asked. What comes behind it is nobody's. */
static bool take_replies(struct hlk_mux *mux, redisReply **replies, unsigned n, struct hlk_ends *ends)
{
    int64_t now = hlk_clock_ns(), sent = 0;
    bool in_step = true;
    for (unsigned i = 0; i < n; i++) {
        struct hlk_call *call = hlk_mux_first(mux);
        in_step = in_step && call && call->sent_ns;
        if (!in_step) {
            freeReplyObject(replies[i]);
            continue;
        }
        sent = call->sent_ns;
        if (call->parts) {
            in_step = hlk_mux_take_parts(mux, replies[i], ends);
        } else {
            call->reply = replies[i];
            hlk_mux_end_call(mux, call, HLK_CALL_ANSWERED, ends);
        }
    }
    mux->heard_ns = now;
    if (sent)
        hlk_spin_saw(&mux->spin, now - sent);
    if (!in_step)
        shutdown(mux->conn.fd, SHUT_RDWR); /* what is sent until the leader has ended it is not run */
    return in_step;
}

int hlk_mux_read(struct hlk_mux *mux, struct hlk_error *error)
{
    int got = hlk_conn_recv(&mux->conn, error);
    if (got <= 0)
        return got;
    struct hlk_ends ends = { .waiting = 0 };
    hlk_list_init(&ends.calls);
    redisReply *replies[HLK_REPLIES];
    bool broken = false;
    unsigned n;
    do {
        for (n = 0; n < HLK_REPLIES; n++)
            if (!(replies[n] = hlk_conn_reply(&mux->conn, &broken, error)))
                break;
        if (n == 0)
            break;
        hlk_mutex_lock(&mux->mu);
        if (!take_replies(mux, replies, n, &ends)) {
            broken = true;
            (void)hlk_error_set(error, HLK_E_CONNECT, "connection reset: an answer came to what was not asked");
        }
        end_when_answered(mux);
        bool dones = !hlk_list_empty(&ends.calls);
        if (!dones)
            hlk_mux_flush(mux);
        mux->corked = dones; /* what the completions send leaves in one write */
        hlk_mutex_unlock(&mux->mu);
        tell(&ends);
        if (dones) {
            hlk_mutex_lock(&mux->mu);
            mux->corked = false;
            hlk_mux_flush(mux);
            hlk_mutex_unlock(&mux->mu);
        }
    } while (n == HLK_REPLIES && !broken);
    return broken ? -1 : 1;
}

bool hlk_mux_overdue(const struct hlk_mux *mux, int64_t now_ns, int64_t *dead_ns)
{
    const struct hlk_call *call = hlk_mux_first(mux);
    *dead_ns = INT64_MAX;
    if (!call || !call->sent_ns)
        return false;
    int64_t since = call->sent_ns > mux->heard_ns ? call->sent_ns : mux->heard_ns;
    *dead_ns = since + mux->endpoint->reply_ms * 1000000;
    return now_ns >= *dead_ns;
}

void hlk_mux_end_all(struct hlk_mux *mux, enum hlk_mux_state state)
{
    struct hlk_ends ends = { .waiting = 0 };
    hlk_list_init(&ends.calls);
    while (mux->sending) { /* a send() that does not block */
        hlk_mutex_unlock(&mux->mu);
        sched_yield();
        hlk_mutex_lock(&mux->mu);
    }
    mux->state = state;
    mux->telling++;
    mux->epoch++;
    mux->stuffed = mux->corked = false;
    mux->first_unsent = NULL;
    mux->queued.len = mux->queued.off = mux->wire.len = mux->wire.off = 0;
    mux->lead = HLK_LEAD_TAKEN; /* by nobody: there is nothing to read, and whoever led would not be told below */
    mux->leader = NULL;
    if (mux->conn.fd >= 0 && mux->dead.fd < 0) {
        mux->dead = mux->conn;
        hlk_conn_init(&mux->conn);
    }
    struct hlk_call *call;
    while ((call = hlk_mux_first(mux))) {
        hlk_mux_end_call(mux, call, call->sent_ns ? HLK_CALL_BROKEN : HLK_CALL_UNSENT, &ends);
        if (ends.waiting < HLK_ENDS_MOST && !hlk_list_empty(&mux->flight))
            continue;
        hlk_mutex_unlock(&mux->mu);
        tell(&ends);
        hlk_mutex_lock(&mux->mu);
    }
    mux->writes = 0;
    mux->lead = HLK_LEAD_FREE;
    mux->telling--;
    hlk_mutex_unlock(&mux->mu);
    hlk_loop_post(mux->loop, &mux->broken);
}

void hlk_mux_broke(struct hlk_mux *mux, const struct hlk_error *why)
{
    hlk_mutex_lock(&mux->mu);
    if (mux->state != HLK_MUX_LEAVING)
        mux->error = *why;
    hlk_mux_end_all(mux, mux->state == HLK_MUX_CLOSED ? HLK_MUX_CLOSED : HLK_MUX_DOWN);
}

void hlk_mux_give_lead(struct hlk_mux *mux)
{
    hlk_mutex_assert_held(&mux->mu);
    mux->leader = NULL;
    mux->lead = HLK_LEAD_FREE;
    if (!hlk_list_empty(&mux->followers)) { /* the newest: the others' replies come before its own */
        mux->leader = HLK_CONTAINER(mux->followers.prev, struct hlk_self, link);
        hlk_list_remove(&mux->leader->link);
        mux->lead = HLK_LEAD_TAKEN;
        hlk_park_wake(&mux->leader->park, HLK_WAKE_LEAD);
    } else if (mux->eager) {
        if (mux->owner.on_work)
            mux->owner.on_work(mux->owner.ctx);
        else
            hlk_loop_post(mux->loop, &mux->adopt);
    }
}

/* Polls with yields while answers come quickly. True: try to read again. */
static bool spin_once(int64_t until_ns)
{
    if (hlk_clock_ns() >= until_ns)
        return false;
    sched_yield();
    return true;
}

/* Sleeps until the socket or a waker speaks. */
static void leader_sleeps(struct hlk_mux *mux, struct hlk_self *self, int64_t at_ms, unsigned mask)
{
    hlk_mutex_lock(&mux->mu);
    bool stuffed = mux->stuffed;
    hlk_mutex_unlock(&mux->mu);
    hlk_self_poll(self, mux->conn.fd, (short)(stuffed ? POLLIN | POLLOUT : POLLIN), mux->kick_fd, mask | HLK_WAKE_UP,
                  at_ms);
}

/* Reads for everybody until `call` has ended, the caller must leave, or the connection breaks (then it leads no
 * more). */
static void lead_until(struct hlk_mux *mux, struct hlk_call *call, struct hlk_self *self, int64_t at_ms, unsigned mask)
{
    struct hlk_error error;
    int64_t spin_until = 0;
    hlk_mutex_lock(&mux->mu);
    /* With many callers one of them has work to do: polling only takes the CPU from it. */
    int64_t budget = mux->callers <= HLK_MUX_FEW ? hlk_spin_budget_ns(&mux->spin) : 0;
    hlk_mutex_unlock(&mux->mu);
    bool sleep_first = budget == 0; /* a read right after a write would find nothing */
    while (atomic_load(&call->end) == HLK_CALL_FLYING) {
        (void)hlk_park_take(&self->park, HLK_WAKE_UP);
        int got = sleep_first ? 0 : hlk_mux_read(mux, &error);
        sleep_first = false;
        if (got > 0)
            continue;
        hlk_mutex_lock(&mux->mu);
        int64_t dead_ns = INT64_MAX, now = hlk_clock_ns();
        bool overdue = got == 0 && hlk_mux_overdue(mux, now, &dead_ns);
        bool stuffed = mux->stuffed;
        if (spin_until == 0)
            spin_until = now + budget;
        hlk_mutex_unlock(&mux->mu);
        if (overdue)
            (void)hlk_error_set(&error, HLK_E_CONNECT, "no answer for %lld ms", (long long)mux->endpoint->reply_ms);
        if (got < 0 || overdue || (stuffed && !hlk_mux_unstuff(mux, &error))) {
            hlk_mux_broke(mux, &error);
            return;
        }
        if (hlk_park_peek(&self->park, mask) || now / 1000000 >= at_ms)
            return;
        if (spin_once(spin_until))
            continue;
        int64_t dead_ms = dead_ns == INT64_MAX ? INT64_MAX : dead_ns / 1000000 + 1;
        leader_sleeps(mux, self, dead_ms < at_ms ? dead_ms : at_ms, mask);
    }
}

/* --- waiting: leader or follower --- */

struct waiting {
    struct hlk_mux *mux;
    struct hlk_call *call;
    struct hlk_self *self;
    bool led;
};

/* Leaves the connection as if the caller had never waited; the call still flies. */
static void stop_waiting(void *arg)
{
    struct waiting *w = arg;
    struct hlk_mux *mux = w->mux;
    hlk_mutex_lock(&mux->mu);
    if (mux->leader == w->self)
        hlk_mux_give_lead(mux);
    else
        hlk_list_remove(&w->self->link);
    hlk_mutex_unlock(&mux->mu);
    (void)hlk_park_take(&w->self->park, HLK_WAKE_LEAD | HLK_WAKE_REPLY | HLK_WAKE_UP);
}

static void follow(struct waiting *w, int64_t at_ms, unsigned mask, int64_t spin_until)
{
    unsigned wanted = HLK_WAKE_REPLY | HLK_WAKE_LEAD | mask;
    while (atomic_load(&w->call->end) == HLK_CALL_FLYING && !hlk_park_peek(&w->self->park, wanted))
        if (!spin_once(spin_until))
            break;
    if (atomic_load(&w->call->end) != HLK_CALL_FLYING)
        return;
    hlk_self_allow_cancel(w->self);
    (void)hlk_park_until(&w->self->park, wanted, at_ms, -1, NULL);
    hlk_self_forbid_cancel(w->self);
}

/* One turn as leader or follower. */
static void wait_turn(struct hlk_mux *mux, struct waiting *w, int64_t at_ms, unsigned mask)
{
    int64_t spin_until = 0;
    hlk_mutex_lock(&mux->mu);
    bool ended = atomic_load(&w->call->end) != HLK_CALL_FLYING;
    if (!ended && mux->lead != HLK_LEAD_TAKEN) {
        mux->lead = HLK_LEAD_TAKEN;
        mux->leader = w->self;
    }
    bool leads = mux->leader == w->self;
    if (!leads && !ended) {
        if (!hlk_list_linked(&w->self->link))
            hlk_list_push_back(&mux->followers, &w->self->link);
        if (mux->callers <= HLK_MUX_FEW)
            spin_until = hlk_clock_ns() + hlk_spin_budget_ns(&mux->spin);
    }
    hlk_mutex_unlock(&mux->mu);
    if (ended)
        return;
    w->led |= leads;
    if (leads)
        lead_until(mux, w->call, w->self, at_ms, mask);
    else
        follow(w, at_ms, mask, spin_until);
}

bool hlk_mux_wait(hlk_mux *mux, struct hlk_call *call, int64_t at_ms, unsigned mask)
{
    struct waiting w = { mux, call, call->waiter, false };
    bool leave = false;
    pthread_cleanup_push(stop_waiting, &w);
    while (!leave && atomic_load(&call->end) == HLK_CALL_FLYING) {
        (void)hlk_park_take(&w.self->park, HLK_WAKE_LEAD | HLK_WAKE_REPLY);
        wait_turn(mux, &w, at_ms, mask);
        leave = hlk_park_peek(&w.self->park, mask) || (at_ms != INT64_MAX && hlk_clock_ms() >= at_ms);
    }
    pthread_cleanup_pop(0);
    if (w.led || atomic_load(&call->end) == HLK_CALL_FLYING) /* else whoever ended the call unlinked us */
        stop_waiting(&w);
    return atomic_load(&call->end) != HLK_CALL_FLYING;
}

bool hlk_mux_leave(hlk_mux *mux, struct hlk_call *call, void (*done)(struct hlk_call *call))
{
    hlk_mutex_lock(&mux->mu);
    bool flying = atomic_load(&call->end) == HLK_CALL_FLYING;
    if (flying) {
        call->waiter = NULL;
        call->done = done;
        call->lazy = true;
        mux->callers--; /* a blocking caller's; completions have nobody who could leave */
    }
    hlk_mutex_unlock(&mux->mu);
    return flying;
}

uint64_t hlk_mux_epoch(hlk_mux *mux)
{
    hlk_mutex_lock(&mux->mu);
    uint64_t epoch = mux->epoch;
    hlk_mutex_unlock(&mux->mu);
    return epoch;
}

void hlk_mux_counts(hlk_mux *mux, struct hlk_mux_counts *out)
{
    hlk_mutex_lock(&mux->mu);
    *out = mux->counts;
    hlk_mutex_unlock(&mux->mu);
}
