#include "sync/blocked.h"

#include "base/clock.h"

#define LEAVE (HLK_WAKE_CANCEL | HLK_WAKE_CLOSED)

bool hlk_blocked_must_leave(struct hlk_request *r)
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

enum hlk_status hlk_blocked_ask(struct hlk_request *r)
{
    hlk_client *client = r->lock->client;
    struct hlk_limits limits = { .at_ms = r->machine.deadline_ms,
                                 .mask = LEAVE,
                                 .refusals_pass = !r->machine.once,
                                 .up_by_ms = hlk_clock_after(hlk_clock_ms(), client->patience_ms) };
    enum hlk_status status;
    do {
        status = hlk_question_ask(&r->q, client->mux, r->self, &limits, &r->flies, &r->error);
        if (status == HLK_INTERRUPTED && hlk_blocked_must_leave(r))
            return r->error.status;
    } while (status == HLK_INTERRUPTED);
    bool late = status == HLK_E_UNSURE || status == HLK_E_CONNECT;
    if (late && r->machine.answered && hlk_clock_ms() >= r->machine.deadline_ms)
        status = r->machine.once ? HLK_BUSY : HLK_TIMEOUT;
    return status;
}

enum hlk_status hlk_blocked_sleep(struct hlk_request *r, unsigned bits, int64_t at_ms, bool reads)
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
