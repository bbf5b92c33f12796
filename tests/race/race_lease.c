/* Holds under a short watchdog while connections are killed and scripts forgotten; threads that end while they hold.
 * What a holder believes may end early (LOST) but never overlap with the next one's. */
#include "fixture.h"

enum { THREADS = 6, LOCKS = 3, WATCHDOG_MS = 600 };

static struct history *history;
static hlk_lock *locks[2][LOCKS];
static atomic_bool stop;
static atomic_int lost;

static void *play(void *arg)
{
    int me = (int)(intptr_t)arg;
    unsigned seed = (unsigned)me + 1;
    while (!atomic_load(&stop)) {
        int which = rand_r(&seed) % LOCKS;
        hlk_lock *lock = locks[me % 2][which];
        enum hlk_status status = hlk_lock_acquire(lock, HLK_FOREVER);
        if (status != HLK_OK) { /* its connection was killed too often within reconnect_timeout_ms */
            CHECK(status == HLK_E_CONNECT);
            continue;
        }
        status = race_hold_and_release(history, lock, me, which, (unsigned)rand_r(&seed) % 2000);
        CHECK(status == HLK_OK || status == HLK_LOST || status == HLK_E_UNSURE);
        atomic_fetch_add(&lost, status == HLK_LOST);
    }
    return NULL;
}

/* Ends while it holds; nobody can release that any more, its lease runs out. */
static void *leave_it_held(void *arg)
{
    hlk_lock *lock = arg;
    if (hlk_lock_acquire(lock, 2000) == HLK_OK)
        history_acquired(history, 99, 0, hlk_lock_held_until(lock));
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const names[LOCKS] = { "t0", "t1", "t2" };
    int rounds = race_rounds(argc, argv, 40);
    pthread_t threads[THREADS];
    fixture_begin(0);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    history = history_create(1 << 20);
    for (int c = 0; c < 2; c++) {
        struct hlk_client_opts opts = fixture_opts();
        opts.watchdog_ms = WATCHDOG_MS;
        hlk_client *client = fixture_open(&opts);
        for (int i = 0; i < LOCKS; i++)
            locks[c][i] = fixture_lock(client, names[i], NULL);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, play, (void *)(intptr_t)i);
    for (int round = 0; round < rounds; round++) {
        test_sleep_ms(50);
        raw(fixture.redis, round % 4 == 0   ? "CLIENT KILL TYPE pubsub"
                           : round % 4 == 2 ? "CLIENT KILL TYPE normal SKIPME yes"
                                            : "SCRIPT FLUSH");
        if (round % 10 == 5) {
            pthread_t orphan;
            pthread_create(&orphan, NULL, leave_it_held, locks[round / 10 % 2][0]);
            pthread_join(orphan, NULL);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d of them lost\n", atomic_load(&lost));
    return race_end(history, "race_lease");
}
