/* Fencing tokens for callers: larger with each hold, whoever holds and however the lock was acquired. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(void)
{
    fixture_begin(0);
}

/* Tokens stay for ever, by design. */
static void stop(void)
{
    raw(fixture.redis, "DEL redisson_lock_token:{t}");
    fixture_end();
}

TestSuite(fenced, .init = start, .fini = stop, .timeout = 60);

/* A handle with an owner of its own, so that any thread may read its token. */
static hlk_lock *handle(hlk_client *client, int kind, int64_t floor)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    opts.owner = hlk_owner_create(client, "o");
    opts.token_floor = floor;
    hlk_lock *lock = fixture_lock(client, "t", &opts);
    hlk_owner_destroy(opts.owner);
    return lock;
}

static hlk_lock *fenced(hlk_client *client)
{
    return handle(client, HLK_LOCK_FENCED, 0);
}

static hlk_lock *plain(hlk_client *client)
{
    return handle(client, HLK_LOCK_PLAIN, 0);
}

static int64_t acquired(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    return hlk_lock_token(lock);
}

static void released(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* Of a separate hold. */
static int64_t token_of(hlk_lock *lock)
{
    int64_t token = acquired(lock);
    released(lock);
    return token;
}

static void waits_in_redis(size_t n)
{
    WAIT_FOR(raw_int(fixture.redis, "ZCOUNT hasplock_queue:{t} 1 1000000000000000") == (long long)n);
}

Test(fenced, token_is_larger_with_each_hold_of_any_client)
{
    hlk_client *one = fixture_open(NULL), *two = fixture_open(NULL);
    hlk_lock *a = fenced(one), *b = fenced(one), *c = fenced(two);
    int64_t last = token_of(a);
    cr_assert_gt(last, 0);
    hlk_lock *turns[] = { a, b, c, c, a, b };
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        int64_t token = token_of(turns[i]);
        cr_assert_gt(token, last);
        last = token;
    }
}

Test(fenced, token_lasts_for_a_hold_and_is_the_same_for_nested)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fenced(client);
    cr_assert_eq(hlk_lock_token(lock), 0);
    int64_t token = acquired(lock);
    cr_assert_gt(token, 0);
    cr_assert_eq(acquired(lock), token);
    struct hlk_acquire_opts fixed = HLK_ACQUIRE_OPTS_INIT;
    fixed.lease_ms = 60000;
    cr_assert_eq(hlk_lock_acquire_with(lock, &fixed), HLK_OK);
    cr_assert_eq(hlk_lock_token(lock), token);
    cr_assert_eq(hlk_lock_token(fenced(client)), 0, "another's");
    released(lock);
    released(lock);
    cr_assert_eq(hlk_lock_token(lock), token);
    released(lock);
    cr_assert_eq(hlk_lock_token(lock), 0);
}

Test(fenced, token_of_a_lost_hold_is_none)
{
    hlk_lock *lock = fenced(fixture_open(NULL));
    acquired(lock);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
    cr_assert_eq(hlk_lock_token(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

Test(fenced, plain_handles_have_no_token_and_take_none)
{
    hlk_client *client = fixture_open(NULL);
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FENCED; /* without an owner: held by this thread, like the plain one */
    hlk_lock *mine_plain = fixture_lock(client, "t", NULL), *mine = fixture_lock(client, "t", &opts);
    cr_assert_eq(acquired(mine_plain), 0);
    cr_assert_eq(acquired(mine), 0, "the hold was not taken as a fenced one");
    released(mine);
    released(mine_plain);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS redisson_lock_token:{t}"), 0);
    int64_t token = acquired(mine);
    cr_assert_gt(token, 0);
    cr_assert_eq(acquired(mine_plain), 0, "asked by a plain handle");
    cr_assert_eq(hlk_lock_token(mine), token);
    released(mine_plain);
    released(mine);
}

/* --- by grant */

Test(fenced, hold_that_was_granted_has_its_token_without_asking)
{
    hlk_client *other = fixture_open(NULL);
    hlk_lock *a = fenced(fixture_open(NULL)), *b = fenced(other);
    int64_t first = acquired(a);
    struct actor *waiter = actor_start(b, NULL);
    waits_in_redis(1);
    released(a);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(other).granted, 1u);
    cr_assert_gt(hlk_lock_token(b), first);
    cr_assert_eq(hlk_lock_token(b), raw_int(fixture.redis, "GET redisson_lock_token:{t}"));
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(fenced, waiter_behind_another_plain_client_gets_a_token)
{
    hlk_lock *a = plain(fixture_open(NULL)), *b = fenced(fixture_open(NULL));
    acquired(a);
    struct actor *waiter = actor_start(b, NULL);
    waits_in_redis(1);
    released(a);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_gt(hlk_lock_token(b), 0);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* A release that never ran has left the ticket. Its client is subscribed but has no such wait. */
Test(fenced, ticket_unknown_to_its_client_stops_no_plain_waiter)
{
    char place[192];
    hlk_client *other = fixture_open(NULL), *waiting = fixture_open(NULL);
    hlk_lock *a = plain(fixture_open(NULL)), *b = plain(waiting);
    acquired(a);
    fixture_wait_in_vain(plain(other), other);
    waits_in_redis(0); /* its ticket is removed, however often its release had to be sent */
    snprintf(place, sizeof place, "%s:999 5000 1 0 1", hlk_client_id(other));
    raw(fixture.redis, "ZADD hasplock_queue:{t} 1 %s", place);
    struct actor *waiter = actor_start(b, NULL);
    waits_in_redis(2);
    int64_t released_at = test_now_ms();
    released(a);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_lt(running_between_ms(released_at, actor_answered_at_ms(waiter)), 2500,
                 "half of what a waiter that stands still costs");
    cr_assert_eq(fixture_counters(other).handed_back, 1u);
    cr_assert_eq(fixture_counters(waiting).woken_by_ttl, 0u);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(fenced, waiter_behind_a_plain_holder_of_ours_gets_a_token)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *a = plain(client), *b = fenced(client);
    acquired(a);
    struct actor *waiter = actor_start(b, NULL);
    WAIT_FOR_WAITERS(client, 1);
    released(a);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_gt(hlk_lock_token(b), 0);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(fenced, holder_passes_to_a_plain_waiter_who_has_no_token)
{
    hlk_client *client = fixture_open(NULL), *clients[2] = { client, fixture_open(NULL) };
    for (int i = 0; i < 2; i++) {
        hlk_lock *a = fenced(client), *b = plain(clients[i]);
        acquired(a);
        struct actor *waiter = actor_start(b, NULL);
        WAIT_FOR_WAITERS(clients[i], 1);
        released(a);
        cr_assert_eq(actor_status(waiter), HLK_OK);
        cr_assert_eq(hlk_lock_token(b), 0);
        cr_assert_eq(actor_end(waiter), HLK_OK);
    }
}

Test(fenced, broken_lock_goes_to_the_next_with_a_larger_token)
{
    hlk_lock *a = fenced(fixture_open(NULL)), *b = fenced(fixture_open(NULL));
    int64_t first = acquired(a);
    struct actor *waiter = actor_start(b, NULL);
    waits_in_redis(1);
    cr_assert_eq(hlk_lock_break(plain(fixture_open(NULL))), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_gt(hlk_lock_token(b), first);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(hlk_lock_release(a), HLK_LOST);
}

/* --- the floor */

Test(fenced, tokens_exceed_the_floor_even_if_redis_forgot)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *a = fenced(client), *b = handle(client, HLK_LOCK_FENCED, 1000);
    token_of(a);
    cr_assert_gt(token_of(b), 1000);
    int64_t last = token_of(a);
    cr_assert_gt(last, 1001, "the floor of one is the server's");
    raw(fixture.redis, "FLUSHALL");
    cr_assert_leq(token_of(a), last, "forgotten");
    cr_assert_gt(token_of(b), 1000);
}

Test(fenced, floor_holds_for_grants_too)
{
    hlk_client *other = fixture_open(NULL);
    hlk_lock *a = fenced(fixture_open(NULL)), *b = handle(other, HLK_LOCK_FENCED, 1000);
    acquired(a);
    struct actor *waiter = actor_start(b, NULL);
    waits_in_redis(1);
    released(a);
    cr_assert_eq(actor_status(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(other).granted, 1u);
    cr_assert_gt(hlk_lock_token(b), 1000);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

Test(fenced, floor_of_2_to_the_52nd_still_counts)
{
    const int64_t most = INT64_C(1) << 52;
    hlk_lock *lock = handle(fixture_open(NULL), HLK_LOCK_FENCED, most);
    cr_assert_eq(token_of(lock), most + 1);
    cr_assert_eq(token_of(lock), most + 2);
}

/* --- many at once */

struct record { /* the tokens in the order of the holds, written under the lock; shared between processes */
    atomic_size_t n;
    int64_t tokens[1 << 14];
    atomic_int faults;
};

struct taker {
    pthread_t thread;
    hlk_client *client;
    struct record *record;
    int turns, kind;
};

static void *take_turns(void *arg)
{
    struct taker *me = arg;
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = me->kind;
    hlk_lock *lock = hlk_lock_create(me->client, "t", &opts);
    for (int i = 0; i < me->turns; i++) {
        if (hlk_lock_acquire(lock, HLK_FOREVER) != HLK_OK) {
            atomic_fetch_add(&me->record->faults, 1);
            break;
        }
        if (me->kind == HLK_LOCK_FENCED)
            me->record->tokens[atomic_fetch_add(&me->record->n, 1)] = hlk_lock_token(lock);
        else
            atomic_fetch_add(&me->record->faults, hlk_lock_token(lock) != 0);
        atomic_fetch_add(&me->record->faults, hlk_lock_release(lock) != HLK_OK);
    }
    hlk_lock_destroy(lock);
    return NULL;
}

static void take_turns_at_once(struct taker *takers, int n)
{
    for (int i = 0; i < n; i++)
        cr_assert_eq(pthread_create(&takers[i].thread, NULL, take_turns, &takers[i]), 0);
    for (int i = 0; i < n; i++)
        pthread_join(takers[i].thread, NULL);
}

static void grow(const struct record *record, size_t n)
{
    cr_assert_eq(atomic_load(&record->faults), 0);
    cr_assert_eq(atomic_load(&record->n), n);
    cr_assert_gt(record->tokens[0], 0);
    for (size_t i = 1; i < n; i++)
        cr_assert_gt(record->tokens[i], record->tokens[i - 1], "number %zu", i);
}

static struct record record;

Test(fenced, tokens_grow_from_thread_to_thread_without_redis)
{
    struct taker takers[4];
    hlk_client *client = fixture_open(NULL);
    for (int i = 0; i < 4; i++)
        takers[i] = (struct taker){ .client = client, .record = &record, .turns = 500, .kind = HLK_LOCK_FENCED };
    take_turns_at_once(takers, 4);
    grow(&record, 2000);
    cr_assert_gt(fixture_counters(client).passed, 0u);
}

Test(fenced, tokens_grow_with_mixed_handles_of_three_clients)
{
    struct taker takers[9];
    for (int c = 0; c < 3; c++) {
        hlk_client *client = fixture_open(NULL);
        for (int i = 0; i < 3; i++)
            takers[3 * c + i] = (struct taker){
                .client = client, .record = &record, .turns = 100, .kind = i == 0 ? HLK_LOCK_PLAIN : HLK_LOCK_FENCED
            };
    }
    take_turns_at_once(takers, 9);
    grow(&record, 600);
}

#if !STAGE_UNDER_TSAN
static _Noreturn void be_a_process(struct record *shared)
{
    struct taker takers[2];
    hlk_client *client;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (hlk_client_open(&client, fixture.url, NULL) != HLK_OK)
        _exit(1);
    for (int i = 0; i < 2; i++)
        takers[i] = (struct taker){ .client = client, .record = shared, .turns = 100, .kind = HLK_LOCK_FENCED };
    take_turns_at_once(takers, 2);
    hlk_client_close(client);
    _exit(0);
}

Test(fenced, tokens_grow_from_process_to_process)
{
    enum { PROCESSES = 3 };
    pid_t pids[PROCESSES];
    struct record *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(shared, MAP_FAILED);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            be_a_process(shared);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        cr_assert_eq(waitpid(pids[i], &status, 0), pids[i]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
    }
    grow(shared, (size_t)PROCESSES * 2 * 100);
    munmap(shared, sizeof *shared);
}
#endif

/* --- without waiting */

struct done {
    atomic_int runs;
    enum hlk_status status;
    int64_t token;
};

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct done *done = ctx;
    done->status = status;
    done->token = hlk_lock_token(lock);
    atomic_fetch_add(&done->runs, 1);
}

static int next_done(struct done *done, int n)
{
    for (int i = 0; i < n; i++)
        if (atomic_load(&done[i].runs) > 0)
            return i;
    return -1;
}

Test(fenced, completions_find_the_token_at_once_and_by_grant)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *a = fenced(client), *b = fenced(client), *c = fenced(fixture_open(NULL));
    hlk_lock *all[] = { a, b, c };
    struct done done[3] = { { .status = HLK_E_OS }, { .status = HLK_E_OS }, { .status = HLK_E_OS } };
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(hlk_lock_acquire_async(all[i], NULL, on_done, &done[i]), HLK_OK);
        WAIT_FOR(i > 0 || atomic_load(&done[0].runs) == 1);
        if (i == 1)
            WAIT_FOR_WAITERS(client, 1);
    }
    waits_in_redis(1);
    for (int turn = 0; turn < 3; turn++) {
        int now = -1; /* the order is of no interest to this test */
        WAIT_FOR((now = next_done(done, 3)) >= 0);
        cr_assert_eq(done[now].status, HLK_OK);
        cr_assert_gt(done[now].token, last);
        cr_assert_eq(hlk_lock_token(all[now]), done[now].token);
        last = done[now].token;
        cr_assert_eq(hlk_lock_release_async(all[now], NULL, NULL), HLK_OK);
        atomic_store(&done[now].runs, 0);
    }
}

/* --- what is refused */

Test(fenced, handles_with_nonsense_are_refused)
{
    hlk_client *client = fixture_open(NULL);
    const struct {
        int kind;
        int64_t floor;
    } bad[] = { { 100, 0 },
                { -1, 0 },
                { INT_MAX, 0 },
                { HLK_LOCK_FENCED, -1 },
                { HLK_LOCK_FENCED, (INT64_C(1) << 52) + 1 },
                { HLK_LOCK_FENCED, INT64_MAX } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.kind = bad[i].kind;
        opts.token_floor = bad[i].floor;
        cr_assert_null(hlk_lock_create(client, "t", &opts));
        cr_assert_eq(hlk_last_status(), HLK_E_INVALID);
    }
    cr_assert_eq(hlk_lock_token(NULL), 0);
}

Test(fenced, lock_whose_counter_is_no_number_is_not_acquired)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fenced(client);
    raw(fixture.redis, "SET redisson_lock_token:{t} text");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    raw(fixture.redis, "DEL redisson_lock_token:{t}");
    raw(fixture.redis, "RPUSH redisson_lock_token:{t} 1");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_SERVER);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    raw(fixture.redis, "DEL redisson_lock_token:{t}");
    cr_assert_gt(token_of(lock), 0);
    cr_assert_eq(hlk_lock_token(plain(client)), 0);
}
