#include "scene.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- calls in the scene's mode */

struct scene_call {
    struct actor *actor; /* BLOCKING */
    atomic_bool over;    /* else: `done` ran, once */
    atomic_int status, times;
};

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct scene_call *call = ctx;
    atomic_store(&call->status, status);
    atomic_fetch_add(&call->times, 1);
    atomic_store(&call->over, true);
}

static bool is_over(struct scene *s, struct scene_call *call)
{
    if (call->actor)
        return actor_answered(call->actor);
    struct pollfd fd = { hlk_client_fd(s->client), POLLIN, 0 };
    if (s->mode == DISPATCHED && poll(&fd, 1, 0) == 1) /* as a loop does: never asked without being told */
        hlk_client_dispatch(s->client, 0);
    return atomic_load(&call->over);
}

struct scene_call *scene_ask(struct scene *s, int64_t wait_ms, int64_t lease_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    opts.lease_ms = lease_ms;
    struct scene_call *call = calloc(1, sizeof *call);
    if (s->mode == BLOCKING)
        call->actor = actor_start(s->lock, &opts);
    else
        scene_assert(s, hlk_lock_acquire_async(s->lock, &opts, on_done, call) == HLK_OK);
    return call;
}

enum hlk_status scene_answer(struct scene *s, struct scene_call *call)
{
    WAIT_FOR(is_over(s, call));
    enum hlk_status status = call->actor ? actor_status(call->actor) : (enum hlk_status)atomic_load(&call->status);
    if (call->actor)
        actor_leave(call->actor);
    else
        scene_assert(s, atomic_load(&call->times) == 1);
    free(call);
    return status;
}

enum hlk_status scene_acquire(struct scene *s, int64_t wait_ms, int64_t lease_ms)
{
    return scene_answer(s, scene_ask(s, wait_ms, lease_ms));
}

void scene_agrees(struct scene *s, int count)
{
    const char *said = disagreement(s->lock, s->name, count);
    cr_assert_null(said, "%s, k = %d, mode %d: Redis has %s, the caller %s", s->name, s->k, (int)s->mode, said,
                   hold_of(s->lock));
    s->agreed++;
}

bool scene_got(struct scene *s, enum hlk_status status)
{
    cr_assert(ONE_OF(status, HLK_OK, HLK_E_UNSURE, HLK_E_CONNECT), "%s, k = %d, mode %d: %s", s->name, s->k,
              (int)s->mode, hlk_status_name(status));
    scene_assert(s, hlk_lock_holds(s->lock) == (status == HLK_OK));
    if (status == HLK_OK)
        scene_agrees(s, 1);
    else
        scene_assert(s, hlk_lock_left_ms(s->lock) == 0);
    return status == HLK_OK;
}

enum hlk_status scene_release(struct scene *s)
{
    if (s->mode == BLOCKING)
        return release_for_good(s->lock, s->name);
    struct scene_call *call = calloc(1, sizeof *call);
    char hold[192];
    snprintf(hold, sizeof hold, "%s", hold_of(s->lock));
    enum hlk_status status = hlk_lock_release_async(s->lock, on_done, call);
    scene_assert(s, ONE_OF(status, HLK_OK, HLK_LOST));
    scene_assert(s, hlk_lock_holds(s->lock) == 0);
    if (status == HLK_LOST) {
        free(call);
        return status;
    }
    status = scene_answer(s, call);
    if (UNKNOWN(status))
        WAIT_FOR((status = hlk_lock_release(s->lock), !UNKNOWN(status)));
    scene_assert(s, ONE_OF(status, HLK_OK, HLK_LOST));
    if (status == HLK_OK)
        scene_assert(s, !is_held(s->name, hold));
    return status;
}

/* --- the frame */

static hlk_lock *held_by_another(struct scene *s, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    if (!s->fair)
        return held_by_bystander(s->bystander, s->name, lease_ms);
    opts.kind = HLK_LOCK_FAIR;
    opts.lease_ms = lease_ms;
    hlk_lock *lock = stage_lock(s->bystander, s->name, &opts);
    scene_assert(s, hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK);
    return lock;
}

static int64_t queued(const struct scene *s)
{
    return raw_int(stage.redis, "LLEN redisson_lock_queue:{%s}", s->name);
}

void scene_begin(struct scene *s, enum scene_mode mode, int k)
{
    struct hlk_client_opts opts = trouble_opts();
    opts.watchdog_ms = s->lease_ms ? s->lease_ms : LEASE_MS;
    opts.flags = mode == DISPATCHED ? HLK_OPEN_DISPATCH : 0;
    s->mode = mode;
    s->k = k;
    snprintf(s->name, sizeof s->name, "t%d", k);
    s->client = stage_open(&opts);
    s->owner = hlk_owner_create(s->client, "scene");
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = s->fair ? HLK_LOCK_FAIR : HLK_LOCK_PLAIN;
    lock_opts.owner = s->owner;
    s->lock = stage_lock(s->client, s->name, &lock_opts);
    if (!s->bystander)
        s->bystander = bystander();
}

void scene_end(struct scene *s)
{
    hlk_owner_destroy(s->owner);
    stage_close(s->client);
    s->client = NULL;
    s->owner = NULL;
}

void scene_is_over(struct scene *s)
{
    scene_assert(s, hlk_lock_holds(s->lock) == 0);
    WITHIN(2 * (s->lease_ms ? s->lease_ms : LEASE_MS), is_free(s->name) && queued(s) == 0);
}

void scene_later_hold_is_safe(struct scene *s, void (*meanwhile)(struct scene *s))
{
    hlk_lock *theirs = held_by_another(s, 60000);
    if (meanwhile)
        meanwhile(s);
    scene_assert(s, scene_acquire(s, HLK_NOWAIT, 0) != HLK_OK); /* and what was queued before has been sent by now */
    scene_assert(s, is_held(s->name, hold_of(theirs)));
    scene_assert(s, raw_pttl(stage.redis, s->name) > 50000);
    scene_assert(s, hlk_lock_release(theirs) == HLK_OK);
}

/* --- the scenes */

/* One try: a broken or silent connection may leave it unsure; then it is taken back. */
void play_try(struct scene *s)
{
    if (scene_got(s, scene_acquire(s, HLK_NOWAIT, 0)))
        scene_release(s);
}

/* A wait outlives one fault. */
void play_wait(struct scene *s)
{
    hlk_lock *theirs = held_by_another(s, 0);
    struct scene_call *call = scene_ask(s, 15000, 0);
    WAIT_FOR_WAITERS(s->client, 1);
    WAIT_FOR(raw_listeners(stage.redis, s->name) == 1 || queued(s) == 1 || proxy_struck(stage.proxy));
    scene_assert(s, hlk_lock_holds(s->lock) == 0);
    scene_assert(s, hlk_lock_release(theirs) == HLK_OK);
    scene_assert(s, scene_got(s, scene_answer(s, call)));
    scene_assert(s, stage_counters(s->client).woken_by_ttl == 0);
    scene_release(s);
}

/* A wait that is given up leaves nothing, and is never given up early. */
void play_timeout(struct scene *s)
{
    hlk_lock *theirs = held_by_another(s, 0);
    int64_t began = test_now_ms();
    enum hlk_status status = scene_acquire(s, 400, 0);
    scene_assert(s, ONE_OF(status, HLK_TIMEOUT, HLK_E_CONNECT, HLK_E_UNSURE));
    scene_assert(s, test_now_ms() - began >= 400);
    scene_assert(s, hlk_lock_holds(s->lock) == 0);
    scene_assert(s, is_held(s->name, hold_of(theirs)));
    scene_assert(s, hlk_lock_release(theirs) == HLK_OK);
}

/* A hold that is renewed is not lost by one fault: its lease is three times as long as a silence may last. */
void play_renewed(struct scene *s)
{
    if (!scene_got(s, scene_acquire(s, HLK_NOWAIT, 0)))
        return;
    uint64_t renewals = stage_counters(s->client).renewals;
    WAIT_FOR(stage_counters(s->client).renewals > renewals || hlk_lock_left_ms(s->lock) == 0);
    scene_assert(s, hlk_lock_left_ms(s->lock) > 0);
    scene_agrees(s, 1);
    scene_assert(s, scene_release(s) == HLK_OK);
}

static void nest(struct scene *s)
{
    enum { LONG_MS = 5000, LONGER_MS = 6000 };
    if (!scene_got(s, scene_acquire(s, HLK_NOWAIT, LONG_MS)))
        return;
    scene_assert(s, scene_acquire(s, 5000, LONGER_MS) == HLK_OK);
    scene_agrees(s, 2);
    scene_assert(s, hlk_lock_extend(s->lock, LONGER_MS) == HLK_OK);
    scene_agrees(s, 2);
    scene_assert(s, hlk_lock_release(s->lock) == HLK_OK);
    scene_assert(s, hlk_lock_holds(s->lock) == 1);
    if (!s->late)
        scene_agrees(s, 1);
    scene_release(s);
}

/* Each of its calls but the first may be asked again by the library, and is then done once: the count is what was
 * told. */
void play_nested(struct scene *s)
{
    nest(s);
    scene_assert(s, hlk_lock_release(s->lock) == HLK_NOT_HOLDER);
}
