/* A multilock is a hlk_lock: its handles, events, descriptor and options, and the calls that it refuses. */
#include "multilock_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { CALLERS = 4, ROUNDS = 20 };

TestSuite(multilock_calls, .init = multilock_start, .fini = multilock_stop, .timeout = 60);

/* --- handles */

Test(multilock_calls, need_the_members_handles_no_more)
{
    hlk_client *other = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(other, "order 9");
    struct hlk_lock_opts fair = HLK_LOCK_OPTS_INIT, owned = HLK_LOCK_OPTS_INIT;
    fair.kind = HLK_LOCK_FAIR;
    owned.owner = owner;
    hlk_lock *given[] = { hlk_lock_create(multi.client, "tf", &fair), hlk_lock_create(other, "to", &owned) };
    hlk_lock *both = multilock_of(given[0], given[1]);
    hlk_lock_destroy(given[0]);
    hlk_lock_destroy(given[1]);
    hlk_owner_destroy(owner);
    for (int i = 0; i < 2; i++) /* nested */
        cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(both), 2);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS tf to"), 2);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(hlk_lock_release(both), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(raw_int(fixture.redis, "EXISTS tf to") == 0);
    hlk_lock_destroy(both);
}

/* The holds stay their holders', and another handle releases them. */
Test(multilock_calls, of_another_handle_release_what_it_holds)
{
    hlk_lock *first = multilock_of(multi.members[0], multi.members[1]);
    cr_assert_eq(hlk_lock_acquire(first, 1000), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(first);
    hlk_lock *second = multilock_of(multi.members[1], multi.members[0]);
    cr_assert_eq(hlk_lock_holds(second), 1);
    cr_assert_gt(hlk_lock_left_ms(second), 0);
    cr_assert_eq(hlk_lock_release(second), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(second);
    multilock_nothing_is_held();
}

/* Its handle does, as any handle; its holds do not. */
Test(multilock_calls, that_hold_keep_no_owner_alive)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = hlk_owner_create(multi.client, "short");
    hlk_lock *members[] = { hlk_lock_create(multi.client, "ta", &opts), hlk_lock_create(multi.client, "tb", &opts) };
    hlk_lock *both = multilock_of(members[0], members[1]);
    cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(members[0]);
    hlk_lock_destroy(members[1]);
    hlk_owner_destroy(opts.owner);
    cr_assert_gt(hlk_lock_left_ms(both), 0);
    cr_assert_eq(fixture_events(HLK_EVENT_ORPHANED, NULL), 0);
    hlk_lock_destroy(both);
    (void)fixture_wait_event(HLK_EVENT_ORPHANED, "ta");
    (void)fixture_wait_event(HLK_EVENT_ORPHANED, "tb");
    for (int i = 1; i < MEMBERS; i++)
        cr_assert_eq(hlk_lock_break(multi.members[i]), HLK_OK, "%s", hlk_last_error());
    multilock_nothing_is_held();
}

Test(multilock_calls, name_it_by_its_members)
{
    cr_assert_str_eq(hlk_lock_name(multi.multilock), "tc+ta+tb");
    char name[301];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    hlk_lock *first = fixture_lock(multi.client, name, NULL);
    name[0] = 'm';
    hlk_lock *both = multilock_of(first, fixture_lock(multi.client, name, NULL));
    cr_assert_leq(strlen(hlk_lock_name(both)), 512u);
    hlk_lock_destroy(both);
}

Test(multilock_calls, name_an_owner_that_is_before)
{
    hlk_owner *owner = hlk_owner_create(multi.client, "order 7");
    hlk_lock *both = multilock_of(fixture_owned(multi.client, "ta", owner), fixture_owned(multi.client, "tb", owner));
    cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(multi.multilock, 50), HLK_TIMEOUT);
    cr_assert(strstr(hlk_last_error(), "multilock of 3: acquire \"ta\""), "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "held by owner \"order 7\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(both), HLK_OK, "%s", hlk_last_error());
    hlk_lock_destroy(both);
    hlk_owner_destroy(owner);
    multilock_nothing_is_held();
}

/* --- losses */

static atomic_int losses;

static void on_event(const struct hlk_event *event, void *ctx)
{
    cr_assert_str_eq(ctx, "ours");
    if (event->kind == HLK_EVENT_LOST && strcmp(event->lock, "tb") == 0)
        atomic_fetch_add(&losses, 1);
}

static bool readable(int fd)
{
    struct pollfd at = { .fd = fd, .events = POLLIN };
    return poll(&at, 1, 0) == 1;
}

Test(multilock_calls, tell_the_loss_of_a_member)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = on_event;
    opts.event_ctx = "ours";
    hlk_lock *told = hlk_lock_create_multilock(multi.members, MEMBERS, &opts);
    int fd = hlk_lock_lost_fd(told);
    cr_assert_geq(fd, 0, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(told, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert(!readable(fd));
    cr_assert_eq(hlk_lock_break(multi.members[2]), HLK_OK); /* tb */
    WAIT_FOR(readable(fd) && atomic_load(&losses) == 1);
    cr_assert_eq(hlk_lock_left_ms(told), 0);
    cr_assert_eq(hlk_lock_held_until(told), 0);
    cr_assert_eq(hlk_lock_holds(told), 1);
    cr_assert_eq(hlk_lock_acquire(told, 1000), HLK_LOST);
    cr_assert_eq(hlk_lock_holds(multi.members[0]), 1); /* as before that acquire */
    cr_assert_eq(hlk_lock_release(told), HLK_LOST);
    cr_assert(!readable(fd));
    hlk_lock_destroy(told);
    multilock_nothing_is_held();
}

static sem_t inside, go_on;

static void stands_still(const struct hlk_event *event, void *ctx)
{
    (void)event, (void)ctx;
    sem_post(&inside);
    sem_wait(&go_on);
}

Test(multilock_calls, tell_no_loss_after_destroy)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    opts.on_event = stands_still;
    hlk_lock *slow = fixture_lock(multi.client, "ts", &opts);
    cr_assert_eq(hlk_lock_acquire(slow, 1000), HLK_OK);
    cr_assert_eq(hlk_lock_break(slow), HLK_OK);
    sem_wait(&inside);
    opts.on_event = on_event;
    opts.event_ctx = "ours";
    hlk_lock *told = hlk_lock_create_multilock(multi.members, MEMBERS, &opts);
    cr_assert_eq(hlk_lock_acquire(told, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_break(multi.members[2]), HLK_OK);
    WAIT_FOR(hlk_lock_left_ms(told) == 0);
    hlk_lock_destroy(told);
    sem_post(&go_on);
    (void)fixture_wait_event(HLK_EVENT_LOST, "tb"); /* the client's own callback, after the handle's */
    cr_assert_eq(atomic_load(&losses), 0);
    cr_assert_eq(hlk_lock_release(slow), HLK_LOST);
    cr_assert_eq(hlk_lock_release(multi.multilock), HLK_LOST);
    multilock_nothing_is_held();
}

/* --- options, and what it has none of */

Test(multilock_calls, have_the_lease_of_the_multilock)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = 60000;
    hlk_lock *leased = hlk_lock_create_multilock(multi.members, MEMBERS, &opts);
    cr_assert_eq(hlk_lock_acquire(leased, 1000), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_gt(hlk_lock_left_ms(multi.members[i]), 40000);
    cr_assert_eq(hlk_lock_extend(leased, 90000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(hlk_lock_left_ms(leased), 60000);
    cr_assert_eq(hlk_lock_release(leased), HLK_OK);
    cr_assert_eq(hlk_lock_extend(leased, 90000), HLK_NOT_HOLDER);
    hlk_lock_destroy(leased);
    multilock_nothing_is_held();
}

Test(multilock_calls, that_need_one_lock_are_refused)
{
    char buf[64];
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_break(multi.multilock), HLK_E_INVALID);
    cr_assert(strstr(hlk_last_error(), "not of a multilock"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(multi.multilock, &state), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_hold_id(multi.multilock, buf, sizeof buf), HLK_E_INVALID);
    cr_assert_eq(hlk_lock_token(multi.multilock), 0);
    multilock_nothing_is_held();
}

Test(multilock_calls, refuse_options_that_are_the_members)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    cr_assert_null(hlk_lock_create_multilock(multi.members, MEMBERS, &opts));
    cr_assert(strstr(hlk_last_error(), "its members'"), "%s", hlk_last_error());
    opts.kind = HLK_LOCK_PLAIN;
    opts.lease_ms = 1;
    cr_assert_null(hlk_lock_create_multilock(multi.members, MEMBERS, &opts));
    cr_assert_null(hlk_lock_create_multilock(&multi.multilock, 1, NULL));
    cr_assert(strstr(hlk_last_error(), "is a multilock itself"), "%s", hlk_last_error());
}

/* --- one of several callers that do not wait */

static pthread_barrier_t together;

static void *tries(void *arg)
{
    pthread_barrier_wait(&together);
    *(enum hlk_status *)arg = hlk_lock_acquire(multi.multilock, HLK_NOWAIT);
    pthread_barrier_wait(&together);
    if (*(enum hlk_status *)arg == HLK_OK)
        cr_assert_eq(hlk_lock_release(multi.multilock), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

Test(multilock_calls, that_do_not_wait_leave_it_to_one_of_them)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[CALLERS];
        enum hlk_status got[CALLERS];
        int held = 0;
        pthread_barrier_init(&together, NULL, CALLERS);
        for (int i = 0; i < CALLERS; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, tries, &got[i]), 0);
        for (int i = 0; i < CALLERS; i++) {
            pthread_join(threads[i], NULL);
            held += got[i] == HLK_OK;
        }
        cr_assert_eq(held, 1);
        pthread_barrier_destroy(&together);
    }
    multilock_nothing_is_held();
}

/* --- releases */

Test(multilock_calls, release_what_a_thread_holds_without_waiting)
{
    cr_assert_eq(hlk_lock_acquire(multi.multilock, 1000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release_async(multi.multilock, NULL, NULL), HLK_OK, "%s", hlk_last_error());
    multilock_nothing_is_held();
}

/* Its members' clients may be closed one after the other. */
Test(multilock_calls, of_a_closed_client_are_refused)
{
    hlk_client *other = fixture_open(NULL);
    hlk_lock *both = multilock_of(multi.members[1], fixture_lock(other, "tx", NULL));
    cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_OK, "%s", hlk_last_error());
    fixture_close(other);
    cr_assert_eq(hlk_lock_left_ms(both), 0);
    cr_assert_eq(hlk_lock_acquire(both, 1000), HLK_E_CLOSED);
    cr_assert(strstr(hlk_last_error(), "\"tx\""), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(multi.members[1]), 1); /* as before that acquire */
    cr_assert_eq(hlk_lock_release(both), HLK_E_CLOSED);
    hlk_lock_destroy(both);
    multilock_nothing_is_held();
}
