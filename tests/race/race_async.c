/* Owners that acquire and release by completions, on the events thread and in a loop that dispatches, beside threads
 * that block for the same locks, plain ones and fair ones. Each completion starts the owner's next round. */
#include "fixture.h"

#include <poll.h>

enum { OWNERS = 24, THREADS = 4, LOCKS = 3 };

struct job {
    hlk_owner *owner;
    hlk_lock *lock;
    int me, which, left;
};

static struct history *history;
static atomic_int running;
static int rounds;

static void begin(struct job *job);

static void released(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct job *job = ctx;
    (void)lock;
    CHECK(status == HLK_OK);
    begin(job);
}

static void acquired(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct job *job = ctx;
    if (status != HLK_OK) {
        CHECK(status == HLK_BUSY || status == HLK_TIMEOUT);
        begin(job);
        return;
    }
    struct hold *hold = history_acquired(history, job->me, job->which, hlk_lock_held_until(lock));
    CHECK(hlk_lock_holds(lock) == 1);
    history_released(hold);
    if (job->me % 2) {
        CHECK(hlk_lock_release_async(lock, released, job) == HLK_OK);
        return;
    }
    CHECK(hlk_lock_release_async(lock, NULL, NULL) == HLK_OK);
    begin(job); /* is sent after the release */
}

static void begin(struct job *job)
{
    static const int64_t waits[] = { HLK_FOREVER, 30, HLK_NOWAIT, HLK_FOREVER };
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    if (job->left-- == 0) {
        atomic_fetch_sub(&running, 1);
        return;
    }
    opts.wait_ms = waits[(size_t)(job->left + job->me) % 4];
    CHECK(hlk_lock_acquire_async(job->lock, &opts, acquired, job) == HLK_OK);
}

struct blocker {
    pthread_t thread;
    hlk_lock *lock;
    int me, which;
};

static void *block(void *arg)
{
    struct blocker *blocker = arg;
    for (int i = 0; i < rounds; i++) {
        CHECK(hlk_lock_acquire(blocker->lock, HLK_FOREVER) == HLK_OK);
        CHECK(race_hold_and_release(history, blocker->lock, blocker->me, blocker->which, 20) == HLK_OK);
    }
    return NULL;
}

static void given_back(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)ctx;
    CHECK(status == HLK_OK);
    CHECK(hlk_lock_release_async(lock, NULL, NULL) == HLK_OK);
    atomic_fetch_sub(&running, 1);
}

/* Handles that are destroyed while their call is under way, or its completion gives the lock back. */
static void *forget(void *client)
{
    for (int i = 0; i < rounds; i++) {
        struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
        opts.owner = hlk_owner_create(client, NULL);
        hlk_lock *lock = hlk_lock_create(client, "t-forgotten", &opts);
        CHECK(hlk_lock_acquire_async(lock, NULL, given_back, NULL) == HLK_OK);
        test_sleep_ms(i % 2);
        hlk_lock_destroy(lock);
        hlk_owner_destroy(opts.owner);
    }
    return NULL;
}

static void drive(hlk_client *client)
{
    struct pollfd set = { hlk_client_fd(client), POLLIN, 0 };
    while (atomic_load(&running) > 0) {
        if (set.fd < 0) {
            test_sleep_ms(1);
            continue;
        }
        poll(&set, 1, 100);
        hlk_client_dispatch(client, 0);
    }
}

static hlk_lock *lock_of(hlk_client *client, int which, bool fair, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    char name[32];
    snprintf(name, sizeof name, fair ? "t-fair%d" : "t%d", which);
    opts.kind = fair ? HLK_LOCK_FAIR : HLK_LOCK_PLAIN;
    opts.owner = owner;
    return fixture_lock(client, name, &opts);
}

static void run(bool dispatch, bool fair)
{
    struct hlk_client_opts opts = fixture_opts();
    struct job jobs[OWNERS];
    struct blocker blockers[THREADS];
    opts.flags = dispatch ? HLK_OPEN_DISPATCH : 0;
    hlk_client *client = fixture_open(&opts);
    pthread_t forgetful;
    atomic_store(&running, OWNERS + rounds);
    pthread_create(&forgetful, NULL, forget, client);
    for (int i = 0; i < THREADS; i++) {
        blockers[i] =
            (struct blocker){ .lock = lock_of(client, i % LOCKS, fair, NULL), .me = 100 + i, .which = i % LOCKS };
        pthread_create(&blockers[i].thread, NULL, block, &blockers[i]);
    }
    for (int i = 0; i < OWNERS; i++) {
        jobs[i] = (struct job){ .owner = hlk_owner_create(client, NULL), .me = i, .which = i % LOCKS, .left = rounds };
        jobs[i].lock = lock_of(client, i % LOCKS, fair, jobs[i].owner);
        begin(&jobs[i]);
    }
    drive(client);
    pthread_join(forgetful, NULL);
    for (int i = 0; i < THREADS; i++) {
        /* the loop goes on: a release_async of the last round may still be what a blocker waits for */
        while (pthread_tryjoin_np(blockers[i].thread, NULL) != 0) {
            hlk_client_dispatch(client, 0);
            test_sleep_ms(1);
        }
    }
    for (int i = 0; i < OWNERS; i++)
        hlk_owner_destroy(jobs[i].owner);
}

int main(int argc, char **argv)
{
    rounds = race_rounds(argc, argv, 60);
    fixture_begin(0);
    server_allow(fixture.server, "hasplock_fair:*"); /* who was called and left stands in it for a minute */
    history = history_create((size_t)(4 * (OWNERS + THREADS) * rounds));
    for (int i = 0; i < 4; i++)
        run(i % 2, i / 2);
    CHECK(fixture_events(0, NULL) == 0);
    return race_end(history, "race_async");
}
