/* A multilock without a blocked thread, in both modes of completions. */
#include "async_fixture.h"
#include "multilock_fixture.h"

enum { TURNS = 30 };

TestSuite(multilock_events, .init = multilock_start, .fini = multilock_stop, .timeout = 60);
TestSuite(multilock_dispatch, .init = multilock_start, .fini = multilock_stop, .timeout = 60);
TestSuite(multilock_events_wire, .init = multilock_start_proxied, .fini = multilock_stop, .timeout = 60);
TestSuite(multilock_dispatch_wire, .init = multilock_start_proxied, .fini = multilock_stop, .timeout = 60);

#define BOTH(name) IN_BOTH_MODES(multilock_events, multilock_dispatch, name)
#define BOTH_WIRE(name) IN_BOTH_MODES(multilock_events_wire, multilock_dispatch_wire, name)

struct group {
    hlk_owner *owner;
    hlk_lock *members[MEMBERS], *lock;
};

static void make_group(struct group *group, hlk_client *client)
{
    static const char *const names[MEMBERS] = { "tb", "tc", "ta" };
    group->owner = hlk_owner_create(client, "group");
    for (int i = 0; i < MEMBERS; i++)
        group->members[i] = fixture_owned(client, names[i], group->owner);
    group->lock = hlk_lock_create_multilock(group->members, MEMBERS, NULL);
    cr_assert_not_null(group->lock, "%s", hlk_last_error());
}

static void end_group(struct group *group)
{
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_eq(hlk_lock_holds(group->members[i]), 0);
    hlk_lock_destroy(group->lock);
    hlk_owner_destroy(group->owner);
    multilock_nothing_is_held();
}

BOTH(is_acquired_and_released)
{
    struct group group;
    struct done got = { .runs = 0 }, gone = { .runs = 0 };
    make_group(&group, client);
    acquire(group.lock, 5000, NULL, &got);
    cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
    cr_assert(!got.was_inside_call && got.lock == group.lock);
    cr_assert_eq(multilock_keys(), MEMBERS);
    cr_assert_gt(hlk_lock_left_ms(group.lock), 0);
    release(group.lock, &gone);
    cr_assert_eq(result(&gone), HLK_OK, "%s", gone.error);
    cr_assert(!gone.was_inside_call && gone.lock == group.lock);
    cr_assert_eq(multilock_keys(), 0);
    end_group(&group);
}

/* Nothing is sent for a nested acquire, and its completion does not run inside the call. */
BOTH(nests)
{
    struct group group;
    make_group(&group, client);
    for (int i = 0; i < 3; i++) {
        struct done got = { .runs = 0 };
        acquire(group.lock, i == 2 ? 0 : 5000, NULL, &got);
        cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
        cr_assert(!got.was_inside_call);
    }
    cr_assert_eq(hlk_lock_holds(group.lock), 3);
    for (int i = 0; i < 3; i++) {
        struct done gone = { .runs = 0 };
        release(group.lock, &gone);
        cr_assert_eq(result(&gone), HLK_OK, "%s", gone.error);
        cr_assert(!gone.was_inside_call);
    }
    end_group(&group);
}

BOTH(holds_nothing_if_one_is_busy)
{
    struct group group;
    hlk_lock *held = fixture_held_elsewhere("tb", 0);
    make_group(&group, client);
    for (int wait_ms = 0; wait_ms <= 200; wait_ms += 200) {
        struct done got = { .runs = 0 };
        acquire(group.lock, wait_ms, NULL, &got);
        cr_assert_eq(result(&got), wait_ms ? HLK_TIMEOUT : HLK_BUSY);
        cr_assert(strstr(got.error, "multilock of 3: acquire \"tb\""), "%s", got.error);
        WAIT_FOR(multilock_keys() == 1);
    }
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    end_group(&group);
}

/* "ta" is kept meanwhile, and "tc", which is behind the busy one, is not. */
BOTH(waits_for_a_member_and_gets_all)
{
    struct group group;
    struct done got = { .runs = 0 }, gone = { .runs = 0 };
    hlk_lock *held = fixture_held_elsewhere("tb", 0);
    make_group(&group, client);
    acquire(group.lock, RECONNECT_MS, NULL, &got);
    LOOP_UNTIL(raw_int(fixture.redis, "ZCARD hasplock_queue:{tb}") == 1 && multilock_keys() == 2);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS ta"), 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
    cr_assert_eq(multilock_keys(), MEMBERS);
    release(group.lock, &gone);
    cr_assert_eq(result(&gone), HLK_OK, "%s", gone.error);
    end_group(&group);
}

BOTH(is_cancelled_while_it_waits)
{
    struct group group;
    struct done got = { .runs = 0 };
    hlk_cancel *cancel = hlk_cancel_create(client);
    hlk_lock *held = fixture_held_elsewhere("tb", 0);
    make_group(&group, client);
    acquire(group.lock, RECONNECT_MS, cancel, &got);
    LOOP_UNTIL(raw_int(fixture.redis, "ZCARD hasplock_queue:{tb}") == 1);
    hlk_cancel_trigger(cancel);
    cr_assert_eq(result(&got), HLK_INTERRUPTED, "%s", got.error);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    hlk_cancel_destroy(cancel);
    end_group(&group);
}

/* No handle is needed any more once the call was accepted, and no owner. */
BOTH(goes_on_when_its_handles_are_destroyed)
{
    struct done got = { .runs = 0, .release = true };
    hlk_lock *held = fixture_held_elsewhere("tb", 0), *members[2];
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = hlk_owner_create(client, "short");
    members[0] = hlk_lock_create(client, "ta", &opts);
    members[1] = hlk_lock_create(client, "tb", &opts);
    hlk_lock *both = multilock_of(members[0], members[1]);
    acquire(both, RECONNECT_MS, NULL, &got);
    LOOP_UNTIL(raw_int(fixture.redis, "ZCARD hasplock_queue:{tb}") == 1);
    hlk_lock_destroy(members[0]);
    hlk_lock_destroy(members[1]);
    hlk_lock_destroy(both);
    hlk_owner_destroy(opts.owner);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
    LOOP_UNTIL(multilock_keys() == 0);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0);
}

BOTH(is_ended_by_close)
{
    struct group group;
    struct done got = { .runs = 0 };
    hlk_lock *held = fixture_held_elsewhere("tb", 0);
    make_group(&group, client);
    acquire(group.lock, RECONNECT_MS, NULL, &got);
    LOOP_UNTIL(raw_int(fixture.redis, "ZCARD hasplock_queue:{tb}") == 1);
    fixture_close(client);
    cr_assert_eq(atomic_load(&got.runs), 1);
    cr_assert_eq(got.status, HLK_E_CLOSED);
    WAIT_FOR(multilock_keys() == 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    hlk_lock_destroy(group.lock);
    hlk_owner_destroy(group.owner);
}

/* --- two in opposite order */

struct turns {
    struct group group;
    int left;
    atomic_bool over;
};

static void on_gone(hlk_lock *lock, enum hlk_status status, void *ctx);

static void on_got(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release_async(lock, on_gone, ctx), HLK_OK, "%s", hlk_last_error());
}

static void begin_turn(struct turns *turns)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = RECONNECT_MS;
    cr_assert_eq(hlk_lock_acquire_async(turns->group.lock, &opts, on_got, turns), HLK_OK, "%s", hlk_last_error());
}

static void on_gone(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct turns *turns = ctx;
    (void)lock;
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    if (--turns->left > 0)
        begin_turn(turns);
    else
        atomic_store(&turns->over, true);
}

BOTH(takes_turns_with_others)
{
    static struct turns two[2];
    for (int i = 0; i < 2; i++) {
        make_group(&two[i].group, client);
        two[i].left = TURNS;
    }
    for (int i = 0; i < 2; i++)
        begin_turn(&two[i]);
    for (int i = 0; i < TURNS; i++) { /* and with a thread */
        if (hlk_lock_acquire(multi.multilock, dispatching ? HLK_NOWAIT : RECONNECT_MS) == HLK_OK)
            cr_assert_eq(hlk_lock_release(multi.multilock), HLK_OK, "%s", hlk_last_error());
        turn();
    }
    LOOP_UNTIL(atomic_load(&two[0].over) && atomic_load(&two[1].over));
    for (int i = 0; i < 2; i++)
        end_group(&two[i].group);
}

/* --- leases and losses */

BOTH(has_all_of_its_fixed_lease_at_the_end)
{
    struct group group;
    struct done gone = { .runs = 0 };
    hlk_lock *held = fixture_held_elsewhere("tc", 0);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = 4000;
    make_group(&group, client);
    hlk_lock *leased = hlk_lock_create_multilock(group.members, MEMBERS, &opts);
    struct done got = { .runs = 0 };
    acquire(leased, RECONNECT_MS, NULL, &got);
    LOOP_UNTIL(raw_int(fixture.redis, "ZCARD hasplock_queue:{tc}") == 1 && hlk_lock_left_ms(group.members[0]) > 0);
    LOOP_UNTIL(hlk_lock_left_ms(group.members[0]) < 2500); /* "tb" */
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
    cr_assert_gt(hlk_lock_left_ms(leased), 2500);
    cr_assert_eq(hlk_lock_holds(leased), 1);
    release(leased, &gone);
    cr_assert_eq(result(&gone), HLK_OK, "%s", gone.error);
    hlk_lock_destroy(leased);
    end_group(&group);
}

BOTH(tells_what_was_lost)
{
    struct group group;
    struct done got = { .runs = 0 }, again = { .runs = 0 }, gone = { .runs = 0 };
    make_group(&group, client);
    acquire(group.lock, 5000, NULL, &got);
    cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
    cr_assert_eq(hlk_lock_break(group.members[0]), HLK_OK);
    LOOP_UNTIL(hlk_lock_left_ms(group.lock) == 0);
    acquire(group.lock, 5000, NULL, &again);
    cr_assert_eq(result(&again), HLK_LOST);
    cr_assert_eq(hlk_lock_holds(group.members[1]), 1);
    release(group.lock, &gone);
    cr_assert_eq(result(&gone), HLK_LOST);
    cr_assert(strstr(gone.error, "multilock of 3: release \"tb\""), "%s", gone.error);
    end_group(&group);
}

/* --- refused at once */

BOTH(is_not_held)
{
    struct group group;
    struct done never = { .runs = 0 };
    make_group(&group, client);
    cr_assert_eq(hlk_lock_release_async(group.lock, remember, &never), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_release_async(group.lock, NULL, NULL), HLK_NOT_HOLDER);
    cr_assert_eq(atomic_load(&never.runs), 0);
    end_group(&group);
}

BOTH(needs_owners_and_one_client)
{
    struct group group;
    struct done never = { .runs = 0 };
    make_group(&group, client);
    hlk_lock *threads = fixture_lock(client, "tx", NULL), *mixed[] = { group.members[0], threads };
    hlk_lock *some = hlk_lock_create_multilock(mixed, 2, NULL);
    cr_assert_eq(hlk_lock_acquire_async(some, NULL, remember, &never), HLK_E_INVALID);
    cr_assert(strstr(hlk_last_error(), "with an owner"), "%s", hlk_last_error());
    hlk_client *other = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(other, NULL);
    hlk_lock *far[] = { group.members[0], fixture_owned(other, "tx", owner) };
    hlk_lock *both = hlk_lock_create_multilock(far, 2, NULL);
    cr_assert_eq(hlk_lock_acquire_async(both, NULL, remember, &never), HLK_E_INVALID);
    cr_assert(strstr(hlk_last_error(), "of one client"), "%s", hlk_last_error());
    cr_assert_eq(atomic_load(&never.runs), 0);
    hlk_lock_destroy(some);
    hlk_lock_destroy(both);
    hlk_owner_destroy(owner);
    end_group(&group);
}

/* --- the wire */

BOTH_WIRE(costs_one_round_trip_for_all)
{
    struct group group;
    struct done got = { .runs = 0 }, gone = { .runs = 0 };
    make_group(&group, client);
    multilock_warm(group.lock);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    uint64_t before = proxy_accepted(fixture.proxy);
    acquire(group.lock, RECONNECT_MS, NULL, &got);
    LOOP_UNTIL(multilock_keys() == MEMBERS);
    cr_assert_eq(atomic_load(&got.runs), 0);
    multilock_deliver();
    cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
    proxy_arm(fixture.proxy, PROXY_HOLD_REPLY, PROXY_SCRIPTS, 1);
    release(group.lock, &gone);
    LOOP_UNTIL(multilock_keys() == 0);
    cr_assert_eq(atomic_load(&gone.runs), 0);
    multilock_deliver();
    cr_assert_eq(result(&gone), HLK_OK, "%s", gone.error);
    cr_assert_eq(proxy_accepted(fixture.proxy), before);
    end_group(&group);
}

enum { TRY_MS = 3000 }; /* reply_timeout_ms: one try without a server */

BOTH_WIRE(waits_for_a_server_that_is_away)
{
    struct group group;
    struct done got = { .runs = 0 }, gone = { .runs = 0 };
    make_group(&group, client);
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    int64_t began = test_now_ms();
    acquire(group.lock, RECONNECT_MS, NULL, &got);
    LOOP_UNTIL(test_now_ms() - began > TRY_MS + 500);
    cr_assert_eq(atomic_load(&got.runs), 0, "%s", got.error);
    proxy_refuse(fixture.proxy, false);
    cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
    release(group.lock, &gone);
    cr_assert_eq(result(&gone), HLK_OK, "%s", gone.error);
    end_group(&group);
}

BOTH_WIRE(leaves_nothing_when_an_answer_is_lost)
{
    for (unsigned k = 1; k <= 2 * MEMBERS; k++) {
        struct group group;
        struct done got = { .runs = 0 }, gone = { .runs = 0 };
        make_group(&group, client);
        proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, k);
        acquire(group.lock, RECONNECT_MS, NULL, &got);
        cr_assert_eq(result(&got), HLK_OK, "%s", got.error);
        release(group.lock, &gone);
        cr_assert_eq(result(&gone), HLK_OK, "%s", gone.error);
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_SCRIPTS, 1);
        end_group(&group);
    }
}
