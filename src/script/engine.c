#include "script/engine.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/min.h"
#include "net/pipeline_up.h"
#include "net/pipeline_wait.h"

#define REDIRECTS_MAX 5 /* one after the other, without a pause */

/* --- steps --- */

bool hlk_command_route(struct hlk_command *cmd)
{
    struct hlk_router *router = cmd->router;
    if (!router)
        return true;
    hlk_pipeline *to = cmd->asking ? cmd->asking : router->find(router, cmd->slot), *was = NULL;
    for (; to && to != was; to = cmd->asking ? to : router->find(router, cmd->slot)) {
        was = cmd->pipeline = to;
        cmd->reroutes = hlk_pipeline_reroutes(to); /* before it is found again: one that comes later is noticed */
    }
    return to;
}

static enum hlk_progress not_there_yet(struct hlk_command *cmd);

static int64_t timeout_of(const struct hlk_limits *limits, bool was_there)
{
    return limits->first_timeout_ms && !was_there ? limits->first_timeout_ms : limits->reconnect_timeout_ms;
}

enum hlk_progress hlk_command_send(struct hlk_command *cmd, struct hlk_error *error)
{
    if (!hlk_command_route(cmd)) {
        (void)hlk_error_set(error, HLK_E_CONNECT, "the cluster has not said yet which server has which slot");
        return not_there_yet(cmd);
    }
    cmd->call.batch_letter = 0;
    cmd->attempts++; /* before: once sent, a call with `done` may be gone */
    enum hlk_status status = hlk_command_write(cmd);
    if (status == HLK_OK)
        return HLK_COMMAND_IN_FLIGHT;
    cmd->attempts--;
    if (status == HLK_E_CONNECT) {
        const struct hlk_limits *limits = &cmd->limits;
        cmd->asking = NULL;
        if (cmd->router)
            hlk_pipeline_link_dial(cmd->pipeline); /* a server that got the slot may never have been used */
        int64_t timeout_ms = timeout_of(limits, cmd->router || hlk_pipeline_was_up(cmd->pipeline));
        cmd->until_ms =
            hlk_min_ms(limits->at_ms, hlk_pipeline_reconnect_until(cmd->pipeline, limits->began_ms, timeout_ms));
        return HLK_COMMAND_UNCONNECTED;
    }
    (void)hlk_error_set(error, status,
                        status == HLK_E_CLOSED ? "the client is being closed" : "no memory for the command");
    return HLK_COMMAND_FAILED;
}

/* Until when a call that began then waits out refusals, which have lasted since limits->refused_ms. */
static int64_t refused_until(struct hlk_limits *limits, int64_t timeout_ms)
{
    if (!limits->refused_ms)
        limits->refused_ms = hlk_clock_ms();
    int64_t since = limits->refused_ms > limits->began_ms ? limits->refused_ms : limits->began_ms;
    return hlk_clock_after(since, timeout_ms);
}

static enum hlk_progress try_later(struct hlk_command *cmd, int64_t timeout_ms)
{
    cmd->redirects = 0;
    int64_t now = hlk_clock_ms(), limit = hlk_min_ms(cmd->limits.at_ms, refused_until(&cmd->limits, timeout_ms));
    cmd->resends = now < limit - 2 * HLK_PAUSE_MS;
    cmd->until_ms = cmd->resends ? now + HLK_PAUSE_MS : limit;
    return HLK_COMMAND_PAUSED;
}

static enum hlk_progress refused_for_now(struct hlk_command *cmd)
{
    return try_later(cmd, timeout_of(&cmd->limits, true));
}

static enum hlk_progress not_there_yet(struct hlk_command *cmd)
{
    return try_later(cmd, timeout_of(&cmd->limits, false));
}

/* The attempt did not run, or it is not known whether it did. */
static enum hlk_progress again(const struct hlk_command *cmd, struct hlk_error *error)
{
    if (!cmd->limits.once || !cmd->doubt)
        return HLK_COMMAND_RESEND;
    (void)hlk_error_set(error, HLK_E_UNSURE, "sent, and the connection broke before an answer came");
    return HLK_COMMAND_FAILED;
}

/* The slot is another server's, for good or, ASK, for this command. Two servers that name each other, as they do for a
 * moment while a slot moves, get a pause. */
static enum hlk_progress redirected(struct hlk_command *cmd, bool ask, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(error);
    if (!cmd->router) {
        (void)hlk_error_set(error, HLK_E_SERVER, "%s (this server is a node of a cluster: use redis+cluster://)",
                            error->text);
        return HLK_COMMAND_FAILED;
    }
    hlk_pipeline *to = cmd->router->redirect(cmd->router, cmd->pipeline, error->text);
    if (!to || ++cmd->redirects > REDIRECTS_MAX)
        return refused_for_now(cmd);
    cmd->asking = ask ? to : NULL;
    return again(cmd, error);
}

static enum hlk_progress refused_later(struct hlk_command *cmd)
{
    if (cmd->router)
        cmd->router->refresh(cmd->router);
    return refused_for_now(cmd);
}

/* The server has answered: what does that mean? The one table of refusals is net/reply.c. */
static enum hlk_progress answered(struct hlk_command *cmd, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    hlk_pipeline *asked = cmd->asking;
    cmd->asking = NULL;
    enum hlk_reply_kind kind = hlk_reply_read(cmd->call.reply, error);
    if (kind == HLK_REPLY_ANSWER) {
        cmd->limits.refused_ms = 0;
        return HLK_COMMAND_ANSWERED;
    }
    hlk_command_drop_reply(cmd);
    cmd->whole =
        kind == HLK_REPLY_NOSCRIPT && !hlk_pipeline_text_follows(cmd->pipeline, &cmd->call, hlk_command_text(cmd));
    switch (kind) {
    case HLK_REPLY_NOSCRIPT:
        cmd->asking = asked;
        return again(cmd, error);
    case HLK_REPLY_MOVED:
    case HLK_REPLY_ASK:
        return redirected(cmd, kind == HLK_REPLY_ASK, error);
    case HLK_REPLY_REPLICA: /* maybe since a failover */
        if (!cmd->router)
            hlk_pipeline_look_again(cmd->pipeline, cmd->call.epoch);
        return refused_later(cmd);
    case HLK_REPLY_LATER:
        return refused_later(cmd);
    case HLK_REPLY_NO_WRITES:
        return cmd->limits.waits_out_writes ? refused_for_now(cmd) : HLK_COMMAND_FAILED;
    case HLK_REPLY_NO_RIGHT:
        hlk_command_explain_rights(cmd, error);
        return HLK_COMMAND_FAILED;
    default:
        return HLK_COMMAND_FAILED;
    }
}

enum hlk_progress hlk_command_end(struct hlk_command *cmd, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(atomic_load(&cmd->call.end) != HLK_CALL_IN_FLIGHT);
    int end = atomic_load(&cmd->call.end);
    if (end == HLK_CALL_BROKEN)
        hlk_command_note_doubt(cmd);
    if (end != HLK_CALL_ANSWERED) {
        cmd->asking = NULL;
        return again(cmd, error);
    }
    cmd->unbatched = !cmd->call.reply; /* the batch could not do it */
    return cmd->unbatched ? HLK_COMMAND_RESEND : answered(cmd, error);
}

enum hlk_status hlk_command_give_up(const struct hlk_command *cmd, struct hlk_error *error)
{
    switch (error->status) {
    case HLK_E_NOMEM:
    case HLK_E_OS:
    case HLK_E_CONNECT:
    case HLK_E_AUTH:
    case HLK_E_SERVER:
        if (cmd->doubt)
            (void)hlk_error_set(error, HLK_E_UNSURE, "sent, and the connection broke before an answer came; then: %s",
                                error->text);
        return error->status;
    default:
        return error->status;
    }
}

/* --- driven by a blocked thread --- */

static enum hlk_progress wait_for_reply(struct hlk_command *cmd, unsigned mask, bool *in_flight,
                                        struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(cmd->call.waiter);
    *in_flight = true; /* before: a thread that is cancelled in its wait leaves it there */
    if (hlk_pipeline_wait(cmd->pipeline, &cmd->call, cmd->limits.at_ms, mask)) {
        *in_flight = false;
        return hlk_command_end(cmd, error);
    }
    if (hlk_park_peek(&cmd->call.waiter->park, mask))
        (void)hlk_error_set(error, HLK_INTERRUPTED, "interrupted");
    else
        (void)hlk_error_set(error, HLK_E_UNSURE, "sent, but not answered in time");
    return HLK_COMMAND_FAILED;
}

static enum hlk_progress wait_for_connection(struct hlk_command *cmd, struct hlk_thread *self, unsigned mask,
                                             struct hlk_error *error)
{
    hlk_mutex_assert_none();
    enum hlk_status status =
        cmd->router ? hlk_pipeline_wait_since(cmd->pipeline, self, cmd->until_ms, mask, cmd->reroutes, error)
                    : hlk_pipeline_wait_up(cmd->pipeline, self, cmd->until_ms, mask, error);
    if (status == HLK_INTERRUPTED)
        (void)hlk_error_set(error, status, "interrupted");
    return status == HLK_OK ? HLK_COMMAND_RESEND : HLK_COMMAND_FAILED;
}

static enum hlk_progress sleep_a_pause(const struct hlk_command *cmd, struct hlk_thread *self, unsigned mask,
                                       struct hlk_error *error)
{
    hlk_mutex_assert_none();
    hlk_thread_allow_cancel(self);
    bool woken = hlk_park_until(&self->park, mask, cmd->until_ms, -1, NULL);
    hlk_thread_forbid_cancel(self);
    if (woken)
        (void)hlk_error_set(error, HLK_INTERRUPTED, "interrupted");
    return !woken && cmd->resends ? HLK_COMMAND_RESEND : HLK_COMMAND_FAILED;
}

enum hlk_status hlk_command_run(struct hlk_command *cmd, struct hlk_thread *self, unsigned mask, bool *in_flight,
                                struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self);
    enum hlk_progress progress = *in_flight ? HLK_COMMAND_IN_FLIGHT : HLK_COMMAND_RESEND;
    for (;;) {
        switch (progress) {
        case HLK_COMMAND_RESEND:
            cmd->call.waiter = self;
            progress = hlk_command_send(cmd, error);
            break;
        case HLK_COMMAND_IN_FLIGHT:
            progress = wait_for_reply(cmd, mask, in_flight, error);
            break;
        case HLK_COMMAND_UNCONNECTED:
            progress = wait_for_connection(cmd, self, mask, error);
            break;
        case HLK_COMMAND_PAUSED:
            progress = sleep_a_pause(cmd, self, mask, error);
            break;
        case HLK_COMMAND_ANSWERED:
            return HLK_OK;
        case HLK_COMMAND_FAILED:
            return error->status;
        }
    }
}
