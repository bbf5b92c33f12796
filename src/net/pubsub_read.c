/* Who reads the subscriber connection: a waiter that is parked, or else the loop.
 *
 * A grant that the loop reads wakes two threads one after the other, the loop and the waiter; measured, that is a
 * fifth of a hand-over between processes. So a waiter that would sleep anyway sleeps in poll at this socket, and reads
 * for all. The right to read is one: LOOP, a waiter's, or for a moment NOBODY's, between a waiter that got its lock and
 * the next one that parks; the loop takes it from NOBODY at its next tick, or at once when some wait cannot read.
 * The loop is never woken to give it away: it notices at the next message, and stops watching. While it reads nobody
 * takes the right from it: a waiter that parks then leaves it there, and sleeps. */
#include "net/pubsub.h"

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

/* mu held. True: nobody reads any more, and the loop should at once. */
static bool give_on(struct hlk_pubsub *ps)
{
    ps->reading = NULL;
    ps->reader = HLK_READER_NOBODY;
    struct hlk_list *node = ps->readable ? hlk_list_pop(&ps->parked) : NULL;
    if (!node)
        return ps->readable && ps->eager > 0;
    ps->reader = HLK_READER_WAITER;
    ps->reading = HLK_CONTAINER(node, struct hlk_self, link);
    hlk_park_wake(&ps->reading->park, HLK_WAKE_READ);
    return false;
}

struct parked {
    struct hlk_pubsub *ps;
    struct hlk_self *self;
};

static void stop_reading(void *arg)
{
    const struct parked *p = arg;
    struct hlk_pubsub *ps = p->ps;
    bool resume = false, need_ticks = false;
    hlk_mutex_lock(&ps->mu);
    if (ps->reading == p->self) {
        resume = give_on(ps);
        need_ticks = ps->reader == HLK_READER_NOBODY;
    } else {
        hlk_list_remove(&p->self->link);
    }
    hlk_mutex_unlock(&ps->mu);
    (void)hlk_park_take(&p->self->park, HLK_WAKE_READ);
    if (resume)
        hlk_loop_post(ps->loop, &ps->resume);
    else if (need_ticks)
        hlk_loop_need_ticks(ps->loop);
}

/* The connection is over: the loop hangs up and dials again. */
static void tell_loop_broken(struct hlk_pubsub *ps, const struct hlk_error *why)
{
    hlk_mutex_lock(&ps->mu);
    ps->readable = false;
    ps->broken = true;
    ps->why = *why;
    (void)give_on(ps);
    hlk_mutex_unlock(&ps->mu);
    hlk_loop_post(ps->loop, &ps->broke);
}

/* Has the right. Until a bit of mask is set, at_ms has come, or the right is wanted back. */
static void read_until(struct hlk_pubsub *ps, struct hlk_self *self, unsigned mask, int64_t at_ms)
{
    struct hlk_error error;
    for (;;) {
        hlk_self_poll(self, ps->conn.fd, POLLIN, ps->kick_fd, mask | HLK_WAKE_READ, at_ms);
        if (!hlk_pubsub_read(ps, &error)) {
            tell_loop_broken(ps, &error);
            return;
        }
        if (hlk_park_peek(&self->park, mask) || (at_ms != INT64_MAX && hlk_clock_ms() >= at_ms))
            return;
        hlk_mutex_lock(&ps->mu);
        bool stays = ps->readable;
        hlk_mutex_unlock(&ps->mu);
        if (!stays)
            return;
    }
}

/* mu held. False: it is among those who would. */
static bool may_read(struct hlk_pubsub *ps, struct hlk_self *self)
{
    if (ps->reading == self && !ps->readable)
        (void)give_on(ps);
    if (ps->reading == self)
        return true;
    if (!ps->readable || ps->reader == HLK_READER_WAITER || ps->loop_inside) {
        if (!hlk_list_linked(&self->link))
            hlk_list_push_back(&ps->parked, &self->link);
        return false;
    }
    hlk_list_remove(&self->link);
    ps->reader = HLK_READER_WAITER;
    ps->reading = self;
    return true;
}

void hlk_pubsub_park(struct hlk_pubsub *ps, struct hlk_self *self, unsigned mask, int64_t at_ms)
{
    struct parked p = { ps, self };
    pthread_cleanup_push(stop_reading, &p);
    do {
        hlk_mutex_lock(&ps->mu);
        (void)hlk_park_take(&self->park, HLK_WAKE_READ);
        bool reads = may_read(ps, self);
        hlk_mutex_unlock(&ps->mu);
        if (reads) {
            read_until(ps, self, mask, at_ms);
        } else {
            hlk_self_allow_cancel(self);
            (void)hlk_park_until(&self->park, mask | HLK_WAKE_READ, at_ms, -1, NULL);
            hlk_self_forbid_cancel(self);
        }
    } while (!hlk_park_peek(&self->park, mask) && (at_ms == INT64_MAX || hlk_clock_ms() < at_ms));
    pthread_cleanup_pop(0);
    stop_reading(&p);
}

void hlk_pubsub_eager(struct hlk_pubsub *ps, bool more)
{
    hlk_mutex_lock(&ps->mu);
    ps->eager += more ? 1u : -1u;
    bool resume = more && ps->readable && ps->reader == HLK_READER_NOBODY;
    hlk_mutex_unlock(&ps->mu);
    if (resume)
        hlk_loop_post(ps->loop, &ps->resume);
}

/* --- the loop's side --- */

bool hlk_pubsub_loop_reads(struct hlk_pubsub *ps)
{
    hlk_mutex_lock(&ps->mu);
    bool reads = ps->reader == HLK_READER_LOOP;
    hlk_mutex_unlock(&ps->mu);
    return reads;
}

bool hlk_pubsub_loop_begins(struct hlk_pubsub *ps)
{
    hlk_mutex_lock(&ps->mu);
    ps->loop_inside = ps->reader == HLK_READER_LOOP;
    bool begins = ps->loop_inside;
    hlk_mutex_unlock(&ps->mu);
    return begins;
}

void hlk_pubsub_loop_ends(struct hlk_pubsub *ps)
{
    hlk_mutex_lock(&ps->mu);
    ps->loop_inside = false;
    hlk_mutex_unlock(&ps->mu);
}

bool hlk_pubsub_loop_takes(struct hlk_pubsub *ps)
{
    hlk_mutex_lock(&ps->mu);
    bool takes = ps->readable && ps->reader == HLK_READER_NOBODY;
    if (takes)
        ps->reader = HLK_READER_LOOP;
    hlk_mutex_unlock(&ps->mu);
    return takes;
}

void hlk_pubsub_readable(struct hlk_pubsub *ps)
{
    hlk_mutex_lock(&ps->mu);
    ps->readable = true;
    ps->broken = false;
    ps->reader = HLK_READER_LOOP;
    hlk_mutex_unlock(&ps->mu);
}

void hlk_pubsub_reclaim(struct hlk_pubsub *ps)
{
    hlk_mutex_lock(&ps->mu);
    ps->readable = false;
    while (ps->reader == HLK_READER_WAITER) { /* it is told, and never blocks but in poll */
        hlk_park_wake(&ps->reading->park, HLK_WAKE_READ);
        hlk_mutex_unlock(&ps->mu);
        sched_yield();
        hlk_mutex_lock(&ps->mu);
    }
    ps->reader = HLK_READER_NOBODY;
    hlk_mutex_unlock(&ps->mu);
}
