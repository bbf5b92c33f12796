/* Readers of a process share a hold: no command while it is there, who ends that, losses, and what is not shared. */
/* Shows: P41, P55, S43 */
#include "integration/async_fixture.h"
#include "rwlock_fixture.h"

TestSuite(shared_reads, .init = rw_start, .fini = fixture_end, .timeout = 90);
TestSuite(shared_reads_events, .init = rw_start, .fini = fixture_end, .timeout = 90);
TestSuite(shared_reads_dispatch, .init = rw_start, .fini = fixture_end, .timeout = 90);

#define BOTH(name) IN_BOTH_MODES(shared_reads_events, shared_reads_dispatch, name)

enum { ATTEMPTS = 50 };

/* Four readers of one client: an owner each. A hold is shared for half a second, and only between readers that follow
 * each other within milliseconds: a machine that stands still ends that. So the tests try until it was so. */
static hlk_owner *owners[4];
static hlk_lock *readers[4];

static void make_readers(hlk_client *client)
{
    for (int i = 0; i < 4; i++) {
        owners[i] = hlk_owner_create(client, "reader");
        readers[i] = rw_half(client, HLK_LOCK_READ, owners[i]);
    }
}

static hlk_client *open_with(int watchdog_ms, int local_passes)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = watchdog_ms;
    opts.local_passes = local_passes;
    opts.yield_every = -1; /* no window, which would be left in the queue */
    return fixture_open(&opts);
}

static void drop_readers(void)
{
    for (int i = 0; i < 4; i++)
        hlk_owner_destroy(owners[i]);
}

static void begin_reading(int i)
{
    cr_assert_eq(hlk_lock_acquire(readers[i], HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
}

static void end_reading(int i)
{
    cr_assert_eq(hlk_lock_release(readers[i]), HLK_OK, "%s", hlk_last_error());
}

static bool has_same_hold(int i, int k)
{
    char one[192], other[192];
    cr_assert_eq(hlk_lock_hold_id(readers[i], one, sizeof one), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_hold_id(readers[k], other, sizeof other), HLK_OK, "%s", hlk_last_error());
    return strcmp(one, other) == 0;
}

/* True: readers 1 and 2 hold the lock by one hold. Else nobody holds it. */
static bool share_once(void)
{
    begin_reading(0);
    end_reading(0);
    begin_reading(1);
    begin_reading(2);
    if (has_same_hold(1, 2))
        return true;
    end_reading(1);
    end_reading(2);
    return false;
}

static void share(void)
{
    WAIT_FOR(share_once());
}

static void end_share(void)
{
    end_reading(1);
    end_reading(2);
}

/* --- without a command */

static bool reads_without_a_command(hlk_client *client)
{
    share();
    uint64_t before = fixture_counters(client).commands, acquired = fixture_counters(client).acquired;
    for (int i = 0; i < 10; i++) {
        begin_reading(3);
        end_reading(3);
    }
    uint64_t sent = fixture_counters(client).commands - before;
    cr_assert_eq(fixture_counters(client).acquired - acquired, 10u);
    end_share();
    return sent == 0;
}

Test(shared_reads, need_no_command)
{
    hlk_client *client = fixture_open(NULL);
    make_readers(client);
    WAIT_FOR(reads_without_a_command(client));
    drop_readers();
}

static bool is_one_reader_in_redis(void)
{
    share();
    bool one = raw_int(fixture.redis, "HLEN t") == 2; /* and its mode */
    end_share();
    return one;
}

Test(shared_reads, are_one_reader_in_redis)
{
    make_readers(fixture_open(NULL));
    WAIT_FOR(is_one_reader_in_redis());
    WAIT_FOR(raw_int(fixture.redis, "EXISTS t") == 0); /* released when nobody reads */
    drop_readers();
}

/* --- who ends that */

Test(shared_reads, end_for_a_writer_of_the_process)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client);
    make_readers(client);
    share();
    cr_assert_eq(fixture_try(writing), HLK_BUSY, "%s", hlk_last_error());
    end_share();
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    share();
    end_share();
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK, "what nobody has goes first: %s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    drop_readers();
}

/* True: by the message. After half a second it ends without one. */
static bool ends_for(hlk_lock *writing)
{
    share();
    int64_t began_ms = test_now_ms();
    struct actor *writer = rw_waiter(writing, 0);
    WAIT_FOR(hlk_lock_acquire(readers[3], HLK_NOWAIT) != HLK_OK || hlk_lock_release(readers[3]) != HLK_OK);
    bool early = test_now_ms() - began_ms < 400;
    end_share();
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(actor_end(writer), HLK_OK);
    return early;
}

Test(shared_reads, end_for_a_writer_by_its_message)
{
    make_readers(fixture_open(NULL));
    hlk_lock *writing = rw_writer(fixture_open(NULL));
    WAIT_FOR(ends_for(writing));
    drop_readers();
}

Test(shared_reads, end_for_a_writer_elsewhere)
{
    hlk_client *client = fixture_open(NULL);
    make_readers(client);
    share();
    struct actor *writer = rw_waiter(rw_writer(fixture_open(NULL)), 0);
    WAIT_FOR(hlk_lock_acquire(readers[3], HLK_NOWAIT) != HLK_OK || hlk_lock_release(readers[3]) != HLK_OK);
    cr_assert_not(actor_answered(writer));
    end_reading(1);
    cr_assert_not(actor_answered(writer));
    end_reading(2);
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(readers[0], HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(actor_end(writer), HLK_OK);
    drop_readers();
}

/* One message for a client, however many of its readers hold the lock. */
Test(shared_reads, end_by_a_message)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    redisContext *inbox = raw_open(fixture.server);
    hlk_lock *reading = rw_reader(client);
    raw(inbox, "SUBSCRIBE hasplock_inbox:%s", hlk_client_id(client));
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    struct actor *writer = rw_waiter(rw_writer(elsewhere), 0);
    const char *said = raw_next(inbox);
    cr_assert_not_null(said);
    cr_assert_not_null(strstr(said, "\"rwant "), "%s", said);
    cr_assert_not_null(strstr(said, " 0 0 t\""), "%s", said);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(actor_end(writer), HLK_OK);
    redisFree(inbox);
}

Test(shared_reads, do_not_begin_while_java_waits)
{
    make_readers(open_with(30000, 128));
    share();
    end_share();
    redisContext *java = raw_open(fixture.server);
    raw(java, "SUBSCRIBE redisson_rwlock:{t}");
    WAIT_FOR(raw_int(fixture.redis, "EXISTS t") == 0);
    for (int i = 0; i < ATTEMPTS; i++)
        cr_assert_not(share_once());
    redisFree(java);
    share();
    end_share();
    drop_readers();
}

/* Redisson's tryLock of the write half. */
static bool java_takes_it(void)
{
    return raw_int(fixture.redis, "EVAL %s 1 t",
                   "if redis.call('exists', KEYS[1]) == 1 then return 0 end "
                   "redis.call('hset', KEYS[1], 'mode', 'write', '" JAVA ":write', '1') "
                   "redis.call('pexpire', KEYS[1], '30000') return 1") == 1;
}

Test(shared_reads, let_a_writer_of_javas_in)
{
    make_readers(open_with(30000, 128));
    share();
    redisContext *java = raw_open(fixture.server);
    raw(java, "SUBSCRIBE redisson_rwlock:{t}");
    end_share();
    int64_t started_ms = test_now_ms();
    while (!java_takes_it()) { /* readers follow each other */
        for (int i = 0; i < 4; i++) {
            begin_reading(i);
            end_reading(i);
        }
        cr_assert_lt(test_now_ms() - started_ms, WAIT_MS);
    }
    cr_assert_eq(hlk_lock_acquire(readers[0], HLK_NOWAIT), HLK_BUSY);
    raw(fixture.redis, "DEL t");
    redisFree(java);
    drop_readers();
}

/* --- losses and ends */

Test(shared_reads, are_lost_by_all)
{
    make_readers(open_with(3000, 128));
    share();
    raw(fixture.redis, "DEL t");
    WAIT_FOR(fixture_events(HLK_EVENT_LOST, "t") == 2);
    for (int i = 1; i < 3; i++) {
        cr_assert_eq(hlk_lock_acquire(readers[i], HLK_NOWAIT), HLK_LOST);
        cr_assert_eq(hlk_lock_release(readers[i]), HLK_LOST);
        cr_assert_eq(hlk_lock_release(readers[i]), HLK_NOT_HOLDER);
    }
    begin_reading(1);
    end_reading(1);
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0); /* the lease of the lost hold */
    drop_readers();
}

Test(shared_reads, are_broken_together)
{
    hlk_client *elsewhere = fixture_open(NULL);
    make_readers(open_with(3000, 128));
    share();
    cr_assert_eq(hlk_lock_break(rw_reader(elsewhere)), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(fixture_events(HLK_EVENT_LOST, "t") == 2);
    for (int i = 1; i < 3; i++)
        cr_assert_eq(hlk_lock_release(readers[i]), HLK_LOST);
    drop_readers();
}

Test(shared_reads, are_released_by_close)
{
    hlk_client *client = fixture_open(NULL);
    make_readers(client);
    share();
    drop_readers();
    fixture_close(client);
    WAIT_FOR(raw_int(fixture.redis, "DBSIZE") == 0);
}

Test(shared_reads, that_nobody_has_are_released_by_close)
{
    hlk_client *client = fixture_open(NULL);
    make_readers(client);
    share();
    end_share();
    drop_readers();
    fixture_close(client);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

/* --- nesting, and what is not shared */

Test(shared_reads, nest_and_know_their_holder)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *upgrade = rw_half(client, HLK_LOCK_WRITE, NULL);
    make_readers(client);
    share();
    begin_reading(1);
    cr_assert_eq(hlk_lock_holds(readers[1]), 2);
    cr_assert_eq(hlk_lock_holds(readers[2]), 1);
    cr_assert_eq(hlk_lock_holds(readers[3]), 0);
    cr_assert_gt(hlk_lock_left_ms(readers[2]), 20000);
    hlk_lock *own = rw_half(client, HLK_LOCK_WRITE, owners[1]);
    cr_assert_eq(hlk_lock_acquire(own, HLK_FOREVER), HLK_DEADLOCK);
    end_reading(1);
    end_share();
    cr_assert_eq(hlk_lock_release(readers[1]), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(upgrade, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(upgrade), HLK_OK);
    drop_readers();
}

Test(shared_reads, are_not_those_with_a_fixed_lease)
{
    make_readers(fixture_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 60000;
    share();
    cr_assert_eq(hlk_lock_acquire_with(readers[3], &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_not(has_same_hold(1, 3));
    end_reading(3);
    end_share();
    drop_readers();
}

Test(shared_reads, are_not_that_of_a_writer_who_reads)
{
    hlk_client *client = fixture_open(NULL);
    make_readers(client);
    hlk_lock *writing = rw_half(client, HLK_LOCK_WRITE, owners[3]);
    share();
    end_share();
    cr_assert_eq(hlk_lock_acquire(writing, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    begin_reading(3);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_str_eq(rw_mode(), "read");
    share();
    cr_assert_not(has_same_hold(1, 3));
    end_share();
    end_reading(3);
    drop_readers();
}

Test(shared_reads, are_none_without_local_passes)
{
    make_readers(open_with(30000, -1));
    for (int i = 0; i < ATTEMPTS; i++)
        cr_assert_not(share_once());
    drop_readers();
}

/* --- completions */

BOTH(enters_and_leaves_by_completions)
{
    static struct done reads, released;
    make_readers(client);
    for (bool same = false; !same;) {
        memset(&reads, 0, sizeof reads);
        memset(&released, 0, sizeof released);
        share();
        acquire(readers[3], HLK_FOREVER, NULL, &reads);
        cr_assert_eq(result(&reads), HLK_OK, "%s", reads.error);
        same = has_same_hold(1, 3);
        release(readers[3], &released);
        cr_assert_eq(result(&released), HLK_OK, "%s", released.error);
        end_share();
    }
    drop_readers();
}
