/* Threads of two clients on one read/write lock: many read, few write, and some nest, time out or end inside a break
 * of it. Readers of a client share a hold; the moments in which one begins and ends are what this is about. */
#include "fixture.h"

enum { THREADS = 12 };

static struct history *history; /* of the writers */
static hlk_lock *halves[2][2];
static atomic_int reading, writing;
static int rounds;

static void read_once(hlk_lock *lock, unsigned *seed)
{
    int64_t wait_ms = rand_r(seed) % 4 ? HLK_FOREVER : rand_r(seed) % 3;
    enum hlk_status status = hlk_lock_acquire(lock, wait_ms);
    CHECK(status == HLK_OK || (wait_ms >= 0 && (status == HLK_BUSY || status == HLK_TIMEOUT)));
    if (status != HLK_OK)
        return;
    atomic_fetch_add(&reading, 1);
    CHECK(atomic_load(&writing) == 0);
    if (rand_r(seed) % 4 == 0) {
        CHECK(hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK && hlk_lock_holds(lock) == 2);
        CHECK(hlk_lock_release(lock) == HLK_OK);
    }
    CHECK(hlk_lock_left_ms(lock) > 0);
    CHECK(atomic_load(&writing) == 0);
    atomic_fetch_sub(&reading, 1);
    CHECK(hlk_lock_release(lock) == HLK_OK);
    CHECK(hlk_lock_holds(lock) == 0);
}

static void write_once(hlk_lock *lock, int me, unsigned *seed)
{
    enum hlk_status status = hlk_lock_acquire(lock, rand_r(seed) % 2 ? HLK_FOREVER : 1);
    CHECK(status == HLK_OK || status == HLK_TIMEOUT);
    if (status != HLK_OK)
        return;
    CHECK(atomic_fetch_add(&writing, 1) == 0);
    CHECK(atomic_load(&reading) == 0);
    atomic_fetch_sub(&writing, 1);
    CHECK(race_hold_and_release(history, lock, me, 0, (unsigned)rand_r(seed) % 100) == HLK_OK);
}

static void *play(void *arg)
{
    int me = (int)(intptr_t)arg;
    unsigned seed = (unsigned)me + 1;
    for (int i = 0; i < rounds; i++) {
        if (rand_r(&seed) % 20 == 0)
            write_once(halves[me % 2][1], me, &seed);
        else
            read_once(halves[me % 2][0], &seed);
    }
    write_once(halves[me % 2][1], me, &seed);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    rounds = race_rounds(argc, argv, 150);
    fixture_begin(0);
    server_allow(fixture.server, "hasplock_rwlock:*"); /* tombstones */
    history = history_create((size_t)(THREADS * (rounds + 1)));
    for (int c = 0; c < 2; c++) {
        hlk_client *client = fixture_open(NULL);
        for (int i = 0; i < 2; i++) {
            struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
            opts.kind = i ? HLK_LOCK_WRITE : HLK_LOCK_READ;
            halves[c][i] = fixture_lock(client, "t", &opts);
        }
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, play, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(fixture_events(0, NULL) == 0);
    return race_end(history, "race_shared");
}
