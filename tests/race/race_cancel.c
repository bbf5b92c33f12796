/* Waits that are ended in all three ways (cancel object, signal, pthread_cancel) at any moment, beside threads that
 * just want the lock. Whoever leaves has nothing, and takes no wake-up and no answer from anybody. */
#include "fixture.h"

#include <semaphore.h>

#include <signal.h>

enum { VICTIMS = 6, STEADY = 4, LOCKS = 2 }; /* and one lock more, which nobody gets: its waits end from outside */

static struct history *history;
static hlk_client *client;
static hlk_lock *locks[LOCKS + 1];
static hlk_cancel *cancels[VICTIMS];
static atomic_bool stop;
static atomic_int ended[4];
static int rounds;

static void on_signal(int sig)
{
    (void)sig;
}

struct victim {
    pthread_t thread;
    int me;
    atomic_bool done;
};

/* Another one holds the lock all the time. So the reply, the grant or the connection was not the right one: what tells
 * them apart. */
static void explain_hold(hlk_lock *lock)
{
    char id[128] = "";
    struct hlk_counters counters = fixture_counters(client);
    redisContext *view = raw_open(fixture.server);
    (void)hlk_lock_hold_id(lock, id, sizeof id);
    fprintf(stderr, "held as %s; HGETALL: %s; ", id, raw(view, "HGETALL t2"));
    fprintf(stderr, "queue: %s; ", raw(view, "ZRANGE hasplock_queue:{t2} 0 -1 WITHSCORES"));
    fprintf(stderr, "granted %llu, passed %llu, handed back %llu, lost %llu, reconnects %llu\n",
            (unsigned long long)counters.granted, (unsigned long long)counters.passed,
            (unsigned long long)counters.handed_back, (unsigned long long)counters.lost,
            (unsigned long long)counters.reconnects);
    redisFree(view);
}

static void *be_a_victim(void *arg)
{
    struct victim *victim = arg;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancels[victim->me];
    opts.flags = HLK_ACQUIRE_EINTR;
    int which = victim->me % (LOCKS + 1);
    hlk_lock *lock = locks[which];
    enum hlk_status status = hlk_lock_acquire_with(lock, &opts);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    CHECK(status != HLK_OK || which < LOCKS);
    if (status == HLK_OK && which == LOCKS)
        explain_hold(lock);
    if (status == HLK_OK) {
        CHECK(race_hold_and_release(history, lock, victim->me, which, 20) == HLK_OK);
        atomic_fetch_add(&ended[0], 1);
    } else {
        CHECK(status == HLK_INTERRUPTED);
        CHECK(hlk_lock_release(lock) == HLK_NOT_HOLDER);
        atomic_fetch_add(&ended[1], 1);
    }
    atomic_store(&victim->done, true);
    return NULL;
}

static void *be_steady(void *arg)
{
    int me = (int)(intptr_t)arg;
    while (!atomic_load(&stop)) {
        CHECK(hlk_lock_acquire(locks[me % LOCKS], HLK_FOREVER) == HLK_OK);
        CHECK(race_hold_and_release(history, locks[me % LOCKS], VICTIMS + me, me % LOCKS, 50) == HLK_OK);
    }
    return NULL;
}

static void pause_us(unsigned us)
{
    struct timespec pause = { 0, (long)us * 1000 };
    nanosleep(&pause, NULL);
}

static void end_it(struct victim *victim, unsigned *seed)
{
    void *result = NULL;
    int how = rand_r(seed) % 3;
    pause_us((unsigned)rand_r(seed) % 300);
    if (how == 0)
        hlk_cancel_trigger(cancels[victim->me]);
    else if (how == 1)
        while (!atomic_load(&victim->done)) {
            pthread_kill(victim->thread, SIGUSR1);
            pause_us(100);
        }
    else
        pthread_cancel(victim->thread);
    pthread_join(victim->thread, &result);
    atomic_fetch_add(&ended[2], result == PTHREAD_CANCELED);
    hlk_cancel_reset(cancels[victim->me]);
}

static sem_t trigger_due;
static atomic_bool no_more_triggers;

static void *trigger_when_due(void *arg)
{
    unsigned seed = 3;
    while (sem_wait(&trigger_due) == 0 && !atomic_load(&no_more_triggers)) {
        for (unsigned n = (unsigned)rand_r(&seed) % 5000; n > 0; n--)
            atomic_signal_fence(memory_order_seq_cst);
        hlk_cancel_trigger(arg);
    }
    return NULL;
}

/* Who was told resets at once, when the trigger may not have returned yet: none is lost. */
static void trigger_beside_resets(int times)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    pthread_t thread;
    opts.cancel = cancels[0];
    opts.wait_ms = WAIT_MS;
    sem_init(&trigger_due, 0, 0);
    pthread_create(&thread, NULL, trigger_when_due, cancels[0]);
    for (int i = 0; i < times; i++) {
        sem_post(&trigger_due);
        CHECK(hlk_lock_acquire_with(locks[LOCKS], &opts) == HLK_INTERRUPTED);
        hlk_cancel_reset(cancels[0]);
    }
    atomic_store(&no_more_triggers, true);
    sem_post(&trigger_due);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct victim victims[VICTIMS];
    pthread_t steady[STEADY];
    unsigned seed = 7;
    rounds = race_rounds(argc, argv, 60);
    sigaction(SIGUSR1, &action, NULL);
    fixture_begin(0);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    history = history_create(1 << 20);
    client = fixture_open(NULL);
    locks[0] = fixture_lock(client, "t0", NULL);
    locks[1] = fixture_lock(client, "t1", NULL);
    locks[2] = fixture_lock(client, "t2", NULL);
    raw(fixture.redis, "HSET t2 b983c153-7421-469a-addb-44fb92259a1b:1 1");
    for (int i = 0; i < VICTIMS; i++)
        cancels[i] = hlk_cancel_create(client);
    for (int i = 0; i < STEADY; i++)
        pthread_create(&steady[i], NULL, be_steady, (void *)(intptr_t)i);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < VICTIMS; i++) {
            victims[i].me = i;
            atomic_store(&victims[i].done, false);
            pthread_create(&victims[i].thread, NULL, be_a_victim, &victims[i]);
        }
        for (int i = 0; i < VICTIMS; i++)
            end_it(&victims[i], &seed);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < STEADY; i++)
        pthread_join(steady[i], NULL);
    printf("%d got it, %d interrupted, %d cancelled\n", ended[0], ended[1], ended[2]);
    CHECK(ended[0] + ended[1] + ended[2] == rounds * VICTIMS);
    CHECK(ended[0] > 0 && ended[1] > 0 && ended[2] > 0);
    trigger_beside_resets(rounds * 20);
    raw(fixture.redis, "DEL t2");
    for (int i = 0; i < VICTIMS; i++)
        hlk_cancel_destroy(cancels[i]);
    return race_end(history, "race_cancel");
}
