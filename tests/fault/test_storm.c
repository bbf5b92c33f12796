/* Everything at once: threads of three clients compete for a few locks, blocking and by completions, while the network
 * and the server fail at random, one fault after the other. At the end no two holds have overlapped, every worker has
 * held, nothing is held, and a try without faults succeeds. The seed is printed; HLK_STORM_SEED=n repeats it.
 *
 * asks A4 redisson 7367; A1 redisson 5761, 3.19; A4 redisson 3.48; A2 redisson 5697, 6844: two owners at once. */
#include "fixture.h"

#include "support/history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(storm, .init = start, .fini = fixture_end, .timeout = 90);

enum { CLIENTS = 3, THREADS = 9, LOCKS = 3, STORM_MS = 6000, STORM_LEASE_MS = 1200 };

static struct history *history;
static atomic_bool stop;
static atomic_int answers[8];

struct worker {
    pthread_t thread;
    hlk_client *client;
    hlk_owner *owner;
    hlk_lock *locks[LOCKS];
    unsigned seed;
    int who;
    atomic_int done; /* the status of an async acquire; 1000: none yet */
};

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    atomic_store(&((struct worker *)ctx)->done, status);
}

static enum hlk_status acquire(struct worker *worker, hlk_lock *lock)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = rand_r(&worker->seed) % 4 ? rand_r(&worker->seed) % 600 : 0;
    opts.lease_ms = rand_r(&worker->seed) % 4 ? 0 : STORM_LEASE_MS;
    if (rand_r(&worker->seed) % 2)
        return hlk_lock_acquire_with(lock, &opts);
    atomic_store(&worker->done, 1000);
    enum hlk_status status = hlk_lock_acquire_async(lock, &opts, on_done, worker);
    if (status != HLK_OK)
        return status;
    WAIT_FOR(atomic_load(&worker->done) != 1000);
    return (enum hlk_status)atomic_load(&worker->done);
}

static void hold(struct worker *worker, int i)
{
    hlk_lock *lock = worker->locks[i];
    int64_t until = hlk_lock_held_until(lock);
    struct hold *hold = history_acquired(history, worker->who, i, until);
    int ms = rand_r(&worker->seed) % 8;
    if (ms == 0)
        ms = rand_r(&worker->seed) % 400;
    test_sleep_ms(ms / 2);
    until = hlk_lock_held_until(lock);
    if (until > 0)
        history_valid_until(hold, until);
    history_released(hold);
    enum hlk_status status = hlk_lock_release(lock);
    if (!ONE_OF(status, HLK_OK, HLK_LOST, HLK_E_UNSURE, HLK_E_CONNECT))
        test_give_up("release: %s", hlk_last_error());
    if (UNKNOWN(status) && rand_r(&worker->seed) % 2) /* else the next acquire settles it */
        while (UNKNOWN(status) && !atomic_load(&stop))
            status = hlk_lock_release(lock);
}

static void *use_the_lock(void *arg)
{
    struct worker *worker = arg;
    while (!atomic_load(&stop)) {
        int i = rand_r(&worker->seed) % LOCKS;
        enum hlk_status status = acquire(worker, worker->locks[i]);
        switch (status) {
        case HLK_OK:
            hold(worker, i);
            atomic_fetch_add(&answers[0], 1);
            break;
        case HLK_BUSY:
        case HLK_TIMEOUT:
            atomic_fetch_add(&answers[1], 1);
            break;
        case HLK_E_CONNECT:
        case HLK_E_SERVER: /* LOADING and the like */
            atomic_fetch_add(&answers[2], 1);
            break;
        default:
            test_give_up("acquire: %s: %s", hlk_status_name(status), hlk_last_error());
        }
    }
    return NULL;
}

static void one_blow(unsigned *seed)
{
    struct proxy *proxy = fixture.proxy;
    int ms = rand_r(seed) % (2 * REPLY_MS);
    uint64_t k = (uint64_t)(rand_r(seed) % 5) + 1;
    switch (rand_r(seed) % 11) {
    case 0:
        proxy_cut_all(proxy);
        break;
    case 1:
        proxy_arm(proxy, PROXY_CUT_BEFORE, PROXY_ALL, k); /* SWALLOW would shift all later replies */
        break;
    case 2:
        proxy_arm(proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, k);
        break;
    case 3:
        proxy_arm(proxy, PROXY_HOLD, PROXY_SCRIPTS, k);
        test_sleep_ms(2 * ms);
        proxy_deliver(proxy, rand_r(seed) % 2);
        break;
    case 4:
        proxy_freeze(proxy, true);
        test_sleep_ms(ms);
        proxy_freeze(proxy, false);
        break;
    case 5:
        proxy_refuse(proxy, true);
        proxy_cut_all(proxy);
        test_sleep_ms(ms);
        proxy_refuse(proxy, false);
        break;
    case 6:
        proxy_delay(proxy, rand_r(seed) % 20, rand_r(seed) % 20);
        break;
    case 7:
        raw(fixture.redis, "CLIENT KILL TYPE %s SKIPME yes", rand_r(seed) % 2 ? "normal" : "pubsub");
        break;
    case 8:
        raw(fixture.redis, "SCRIPT FLUSH");
        break;
    case 9:
        server_pause(fixture.server);
        test_sleep_ms(ms);
        server_resume(fixture.server);
        break;
    default:
        proxy_drop_messages(proxy, rand_r(seed) % 2);
    }
}

static void heal(void)
{
    proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    proxy_deliver(fixture.proxy, false);
    proxy_delay(fixture.proxy, 0, 0);
    proxy_drop_messages(fixture.proxy, false);
}

static hlk_client *open_worker_client(int i)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = STORM_LEASE_MS;
    opts.reconnect_timeout_ms = 1000;
    return i == 0 ? fixture_open_at(hlk_test_url(fixture.server), &opts) : fixture_open(&opts);
}

static int64_t connections(void)
{
    return raw_stat(fixture.redis, "total_connections_received");
}

Test(storm, is_ridden_out_by_all_and_leaves_nothing)
{
    struct worker workers[THREADS];
    hlk_client *clients[CLIENTS];
    const char *given = getenv("HLK_STORM_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)test_now_ns();
    fprintf(stderr, "[----] HLK_STORM_SEED=%u\n", seed);
    history = history_create(1 << 20);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = open_worker_client(i);
    for (int i = 0; i < THREADS; i++) {
        struct worker *worker = &workers[i];
        *worker = (struct worker){ .client = clients[i % CLIENTS], .who = i, .seed = seed + (unsigned)i * 7919u };
        worker->owner = hlk_owner_create(worker->client, "worker");
        for (int j = 0; j < LOCKS; j++) {
            char name[8];
            snprintf(name, sizeof name, "t%d", j);
            worker->locks[j] = fixture_owned(worker->client, name, worker->owner);
        }
        cr_assert_eq(pthread_create(&worker->thread, NULL, use_the_lock, worker), 0);
    }
    int64_t calm = connections();
    for (int64_t until = test_now_ms() + STORM_MS; test_now_ms() < until;) {
        one_blow(&seed);
        test_sleep_ms(rand_r(&seed) % 60);
    }
    heal();
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);

    cr_assert(history_check(history));
    struct history_share share = history_shares(history, -1, THREADS);
    cr_log_info("%d holds (%d to %d a thread), %d busy, %d faults", (int)share.total, (int)share.min, (int)share.max,
                atomic_load(&answers[1]), atomic_load(&answers[2]));
    cr_assert_gt(share.min, 0u, "somebody starved");
    cr_assert_gt(connections(), calm + CLIENTS, "no storm"); /* calls may have ridden all of it out */
    WITHIN(2 * STORM_LEASE_MS, is_free("t0") && is_free("t1") && is_free("t2"));
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < LOCKS; j++) {
            enum hlk_status status;
            cr_assert_eq(hlk_lock_left_ms(workers[i].locks[j]), 0);
            WAIT_FOR((status = hlk_lock_release(workers[i].locks[j]), !UNKNOWN(status))); /* still owed */
        }
        cr_assert_eq(hlk_lock_acquire(workers[i].locks[0], 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(workers[i].locks[0]), HLK_OK, "%s", hlk_last_error());
        hlk_owner_destroy(workers[i].owner);
    }
    history_destroy(history);
}
