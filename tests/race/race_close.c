/* A client that is closed while threads and completions use it in every way, again and again. */
#include "fixture.h"

enum { THREADS = 8, OWNERS = 8 };

static struct history *history;
static atomic_int completions;

struct user {
    pthread_t thread;
    hlk_lock *lock;
    hlk_cancel *cancel;
    int me;
};

static bool closed(enum hlk_status status)
{
    return status == HLK_E_CLOSED;
}

static void *use(void *arg)
{
    struct user *user = arg;
    unsigned seed = (unsigned)user->me;
    for (;;) {
        struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
        struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
        opts.cancel = user->cancel;
        opts.wait_ms = rand_r(&seed) % 2 ? HLK_FOREVER : 5;
        enum hlk_status status = hlk_lock_acquire_with(user->lock, &opts);
        if (closed(status))
            return NULL;
        CHECK(status == HLK_OK || status == HLK_TIMEOUT);
        if (status == HLK_OK) {
            status = race_hold_and_release(history, user->lock, user->me, user->me % 2, 10);
            CHECK(status == HLK_OK || closed(status) || status == HLK_NOT_HOLDER || status == HLK_LOST);
        }
        if (rand_r(&seed) % 8 == 0) {
            status = hlk_lock_query(user->lock, &state);
            CHECK(status == HLK_OK || closed(status));
        }
    }
}

static void done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&completions, 1);
    CHECK(status == HLK_OK || closed(status));
    if (status == HLK_OK)
        hlk_lock_release_async(lock, NULL, NULL);
}

int main(int argc, char **argv)
{
    int rounds = race_rounds(argc, argv, 25);
    fixture_begin(0);
    server_allow(fixture.server, SERVER_TOMBSTONES);
    history = history_create(1 << 20);
    for (int round = 0; round < rounds; round++) {
        struct hlk_client_opts opts = fixture_opts();
        struct user users[THREADS];
        hlk_owner *owners[OWNERS];
        hlk_lock *owned[OWNERS];
        int accepted = 0;
        opts.flags = round % 3 == 0 ? HLK_OPEN_DISPATCH : 0; /* and then nobody dispatches: close does */
        hlk_client *client = fixture_open(&opts);
        hlk_cancel *cancel = hlk_cancel_create(client);
        atomic_store(&completions, 0);
        for (int i = 0; i < THREADS; i++) {
            users[i] =
                (struct user){ .lock = hlk_lock_create(client, i % 2 ? "t1" : "t0", NULL), .cancel = cancel, .me = i };
            pthread_create(&users[i].thread, NULL, use, &users[i]);
        }
        for (int i = 0; i < OWNERS; i++) {
            struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
            lock_opts.owner = owners[i] = hlk_owner_create(client, NULL);
            owned[i] = hlk_lock_create(client, i % 2 ? "t1" : "t2", &lock_opts);
            accepted += hlk_lock_acquire_async(owned[i], NULL, done, NULL) == HLK_OK;
        }
        test_sleep_ms(round % 7);
        fixture_close(client);
        CHECK(atomic_load(&completions) == accepted);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(users[i].thread, NULL);
            hlk_lock_destroy(users[i].lock);
        }
        for (int i = 0; i < OWNERS; i++) {
            hlk_lock_destroy(owned[i]);
            hlk_owner_destroy(owners[i]);
        }
        hlk_cancel_destroy(cancel);
    }
    return race_end(history, "race_close");
}
