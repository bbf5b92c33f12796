#include "scenario.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- calls in the scenario's mode */

struct scenario_call {
    struct actor *actor; /* BLOCKING */
    atomic_bool over;    /* otherwise: `done` has run, once */
    atomic_int status, times;
};

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct scenario_call *call = ctx;
    atomic_store(&call->status, status);
    atomic_fetch_add(&call->times, 1);
    atomic_store(&call->over, true);
}

static bool is_over(struct scenario *s, struct scenario_call *call)
{
    if (call->actor)
        return actor_answered(call->actor);
    struct pollfd fd = { hlk_client_fd(s->client), POLLIN, 0 };
    if (s->mode == DISPATCHED && poll(&fd, 1, 0) == 1) /* as a loop does: only if its descriptor is readable */
        hlk_client_dispatch(s->client, 0);
    return atomic_load(&call->over);
}

struct scenario_call *scenario_ask(struct scenario *s, int64_t wait_ms, int64_t lease_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    opts.lease_ms = lease_ms;
    struct scenario_call *call = calloc(1, sizeof *call);
    if (s->mode == BLOCKING)
        call->actor = actor_start(s->lock, &opts);
    else
        scenario_assert(s, hlk_lock_acquire_async(s->lock, &opts, on_done, call) == HLK_OK);
    return call;
}

enum hlk_status scenario_answer(struct scenario *s, struct scenario_call *call)
{
    WAIT_FOR(is_over(s, call));
    enum hlk_status status = call->actor ? actor_status(call->actor) : (enum hlk_status)atomic_load(&call->status);
    if (call->actor)
        actor_leave(call->actor);
    else
        scenario_assert(s, atomic_load(&call->times) == 1);
    free(call);
    return status;
}

enum hlk_status scenario_acquire(struct scenario *s, int64_t wait_ms, int64_t lease_ms)
{
    return scenario_answer(s, scenario_ask(s, wait_ms, lease_ms));
}

void scenario_agrees(struct scenario *s, int count)
{
    const char *said = disagreement(s->lock, s->name, count);
    cr_assert_null(said, "%s, k = %d, mode %d: Redis has %s, the caller %s", s->name, s->k, (int)s->mode, said,
                   hold_of(s->lock));
    s->agreed++;
}

bool scenario_got(struct scenario *s, enum hlk_status status)
{
    cr_assert(status == HLK_OK || NOT_GOT(status), "%s, k = %d, mode %d: %s", s->name, s->k, (int)s->mode,
              hlk_status_name(status));
    scenario_assert(s, hlk_lock_holds(s->lock) == (status == HLK_OK));
    if (status == HLK_OK)
        scenario_agrees(s, 1);
    else
        scenario_assert(s, hlk_lock_left_ms(s->lock) == 0);
    return status == HLK_OK;
}

enum hlk_status scenario_release(struct scenario *s)
{
    if (s->mode == BLOCKING)
        return release_for_good(s->lock, s->name);
    struct scenario_call *call = calloc(1, sizeof *call);
    char hold[192];
    snprintf(hold, sizeof hold, "%s", hold_of(s->lock));
    enum hlk_status status = hlk_lock_release_async(s->lock, on_done, call);
    scenario_assert(s, ONE_OF(status, HLK_OK, HLK_LOST));
    scenario_assert(s, hlk_lock_holds(s->lock) == 0);
    if (status == HLK_LOST) {
        free(call);
        return status;
    }
    status = scenario_answer(s, call);
    if (UNKNOWN(status))
        WAIT_FOR((status = hlk_lock_release(s->lock), !UNKNOWN(status)));
    scenario_assert(s, ONE_OF(status, HLK_OK, HLK_LOST));
    if (status == HLK_OK)
        scenario_assert(s, !is_held(s->name, hold));
    return status;
}

/* --- common parts */

static hlk_lock *held_by_another(struct scenario *s, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    if (!s->fair)
        return held_by_bystander(s->bystander, s->name, lease_ms);
    opts.kind = HLK_LOCK_FAIR;
    opts.lease_ms = lease_ms;
    hlk_lock *lock = fixture_lock(s->bystander, s->name, &opts);
    scenario_assert(s, hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK);
    return lock;
}

static int64_t queued(const struct scenario *s)
{
    return raw_int(fixture.redis, "LLEN redisson_lock_queue:{%s}", s->name);
}

void scenario_begin(struct scenario *s, enum scenario_mode mode, int k)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = s->lease_ms ? s->lease_ms : LEASE_MS;
    opts.flags = mode == DISPATCHED ? HLK_OPEN_DISPATCH : 0;
    s->mode = mode;
    s->k = k;
    snprintf(s->name, sizeof s->name, "t%d", k);
    s->client = fixture_open(&opts);
    s->owner = hlk_owner_create(s->client, "scene");
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = s->fair ? HLK_LOCK_FAIR : HLK_LOCK_PLAIN;
    lock_opts.owner = s->owner;
    s->lock = fixture_lock(s->client, s->name, &lock_opts);
    if (!s->bystander)
        s->bystander = bystander();
}

void scenario_end(struct scenario *s)
{
    hlk_owner_destroy(s->owner);
    fixture_close(s->client);
    s->client = NULL;
    s->owner = NULL;
}

void scenario_is_over(struct scenario *s)
{
    scenario_assert(s, hlk_lock_holds(s->lock) == 0);
    WITHIN(2 * (s->lease_ms ? s->lease_ms : LEASE_MS), is_free(s->name) && queued(s) == 0);
}

void scenario_later_hold_is_safe(struct scenario *s, void (*meanwhile)(struct scenario *s))
{
    hlk_lock *theirs = held_by_another(s, 60000);
    if (meanwhile)
        meanwhile(s);
    /* the server has run everything that was queued before */
    scenario_assert(s, scenario_acquire(s, HLK_NOWAIT, 0) != HLK_OK);
    scenario_assert(s, is_held(s->name, hold_of(theirs)));
    scenario_assert(s, raw_pttl(fixture.redis, s->name) > 50000);
    scenario_assert(s, hlk_lock_release(theirs) == HLK_OK);
}

/* --- the scenarios */

/* One try. A broken or silent connection may leave it unsure; then it is rolled back. */
void play_try(struct scenario *s)
{
    if (scenario_got(s, scenario_acquire(s, HLK_NOWAIT, 0)))
        scenario_release(s);
}

/* A wait survives one fault. */
void play_wait(struct scenario *s)
{
    hlk_lock *theirs = held_by_another(s, 0);
    struct scenario_call *call = scenario_ask(s, 15000, 0);
    WAIT_FOR_WAITERS(s->client, 1);
    WAIT_FOR(raw_listeners(fixture.redis, s->name) == 1 || queued(s) == 1 || proxy_struck(fixture.proxy));
    scenario_assert(s, hlk_lock_holds(s->lock) == 0);
    scenario_assert(s, hlk_lock_release(theirs) == HLK_OK);
    scenario_assert(s, scenario_got(s, scenario_answer(s, call)));
    scenario_assert(s, fixture_counters(s->client).woken_by_ttl == 0);
    scenario_release(s);
}

/* A wait that times out leaves nothing, and never ends too early. */
void play_timeout(struct scenario *s)
{
    hlk_lock *theirs = held_by_another(s, 0);
    int64_t began = test_now_ms();
    enum hlk_status status = scenario_acquire(s, 400, 0);
    scenario_assert(s, ONE_OF(status, HLK_TIMEOUT, HLK_E_CONNECT));
    scenario_assert(s, test_now_ms() - began >= 400);
    scenario_assert(s, hlk_lock_holds(s->lock) == 0);
    scenario_assert(s, is_held(s->name, hold_of(theirs)));
    scenario_assert(s, hlk_lock_release(theirs) == HLK_OK);
}

/* One fault does not cost a renewed hold: its lease is three times as long as a silence may last. */
void play_renewed(struct scenario *s)
{
    if (!scenario_got(s, scenario_acquire(s, HLK_NOWAIT, 0)))
        return;
    uint64_t renewals = fixture_counters(s->client).renewals;
    WAIT_FOR(fixture_counters(s->client).renewals > renewals || hlk_lock_left_ms(s->lock) == 0);
    scenario_assert(s, hlk_lock_left_ms(s->lock) > 0);
    scenario_agrees(s, 1);
    scenario_assert(s, scenario_release(s) == HLK_OK);
}

static void nest(struct scenario *s)
{
    enum { LONG_MS = 5000, LONGER_MS = 6000 };
    if (!scenario_got(s, scenario_acquire(s, HLK_NOWAIT, LONG_MS)))
        return;
    scenario_assert(s, scenario_acquire(s, 5000, LONGER_MS) == HLK_OK);
    scenario_agrees(s, 2);
    scenario_assert(s, hlk_lock_extend(s->lock, LONGER_MS) == HLK_OK);
    scenario_agrees(s, 2);
    scenario_assert(s, hlk_lock_release(s->lock) == HLK_OK);
    scenario_assert(s, hlk_lock_holds(s->lock) == 1);
    if (!s->late)
        scenario_agrees(s, 1);
    scenario_release(s);
}

/* The library may repeat any call but the first, and each takes effect once: the count is what the calls have
 * returned. */
void play_nested(struct scenario *s)
{
    nest(s);
    scenario_assert(s, hlk_lock_release(s->lock) == HLK_NOT_HOLDER);
}
