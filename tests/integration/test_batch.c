/* Simultaneous commands of many threads, or of one that does not wait, are sent as few commands
 * (docs/decisions/combining.md), and each gets the reply that it would get unbatched. */
#include "integration/async_fixture.h"
#include "support/acl.h"
#include "support/history.h"

static void start(void)
{
    fixture_begin(0);
}

TestSuite(many, .init = start, .fini = fixture_end, .timeout = 90);

enum { MANY = 32 };

static hlk_client *client;
static hlk_owner *owner;
static hlk_lock *locks[MANY];
static struct done done[MANY];

static void begin_as(const char *user)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.username = opts.password = user;
    opts.flags = HLK_OPEN_DISPATCH;
    dispatching = true;
    loop_client = client = fixture_open(&opts);
    owner = hlk_owner_create(client, "many");
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        locks[i] = fixture_owned(client, name, owner);
    }
}

static void begin(void)
{
    begin_as(NULL);
}

/* Acquires all at once. The caller checks each status. */
static uint64_t acquire_all(void)
{
    uint64_t commands = fixture_counters(client).commands;
    memset(done, 0, sizeof done);
    for (int i = 0; i < MANY; i++)
        acquire(locks[i], HLK_NOWAIT, NULL, &done[i]);
    for (int i = 0; i < MANY; i++)
        (void)result(&done[i]);
    return fixture_counters(client).commands - commands;
}

static uint64_t release_all(void)
{
    uint64_t commands = fixture_counters(client).commands;
    memset(done, 0, sizeof done);
    for (int i = 0; i < MANY; i++)
        release(locks[i], &done[i]);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(result(&done[i]), HLK_OK);
    return fixture_counters(client).commands - commands;
}

static void expect_all_held(void)
{
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(done[i].status, HLK_OK, "%d: %s", i, done[i].error);
        cr_assert_eq(hlk_lock_holds(locks[i]), 1);
        cr_assert_eq(raw_int(fixture.redis, "HLEN t%d", i), 1);
        cr_assert_gt(raw_int(fixture.redis, "PTTL t%d", i), WAIT_MS);
    }
}

Test(many, leave_as_few_commands)
{
    begin();
    (void)acquire_all(); /* the server may not know the script before this */
    expect_all_held();
    (void)release_all();
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    cr_assert_leq(acquire_all(), MANY / 4);
    expect_all_held();
    cr_assert_leq(release_all(), MANY / 4);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    hlk_owner_destroy(owner);
}

/* After each was sent unbatched, the script is there again. */
Test(many, get_over_a_server_that_lost_its_scripts)
{
    begin();
    (void)acquire_all();
    (void)release_all();
    raw(fixture.redis, "SCRIPT FLUSH");
    (void)acquire_all();
    expect_all_held();
    cr_assert_leq(release_all(), MANY / 4);
    raw(fixture.redis, "SCRIPT FLUSH");
    (void)acquire_all();
    expect_all_held();
    raw(fixture.redis, "SCRIPT FLUSH");
    (void)release_all();
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
    hlk_owner_destroy(owner);
}

/* Locks that are held by others, waited for, or no locks at all: each gets its own status, and the rest are
 * acquired. */
Test(many, are_each_told_their_own)
{
    begin();
    hlk_lock *held = fixture_held_elsewhere("t3", 0), *wanted = fixture_held_elsewhere("t7", 0);
    struct actor *waiter = actor_start(fixture_lock(fixture_open(NULL), "t7", NULL), NULL);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t7}") == 1);
    raw(fixture.redis, "HSET t11 b983c153-7421-469a-addb-44fb92259a1b:1 1"); /* without a ttl */
    raw(fixture.redis, "SET t13 data");
    (void)acquire_all();
    for (int i = 0; i < MANY; i++) {
        enum hlk_status expected = i == 3 || i == 7 || i == 11 ? HLK_BUSY : i == 13 ? HLK_E_SERVER : HLK_OK;
        cr_assert_eq(done[i].status, expected, "t%d: %s %s", i, hlk_status_name(done[i].status), done[i].error);
    }
    cr_assert_not_null(strstr(done[13].error, "\"t13\""), "%s", done[13].error);
    cr_assert_eq(hlk_lock_release(wanted), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    raw(fixture.redis, "DEL t11 t13");
    for (int i = 0; i < MANY; i++)
        if (done[i].status == HLK_OK)
            cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK);
    hlk_owner_destroy(owner);
}

/* Redisson's waiters have no ticket. They are subscribed to the channel. */
Test(many, releases_wake_whoever_listens)
{
    begin();
    (void)acquire_all();
    redisContext *sub = raw_open(fixture.server);
    for (int i = 0; i < MANY; i++)
        raw(sub, "SUBSCRIBE redisson_lock__channel:{t%d}", i);
    (void)release_all();
    for (int i = 0; i < MANY; i++) {
        const char *message = raw_next(sub);
        cr_assert_not_null(strstr(message, "\"0\"]"), "%s", message);
    }
    redisFree(sub);
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0); /* the yield windows */
    hlk_owner_destroy(owner);
}

/* The user may not touch one of the names. The other locks of that command must not suffer. */
Test(many, a_refused_name_keeps_no_other_from_its_lock)
{
    raw(fixture.redis, "ACL SETUSER few on >few ~t1* ~hasplock_queue:{t1* " ACL_CHANNELS " " ACL_COMMANDS);
    begin_as("few");
    for (int round = 0; round < 6; round++) { /* also while they are sent unbatched because of it, and afterwards */
        (void)acquire_all();
        for (int i = 0; i < MANY; i++) {
            bool may = i == 1 || (i >= 10 && i < 20);
            cr_assert_eq(done[i].status, may ? HLK_OK : HLK_E_AUTH, "t%d: %s", i, hlk_status_name(done[i].status));
            if (may)
                cr_assert_eq(hlk_lock_release(locks[i]), HLK_OK);
        }
    }
    hlk_owner_destroy(owner);
}

/* --- threads */

enum { THREADS = 48, LOCKS = 12, TURNS = 60 };

struct player {
    pthread_t thread;
    struct history *history;
    hlk_lock *locks[LOCKS];
    int who;
};

static void *play(void *arg)
{
    struct player *me = arg;
    for (int i = 0; i < TURNS; i++) {
        int at = (me->who * 7 + i * (me->who % 5 + 1)) % LOCKS;
        hlk_lock *lock = me->locks[at];
        if (hlk_lock_acquire(lock, WAIT_MS) != HLK_OK)
            test_give_up("acquire: %s", hlk_last_error());
        struct hold *hold = history_acquired(me->history, me->who, at, hlk_lock_held_until(lock));
        history_released(hold);
        if (hlk_lock_release(lock) != HLK_OK)
            test_give_up("release: %s", hlk_last_error());
    }
    return NULL;
}

/* Some locks have waiters, some do not. The server loses its scripts from time to time. */
Test(many, threads_hold_one_after_the_other)
{
    static struct player players[THREADS];
    struct history *history = history_create(THREADS * TURNS);
    hlk_client *clients[2] = { fixture_open(NULL), fixture_open(NULL) };
    for (int i = 0; i < THREADS; i++) {
        players[i].who = i;
        players[i].history = history;
        for (int k = 0; k < LOCKS; k++) {
            char name[32];
            snprintf(name, sizeof name, "t%d", k);
            players[i].locks[k] = fixture_lock(clients[i % 2], name, NULL);
        }
        cr_assert_eq(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    }
    for (size_t at = 0; history_count(history) < (size_t)THREADS * TURNS * 3 / 4; at += 100) {
        WAIT_FOR(history_count(history) >= at);
        raw(fixture.redis, "SCRIPT FLUSH");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(players[i].thread, NULL);
    cr_assert_eq(history_count(history), (size_t)THREADS * TURNS);
    cr_assert(history_check(history));
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0);
    history_destroy(history);
}
