/* A client takes the answer to one command for that to another: a reply is lost in the middle of its connection. No
 * network does that; a defect on either side would. Nobody gets or keeps a lock by an answer to another command. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static void start(void)
{
    fault_up(STAGE_PROXY);
    server_allow(fixture.server, "redisson_lock_token:*");
    server_allow(fixture.server, "hasplock_fair:*"); /* tombstones */
    server_allow(fixture.server, "tombstones:hasplock_rwlock:*");
}

TestSuite(out_of_step, .init = start, .fini = fixture_end, .timeout = 60);

static atomic_int told;

static void count_told(int level, const char *line, void *ctx)
{
    (void)level, (void)ctx;
    atomic_fetch_add(&told, strstr(line, "a reply was no answer to its command") != NULL);
}

/* A try for a lock that is held is answered by nobody, and then by what another lock's acquire is answered. */
static void gives_no_lock_that_is_held(int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    struct hlk_acquire_opts try = HLK_ACQUIRE_OPTS_INIT;
    opts.kind = kind;
    try.wait_ms = HLK_NOWAIT;
    hlk_lock *holders = fixture_lock(bystander(), "held", &opts);
    cr_assert_eq(hlk_lock_acquire(holders, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.log = count_told;
    hlk_client *client = fixture_open(&client_opts);
    hlk_lock *held = fixture_lock(client, "held", &opts), *free = fixture_lock(client, "free", &opts);
    proxy_arm(fixture.proxy, PROXY_SKIP, PROXY_SCRIPTS, 1);
    struct actor *other = actor_start(held, &try);
    proxy_wait_struck(fixture.proxy);
    cr_assert_eq(hlk_lock_acquire(free, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(other), HLK_BUSY, "%s", actor_error(other));
    (void)actor_end(other);
    cr_assert_eq(fixture_counters(client).reconnects, 1u);
    cr_assert_eq(atomic_load(&told), 1);
    cr_assert_eq(hlk_lock_release(free), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(holders), HLK_OK, "%s", hlk_last_error());
}

/* Shows: S27 */
Test(out_of_step, gives_no_plain_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_PLAIN);
}

Test(out_of_step, gives_no_fenced_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_FENCED);
}

Test(out_of_step, gives_no_fair_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_FAIR);
}

Test(out_of_step, gives_no_string_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_STRING);
}

Test(out_of_step, gives_no_write_lock_that_is_held)
{
    gives_no_lock_that_is_held(HLK_LOCK_WRITE);
}

/* One of two renewals gets no answer, and reads the answer to the other. */
/* Shows: S27 */
Test(out_of_step, renews_no_lock_that_is_gone)
{
    struct hlk_client_opts client_opts = fixture_opts();
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    client_opts.log = count_told;
    client_opts.watchdog_ms = 3000;
    redisContext *admin = raw_open(fixture.server);
    hlk_client *client = fixture_open(&client_opts);
    hlk_lock *gone = fixture_lock(client, "gone", &opts);
    opts.kind = HLK_LOCK_STRING; /* its renewals are a script of their own */
    hlk_lock *kept = fixture_lock(client, "kept", &opts);
    cr_assert_eq(hlk_lock_acquire(gone, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(kept, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    proxy_arm(fixture.proxy, PROXY_SKIP, PROXY_SCRIPTS, 1);
    raw(admin, "DEL gone");
    redisFree(admin);
    fixture_wait_event(HLK_EVENT_LOST, "gone");
    cr_assert_eq(atomic_load(&told), 1);
    cr_assert_eq(fixture_counters(client).reconnects, 1u);
    cr_assert_eq(hlk_lock_release(gone), HLK_LOST);
    cr_assert_eq(hlk_lock_release(kept), HLK_OK, "%s", hlk_last_error());
}

struct extension {
    hlk_permits *permits;
    const char *id;
    enum hlk_status status;
};

static void *extend(void *arg)
{
    struct extension *extension = arg;
    extension->status = hlk_permits_extend(extension->permits, extension->id, 60000);
    return NULL;
}

/* One of two extensions gets no answer, and reads the answer to the other. */
Test(out_of_step, extends_no_permit_that_is_gone)
{
    struct hlk_client_opts client_opts = fixture_opts();
    client_opts.log = count_told;
    hlk_client *client = fixture_open(&client_opts);
    hlk_permits *permits = hlk_permits_create(client, "p", NULL);
    server_allow(fixture.server, "p"); /* their number */
    struct hlk_taken_permit gone = HLK_TAKEN_PERMIT_INIT, kept = HLK_TAKEN_PERMIT_INIT;
    cr_assert_eq(hlk_permits_try_set(permits, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_permits_take(permits, 60000, HLK_NOWAIT, &gone), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_permits_take(permits, 60000, HLK_NOWAIT, &kept), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_permits_give_back(permits, gone.id), HLK_OK, "%s", hlk_last_error());
    struct extension of_gone = { .permits = permits, .id = gone.id };
    pthread_t thread;
    proxy_arm(fixture.proxy, PROXY_SKIP, PROXY_SCRIPTS, 1);
    pthread_create(&thread, NULL, extend, &of_gone);
    proxy_wait_struck(fixture.proxy);
    cr_assert_eq(hlk_permits_extend(permits, kept.id, 60000), HLK_OK, "%s", hlk_last_error());
    pthread_join(thread, NULL);
    cr_assert_eq(of_gone.status, HLK_E_SERVER);
    cr_assert_eq(atomic_load(&told), 1);
    cr_assert_eq(fixture_counters(client).reconnects, 1u);
    cr_assert_eq(hlk_permits_give_back(permits, kept.id), HLK_OK, "%s", hlk_last_error());
    hlk_permits_destroy(permits);
}
