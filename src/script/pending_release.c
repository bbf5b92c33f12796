#include "script/pending_release.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/min.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"
#include "net/pipeline_wait.h"
#include "script/engine.h"
#include "script/release_list.h"

#define TRY_AGAIN_MS 100

static void releases_send_attempt(struct hlk_release *pending);

static struct hlk_error no_words = { .status = HLK_E_SERVER, .text = "refused; no memory for what the server said" };

static void free_refusal(struct hlk_error *refusal)
{
    if (refusal != &no_words)
        hlk_mem_free(refusal);
}

/* The server's words are kept: they are the answer if it goes on refusing. NULL: an attempt may have run. */
static void set_refusal(struct hlk_release *pending, const struct hlk_error *error)
{
    struct hlk_error *old = pending->refusal, *now = NULL;
    if (error && (now = hlk_mem_zalloc(sizeof *now)))
        *now = *error;
    hlk_mutex_lock(&pending->releases->mu);
    pending->refusal = error && !now ? &no_words : now;
    hlk_mutex_unlock(&pending->releases->mu);
    free_refusal(old);
}

static void settle(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_releases *releases = pending->releases;
    hlk_mutex_lock(&releases->mu);
    HLK_DEBUG_ASSERT(!pending->parked || releases->parked > 0);
    hlk_list_remove(&pending->link);
    releases->parked -= pending->parked;
    pending->parked = false;
    hlk_mutex_unlock(&releases->mu);
    hlk_command_drop_reply(&pending->cmd);
    struct hlk_error *refusal = pending->refusal;
    pending->settled(pending, outcome, error);
    free_refusal(refusal);
}

/* Its lease is over. If each attempt was refused, that is the answer. */
static void give_up(struct hlk_release *pending)
{
    if (pending->refusal)
        settle(pending, HLK_RELEASE_REFUSED, pending->refusal);
    else
        settle(pending, HLK_RELEASE_GIVEN_UP, NULL);
}

static void park(struct hlk_release *pending)
{
    struct hlk_releases *releases = pending->releases;
    hlk_mutex_lock(&releases->mu);
    bool closed = releases->closed;
    releases->parked += !closed;
    pending->parked = !closed;
    int64_t try_at_ms = releases->try_at_ms;
    hlk_mutex_unlock(&releases->mu);
    if (closed)
        settle(pending, HLK_RELEASE_GIVEN_UP, NULL);
    else
        hlk_loop_wake_by(releases->loop, try_at_ms);
}

/* An attempt of the acquire may run behind this one: it is in another stream than `epoch` of this one's server. */
static bool in_doubt(const struct hlk_release *pending, uint64_t epoch)
{
    const hlk_pipeline *acquire = pending->acquire_pipeline;
    bool same = pending->acquire_epoch == epoch && (!acquire || acquire == pending->cmd.pipeline);
    return pending->doubt || (pending->acquire_epoch && !same);
}

/* A repeated attempt has found nothing. It was an earlier one, if the server has not forgotten the hold meanwhile. */
static enum hlk_release_outcome absent_again(const struct hlk_release *pending)
{
    const struct hlk_router *router = pending->cmd.router;
    bool same = hlk_pipeline_server_since(pending->cmd.pipeline) <= pending->known_ms &&
                (!router || atomic_load(&router->moved_ms) < pending->known_ms);
    return same ? HLK_RELEASE_ABSENT_REPEATED : HLK_RELEASE_UNKNOWN;
}

/* An answer of the script's. False: another attempt is needed, which leaves a tombstone: the stream broke beneath the
 * acquire after this one was formatted. */
static bool settle_by_answer(struct hlk_release *pending, bool repeated)
{
    HLK_DEBUG_ASSERT(pending->cmd.call.reply->type == REDIS_REPLY_INTEGER);
    long long answer = pending->cmd.call.reply->integer;
    if (in_doubt(pending, pending->cmd.call.epoch) && !pending->cmd.tombstone)
        return false;
    pending->mixed = answer == HLK_RELEASED_MIXED;
    settle(pending, answer > 0 ? HLK_RELEASE_DONE : repeated ? absent_again(pending) : HLK_RELEASE_ABSENT, NULL);
    return true;
}

/* The call has ended. ANSWERED or FAILED: settled. UNCONNECTED: to be sent again once there is a connection. */
static enum hlk_progress step(struct hlk_release *pending)
{
    struct hlk_error error;
    bool repeated = pending->cmd.doubt;
    enum hlk_progress progress = hlk_command_end(&pending->cmd, &error);
    if (pending->cmd.doubt && pending->refusal)
        set_refusal(pending, NULL);
    if (progress == HLK_COMMAND_FAILED) {
        settle(pending, HLK_RELEASE_REFUSED, &error);
    } else if (progress == HLK_COMMAND_PAUSED && !pending->cmd.doubt) {
        set_refusal(pending, &error);
    } else if (progress == HLK_COMMAND_ANSWERED && pending->cmd.call.reply->type != REDIS_REPLY_INTEGER) {
        hlk_pipeline_distrust(pending->cmd.pipeline, pending->cmd.call.epoch); /* not this script's: as good as none */
        hlk_command_note_doubt(&pending->cmd);
        return HLK_COMMAND_UNCONNECTED;
    } else if (progress == HLK_COMMAND_ANSWERED && !settle_by_answer(pending, repeated)) {
        return HLK_COMMAND_RESEND;
    }
    return progress;
}

static void releases_on_end(struct hlk_call *call)
{
    hlk_mutex_assert_none();
    struct hlk_release *pending = HLK_CONTAINER(call, struct hlk_release, cmd.call);
    enum hlk_progress progress = step(pending);
    if (progress == HLK_COMMAND_RESEND)
        releases_send_attempt(pending);
    else if (progress == HLK_COMMAND_PAUSED || progress == HLK_COMMAND_UNCONNECTED)
        park(pending);
}

/* Scattered, so that no rhythm of the caller's hits always or never; the same in all attempts. */
static bool is_open(const struct hlk_releases *releases, uint64_t hold)
{
    return releases->yield_every > 0 &&
           (hold * UINT64_C(0x9e3779b97f4a7c15)) >> 32 <= UINT32_MAX / releases->yield_every;
}

/* False: nothing was sent. */
static bool format_and_send(struct hlk_release *pending)
{
    HLK_DEBUG_ASSERT(pending->releases);
    struct hlk_error error;
    hlk_command_drop_reply(&pending->cmd);
    (void)hlk_command_route(&pending->cmd);
    pending->cmd.tombstone = in_doubt(pending, hlk_pipeline_epoch(pending->cmd.pipeline));
    pending->cmd.yield_ms = is_open(pending->releases, pending->cmd.hold) ? pending->releases->yield_ms : 0;
    pending->cmd.call.done = releases_on_end;
    return hlk_command_send(&pending->cmd, &error) == HLK_COMMAND_IN_FLIGHT;
}

static bool is_too_late(const struct hlk_release *pending)
{
    return pending->noted && hlk_command_note_may_be_gone(&pending->cmd);
}

static void releases_send_attempt(struct hlk_release *pending)
{
    pending->cmd.call.waiter = NULL;
    if (is_too_late(pending))
        settle(pending, HLK_RELEASE_UNSURE, NULL);
    else if (!format_and_send(pending))
        park(pending);
}

static void enlist(struct hlk_releases *releases, struct hlk_release *pending, bool announced)
{
    hlk_mutex_lock(&releases->mu);
    if (!hlk_list_linked(&pending->link))
        hlk_list_push_back(&releases->all, &pending->link);
    pending->announced = announced;
    hlk_mutex_unlock(&releases->mu);
}

void hlk_release_announce(struct hlk_releases *releases, struct hlk_release *pending)
{
    enlist(releases, pending, true);
}

void hlk_release_start(struct hlk_releases *releases, struct hlk_release *pending, struct hlk_thread *waiter,
                       bool eager)
{
    HLK_DEBUG_ASSERT(releases->pipeline && pending->settled && pending->cmd.type);
    pending->releases = releases;
    pending->cmd.client_id = releases->client_id;
    pending->cmd.pipeline = releases->pipeline;
    pending->cmd.limits =
        (struct hlk_limits){ .at_ms = INT64_MAX, .reconnect_timeout_ms = -1, .waits_out_writes = true };
    pending->cmd.call.waiter = waiter;
    pending->cmd.call.lazy = !eager;
    enlist(releases, pending, false);
    bool in_flight = format_and_send(pending);
    if (waiter) /* sends its own again when it can; parked ends are the loop's */
        pending->in_flight = in_flight;
    else if (!in_flight)
        park(pending);
}

/* --- those that are started later --- */

void hlk_release_start_at(struct hlk_releases *releases, struct hlk_release *pending, int64_t at_ms)
{
    hlk_mutex_lock(&releases->mu);
    bool keeps = !pending->starts_now && !releases->start_all && hlk_clock_ms() < at_ms;
    pending->kept = keeps;
    pending->start_ms = at_ms;
    if (keeps && at_ms < releases->start_ms)
        releases->start_ms = at_ms;
    hlk_mutex_unlock(&releases->mu);
    if (keeps)
        hlk_loop_wake_by(releases->loop, at_ms);
    else
        hlk_release_start(releases, pending, NULL, false);
}

void hlk_release_start_now(struct hlk_releases *releases, struct hlk_release *pending)
{
    hlk_mutex_lock(&releases->mu);
    bool starts = pending->kept;
    pending->kept = false;
    pending->starts_now = true;
    hlk_mutex_unlock(&releases->mu);
    if (starts)
        hlk_release_start(releases, pending, NULL, false);
}

/* Takes those whose time has come: the caller has to start them. They stay in the list of all releases. */
static struct hlk_release *take_kept(struct hlk_releases *releases, int64_t now_ms)
{
    struct hlk_release *first = NULL, **end = &first;
    hlk_mutex_assert_held(&releases->mu);
    releases->start_ms = INT64_MAX;
    for (struct hlk_list *node = releases->all.next; node != &releases->all; node = node->next) {
        struct hlk_release *pending = HLK_CONTAINER(node, struct hlk_release, link);
        if (pending->kept && pending->start_ms <= now_ms) {
            pending->kept = false;
            *end = pending;
            end = &pending->next;
        } else if (pending->kept && pending->start_ms < releases->start_ms) {
            releases->start_ms = pending->start_ms;
        }
    }
    *end = NULL;
    return first;
}

static void start_taken(struct hlk_releases *releases, struct hlk_release *taken)
{
    hlk_mutex_assert_none();
    while (taken) {
        struct hlk_release *pending = taken;
        taken = pending->next;
        hlk_release_start(releases, pending, NULL, false);
    }
}

static void start_due(struct hlk_releases *releases, int64_t now_ms)
{
    hlk_mutex_lock(&releases->mu);
    struct hlk_release *due = now_ms >= releases->start_ms ? take_kept(releases, now_ms) : NULL;
    hlk_mutex_unlock(&releases->mu);
    start_taken(releases, due);
}

void hlk_releases_start_all(struct hlk_releases *releases)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&releases->mu);
    releases->start_all = true;
    struct hlk_release *kept = take_kept(releases, INT64_MAX);
    hlk_mutex_unlock(&releases->mu);
    start_taken(releases, kept);
}

static bool wait_to_send(struct hlk_release *pending, struct hlk_thread *waiter, int64_t at_ms)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    bool in_flight = false;
    do {
        if (hlk_clock_ms() >= at_ms ||
            hlk_pipeline_wait_since(pending->cmd.pipeline, waiter, at_ms, 0, pending->cmd.reroutes, &error) != HLK_OK ||
            is_too_late(pending))
            return false;
        pending->cmd.call.waiter = waiter;
        in_flight = format_and_send(pending);
    } while (!in_flight && pending->cmd.router); /* another server has it now, which is to be waited for */
    return in_flight;
}

/* No caller waits for it any more, and no attempt is in flight. What is known so far. */
static enum hlk_status leave_to_background(struct hlk_release *pending, struct hlk_error *error)
{
    enum hlk_status status = pending->cmd.doubt ? HLK_E_UNSURE
                             : pending->refusal ? pending->refusal->status
                                                : HLK_E_CONNECT;
    if (pending->refusal)
        *error = *pending->refusal;
    pending->cmd.call.waiter = NULL;
    pending->cmd.call.lazy = true;
    park(pending);
    return status;
}

enum hlk_status hlk_release_wait(struct hlk_release *pending, struct hlk_thread *waiter, int64_t at_ms,
                                 struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(waiter);
    enum hlk_progress progress = pending->in_flight ? HLK_COMMAND_IN_FLIGHT : HLK_COMMAND_UNCONNECTED;
    pending->cmd.limits.at_ms = at_ms; /* of its pauses: for as long as a caller waits */
    for (;;) {
        switch (progress) {
        case HLK_COMMAND_IN_FLIGHT:
            if (!hlk_pipeline_wait(pending->cmd.pipeline, &pending->cmd.call, at_ms, 0) &&
                hlk_pipeline_leave(pending->cmd.pipeline, &pending->cmd.call, releases_on_end))
                return HLK_E_UNSURE;
            progress = step(pending);
            break;
        case HLK_COMMAND_RESEND:
            pending->cmd.call.waiter = waiter;
            progress =
                !is_too_late(pending) && format_and_send(pending) ? HLK_COMMAND_IN_FLIGHT : HLK_COMMAND_UNCONNECTED;
            break;
        case HLK_COMMAND_PAUSED:
            (void)hlk_park_until(&waiter->park, 0, pending->cmd.until_ms, -1, NULL);
            if (!pending->cmd.resends)
                return leave_to_background(pending, error);
            progress = HLK_COMMAND_UNCONNECTED;
            break;
        case HLK_COMMAND_UNCONNECTED:
            if (!wait_to_send(pending, waiter, at_ms))
                return leave_to_background(pending, error);
            progress = HLK_COMMAND_IN_FLIGHT;
            break;
        case HLK_COMMAND_ANSWERED:
        case HLK_COMMAND_FAILED:
            return HLK_OK; /* settled */
        }
    }
}

/* One that is not parked is in its waiter's hands, which parks it on finding the client closed: then it is given up. */
static struct hlk_release *first_parked(struct hlk_releases *releases)
{
    hlk_mutex_assert_held(&releases->mu);
    for (struct hlk_list *node = releases->all.next; node != &releases->all; node = node->next) {
        struct hlk_release *pending = HLK_CONTAINER(node, struct hlk_release, link);
        if (pending->parked)
            return pending;
    }
    return NULL;
}

/* The release is not parked any more, and goes behind all others. It stays in the list of all releases: close waits for
 * those, and a grant is not handed back while the end of its hold is on its way. */
static struct hlk_release *take_parked(struct hlk_releases *releases)
{
    hlk_mutex_lock(&releases->mu);
    struct hlk_release *pending = first_parked(releases);
    if (pending) {
        HLK_DEBUG_ASSERT(releases->parked > 0);
        pending->parked = false;
        releases->parked--;
        hlk_list_remove(&pending->link);
        hlk_list_push_back(&releases->all, &pending->link);
    }
    hlk_mutex_unlock(&releases->mu);
    return pending;
}

/* Sends what is parked; what cannot be sent is parked again. */
static void send_parked(struct hlk_releases *releases)
{
    hlk_mutex_assert_none();
    int64_t now = hlk_clock_ms();
    hlk_mutex_lock(&releases->mu);
    size_t n = releases->parked;
    hlk_mutex_unlock(&releases->mu);
    struct hlk_release *pending;
    for (; n > 0 && (pending = take_parked(releases)); n--) {
        if (now > pending->until_ms)
            give_up(pending);
        else
            releases_send_attempt(pending);
    }
}

void hlk_releases_on_up(struct hlk_releases *releases)
{
    hlk_loop_assert_here(releases->loop);
    send_parked(releases);
}

static void releases_on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_releases *releases = HLK_CONTAINER(tick, struct hlk_releases, tick);
    hlk_loop_assert_here(releases->loop);
    hlk_mutex_lock(&releases->mu);
    bool due = releases->parked > 0 && now_ms >= releases->try_at_ms;
    if (due)
        releases->try_at_ms = now_ms + TRY_AGAIN_MS;
    hlk_mutex_unlock(&releases->mu);
    if (due)
        send_parked(releases);
    start_due(releases, now_ms);
}

static int64_t releases_tick_due_ms(struct hlk_tick *tick)
{
    struct hlk_releases *releases = HLK_CONTAINER(tick, struct hlk_releases, tick);
    hlk_loop_assert_here(releases->loop);
    hlk_mutex_lock(&releases->mu);
    int64_t due_ms = hlk_min_ms(releases->parked > 0 ? releases->try_at_ms : INT64_MAX, releases->start_ms);
    hlk_mutex_unlock(&releases->mu);
    return due_ms;
}

void hlk_releases_init(struct hlk_releases *releases, hlk_loop *loop, const char *client_id)
{
    releases->loop = loop;
    releases->client_id = client_id;
    hlk_mutex_init(&releases->mu, HLK_RANK_RELEASES);
    hlk_list_init(&releases->all);
    releases->start_ms = INT64_MAX;
    releases->tick.run = releases_on_tick;
    releases->tick.due_ms = releases_tick_due_ms;
    hlk_loop_add_tick(loop, &releases->tick);
}

void hlk_releases_settle_all(struct hlk_releases *releases)
{
    hlk_mutex_assert_none();
    hlk_releases_start_all(releases);
    hlk_releases_log_unanswered(releases);
    for (;;) {
        hlk_mutex_lock(&releases->mu);
        releases->closed = true;
        struct hlk_release *pending = first_parked(releases);
        hlk_mutex_unlock(&releases->mu);
        if (!pending)
            break;
        settle(pending, HLK_RELEASE_GIVEN_UP, NULL);
    }
}

void hlk_releases_fini(struct hlk_releases *releases)
{
    hlk_releases_settle_all(releases);
    hlk_loop_remove_tick(releases->loop, &releases->tick);
    hlk_mutex_fini(&releases->mu);
}
