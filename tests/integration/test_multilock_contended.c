/* Clients that contend for the same multilock go on after somebody held its last member for longer than a slice. */
/* Shows: P52 */
#include "multilock_fixture.h"
#include "quorum_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { CLIENTS = 6, TURNS = 20, SLICES = 2, NODES = 3 };

static const char *const names[MEMBERS] = { "tc", "ta", "tb" };

static void start_quorum(void)
{
    quorum_begin(0);
}

TestSuite(multilock_contended, .init = multilock_start, .fini = multilock_stop, .timeout = 120);
TestSuite(multilock_contended_quorum, .init = start_quorum, .fini = quorum_end, .timeout = 120);

struct caller {
    hlk_client *client;
    hlk_owner *owner; /* of an async caller */
    hlk_lock *multilock;
    pthread_t thread;
    int turns;
    atomic_bool over;
};

static struct caller callers[CLIENTS];

/* --- the members */

struct kinds {
    hlk_client *(*open)(void);
    hlk_lock *(*lock)(hlk_client *client, const char *name, const struct hlk_lock_opts *opts);
    redisContext **redis; /* where "ta" is seen */
    int kind[MEMBERS];
};

static hlk_client *open_one(void)
{
    return fixture_open(NULL);
}

static hlk_client *open_quorum(void)
{
    return quorum_open_url(NODES, PATIENT, NULL);
}

static const struct kinds plain = { open_one, fixture_lock, &fixture.redis, { 0 } };
static const struct kinds halves = {
    open_one, fixture_lock, &fixture.redis, { HLK_LOCK_WRITE, HLK_LOCK_WRITE, HLK_LOCK_READ }
};
static const struct kinds quorum = { open_quorum, quorum_lock, &views[0], { 0 } };

static void make_caller(const struct kinds *kinds, struct caller *caller, bool owned)
{
    hlk_lock *members[MEMBERS];
    caller->client = kinds->open();
    caller->owner = owned ? hlk_owner_create(caller->client, NULL) : NULL;
    for (int i = 0; i < MEMBERS; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = kinds->kind[i];
        opts.owner = caller->owner;
        members[i] = kinds->lock(caller->client, names[i], &opts);
    }
    caller->multilock = hlk_lock_create_multilock(members, MEMBERS, NULL);
    cr_assert_not_null(caller->multilock, "%s", hlk_last_error());
}

/* --- what they do: they acquire and release it TURNS times */

static void *acquires(void *arg)
{
    struct caller *caller = arg;
    for (; caller->turns < TURNS; caller->turns++) {
        cr_assert_eq(hlk_lock_acquire(caller->multilock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(caller->multilock), HLK_OK, "%s", hlk_last_error());
    }
    atomic_store(&caller->over, true);
    return NULL;
}

static void block(struct caller *caller)
{
    cr_assert_eq(pthread_create(&caller->thread, NULL, acquires, caller), 0);
}

static void on_released(hlk_lock *lock, enum hlk_status status, void *ctx);

static void on_acquired(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release_async(lock, on_released, ctx), HLK_OK, "%s", hlk_last_error());
}

static void begin_turn(struct caller *caller)
{
    cr_assert_eq(hlk_lock_acquire_async(caller->multilock, NULL, on_acquired, caller), HLK_OK, "%s", hlk_last_error());
}

static void on_released(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct caller *caller = ctx;
    (void)lock;
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    if (++caller->turns < TURNS)
        begin_turn(caller);
    else
        atomic_store(&caller->over, true);
}

/* --- the long hold */

/* Until so many of them have waited for "tc" for a slice, and have given "ta" to the next one. */
static void wait_for_slices(redisContext *redis)
{
    char holder[256] = "";
    for (int seen = 0; seen <= SLICES; seen++) {
        const char *now;
        WAIT_FOR((now = raw(redis, "HGETALL ta"), strcmp(now, "[]") != 0 && strcmp(now, holder) != 0));
        (void)snprintf(holder, sizeof holder, "%s", now);
    }
}

static void contend(const struct kinds *kinds, bool async)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kinds->kind[0];
    hlk_lock *held = kinds->lock(kinds->open(), "tc", &opts);
    for (int i = 0; i < CLIENTS; i++)
        make_caller(kinds, &callers[i], async);
    cr_assert_eq(hlk_lock_acquire(held, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < CLIENTS; i++)
        (async ? begin_turn : block)(&callers[i]);
    wait_for_slices(*kinds->redis);
    cr_assert_eq(hlk_lock_release(held), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < CLIENTS; i++)
        WAIT_FOR(atomic_load(&callers[i].over));
    for (int i = 0; i < CLIENTS; i++) {
        if (!async)
            pthread_join(callers[i].thread, NULL);
        hlk_lock_destroy(callers[i].multilock);
        hlk_owner_destroy(callers[i].owner);
    }
}

Test(multilock_contended, goes_on_after_a_long_hold)
{
    contend(&plain, false);
    multilock_nothing_is_held();
}

Test(multilock_contended, goes_on_without_blocked_threads)
{
    contend(&plain, true);
    multilock_nothing_is_held();
}

Test(multilock_contended, goes_on_if_members_are_halves)
{
    contend(&halves, false);
    multilock_nothing_is_held();
}

Test(multilock_contended, goes_on_with_halves_and_without_blocked_threads)
{
    contend(&halves, true);
    multilock_nothing_is_held();
}

static void nothing_is_held_anywhere(void)
{
    for (int i = 0; i < MEMBERS; i++)
        WAIT_FOR(quorum_keys(names[i]) == 0);
}

Test(multilock_contended_quorum, goes_on_after_a_long_hold)
{
    contend(&quorum, false);
    nothing_is_held_anywhere();
}

Test(multilock_contended_quorum, goes_on_without_blocked_threads)
{
    contend(&quorum, true);
    nothing_is_held_anywhere();
}

/* It holds "tc" and waits for "ta", as no order of names allows. Each caller keeps "ta" for a slice at most. */
Test(multilock_contended, lets_a_caller_of_another_order_through)
{
    hlk_client *other = fixture_open(NULL);
    hlk_lock *last = fixture_lock(other, "tc", NULL), *first = fixture_lock(other, "ta", NULL);
    for (int i = 0; i < CLIENTS; i++)
        make_caller(&plain, &callers[i], false);
    cr_assert_eq(hlk_lock_acquire(last, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < CLIENTS; i++)
        block(&callers[i]);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{ta}") == CLIENTS - 1);
    cr_assert_eq(hlk_lock_acquire(first, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(first), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(last), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < CLIENTS; i++) {
        WAIT_FOR(atomic_load(&callers[i].over));
        pthread_join(callers[i].thread, NULL);
        hlk_lock_destroy(callers[i].multilock);
    }
    multilock_nothing_is_held();
}
