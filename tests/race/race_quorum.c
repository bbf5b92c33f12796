/* Threads and owners of two clients on few locks over three masters: acquire, wait, time out, nest, release, query; one
 * owner used by two threads at once; threads that end while they hold. */
#include "fixture.h"

#include <string.h>

enum { THREADS = 8, LOCKS = 2, MASTERS = 3, LEASE_MS = 5000 };

static struct history *history;
static struct server *masters[MASTERS];
static hlk_client *clients[2];
static hlk_lock *locks[2][LOCKS], *shared[2];
static int rounds;

static int64_t some_wait(unsigned *seed)
{
    static const int64_t waits[] = { HLK_NOWAIT, 5, 50, HLK_FOREVER, HLK_FOREVER };
    return waits[(size_t)rand_r(seed) % (sizeof waits / sizeof *waits)];
}

static void turn(int me, unsigned *seed)
{
    int which = rand_r(seed) % LOCKS;
    hlk_lock *lock = locks[me % 2][which];
    int64_t wait_ms = some_wait(seed);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    enum hlk_status status = hlk_lock_acquire(lock, wait_ms);
    CHECK(status == HLK_OK || (wait_ms >= 0 && (status == HLK_BUSY || status == HLK_TIMEOUT)));
    if (status == HLK_OK) {
        if (rand_r(seed) % 3 == 0)
            CHECK(hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK && hlk_lock_release(lock) == HLK_OK);
        CHECK(race_hold_and_release(history, lock, me, which, (unsigned)rand_r(seed) % 100) == HLK_OK);
    }
    if (rand_r(seed) % 16 == 0)
        CHECK(hlk_lock_query(lock, &state) == HLK_OK);
}

static void *play(void *arg)
{
    int me = (int)(intptr_t)arg;
    unsigned seed = (unsigned)me + 1;
    for (int i = 0; i < rounds; i++)
        turn(me, &seed);
    return NULL;
}

/* Two threads of one owner: what one of them has, the other one may find, and release. */
static void *share(void *arg)
{
    hlk_lock *lock = arg;
    for (int i = 0; i < rounds; i++) {
        enum hlk_status status = hlk_lock_acquire(lock, 20);
        CHECK(status == HLK_OK || status == HLK_TIMEOUT);
        if (status == HLK_OK)
            CHECK(hlk_lock_release(lock) == HLK_OK);
    }
    return NULL;
}

/* The holder is gone with its thread; its lease runs out. Its lock is nobody else's. */
static void *leave_it_held(void *arg)
{
    char name[24];
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    snprintf(name, sizeof name, "o%d", (int)(intptr_t)arg);
    hlk_lock *lock = hlk_lock_create(clients[(intptr_t)arg % 2], name, NULL);
    opts.lease_ms = 200;
    CHECK(lock && hlk_lock_acquire_with(lock, &opts) == HLK_OK);
    hlk_lock_destroy(lock);
    return NULL;
}

static void begin(void)
{
    static const char *const names[LOCKS] = { "t0", "t1" };
    char url[600] = "redlock://";
    fixture_begin(0);
    for (int i = 0; i < MASTERS; i++) {
        masters[i] = i ? server_start(0, NULL) : fixture.server;
        server_allow(masters[i], "o*"); /* of threads that ended: until its lease is over */
        const char *one = hlk_test_url(masters[i]), *host = strstr(one, "://");
        snprintf(url + strlen(url), sizeof url - strlen(url), "%s%s", i ? "," : "", host ? host + 3 : one);
    }
    snprintf(url + strlen(url), sizeof url - strlen(url), "?restart_delay_ms=0&ttl_ms=%d&node_timeout_ms=1000",
             LEASE_MS);
    for (int c = 0; c < 2; c++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        clients[c] = fixture_open_at(url, NULL);
        for (int i = 0; i < LOCKS; i++)
            locks[c][i] = fixture_lock(clients[c], names[i], NULL);
        opts.owner = hlk_owner_create(clients[c], NULL);
        shared[c] = fixture_lock(clients[c], "owned", &opts);
        hlk_owner_destroy(opts.owner);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS + 4];
    rounds = race_rounds(argc, argv, 300);
    begin();
    history = history_create((size_t)(THREADS * rounds));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, play, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[THREADS + i], NULL, share, shared[i % 2]);
    for (int i = 0; i < rounds; i++) {
        pthread_t orphan;
        pthread_create(&orphan, NULL, leave_it_held, (void *)(intptr_t)i);
        pthread_join(orphan, NULL);
    }
    for (int i = 0; i < THREADS + 4; i++)
        pthread_join(threads[i], NULL);
    int code = race_end(history, "race_quorum");
    server_finish(masters[1]);
    server_finish(masters[2]);
    return code;
}
