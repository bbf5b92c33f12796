/* Several acquires, or several releases, are sent as one command (docs/decisions/combining.md). That command is cut,
 * swallowed or late as a whole, and each of its callers gets the true result for its own lock.
 *
 * asks A4 redisson 7367, PR 7368, 4178, 4109: reply lost or late, script sent again: counts and ownership always agree
 * with the caller's view. */
#include "fixture.h"

#include <poll.h>
#include <stdio.h>

enum { MANY = 6, MOST_K = 16 };

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(many, .init = start, .fini = fixture_end, .timeout = 120);

static hlk_client *client;
static hlk_owner *owner;
static struct one {
    char name[24];
    hlk_lock *lock;
    int runs;
    enum hlk_status status;
} all[MANY];

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct one *one = ctx;
    one->status = status;
    one->runs++;
}

static bool are_done(void)
{
    struct pollfd fd = { hlk_client_fd(client), POLLIN, 0 };
    if (poll(&fd, 1, 5) == 1)
        hlk_client_dispatch(client, 0);
    bool done = true;
    for (int i = 0; i < MANY; i++)
        done = done && all[i].runs > 0;
    return done;
}

static void begin(int k)
{
    struct hlk_client_opts opts = fault_opts();
    opts.flags = HLK_OPEN_DISPATCH;
    client = fixture_open(&opts);
    owner = hlk_owner_create(client, "many");
    for (int i = 0; i < MANY; i++) {
        snprintf(all[i].name, sizeof all[i].name, "t%d-%d", k, i);
        all[i].lock = fixture_owned(client, all[i].name, owner);
    }
}

static void end(void)
{
    hlk_owner_destroy(owner);
    fixture_close(client);
}

/* Each call returns, and its status is true. `held`: by another client. */
static void acquire_all(bool held)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = HLK_NOWAIT;
    for (int i = 0; i < MANY; i++) {
        all[i].runs = 0;
        cr_assert_eq(hlk_lock_acquire_async(all[i].lock, &opts, on_done, &all[i]), HLK_OK);
    }
    WAIT_FOR(are_done());
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(all[i].runs, 1);
        cr_assert((!held && all[i].status == HLK_OK) || NOT_GOT(all[i].status), "%s", hlk_status_name(all[i].status));
        cr_assert_eq(hlk_lock_holds(all[i].lock), all[i].status == HLK_OK);
        const char *said = all[i].status == HLK_OK ? disagreement(all[i].lock, all[i].name, 1) : NULL;
        cr_assert_null(said, "%s: Redis has %s", all[i].name, said);
    }
}

/* Releases those that hold, until each outcome is known. */
static void release_all(void)
{
    char holds[MANY][192];
    for (int i = 0; i < MANY; i++) {
        snprintf(holds[i], sizeof holds[i], "%s", hold_of(all[i].lock));
        all[i].runs = all[i].status != HLK_OK;
        if (all[i].status == HLK_OK)
            cr_assert(ONE_OF(hlk_lock_release_async(all[i].lock, on_done, &all[i]), HLK_OK));
    }
    WAIT_FOR(are_done());
    for (int i = 0; i < MANY; i++) {
        while (holds[i][0] && UNKNOWN(all[i].status))
            all[i].status = hlk_lock_release(all[i].lock);
        cr_assert(!holds[i][0] || ONE_OF(all[i].status, HLK_OK, HLK_LOST), "%s", hlk_status_name(all[i].status));
        cr_assert(!holds[i][0] || !is_held(all[i].name, holds[i]));
        cr_assert_eq(hlk_lock_holds(all[i].lock), 0);
    }
}

/* What is still in flight affects no later hold. */
static void expect_later_holds_safe(void (*meanwhile)(void))
{
    hlk_client *other = bystander();
    hlk_lock *theirs[MANY];
    for (int i = 0; i < MANY; i++)
        WITHIN(FREE_MS, is_free(all[i].name));
    for (int i = 0; i < MANY; i++)
        theirs[i] = held_by_bystander(other, all[i].name, 60000);
    meanwhile();
    acquire_all(true);
    for (int i = 0; i < MANY; i++) {
        cr_assert(is_held(all[i].name, hold_of(theirs[i])));
        cr_assert_gt(raw_pttl(fixture.redis, all[i].name), 50000);
        cr_assert_eq(hlk_lock_release(theirs[i]), HLK_OK);
    }
    fixture_close(other);
}

static void nothing(void)
{
}

static void deliver(void)
{
    proxy_deliver(fixture.proxy, false);
}

static bool struck_at(enum proxy_fault fault, int k)
{
    begin(k);
    proxy_arm(fixture.proxy, fault, PROXY_SCRIPTS, (uint64_t)k);
    uint64_t commands = fixture_counters(client).commands;
    acquire_all(false);
    release_all();
    bool struck = proxy_struck(fixture.proxy);
    cr_assert(struck || fixture_counters(client).commands - commands <= MANY, "they did not leave together");
    proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    expect_later_holds_safe(fault == PROXY_HOLD ? deliver : nothing);
    end();
    return struck;
}

static void for_every_k(enum proxy_fault fault)
{
    int k = 1;
    while (k < MOST_K && struck_at(fault, k))
        k++;
    cr_assert_geq(k, 3, "the acquires and the releases");
    cr_assert_lt(k, MOST_K);
}

Test(many, are_cut_off_before_the_server_has_them)
{
    for_every_k(PROXY_CUT_BEFORE);
}

Test(many, are_cut_off_after_the_server_has_run_them)
{
    for_every_k(PROXY_CUT_AFTER);
}

Test(many, are_not_answered)
{
    for_every_k(PROXY_SWALLOW);
}

Test(many, are_late)
{
    for_every_k(PROXY_HOLD);
}
