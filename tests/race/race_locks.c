/* Threads of two clients on few locks: acquire, wait, time out, nest, release, query, in every mixture; and one handle
 * used by all threads at once (asks A6 redsync 30, 60). */
#include "fixture.h"

enum { THREADS = 12, LOCKS = 3 };

static struct history *history;
static hlk_lock *locks[2][LOCKS];
static int rounds;

static int64_t some_wait(unsigned *seed)
{
    static const int64_t waits[] = { HLK_NOWAIT, 1, 20, HLK_FOREVER, HLK_FOREVER };
    return waits[(size_t)rand_r(seed) % (sizeof waits / sizeof *waits)];
}

/* fixed: the outer hold's lease is, so that the first within it is a round trip, and takes no longer than its wait. */
static void nest(hlk_lock *lock, int depth, bool fixed, unsigned *seed)
{
    if (depth == 0)
        return;
    int64_t wait_ms = some_wait(seed);
    int holds = hlk_lock_holds(lock);
    enum hlk_status status = hlk_lock_acquire(lock, wait_ms);
    if (fixed && wait_ms > 0 && status == HLK_TIMEOUT) {
        CHECK(hlk_lock_holds(lock) == holds);
        return;
    }
    CHECK(status == HLK_OK && hlk_lock_holds(lock) == holds + 1);
    nest(lock, depth - 1, fixed, seed);
    CHECK(status == HLK_OK && hlk_lock_release(lock) == HLK_OK);
}

static void *play(void *arg)
{
    int me = (int)(intptr_t)arg;
    unsigned seed = (unsigned)me + 1;
    for (int i = 0; i < rounds; i++) {
        int which = rand_r(&seed) % LOCKS;
        hlk_lock *lock = locks[me % 2][which];
        struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        opts.wait_ms = some_wait(&seed);
        opts.lease_ms = rand_r(&seed) % 4 ? 0 : 60000;
        enum hlk_status status = hlk_lock_acquire_with(lock, &opts);
        if (status == HLK_OK) {
            CHECK(hlk_lock_holds(lock) == 1);
            nest(lock, rand_r(&seed) % 3, opts.lease_ms > 0, &seed);
            CHECK(race_hold_and_release(history, lock, me, which, (unsigned)rand_r(&seed) % 100) == HLK_OK);
        } else {
            CHECK(status == (opts.wait_ms == 0 ? HLK_BUSY : HLK_TIMEOUT));
            CHECK(opts.wait_ms >= 0 && hlk_lock_release(lock) == HLK_NOT_HOLDER);
        }
        if (rand_r(&seed) % 16 == 0)
            CHECK(hlk_lock_query(lock, &state) == HLK_OK);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const names[LOCKS] = { "t0", "t1", "t2" };
    pthread_t threads[THREADS];
    rounds = race_rounds(argc, argv, 150);
    fixture_begin(0);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    history = history_create((size_t)(THREADS * rounds));
    for (int c = 0; c < 2; c++) {
        hlk_client *client = fixture_open(NULL);
        for (int i = 0; i < LOCKS; i++)
            locks[c][i] = fixture_lock(client, names[i], NULL);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, play, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(fixture_events(0, NULL) == 0);
    return race_end(history, "race_locks");
}
