/* The commands of docs/acl.md, run as they are: each gives the rights that its section names. */
#include "support/acl_page.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

static void start(void)
{
    fixture_begin(SERVER_NOACL);
}

TestSuite(acl_page, .init = start, .fini = fixture_end, .timeout = 60);

/* Gives the page's user what a section of it says. Its locks have names that begin with app, as on the page. */
static void allow(const char *section)
{
    acl_page_run(fixture.redis, section, NULL);
}

static hlk_client *open_as_user(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.username = "locks";
    opts.password = "SECRET";
    return fixture_open(&opts);
}

static void wait_and_hand_over(hlk_client *client, hlk_client *other, const char *name, int kind)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = kind;
    hlk_lock *lock = fixture_lock(client, name, &opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct actor *next = actor_start(fixture_lock(other, name, &opts), NULL);
    WAIT_FOR_WAITERS(other, 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(next), HLK_OK, "%s", actor_error(next));
    cr_assert_eq(actor_end(next), HLK_OK);
}

Test(acl_page, is_enough_for_plain_and_fenced_locks)
{
    allow("Locks");
    hlk_client *client = open_as_user(), *other = open_as_user();
    wait_and_hand_over(client, other, "app:1", HLK_LOCK_PLAIN);
    wait_and_hand_over(client, other, "app:{2}", HLK_LOCK_PLAIN);
    wait_and_hand_over(client, other, "app:3", HLK_LOCK_FENCED);
    wait_and_hand_over(client, other, "app:{4}", HLK_LOCK_FENCED);
    hlk_lock *lock = fixture_lock(client, "app:1", NULL);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK);
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
    raw(fixture.redis, "DEL redisson_lock_token:{app:3} redisson_lock_token:app:{4}");
}

Test(acl_page, has_what_read_write_locks_need)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_READ;
    allow("Locks");
    hlk_client *client = open_as_user(), *other = open_as_user();
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "app:1", &opts), HLK_NOWAIT), HLK_E_AUTH);
    allow("Read/write locks");
    wait_and_hand_over(client, other, "app:1", HLK_LOCK_WRITE);
    wait_and_hand_over(client, other, "app:{2}", HLK_LOCK_WRITE);
    static const char *const names[] = { "app:1", "app:{2}" };
    for (int i = 0; i < 2; i++) {
        hlk_lock *reading = fixture_lock(client, names[i], &opts);
        struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
        cr_assert_eq(hlk_lock_acquire(reading, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_extend(reading, 60000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_query(reading, &state), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_break(reading), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(reading), HLK_LOST);
    }
}

Test(acl_page, has_what_fair_locks_need)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_FAIR;
    allow("Locks");
    hlk_client *client = open_as_user(), *other = open_as_user();
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "app:1", &opts), HLK_NOWAIT), HLK_E_AUTH);
    allow("Fair locks");
    wait_and_hand_over(client, other, "app:1", HLK_LOCK_FAIR);
    wait_and_hand_over(client, other, "app:{2}", HLK_LOCK_FAIR);
}

Test(acl_page, is_enough_for_spin_locks_without_pubsub)
{
    struct hlk_client_opts opts = fixture_opts();
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    allow("Without pub/sub");
    opts.username = "locks";
    opts.password = "SECRET";
    opts.flags = HLK_OPEN_NO_PUBSUB;
    hlk_client *client = fixture_open(&opts), *other = fixture_open(&opts);
    wait_and_hand_over(client, other, "app:1", HLK_LOCK_SPIN);
    wait_and_hand_over(client, other, "app:{2}", HLK_LOCK_SPIN);
    lock_opts.kind = HLK_LOCK_SPIN;
    hlk_lock *lock = fixture_lock(client, "app:1", &lock_opts);
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_break(fixture_lock(other, "app:1", &lock_opts)), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

Test(acl_page, has_what_string_locks_need)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_LOCK_STRING;
    allow("Locks");
    raw(fixture.redis, "ACL SETUSER locks -get -set -incrby");
    hlk_client *client = open_as_user(), *other = open_as_user();
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "app:1", &opts), HLK_NOWAIT), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "section String locks"), "%s", hlk_last_error());
    allow("String locks");
    wait_and_hand_over(client, other, "app:1", HLK_LOCK_STRING);
    wait_and_hand_over(client, other, "app:{2}", HLK_LOCK_STRING);
    hlk_lock *lock = fixture_lock(client, "app:1", &opts);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_break(fixture_lock(other, "app:1", &opts)), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
}

static void *counts_down(void *latch)
{
    WAIT_FOR(raw_clients(fixture.redis, "pubsub") > 0);
    cr_assert_eq(hlk_latch_count_down(latch, 1, NULL), HLK_OK, "%s", hlk_last_error());
    return NULL;
}

Test(acl_page, has_what_latches_need)
{
    static const char *const names[] = { "app:1", "app:{2}" };
    pthread_t thread;
    server_allow(fixture.server, SERVER_TOMBSTONES); /* of the last opening */
    allow("Locks");
    hlk_client *client = open_as_user();
    hlk_latch *latch = hlk_latch_create(client, "app:1");
    cr_assert_eq(hlk_latch_try_set(latch, 1), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_latch_await(latch, 1000), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "acl.md"), "%s", hlk_last_error());
    cr_assert_eq(hlk_latch_delete(latch), HLK_OK, "%s", hlk_last_error());
    hlk_latch_destroy(latch);
    allow("Latches");
    for (int i = 0; i < 2; i++) {
        latch = hlk_latch_create(client, names[i]);
        cr_assert_eq(hlk_latch_try_set(latch, 1), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(pthread_create(&thread, NULL, counts_down, latch), 0);
        cr_assert_eq(hlk_latch_await(latch, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
        pthread_join(thread, NULL);
        hlk_latch_destroy(latch);
    }
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

Test(acl_page, has_what_semaphores_need)
{
    allow("Locks");
    allow("Semaphores");
    hlk_client *client = open_as_user();
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "app:{2}" : "app:1";
        hlk_semaphore *semaphore = hlk_semaphore_create(client, name);
        cr_assert_eq(hlk_semaphore_try_set(semaphore, 1, 0), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, 100), HLK_TIMEOUT, "%s", hlk_last_error());
        cr_assert_eq(hlk_semaphore_release(semaphore, 1), HLK_OK, "%s", hlk_last_error());
        hlk_semaphore_destroy(semaphore);
        raw(fixture.redis, "DEL %s", name);
    }
}

Test(acl_page, has_what_permits_need)
{
    static const char *const names[] = { "app:1", "app:{2}" };
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    allow("Locks");
    allow("Semaphores");
    hlk_client *client = open_as_user(), *other = open_as_user();
    opts.kind = HLK_LOCK_PERMIT;
    cr_assert_eq(hlk_lock_acquire(fixture_lock(client, "app:1", &opts), HLK_NOWAIT), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "{app:1}:timeout"), "%s", hlk_last_error());
    allow("Permits");
    for (int i = 0; i < 2; i++) {
        struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
        hlk_permits *permits = hlk_permits_create(client, names[i], NULL);
        hlk_lock *permit = hlk_permits_permit(permits);
        cr_assert_eq(hlk_permits_try_set(permits, 1), HLK_OK, "%s", hlk_last_error());
        wait_and_hand_over(client, other, names[i], HLK_LOCK_PERMIT);
        cr_assert_eq(hlk_lock_acquire(permit, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_extend(permit, 60000), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_query(permit, &state), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(permit), HLK_OK, "%s", hlk_last_error());
        hlk_permits_destroy(permits);
        raw(fixture.redis, "DEL %s", names[i]);
    }
}

Test(acl_page, its_user_reaches_no_lock_of_another_name)
{
    allow("Locks");
    cr_assert_eq(hlk_lock_acquire(fixture_lock(open_as_user(), "other:1", NULL), HLK_NOWAIT), HLK_E_AUTH);
}

Test(acl_page, has_what_barriers_need)
{
    static const char *const names[] = { "app:1", "app:{2}" };
    server_allow(fixture.server, "hasplock_barrier*");
    allow("Locks");
    hlk_client *client = open_as_user();
    hlk_barrier *barrier = hlk_barrier_create(client, "app:1", 1, 0);
    cr_assert_eq(hlk_barrier_await(barrier, 1000, NULL), HLK_E_AUTH, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "acl.md"), "%s", hlk_last_error());
    hlk_barrier_destroy(barrier);
    allow("Barriers");
    for (int i = 0; i < 2; i++)
        for (unsigned parties = 1; parties <= 2; parties++) {
            barrier = hlk_barrier_create(client, names[i], parties, 0);
            cr_assert_eq(hlk_barrier_await(barrier, 100, NULL), parties == 1 ? HLK_OK : HLK_TIMEOUT, "%s",
                         hlk_last_error());
            hlk_barrier_destroy(barrier);
        }
}

Test(acl_page, has_what_conditions_need)
{
    static const char *const names[] = { "app:1", "app:{2}" };
    allow("Locks");
    hlk_client *client = open_as_user();
    hlk_condition *condition = hlk_condition_create(client, "app:1", 0);
    cr_assert_eq(hlk_condition_signal(condition), HLK_E_AUTH, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), "acl.md"), "%s", hlk_last_error());
    hlk_condition_destroy(condition);
    allow("Conditions");
    for (int i = 0; i < 2; i++) {
        hlk_lock *lock = fixture_lock(client, names[i], NULL);
        unsigned waiting = 77;
        condition = hlk_condition_create(client, names[i], 0);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_condition_wait(condition, lock, 100), HLK_TIMEOUT, "%s", hlk_last_error());
        cr_assert_eq(hlk_condition_signal(condition), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_condition_broadcast(condition), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_condition_waiting(condition, &waiting), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(waiting, 0u);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        hlk_condition_destroy(condition);
    }
}

Test(acl_page, has_what_notes_need)
{
    static const char *const names[] = { "app:1", "app:{2}" };
    char text[HLK_NOTE_MAX + 1];
    allow("Locks");
    hlk_client *client = open_as_user();
    hlk_lock *lock = fixture_lock(client, "app:1", NULL);
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(hlk_lock_write_note(lock, "import", 60000) == HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "section Notes"), "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "so all that was sent before is answered");
    int64_t refused = raw_errors(fixture.redis, "NOPERM");
    cr_assert_eq(hlk_lock_write_note(lock, NULL, 0), HLK_E_AUTH);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_errors(fixture.redis, "NOPERM"), refused, "nothing more was sent");
    cr_assert_eq(hlk_lock_read_note(lock, state.holder, text, sizeof text, NULL), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "hasplock_note:{app:1}"), "%s", hlk_last_error());
    raw(fixture.redis, "ACL SETUSER locks -get -set");
    allow("Notes");
    for (int i = 0; i < 2; i++) {
        lock = fixture_lock(client, names[i], NULL);
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_query(lock, &state), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_write_note(lock, "import", 60000), HLK_OK);
        cr_assert_eq(hlk_lock_read_note(lock, state.holder, text, sizeof text, NULL), HLK_OK, "%s", hlk_last_error());
        cr_assert_str_eq(text, "import");
        cr_assert_eq(hlk_lock_write_note(lock, NULL, 0), HLK_OK);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    }
}
