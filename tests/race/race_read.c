/* Parked waiters that read the subscriber connection for all: they get their lock, are cancelled, time out, or their
 * client is closed, while the connection is killed now and then and others wait by completions or for signals. Whoever
 * wants the lock gets it, and none sleeps on with its grant. */
#include "fixture.h"

#include <signal.h>

enum { CLIENTS = 2, THREADS = 6, LOCKS = 2, VICTIMS = 4 };

static struct history *history;
static hlk_lock *locks[CLIENTS][LOCKS];
static atomic_bool stop;
static atomic_int cancelled, completed, closed;

static void on_signal(int sig)
{
    (void)sig;
}

static void *play(void *arg)
{
    int me = (int)(intptr_t)arg;
    unsigned seed = (unsigned)me + 1;
    while (!atomic_load(&stop)) {
        int which = rand_r(&seed) % LOCKS;
        hlk_lock *lock = locks[me % CLIENTS][which];
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.wait_ms = rand_r(&seed) % 4 ? HLK_FOREVER : rand_r(&seed) % 5;
        opts.flags = me / CLIENTS == 0 ? HLK_ACQUIRE_EINTR : 0; /* one of each client never reads */
        enum hlk_status status = hlk_lock_acquire_with(lock, &opts);
        if (status == HLK_OK)
            CHECK(race_hold_and_release(history, lock, me, which, 30) == HLK_OK);
        else
            CHECK(status == HLK_TIMEOUT || status == HLK_BUSY || status == HLK_INTERRUPTED);
    }
    return NULL;
}

static void *be_cancelled(void *arg)
{
    hlk_lock *lock = arg;
    enum hlk_status status = hlk_lock_acquire(lock, HLK_FOREVER);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    CHECK(status == HLK_OK);
    if (status == HLK_OK)
        CHECK(hlk_lock_release(lock) == HLK_OK);
    return NULL;
}

static void cancel_some(unsigned *seed)
{
    pthread_t victims[VICTIMS];
    for (int i = 0; i < VICTIMS; i++)
        pthread_create(&victims[i], NULL, be_cancelled, locks[i % CLIENTS][i % LOCKS]);
    for (int i = 0; i < VICTIMS; i++) {
        struct timespec pause = { 0, rand_r(seed) % 300000 };
        void *result = NULL;
        nanosleep(&pause, NULL);
        pthread_cancel(victims[i]);
        pthread_join(victims[i], &result);
        atomic_fetch_add(&cancelled, result == PTHREAD_CANCELED);
    }
}

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)ctx;
    CHECK(status == HLK_OK);
    if (status == HLK_OK)
        CHECK(hlk_lock_release_async(lock, NULL, NULL) == HLK_OK);
    atomic_fetch_add(&completed, 1);
}

static void *wait_to_be_closed(void *arg)
{
    CHECK(hlk_lock_acquire(arg, HLK_FOREVER) == HLK_E_CLOSED);
    atomic_fetch_add(&closed, 1);
    return NULL;
}

/* A client of its own, closed over waiters of which one reads. */
static void close_over_waiters(void)
{
    pthread_t threads[2];
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock[2] = { hlk_lock_create(client, "t8", NULL), hlk_lock_create(client, "t9", NULL) };
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, wait_to_be_closed, lock[i]);
    WAIT_FOR_WAITERS(client, 2);
    fixture_close(client);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        hlk_lock_destroy(lock[i]);
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_signal };
    int rounds = race_rounds(argc, argv, 30);
    pthread_t threads[THREADS];
    hlk_owner *owners[CLIENTS];
    hlk_lock *owned[CLIENTS];
    unsigned seed = 3;
    sigaction(SIGUSR1, &action, NULL);
    fixture_begin(0);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    history = history_create(1 << 20);
    raw(fixture.redis, "HSET t8 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "HSET t9 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int c = 0; c < CLIENTS; c++) {
        hlk_client *client = fixture_open(NULL);
        locks[c][0] = fixture_lock(client, "t0", NULL);
        locks[c][1] = fixture_lock(client, "t1", NULL);
        owners[c] = hlk_owner_create(client, "completion");
        owned[c] = fixture_owned(client, "t0", owners[c]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, play, (void *)(intptr_t)i);
    for (int round = 0; round < rounds; round++) {
        for (int c = 0; c < CLIENTS; c++)
            CHECK(hlk_lock_acquire_async(owned[c], NULL, on_done, NULL) == HLK_OK);
        cancel_some(&seed);
        pthread_kill(threads[round % CLIENTS], SIGUSR1);
        if (round % 4 == 1)
            raw(fixture.redis, "CLIENT KILL TYPE pubsub");
        if (round % 4 == 3)
            close_over_waiters();
        WAIT_FOR(atomic_load(&completed) == CLIENTS * (round + 1));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int c = 0; c < CLIENTS; c++)
        hlk_owner_destroy(owners[c]);
    raw(fixture.redis, "DEL t8 t9");
    printf("%d cancelled, %d completed, %d closed\n", cancelled, completed, closed);
    CHECK(cancelled > 0);
    return race_end(history, "race_read");
}
