/* The read/write lock: leases of readers and writers, dead ones, faults, and what Redisson's clients leave in it. */
/* Shows: P41 */
#include "rwlock_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(rwlock_lease, .init = rw_start, .fini = fixture_end, .timeout = 90);
TestSuite(rwlock_wire, .init = rw_start_proxied, .fini = fixture_end, .timeout = 90);

static hlk_client *open_with_watchdog(int64_t ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = ms;
    return fixture_open(&opts);
}

static hlk_lock *half_for(hlk_client *client, int kind, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    opts.lease_ms = lease_ms;
    return fixture_lock(client, "t", &opts);
}

static const char *hold_of(const hlk_lock *lock)
{
    static char hold[192];
    cr_assert_eq(hlk_lock_hold_id(lock, hold, sizeof hold), HLK_OK, "%s", hlk_last_error());
    return hold;
}

/* --- leases */

/* Redisson 6: a renewal shortens the key to its own lease; the reader with the longer one loses the lock. */
/* Shows: P43 */
Test(rwlock_lease, of_a_reader_is_not_shortened_by_anothers_renewal)
{
    hlk_client *brief = open_with_watchdog(3000), *client = fixture_open(NULL);
    hlk_lock *quick = rw_reader(brief), *lasting = half_for(client, HLK_LOCK_READ, 60000);
    cr_assert_eq(hlk_lock_acquire(lasting, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(quick, HLK_NOWAIT), HLK_OK);
    WAIT_FOR(fixture_counters(brief).renewals >= 3);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 40000);
    cr_assert_gt(rw_lease(hold_of(lasting)), 40000);
    cr_assert_leq(rw_lease(hold_of(quick)), 3000);
    cr_assert_gt(rw_lease(hold_of(quick)), 0);
    cr_assert_eq(hlk_lock_release(quick), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 40000);
    cr_assert_eq(hlk_lock_release(lasting), HLK_OK);
}

/* The other way round: a long lease that was given back blocks nobody when the others die. */
Test(rwlock_lease, of_the_lock_is_the_longest_of_those_that_remain)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *lasting = half_for(client, HLK_LOCK_READ, 60000), *brief = half_for(elsewhere, HLK_LOCK_READ, 8000);
    cr_assert_eq(hlk_lock_acquire(lasting, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(brief, HLK_NOWAIT), HLK_OK);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 40000);
    cr_assert_eq(hlk_lock_release(lasting), HLK_OK);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 8000);
    cr_assert_eq(hlk_lock_release(brief), HLK_OK);
}

/* An acquire sets the reader's own ttl first, then that of the hash. When the server stands still in between, the
 * second is longer. */
Test(rwlock_lease, of_the_lock_is_shortened_though_it_was_set_slowly)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *lasting = half_for(client, HLK_LOCK_READ, 60000), *brief = half_for(elsewhere, HLK_LOCK_READ, 8000);
    cr_assert_eq(hlk_lock_acquire(lasting, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(brief, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "PEXPIRE t %d", (int)rw_lease(hold_of(lasting)) + 500);
    cr_assert_eq(hlk_lock_release(lasting), HLK_OK);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 8000);
    cr_assert_eq(hlk_lock_release(brief), HLK_OK);
}

/* Redisson 7: holds of a writer add up their leases, and giving one back sets another one. */
/* Shows: P44 */
Test(rwlock_lease, of_a_nested_writer_is_the_longest_and_not_the_sum)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *writing = half_for(client, HLK_LOCK_WRITE, 10000);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 10000);
    cr_assert_eq(raw_int(fixture.redis, "HGET t %s:write", hold_of(writing)), 3);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 10000);
    cr_assert_eq(raw_int(fixture.redis, "HGET t %s:write", hold_of(writing)), 2);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
}

Test(rwlock_lease, of_a_nested_reader_is_raised_and_extended)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *reading = half_for(client, HLK_LOCK_READ, 10000);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 40000;
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire_with(reading, &opts), HLK_OK);
    cr_assert_gt(rw_lease(hold_of(reading)), 30000);
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 30000);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(hlk_lock_extend(reading, 90000), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(rw_lease(hold_of(reading)), 80000);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

/* Redisson 33: releasing the read half beside the write half ends the renewal of the write half. */
/* Shows: P44 */
Test(rwlock_lease, of_a_writer_is_renewed_after_it_stops_reading)
{
    hlk_client *client = open_with_watchdog(3000);
    hlk_lock *writing = rw_writer(client), *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    uint64_t before = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= before + 5);
    cr_assert_gt(hlk_lock_left_ms(writing), 0);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
}

Test(rwlock_lease, of_readers_of_a_downgrade_is_renewed)
{
    hlk_client *client = open_with_watchdog(3000);
    hlk_lock *writing = rw_writer(client), *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    uint64_t before = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= before + 5);
    cr_assert_gt(hlk_lock_left_ms(reading), 0);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
}

/* A reader whose lease is over is not revived while others keep the hash. */
Test(rwlock_lease, that_is_over_is_lost_although_others_read_on)
{
    hlk_client *client = open_with_watchdog(600), *elsewhere = fixture_open(NULL);
    hlk_lock *mine = rw_reader(client), *other = rw_reader(elsewhere);
    cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(mine, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL {t}:%s:rwlock_timeout:1", hold_of(mine));
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_acquire(mine, HLK_NOWAIT), HLK_LOST);
    cr_assert_eq(hlk_lock_release(mine), HLK_LOST);
    cr_assert_gt(hlk_lock_left_ms(other), 0);
    WAIT_FOR(raw_int(fixture.redis, "HLEN t") == 2);
    cr_assert_eq(hlk_lock_acquire(mine, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(mine), HLK_OK);
    cr_assert_eq(hlk_lock_release(other), HLK_OK);
}

/* Redisson 31: dead readers stay in the hash. Here they block for their own lease, and leave with the next reader. */
/* Shows: P43 */
Test(rwlock_lease, of_a_dead_reader_ends_with_it)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    rw_java_reads(60000);
    hlk_lock *reading = half_for(client, HLK_LOCK_READ, 70000);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL {t}:" JAVA ":rwlock_timeout:1"); /* its lease is over, and it is gone */
    struct actor *writer = rw_waiter(rw_writer(elsewhere), 0);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "HEXISTS t " JAVA), 0);
    cr_assert_eq(actor_end(writer), HLK_OK);
}

/* --- beside Redisson's clients */

Test(rwlock_lease, readers_beside_those_of_redisson)
{
    hlk_client *client = fixture_open(NULL);
    rw_java_reads(60000);
    cr_assert_eq(fixture_try(rw_writer(client)), HLK_BUSY);
    hlk_lock *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_gt(raw_pttl(fixture.redis, "t"), 40000);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    cr_assert_str_eq(rw_mode(), "read");
    cr_assert_eq(raw_int(fixture.redis, "HGET t " JAVA), 1);
    raw(fixture.redis, "DEL t {t}:" JAVA ":rwlock_timeout:1");
}

/* Redisson's renewal of a reader sets the ttl of the lock to its own lease, whatever others have. If that reader dies,
 * a fixed lease of ours would end with it. */
Test(rwlock_lease, that_is_fixed_is_kept_though_redisson_shortens_it)
{
    hlk_lock *reading = half_for(fixture_open(NULL), HLK_LOCK_READ, 60000);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    int64_t left = hlk_lock_left_ms(reading);
    raw(fixture.redis, "HSET t " JAVA " 1");
    raw(fixture.redis, "PEXPIRE t 30000");
    WAIT_FOR(raw_pttl(fixture.redis, "t") > 40000);
    cr_assert_leq(raw_pttl(fixture.redis, "t"), 60000);
    cr_assert_leq(hlk_lock_left_ms(reading), left, "it ends no later by that");
    raw(fixture.redis, "HDEL t " JAVA);
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
}

/* The last to leave is Redisson's, which tells the channel only: whoever is first has to subscribe by then. */
Test(rwlock_lease, first_waiter_hears_the_last_readers_of_redisson)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    hlk_lock *reading = rw_reader(client);
    cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK);
    struct actor *writer = rw_waiter(rw_writer(elsewhere), 0);
    raw(fixture.redis, "HSET t " JAVA " 1"); /* comes in: it does not know the queue */
    raw(fixture.redis, "SET {t}:" JAVA ":rwlock_timeout:1 1 PX 60000");
    cr_assert_eq(hlk_lock_release(reading), HLK_OK);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB redisson_rwlock:{t}"), ":1]") != NULL);
    raw(fixture.redis, "DEL t {t}:" JAVA ":rwlock_timeout:1");
    raw(fixture.redis, "PUBLISH redisson_rwlock:{t} 0");
    cr_assert_eq(actor_status(writer), HLK_OK);
    cr_assert_lt(actor_running_ms(writer), 4500, "by the message");
    cr_assert_eq(actor_end(writer), HLK_OK);
}

Test(rwlock_lease, all_waiters_hear_a_writer_of_redisson)
{
    hlk_client *client = fixture_open(NULL), *elsewhere = fixture_open(NULL);
    rw_java_writes(60000);
    struct actor *one = rw_waiter(rw_reader(client), 0), *two = rw_waiter(rw_reader(elsewhere), 1);
    WAIT_FOR(strstr(raw(fixture.redis, "PUBSUB NUMSUB redisson_rwlock:{t}"), ":2]") != NULL);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_rwlock:{t} 1");
    cr_assert_eq(actor_status(one), HLK_OK);
    cr_assert_eq(actor_status(two), HLK_OK);
    cr_assert_lt(actor_running_ms(two), 4500, "by the message");
    cr_assert_eq(actor_end(one), HLK_OK);
    cr_assert_eq(actor_end(two), HLK_OK);
}

/* A hash of another kind is refused, not waited for: it would never end. */
Test(rwlock_lease, of_a_hash_that_is_no_such_lock)
{
    hlk_client *client = fixture_open(NULL);
    raw(fixture.redis, "HSET t some data");
    hlk_lock *halves[] = { rw_reader(client), rw_writer(client) };
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(hlk_lock_acquire(halves[i], 1000), HLK_E_SERVER, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_break(halves[i]), HLK_E_SERVER);
    }
    cr_assert_eq(raw_int(fixture.redis, "HLEN t"), 1);
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "SET t text");
    cr_assert_eq(hlk_lock_acquire(halves[0], 1000), HLK_E_SERVER);
    raw(fixture.redis, "DEL t");
}

/* --- the dead */

static pid_t fork_waiter(int kind)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = kind;
    hlk_client *client;
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK)
        _exit(1);
    hlk_lock *lock = hlk_lock_create(client, "t", &lock_opts);
    _exit(hlk_lock_acquire(lock, HLK_FOREVER) == HLK_OK ? 0 : 2);
}

/* A writer that was killed while it waited keeps no reader out. */
Test(rwlock_lease, readers_pass_over_waiters_that_were_killed)
{
    if (STAGE_UNDER_TSAN)
        return;
    raw(fixture.redis, "HSET t mode write b983c153-7421-469a-addb-44fb92259a1b:1:write 1");
    pid_t dead[3];
    for (int i = 0; i < 3; i++) {
        dead[i] = fork_waiter(i == 1 ? HLK_LOCK_READ : HLK_LOCK_WRITE);
        WAIT_FOR(rw_queued() == i + 1);
    }
    for (int i = 0; i < 3; i++) {
        kill(dead[i], SIGKILL);
        waitpid(dead[i], NULL, 0);
    }
    WAIT_FOR(raw_inboxes(fixture.redis) == 0);
    raw(fixture.redis, "DEL t");
    hlk_client *client = fixture_open(NULL);
    cr_assert_eq(fixture_try(rw_reader(client)), HLK_OK);
    cr_assert_eq(raw_int(fixture.redis, "EXISTS " RW_QUEUE), 0);
}

/* --- faults */

/* The reply is lost after the script ran: the hold is the same in the next attempt, and is taken once. Redisson 1: its
 * attempt takes a second hold. */
/* Shows: P45 */
Test(rwlock_wire, holds_once_when_a_reply_is_lost)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *halves[] = { rw_reader(client), rw_writer(client) };
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(hlk_lock_acquire(halves[i], HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(halves[i]), HLK_OK);
        proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_lock_acquire(halves[i], HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        cr_assert(proxy_struck(fixture.proxy));
        cr_assert_eq(raw_int(fixture.redis, "HLEN t"), 2);
        proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_lock_release(halves[i]), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
    }
}

/* An attempt that the network delivers after the hold has ended does not revive it. */
Test(rwlock_wire, is_not_acquired_by_an_attempt_that_comes_late)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 200;
    static const int kinds[] = { HLK_LOCK_READ, HLK_LOCK_WRITE };
    for (int i = 0; i < 2; i++) {
        hlk_client *client = fixture_open(&opts);
        hlk_lock *lock = rw_half(client, kinds[i], NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
        proxy_arm(fixture.proxy, PROXY_HOLD, PROXY_SCRIPTS, 1);
        cr_assert_eq(hlk_lock_acquire(lock, 100), HLK_TIMEOUT, "%s", hlk_last_error());
        WAIT_FOR(raw_int(fixture.redis, "EXISTS " RW_QUEUE) == 1); /* the tombstone: its release was answered */
        proxy_deliver(fixture.proxy, true);
        cr_assert_eq(raw_int(fixture.redis, "EXISTS t"), 0);
        fixture_close(client);
        raw(fixture.redis, "DEL " RW_QUEUE);
    }
}

/* Without any message waits end by their polls. */
Test(rwlock_wire, is_acquired_although_all_messages_are_lost)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *writing = rw_writer(client);
    cr_assert_eq(hlk_lock_acquire(writing, HLK_NOWAIT), HLK_OK);
    struct actor *one = rw_waiter(rw_reader(client), 0), *two = rw_waiter(rw_reader(client), 1);
    proxy_drop_messages(fixture.proxy, true);
    cr_assert_eq(hlk_lock_release(writing), HLK_OK);
    cr_assert_eq(actor_status(one), HLK_OK);
    cr_assert_eq(actor_status(two), HLK_OK);
    proxy_drop_messages(fixture.proxy, false);
    cr_assert_eq(actor_end(one), HLK_OK);
    cr_assert_eq(actor_end(two), HLK_OK);
}

/* --- many at once */

enum { THREADS = 64, TURNS = 40, CLIENTS = 4 };

static struct {
    hlk_lock *reading[CLIENTS], *writing[CLIENTS];
    atomic_int readers, writers, most_readers, wrong, failed;
    long plain; /* what writers protect */
} workers;

static void hold_to_write(hlk_lock *lock)
{
    if (hlk_lock_acquire(lock, HLK_FOREVER) != HLK_OK) {
        atomic_fetch_add(&workers.failed, 1);
        return;
    }
    if (atomic_fetch_add(&workers.writers, 1) != 0 || atomic_load(&workers.readers) != 0)
        atomic_fetch_add(&workers.wrong, 1);
    workers.plain++;
    atomic_fetch_sub(&workers.writers, 1);
    if (hlk_lock_release(lock) != HLK_OK)
        atomic_fetch_add(&workers.failed, 1);
}

static void hold_to_read(hlk_lock *lock)
{
    if (hlk_lock_acquire(lock, HLK_FOREVER) != HLK_OK) {
        atomic_fetch_add(&workers.failed, 1);
        return;
    }
    int readers = atomic_fetch_add(&workers.readers, 1) + 1, most = atomic_load(&workers.most_readers);
    while (readers > most && !atomic_compare_exchange_weak(&workers.most_readers, &most, readers))
        ;
    usleep(200); /* what it reads */
    if (atomic_load(&workers.writers) != 0)
        atomic_fetch_add(&workers.wrong, 1);
    atomic_fetch_sub(&workers.readers, 1);
    if (hlk_lock_release(lock) != HLK_OK)
        atomic_fetch_add(&workers.failed, 1);
}

static void *worker_thread(void *number)
{
    int me = (int)(intptr_t)number;
    for (int turn = 0; turn < TURNS; turn++) {
        if ((me + turn) % 4 == 0)
            hold_to_write(workers.writing[me % CLIENTS]);
        else
            hold_to_read(workers.reading[me % CLIENTS]);
    }
    return NULL;
}

static void run_workers(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < CLIENTS; i++) {
        hlk_client *client = fixture_open(NULL);
        workers.reading[i] = rw_reader(client);
        workers.writing[i] = rw_writer(client);
    }
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, worker_thread, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&workers.failed), 0);
    cr_assert_eq(atomic_load(&workers.wrong), 0);
    cr_assert_eq(workers.plain, THREADS * TURNS / 4);
    cr_assert_gt(atomic_load(&workers.most_readers), 1);
}

Test(rwlock_lease, of_64_threads_of_4_clients_exclude_each_other)
{
    run_workers();
    cr_assert_eq(raw_int(fixture.redis, "EXISTS t " RW_QUEUE), 0);
}
