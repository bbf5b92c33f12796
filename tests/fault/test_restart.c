/* The reply to a release is lost with its connection, and the server that gets the next attempt does not have the hold.
 * If it is the process that knew the hold, the first attempt has released it: done. If the server was restarted
 * meanwhile, the result is never "done": its data may be lost with the hold, and another client may have had the lock
 * while its holder believed in it. A loss is never silent. */
/* Shows: P11, P39 */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Ordered so that no two neighbours are batchable (script/batch.h), because commands are counted. */
static const int kinds[] = { HLK_LOCK_PLAIN, HLK_LOCK_FENCED,        HLK_LOCK_SPIN,
                             HLK_LOCK_FAIR,  HLK_LOCK_NON_REENTRANT, HLK_LOCK_NON_REENTRANT_FAIR,
                             HLK_LOCK_STRING };
enum { KINDS = sizeof kinds / sizeof *kinds };

static void start(void)
{
    fault_up(SERVER_AOF);
    server_allow(fixture.server, "redisson_lock_token:*");
    server_allow(fixture.server, "hasplock_fair:*"); /* tombstones */
}

TestSuite(restart, .init = start, .fini = fixture_end, .timeout = 90);

static hlk_client *open_patient(void)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = 30000;
    opts.reply_timeout_ms = 2000;
    return fixture_open(&opts);
}

static hlk_lock *held_by(hlk_client *client, const char *name, int kind, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    opts.owner = owner;
    hlk_lock *lock = fixture_lock(client, name, &opts);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    return lock;
}

static void server_comes_back(bool keep_data)
{
    redisFree(fixture.redis);
    fixture.redis = NULL;
    server_restart(fixture.server, keep_data);
    fixture.redis = raw_open(fixture.server);
}

static void *release(void *lock)
{
    static _Thread_local enum hlk_status status;
    static enum hlk_status answers[KINDS];
    static atomic_int n;
    status = hlk_lock_release(lock);
    enum hlk_status *answer = &answers[atomic_fetch_add(&n, 1) % KINDS];
    *answer = status;
    return answer;
}

/* The release is sent to a stopped server, which is then killed. */
static enum hlk_status release_across_a_restart(hlk_lock *lock, bool keep_data, uint64_t commands, hlk_client *client)
{
    pthread_t thread;
    void *answer;
    server_pause(fixture.server);
    cr_assert_eq(pthread_create(&thread, NULL, release, lock), 0);
    WAIT_FOR(fixture_counters(client).commands > commands);
    server_comes_back(keep_data);
    cr_assert_eq(pthread_join(thread, &answer), 0);
    return *(enum hlk_status *)answer;
}

static void assert_not_known(hlk_lock *lock, const char *name, enum hlk_status status)
{
    cr_assert_eq(status, HLK_E_UNSURE, "%s: %s", name, hlk_status_name(status));
    struct fixture_event lost = fixture_wait_event(HLK_EVENT_LOST, name);
    cr_assert_not_null(strstr(lost.why, "not known"), "%s", lost.why);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, name), 1u);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER, "that is all there is to know");
}

/* Shows: S5 */
Test(restart, that_forgot_the_hold_makes_a_release_unsure)
{
    hlk_client *client = open_patient();
    for (int i = 0; i < KINDS; i++) {
        char name[] = { 't', (char)('0' + i), '\0' };
        hlk_owner *owner = hlk_owner_create(client, "order");
        hlk_lock *lock = held_by(client, name, kinds[i], owner);
        enum hlk_status status = release_across_a_restart(lock, false, fixture_counters(client).commands, client);
        assert_not_known(lock, name, status);
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        hlk_owner_destroy(owner);
    }
    cr_assert_eq(fixture_counters(client).lost, (uint64_t)KINDS);
}

/* The broken attempt has done nothing. The next one releases. */
Test(restart, that_kept_its_data_lets_a_release_be_done)
{
    hlk_client *client = open_patient();
    for (int i = 0; i < KINDS; i++) {
        char name[] = { 't', (char)('0' + i), '\0' };
        hlk_owner *owner = hlk_owner_create(client, "order");
        hlk_lock *lock = held_by(client, name, kinds[i], owner);
        enum hlk_status status = release_across_a_restart(lock, true, fixture_counters(client).commands, client);
        cr_assert_eq(status, HLK_OK, "%s: %s", name, hlk_status_name(status));
        cr_assert_eq(fixture_events(HLK_EVENT_LOST, name), 0u);
        hlk_owner_destroy(owner);
    }
}

struct completion {
    atomic_int done;
    enum hlk_status status;
};

static void complete(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct completion *completion = ctx;
    (void)lock;
    completion->status = status;
    atomic_store(&completion->done, 1);
}

Test(restart, that_forgot_the_hold_makes_a_completion_unsure)
{
    static struct completion completions[KINDS];
    hlk_client *client = open_patient();
    hlk_owner *owner = hlk_owner_create(client, "order");
    hlk_lock *locks[KINDS];
    char names[KINDS][3];
    for (int i = 0; i < KINDS; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        locks[i] = held_by(client, names[i], kinds[i], owner);
    }
    uint64_t commands = fixture_counters(client).commands;
    server_pause(fixture.server);
    for (int i = 0; i < KINDS; i++)
        cr_assert_eq(hlk_lock_release_async(locks[i], complete, &completions[i]), HLK_OK);
    WAIT_FOR(fixture_counters(client).commands >= commands + KINDS); /* what was not written is known to be LOST */
    server_comes_back(false);
    for (int i = 0; i < KINDS; i++) {
        WAIT_FOR(atomic_load(&completions[i].done));
        assert_not_known(locks[i], names[i], completions[i].status);
    }
    hlk_owner_destroy(owner);
}

/* The holder believed in it until then. The new holder has it already. */
/* Shows: S5 */
Test(restart, that_forgot_the_hold_is_told_after_a_new_holder)
{
    for (int i = 0; i < KINDS; i++) {
        hlk_client *client = open_patient(), *other = open_patient();
        char name[] = { 't', (char)('0' + i), '\0' };
        hlk_lock *lock = held_by(client, name, kinds[i], NULL);
        server_comes_back(false);
        hlk_lock *theirs = held_by(other, name, kinds[i], NULL);
        enum hlk_status status =
            hlk_lock_release(lock); /* LOST: nothing could be written, or the loss was reported before */
        while (status == HLK_E_CONNECT)
            status = hlk_lock_release(lock);
        cr_assert(ONE_OF(status, HLK_LOST, HLK_E_UNSURE), "%s: %s", name, hlk_status_name(status));
        fixture_wait_event(HLK_EVENT_LOST, name);
        cr_assert(is_held(name, hold_of(theirs)));
        cr_assert_eq(hlk_lock_release(theirs), HLK_OK, "%s", hlk_last_error());
        fixture_close(client);
        fixture_close(other);
    }
}

/* A release right after the server was restarted without data: its connection is dead, which is not known yet. */
Test(restart, that_forgot_the_hold_is_never_answered_done)
{
    for (int i = 0; i < 4 * KINDS; i++) {
        hlk_client *client = open_patient();
        char name[] = { 't', (char)('0' + i % KINDS), '\0' };
        hlk_lock *lock = held_by(client, name, kinds[i % KINDS], NULL);
        server_comes_back(false);
        enum hlk_status status = hlk_lock_release(lock);
        cr_assert(ONE_OF(status, HLK_LOST, HLK_E_UNSURE), "%s: %s", name, hlk_status_name(status));
        fixture_close(client);
    }
}
