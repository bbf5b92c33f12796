/* The reentrant lock, blocking: each call's own thread does its I/O. */
#include "sync/request.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- acquire --- */

#define LEAVE (HLK_WAKE_CANCEL | HLK_WAKE_CLOSED)
#define HEAR (HLK_WAKE_TURN | HLK_WAKE_MESSAGE | HLK_WAKE_HEARING | HLK_WAKE_DEAF)

static void on_orphan(struct hlk_call *call)
{
    hlk_request_free(HLK_CONTAINER(call, struct hlk_request, q.call));
}

/* Leaves for good: everything undone, the memory given back, or left to the call that still flies. */
static void drop(struct hlk_request *r)
{
    hlk_request_leave(r);
    if (!r->flies || !hlk_mux_leave(r->lock->client->mux, &r->q.call, on_orphan))
        hlk_request_free(r);
}

static void on_thread_cancel(void *arg)
{
    struct hlk_request *r = arg;
    HLK_COUNT(&r->lock->client->table, interrupted);
    drop(r);
}

static enum hlk_happened over(struct hlk_request *r, enum hlk_status status)
{
    r->error.status = status;
    return HLK_IS_OVER;
}

/* A bit that ends the wait was set: is it true? Bits are hints. r->error says why it must leave. */
static bool must_leave(struct hlk_request *r)
{
    unsigned bits = hlk_park_take(&r->self->park, LEAVE);
    if ((bits & HLK_WAKE_CLOSED) && atomic_load(&r->lock->client->closing))
        (void)hlk_error_set(&r->error, HLK_E_CLOSED, "the client is being closed");
    else if ((bits & HLK_WAKE_CANCEL) && hlk_cancel_triggered(r->cancel))
        (void)hlk_error_set(&r->error, HLK_INTERRUPTED, "cancelled");
    else
        return false;
    return true;
}

/* Asks until answered. HLK_OK: the answer is in r->q.call.reply; else leave with it. */
static enum hlk_status ask(struct hlk_request *r)
{
    hlk_client *client = r->lock->client;
    struct hlk_limits limits = { .at_ms = r->machine.deadline_ms,
                                 .mask = LEAVE,
                                 .refusals_pass = !r->machine.once,
                                 .up_by_ms = hlk_clock_after(hlk_clock_ms(), client->patience_ms) };
    enum hlk_status status;
    do {
        status = hlk_question_ask(&r->q, client->mux, r->self, &limits, &r->flies, &r->error);
        if (status == HLK_INTERRUPTED && must_leave(r))
            return r->error.status;
    } while (status == HLK_INTERRUPTED);
    bool late = status == HLK_E_UNSURE || status == HLK_E_CONNECT;
    if (late && r->machine.answered && hlk_clock_ms() >= r->machine.deadline_ms)
        status = r->machine.once ? HLK_BUSY : HLK_TIMEOUT;
    return status;
}

/* Sleeps until a bit of `bits`, or one that may end the wait, is set, or at_ms has come. reads: and reads the
 * subscriber connection meanwhile, unless a signal is to end it. HLK_OK: look; HLK_INTERRUPTED: a signal (r->error). */
static enum hlk_status sleep_until(struct hlk_request *r, unsigned bits, int64_t at_ms, bool reads)
{
    bool signalled = false;
    if (reads && !r->eintr) {
        hlk_pubsub_park(&r->lock->client->channels.pubsub, r->self, bits | LEAVE, at_ms);
        return HLK_OK;
    }
    hlk_self_allow_cancel(r->self);
    (void)hlk_park_until(&r->self->park, bits | LEAVE, at_ms, r->self->event_fd, r->eintr ? &signalled : NULL);
    hlk_self_forbid_cancel(r->self);
    return signalled ? hlk_error_set(&r->error, HLK_INTERRUPTED, "interrupted by a signal") : HLK_OK;
}

static enum hlk_happened do_ask(struct hlk_request *r)
{
    enum hlk_happened what = hlk_request_asks(r);
    if (what != HLK_HAS_TURN)
        return what;
    enum hlk_status status = ask(r);
    return status == HLK_OK ? hlk_request_answer(r) : over(r, status);
}

static enum hlk_happened do_line(struct hlk_request *r)
{
    for (;;) {
        (void)hlk_park_take(&r->self->park, HLK_WAKE_TURN);
        switch (hlk_session_look(r->lock->session, &r->turn)) {
        case HLK_ENTER_TURN:
            return hlk_request_takes_turn(r);
        case HLK_ENTER_GOT:
            return hlk_request_got(r);
        case HLK_ENTER_BUSY:
            return over(r, HLK_BUSY);
        case HLK_ENTER_LOST:
            return over(r, HLK_LOST);
        case HLK_ENTER_RAISE:
            r->raises = true;
            return HLK_IS_YOURS;
        case HLK_ENTER_NESTED:
            return HLK_IS_YOURS; /* another thread of this owner has got it meanwhile */
        default:
            break;
        }
        if (must_leave(r))
            return HLK_IS_OVER;
        if (hlk_clock_ms() >= r->machine.deadline_ms)
            return HLK_IS_TIME;
        if (sleep_until(r, HLK_WAKE_TURN, r->machine.deadline_ms, false) != HLK_OK)
            return over(r, HLK_INTERRUPTED);
    }
}

static enum hlk_happened do_park(struct hlk_request *r)
{
    for (;;) {
        unsigned bits = hlk_park_take(&r->self->park, HEAR);
        if ((bits & HLK_WAKE_TURN) && hlk_session_look(r->lock->session, &r->turn) == HLK_ENTER_GOT)
            return hlk_request_got(r);
        if (bits & HLK_WAKE_DEAF) {
            hlk_request_deaf(r);
            return HLK_IS_OVER;
        }
        if (bits & HLK_WAKE_HEARING)
            return HLK_HEARS;
        if (bits & HLK_WAKE_MESSAGE)
            return HLK_HEARD;
        if (must_leave(r))
            return HLK_IS_OVER;
        if (hlk_clock_ms() >= r->machine.until_ms)
            return HLK_IS_TIME;
        if (sleep_until(r, HEAR, r->machine.until_ms, true) != HLK_OK)
            return over(r, HLK_INTERRUPTED);
    }
}

/* Waiting may last from here on: close and cancel must find us. */
static bool settle_in(struct hlk_request *r)
{
    return r->machine.once || hlk_request_waits(r) == HLK_OK;
}

static enum hlk_status run(struct hlk_request *r, enum hlk_happened what)
{
    for (;;) {
        switch (hlk_acquire_step(&r->machine, what, hlk_clock_ms(), &r->busy, r->error.status)) {
        case HLK_DO_ASK:
            what = do_ask(r);
            break;
        case HLK_DO_LINE:
            what = r->machine.once || hlk_request_lines_up(r) == HLK_OK ? do_line(r) : HLK_IS_OVER;
            break;
        case HLK_DO_JOIN:
            what = settle_in(r) ? hlk_request_join(r) : HLK_IS_OVER;
            break;
        case HLK_DO_HARK:
            what = hlk_request_hark(r);
            break;
        case HLK_DO_PARK:
            what = settle_in(r) ? do_park(r) : HLK_IS_OVER;
            break;
        case HLK_DO_FINISH:
            return r->machine.status;
        }
    }
}

/* *raises: it became a nested hold, whose lease is to be raised. */
static enum hlk_status acquire_first(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_self *self,
                                     struct hlk_holder holder, bool *raises)
{
    struct hlk_request *r = hlk_request_make(lock, opts, holder);
    if (!r)
        return hlk_lock_fails(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    if (r->eintr && hlk_self_event_fd(self) < 0) {
        drop(r);
        return hlk_lock_fails(lock, "acquire", HLK_E_OS, "no descriptor for a wait that signals end");
    }
    r->self = self;
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    enum hlk_status status;
    pthread_cleanup_push(on_thread_cancel, r);
    status = hlk_request_begins(r);
    if (status == HLK_OK) {
        switch (hlk_session_enter(lock->session, &r->turn)) {
        case HLK_ENTER_TURN:
            status = run(r, hlk_request_takes_turn(r));
            break;
        case HLK_ENTER_LINE:
            status = run(r, HLK_IS_LINED);
            break;
        case HLK_ENTER_BUSY:
            status = HLK_BUSY;
            break;
        case HLK_ENTER_LOST:
            status = HLK_LOST;
            break;
        case HLK_ENTER_NOMEM:
            status = hlk_error_set(&r->error, HLK_E_NOMEM, "no memory for a token");
            break;
        case HLK_ENTER_RAISE:
            r->raises = true;
            break;
        default:
            break; /* nested since we looked: an owner's other thread */
        }
    }
    pthread_cleanup_pop(0);
    if (r->won)
        hlk_session_tell_line(lock->session, holder.id, NULL, NULL);
    if (status == HLK_OK && atomic_load(&lock->client->closing)) {
        hlk_table_give_back(lock->session, holder.id); /* close has looked through the holds already, or does so now */
        status = hlk_error_set(&r->error, HLK_E_CLOSED, "the client is being closed");
    }
    status = hlk_request_report(r, status);
    *raises = status == HLK_OK && r->raises;
    drop(r);
    return status;
}

/* --- nested holds --- */

/* A nested hold whose lease has to be longer, or be kept by the watchdog from now on: a round trip. */
static enum hlk_status raise_nested(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder,
                                    uint64_t h, unsigned count)
{
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->lease_ms;
    int64_t raised = lease > 0 ? lease : lock->client->table.watchdog_ms;
    struct hlk_patience patience = { .most_ms = opts->wait_ms > 0    ? opts->wait_ms
                                                : opts->wait_ms == 0 ? lock->client->reply_ms
                                                                     : 0,
                                     .cancel = opts->cancel };
    enum hlk_status status = hlk_lock_reacquire(lock, "acquire", h, count, raised, lease <= 0, &patience);
    if (status == HLK_OK)
        HLK_COUNT(&lock->client->table, reentered);
    else
        hlk_session_lower(lock->session, holder.id, h);
    return status;
}

static enum hlk_status acquire_nested(hlk_lock *lock, const struct hlk_acquire_opts *opts, struct hlk_holder holder,
                                      bool *nested)
{
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->lease_ms;
    unsigned count;
    uint64_t h;
    *nested = true;
    switch (hlk_session_nest(lock->session, holder.id, lease > 0 ? lease : 0, &count, &h)) {
    case HLK_ENTER_NESTED:
        HLK_COUNT(&lock->client->table, reentered);
        return HLK_OK;
    case HLK_ENTER_LOST:
        return hlk_lock_lost_before(lock, holder);
    case HLK_ENTER_RAISE:
        return raise_nested(lock, opts, holder, h, count);
    default:
        *nested = false;
        return HLK_OK;
    }
}

/* Of a wait that began then: its deadline, and not a new one. */
static int64_t rest_of(int64_t wait_ms, int64_t began_ms)
{
    int64_t left = wait_ms - (hlk_clock_ms() - began_ms);
    return wait_ms <= 0 ? wait_ms : left > 0 ? left : 1;
}

/* Cancellation is off in here but for the sleeps of a first hold. Nested holds do not come near it: they are
 * nanoseconds. */
static enum hlk_status acquire(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    struct hlk_self *self = hlk_self_get();
    if (!self)
        return hlk_lock_fails(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    bool nested;
    enum hlk_status status = acquire_nested(lock, opts, holder, &nested);
    if (nested)
        return status;
    int old = hlk_nocancel_begin();
    self->cancellable = old == PTHREAD_CANCEL_ENABLE;
    bool raises = false;
    int64_t began = hlk_clock_ms();
    status = acquire_first(lock, opts, self, holder, &raises);
    self->cancellable = false;
    if (raises) {
        struct hlk_view view;
        hlk_session_view(lock->session, holder.id, &view);
        struct hlk_acquire_opts rest = *opts;
        rest.wait_ms = rest_of(opts->wait_ms, began);
        status = raise_nested(lock, &rest, holder, view.h, view.count);
    }
    hlk_nocancel_end(old);
    return status;
}

static void unseat(void *seat)
{
    hlk_via_unref(&((hlk_lock *)seat)->via);
}

static enum hlk_status acquire_seated(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    if (lock->session)
        return acquire(lock, opts);
    enum hlk_status status = HLK_E_NOMEM;
    hlk_lock *seat = hlk_lock_seat(lock, "acquire");
    if (seat) {
        pthread_cleanup_push(unseat, seat);
        status = acquire(seat, opts);
        pthread_cleanup_pop(1);
    }
    return status;
}

enum hlk_status hlk_lock_acquire_with(hlk_lock *lock, const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_request_read_opts(lock, "acquire", given, &opts);
    return status == HLK_OK ? acquire_seated(lock, &opts) : status;
}

enum hlk_status hlk_lock_acquire(hlk_lock *lock, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    return status == HLK_OK ? acquire_seated(lock, &opts) : status;
}
