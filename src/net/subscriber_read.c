#include "net/subscriber_read.h"

#include "net/subscriber_internal.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "net/reply.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

/* --- replies and messages --- */

static void subscriber_refused(struct hlk_subscriber *ps, const struct asked *asked, const redisReply *reply)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(reply->type == REDIS_REPLY_ERROR);
    struct hlk_error why, error;
    enum hlk_reply_kind kind = hlk_reply_read(reply, &why);
    bool later = kind == HLK_REPLY_LATER || kind == HLK_REPLY_REPLICA;
    if (asked->what == SUBSCRIBE)
        atomic_fetch_sub(&ps->subscribed, 1);
    else if (asked->what == UNSUBSCRIBE && later)
        atomic_fetch_add(&ps->subscribed, 1);
    if (asked->what == SUBSCRIBE && kind == HLK_REPLY_MOVED) {
        (void)ps->owner.on_moved(ps->owner.ctx, asked->channel, asked->len, why.text);
    } else if (asked->what != PING && later) {
        ps->owner.on_later(ps->owner.ctx, asked->channel, asked->len, asked->what == SUBSCRIBE);
    } else if (asked->what == SUBSCRIBE) {
        (void)hlk_error_set(&error, why.status, "SUBSCRIBE %.*s: %s", (int)asked->len, asked->channel, why.text);
        ps->owner.on_refused(ps->owner.ctx, asked->channel, asked->len, &error);
    }
}

static void on_reply(struct hlk_subscriber *ps, const redisReply *reply)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&ps->mu);
    struct hlk_list *node = hlk_list_pop(&ps->asked);
    hlk_mutex_unlock(&ps->mu);
    if (!node)
        return;
    struct asked *asked = HLK_CONTAINER(node, struct asked, link);
    if (reply->type == REDIS_REPLY_ERROR)
        subscriber_refused(ps, asked, reply);
    else if (asked->what == SUBSCRIBE)
        ps->owner.on_subscribed(ps->owner.ctx, asked->channel, asked->len);
    hlk_mem_free(asked);
}

static bool is_about_channel(const redisReply *reply, const char *what)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, what) == 0 && reply->element[1]->type == REDIS_REPLY_STRING;
}

static bool is_message(const struct hlk_subscriber *ps, const redisReply *reply)
{
    return is_about_channel(reply, ps->sharded ? "smessage" : "message") &&
           reply->element[2]->type == REDIS_REPLY_STRING;
}

/* The server unsubscribes a channel whose slot it does not keep any more. We have not asked for that. */
static bool is_moved(struct hlk_subscriber *ps, const redisReply *reply)
{
    if (!ps->sharded || !is_about_channel(reply, "sunsubscribe"))
        return false;
    hlk_mutex_lock(&ps->mu);
    const struct hlk_list *node = hlk_list_first(&ps->asked);
    const struct asked *asked = node ? HLK_CONTAINER(node, const struct asked, link) : NULL;
    bool answer = asked && asked->what == UNSUBSCRIBE && asked->len == reply->element[1]->len &&
                  memcmp(asked->channel, reply->element[1]->str, asked->len) == 0;
    hlk_mutex_unlock(&ps->mu);
    return !answer;
}

static void message_pending(struct hlk_subscriber *ps, const redisReply *reply)
{
    hlk_mutex_assert_none();
    atomic_store_explicit(&ps->silent_pings, 0, memory_order_relaxed);
    if (is_moved(ps, reply)) {
        if (ps->owner.on_moved(ps->owner.ctx, reply->element[1]->str, reply->element[1]->len, NULL))
            atomic_fetch_sub(&ps->subscribed, 1);
    } else if (is_message(ps, reply)) {
        ps->owner.on_message(ps->owner.ctx, reply->element[1]->str, reply->element[1]->len, reply->element[2]->str,
                             reply->element[2]->len);
    } else {
        on_reply(ps, reply);
    }
}

bool hlk_subscriber_read(struct hlk_subscriber *ps, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    bool broken = false;
    int got = hlk_conn_recv(&ps->conn, error);
    if (got <= 0)
        return got == 0;
    redisReply *reply;
    while ((reply = hlk_conn_reply(&ps->conn, &broken, error))) {
        message_pending(ps, reply);
        freeReplyObject(reply);
    }
    return !broken;
}

/* --- the right to read --- */

/* True: no thread reads any more, and the loop should at once. */
static bool give_on(struct hlk_subscriber *ps)
{
    hlk_mutex_assert_held(&ps->mu);
    ps->reading = NULL;
    ps->reader = HLK_READER_NOBODY;
    if (!ps->readable)
        pthread_cond_signal(&ps->given_up); /* hlk_subscriber_reclaim may wait for it */
    struct hlk_list *node = ps->readable ? hlk_list_pop(&ps->parked) : NULL;
    if (!node)
        return ps->readable && ps->eager > 0;
    ps->reader = HLK_READER_WAITER;
    ps->reading = HLK_CONTAINER(node, struct hlk_thread, link);
    hlk_park_wake(&ps->reading->park, HLK_WAKE_READ);
    return false;
}

struct parked {
    struct hlk_subscriber *ps;
    struct hlk_thread *self;
};

static void stop_reading(void *arg)
{
    const struct parked *p = arg;
    struct hlk_subscriber *ps = p->ps;
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
static void report_broken(struct hlk_subscriber *ps, const struct hlk_error *why)
{
    hlk_mutex_lock(&ps->mu);
    HLK_DEBUG_ASSERT(ps->reader == HLK_READER_WAITER);
    ps->readable = false;
    ps->broken = true;
    ps->why = *why;
    (void)give_on(ps);
    hlk_mutex_unlock(&ps->mu);
    hlk_loop_post(ps->loop, &ps->broke);
}

/* Has the right. Until a bit of mask is set, at_ms has come, or the right is wanted back. */
static void read_until(struct hlk_subscriber *ps, struct hlk_thread *self, unsigned mask, int64_t at_ms)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    for (;;) {
        hlk_thread_poll(self, ps->conn.fd, POLLIN, ps->kick_fd, mask | HLK_WAKE_READ, at_ms);
        if (!hlk_subscriber_read(ps, &error)) {
            report_broken(ps, &error);
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

/* False: it is among those that would. */
static bool may_read(struct hlk_subscriber *ps, struct hlk_thread *self)
{
    hlk_mutex_assert_held(&ps->mu);
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

void hlk_subscriber_park(struct hlk_subscriber *ps, struct hlk_thread *self, unsigned mask, int64_t at_ms)
{
    hlk_mutex_assert_none();
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
            hlk_thread_allow_cancel(self);
            (void)hlk_park_until(&self->park, mask | HLK_WAKE_READ, at_ms, -1, NULL);
            hlk_thread_forbid_cancel(self);
        }
    } while (!hlk_park_peek(&self->park, mask) && (at_ms == INT64_MAX || hlk_clock_ms() < at_ms));
    pthread_cleanup_pop(0);
    stop_reading(&p);
}

void hlk_subscriber_eager(struct hlk_subscriber *ps, bool more)
{
    hlk_mutex_lock(&ps->mu);
    HLK_DEBUG_ASSERT(more || ps->eager > 0);
    ps->eager += more ? 1u : -1u;
    bool resume = more && ps->readable && ps->reader == HLK_READER_NOBODY;
    hlk_mutex_unlock(&ps->mu);
    if (resume)
        hlk_loop_post(ps->loop, &ps->resume);
}

/* --- the loop's side --- */

bool hlk_subscriber_loop_reads(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_lock(&ps->mu);
    bool reads = ps->reader == HLK_READER_LOOP;
    hlk_mutex_unlock(&ps->mu);
    return reads;
}

bool hlk_subscriber_loop_begins(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_lock(&ps->mu);
    ps->loop_inside = ps->reader == HLK_READER_LOOP;
    bool begins = ps->loop_inside;
    hlk_mutex_unlock(&ps->mu);
    return begins;
}

void hlk_subscriber_loop_ends(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_lock(&ps->mu);
    ps->loop_inside = false;
    hlk_mutex_unlock(&ps->mu);
}

bool hlk_subscriber_loop_takes(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_lock(&ps->mu);
    bool takes = ps->readable && ps->reader == HLK_READER_NOBODY;
    if (takes)
        ps->reader = HLK_READER_LOOP;
    hlk_mutex_unlock(&ps->mu);
    return takes;
}

void hlk_subscriber_readable(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_lock(&ps->mu);
    ps->readable = true;
    ps->broken = false;
    ps->reader = HLK_READER_LOOP;
    hlk_mutex_unlock(&ps->mu);
}

void hlk_subscriber_reclaim(struct hlk_subscriber *ps)
{
    hlk_loop_assert_here(ps->loop);
    hlk_mutex_lock(&ps->mu);
    ps->readable = false;
    if (ps->reader == HLK_READER_WAITER)
        hlk_park_wake(&ps->reading->park, HLK_WAKE_READ);
    int old = hlk_nocancel_begin();
    while (ps->reader == HLK_READER_WAITER) /* it never blocks but in poll, and gives the right up */
        pthread_cond_wait(&ps->given_up, &ps->mu.mu);
    hlk_nocancel_end(old);
    ps->reader = HLK_READER_NOBODY;
    hlk_mutex_unlock(&ps->mu);
}
