#include "script/undo.h"

#include "base/clock.h"
#include "base/mem.h"

#define TRY_AGAIN_MS 100

static void send_copy(struct hlk_undo *undo);

static void settle(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    struct hlk_undos *undos = undo->undos;
    hlk_mutex_lock(&undos->mu);
    hlk_list_remove(&undo->link);
    undos->parked -= undo->parked;
    undo->parked = false;
    hlk_mutex_unlock(&undos->mu);
    hlk_question_drop_reply(&undo->q);
    undo->settled(undo, outcome, error);
}

static void park(struct hlk_undo *undo)
{
    struct hlk_undos *undos = undo->undos;
    hlk_mutex_lock(&undos->mu);
    bool closed = undos->closed;
    undos->parked += !closed;
    undo->parked = !closed;
    hlk_mutex_unlock(&undos->mu);
    if (closed)
        settle(undo, HLK_UNDO_GIVEN_UP, NULL);
    else
        hlk_loop_need_ticks(undos->loop);
}

static bool in_doubt(const struct hlk_undo *undo)
{
    return undo->doubt || (undo->acquire_epoch && undo->acquire_epoch != undo->q.call.epoch);
}

/* The call has ended. True: settled; false: another copy is needed, now or (*later) when there is a connection
 * again. */
static bool step(struct hlk_undo *undo, bool *later)
{
    struct hlk_error error;
    bool repeated = undo->q.doubt;
    *later = false;
    switch (hlk_question_end(&undo->q, undo->undos->mux, true, &error)) {
    case HLK_STEP_ANSWER:
        if (undo->q.call.reply->type != REDIS_REPLY_INTEGER) { /* not this script's: as good as none */
            hlk_mux_distrust(undo->undos->mux, undo->q.call.epoch);
            undo->q.doubt = *later = true;
            return false;
        }
        if (in_doubt(undo) && !undo->q.voiding)
            return false; /* the stream broke beneath the acquire after this copy was formatted */
        settle(undo,
               undo->q.call.reply->integer > 0 ? HLK_UNDO_DONE
               : repeated                      ? HLK_UNDO_ABSENT_REPEATED
                                               : HLK_UNDO_ABSENT,
               NULL);
        return true;
    case HLK_STEP_AGAIN:
        *later = atomic_load(&undo->q.call.end) != HLK_CALL_ANSWERED;
        return false;
    case HLK_STEP_PAUSE:
        *later = true;
        return false;
    case HLK_STEP_FAULT:
        break;
    }
    settle(undo, HLK_UNDO_REFUSED, &error);
    return true;
}

static void on_end(struct hlk_call *call)
{
    struct hlk_undo *undo = HLK_CONTAINER(call, struct hlk_undo, q.call);
    bool later;
    if (step(undo, &later))
        return;
    if (later)
        park(undo);
    else
        send_copy(undo);
}

/* Scattered, so that no rhythm of the caller's hits always or never; the same in all copies. */
static bool is_open(const struct hlk_undos *undos, uint64_t hold)
{
    return undos->open_every > 0 && (hold * UINT64_C(0x9e3779b97f4a7c15)) >> 32 <= UINT32_MAX / undos->open_every;
}

/* HLK_OK: a copy flies. */
static enum hlk_status format_and_send(struct hlk_undo *undo)
{
    hlk_question_drop_reply(&undo->q);
    undo->q.voiding = undo->doubt || (undo->acquire_epoch && undo->acquire_epoch != hlk_mux_epoch(undo->undos->mux));
    undo->q.open_ms = is_open(undo->undos, undo->q.hold) ? undo->undos->open_ms : 0;
    undo->q.call.done = on_end;
    return hlk_question_send(&undo->q, undo->undos->mux);
}

static void send_copy(struct hlk_undo *undo)
{
    undo->q.call.waiter = NULL;
    if (format_and_send(undo) != HLK_OK)
        park(undo);
}

void hlk_undo_start(struct hlk_undos *undos, struct hlk_undo *undo, struct hlk_self *waiter, bool eager)
{
    undo->undos = undos;
    undo->q.script = undo->q.fair ? HLK_SCRIPT_FAIR_END : HLK_SCRIPT_LOCK_END;
    undo->q.client_id = undos->client_id;
    undo->q.call.waiter = waiter;
    undo->q.call.lazy = !eager;
    hlk_mutex_lock(&undos->mu);
    hlk_list_push_back(&undos->all, &undo->link);
    hlk_mutex_unlock(&undos->mu);
    bool flies = format_and_send(undo) == HLK_OK;
    if (waiter) /* sends its own again when it can; parked ends are the loop's */
        undo->flies = flies;
    else if (!flies)
        park(undo);
}

static bool wait_to_send(struct hlk_undos *undos, struct hlk_undo *undo, struct hlk_self *waiter, int64_t at_ms)
{
    struct hlk_error error;
    if (hlk_clock_ms() >= at_ms)
        return false;
    enum hlk_status status = hlk_mux_wait_up(undos->mux, waiter, at_ms, 0, &error);
    if (status == HLK_OK) {
        undo->q.call.waiter = waiter;
        status = format_and_send(undo);
    }
    return status == HLK_OK;
}

bool hlk_undo_wait(struct hlk_undos *undos, struct hlk_undo *undo, struct hlk_self *waiter, int64_t at_ms, bool *sent)
{
    bool flies = undo->flies, later;
    for (;;) {
        if (!flies && !wait_to_send(undos, undo, waiter, at_ms))
            break;
        *sent = true;
        if (!hlk_mux_wait(undos->mux, &undo->q.call, at_ms, 0) && hlk_mux_leave(undos->mux, &undo->q.call, on_end))
            return false;
        if (step(undo, &later))
            return true;
        undo->q.call.waiter = waiter;
        flies = !later && format_and_send(undo) == HLK_OK;
        if (later && atomic_load(&undo->q.call.end) == HLK_CALL_ANSWERED)
            (void)hlk_park_until(&waiter->park, 0, hlk_clock_ms() + HLK_PAUSE_MS, -1, NULL);
    }
    *sent = undo->q.copies > 0;
    undo->q.call.waiter = NULL;
    undo->q.call.lazy = true;
    park(undo);
    return false;
}

/* One that is not parked is in its waiter's hands, who parks it on finding the client closed: then it is given up. */
static struct hlk_undo *first_parked(struct hlk_undos *undos)
{
    for (struct hlk_list *node = undos->all.next; node != &undos->all; node = node->next) {
        struct hlk_undo *undo = HLK_CONTAINER(node, struct hlk_undo, link);
        if (undo->parked)
            return undo;
    }
    return NULL;
}

/* Out of parking, and behind all others; it stays among them, for close waits for all, and a grant is not handed back
 * whose end is on its way. */
static struct hlk_undo *take_parked(struct hlk_undos *undos)
{
    hlk_mutex_lock(&undos->mu);
    struct hlk_undo *undo = first_parked(undos);
    if (undo) {
        undo->parked = false;
        undos->parked--;
        hlk_list_remove(&undo->link);
        hlk_list_push_back(&undos->all, &undo->link);
    }
    hlk_mutex_unlock(&undos->mu);
    return undo;
}

/* Sends what is parked; what cannot be sent is parked again. */
static void send_parked(struct hlk_undos *undos)
{
    int64_t now = hlk_clock_ms();
    hlk_mutex_lock(&undos->mu);
    size_t n = undos->parked;
    hlk_mutex_unlock(&undos->mu);
    struct hlk_undo *undo;
    for (; n > 0 && (undo = take_parked(undos)); n--) {
        if (now > undo->until_ms)
            settle(undo, HLK_UNDO_GIVEN_UP, NULL);
        else
            send_copy(undo);
    }
}

void hlk_undos_on_up(struct hlk_undos *undos)
{
    send_parked(undos);
}

static void on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_undos *undos = HLK_CONTAINER(tick, struct hlk_undos, tick);
    hlk_mutex_lock(&undos->mu);
    bool due = undos->parked > 0 && now_ms >= undos->try_at_ms;
    if (due)
        undos->try_at_ms = now_ms + TRY_AGAIN_MS;
    hlk_mutex_unlock(&undos->mu);
    if (due)
        send_parked(undos);
}

static bool tick_idle(struct hlk_tick *tick)
{
    struct hlk_undos *undos = HLK_CONTAINER(tick, struct hlk_undos, tick);
    hlk_mutex_lock(&undos->mu);
    bool idle = undos->parked == 0;
    hlk_mutex_unlock(&undos->mu);
    return idle;
}

size_t hlk_undos_count(struct hlk_undos *undos)
{
    size_t n = 0;
    hlk_mutex_lock(&undos->mu);
    for (struct hlk_list *node = undos->all.next; node != &undos->all; node = node->next)
        n++;
    hlk_mutex_unlock(&undos->mu);
    return n;
}

bool hlk_undos_owe(struct hlk_undos *undos, uint64_t hold)
{
    bool owed = false;
    hlk_mutex_lock(&undos->mu);
    for (struct hlk_list *node = undos->all.next; node != &undos->all && !owed; node = node->next)
        owed = HLK_CONTAINER(node, struct hlk_undo, link)->q.hold == hold;
    hlk_mutex_unlock(&undos->mu);
    return owed;
}

void hlk_undos_init(struct hlk_undos *undos, hlk_loop *loop, const char *client_id)
{
    undos->loop = loop;
    undos->client_id = client_id;
    hlk_mutex_init(&undos->mu, HLK_RANK_UNDO);
    hlk_list_init(&undos->all);
    undos->tick.run = on_tick;
    undos->tick.idle = tick_idle;
    hlk_loop_add_tick(loop, &undos->tick);
}

void hlk_undos_settle_all(struct hlk_undos *undos)
{
    for (;;) {
        hlk_mutex_lock(&undos->mu);
        undos->closed = true;
        struct hlk_undo *undo = first_parked(undos);
        hlk_mutex_unlock(&undos->mu);
        if (!undo)
            break;
        settle(undo, HLK_UNDO_GIVEN_UP, NULL);
    }
}

void hlk_undos_fini(struct hlk_undos *undos)
{
    hlk_undos_settle_all(undos);
    hlk_mutex_fini(&undos->mu);
}
