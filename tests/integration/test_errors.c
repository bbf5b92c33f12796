/* The text of the last error: operation, lock, endpoint, holder, ttl, cause; per thread; never a secret.
 *
 * asks A9 redsync 107, 125, 158: "lock already taken" told nobody anything. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void start(void)
{
    fixture_begin(0);
}

TestSuite(errors, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(status, .timeout = 60);

#define assert_names(part)                                                                                             \
    cr_assert_not_null(strstr(hlk_last_error(), (part)), "\"%s\" is not in: %s", (part), hlk_last_error())

static const char *endpoint(void)
{
    return fixture.server->acl ? "127.0.0.1" : fixture.server->socket;
}

Test(errors, of_busy_name_operation_lock_server_holder_and_ttl)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t 30000");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(hlk_last_status(), HLK_BUSY);
    assert_names("acquire");
    assert_names("\"t\"");
    assert_names(endpoint());
    assert_names("b983c153-7421-469a-addb-44fb92259a1b:1");
    assert_names("ttl");
    raw(fixture.redis, "DEL t");
}

Test(errors, of_timeout_names_the_wait_and_who_held_it)
{
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *theirs = fixture_lock(other, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(theirs, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, 123), HLK_TIMEOUT);
    assert_names("acquire \"t\"");
    const char *message = strstr(hlk_last_error(), "not acquired in ");
    cr_assert_not_null(message, "%s", hlk_last_error());
    cr_assert_geq(atoi(message + strlen("not acquired in ")), 123, "%s", hlk_last_error());
    assert_names(endpoint());
    assert_names("ttl");
    char host[256] = "", *dot;
    gethostname(host, sizeof host - 1);
    if ((dot = strchr(host, '.')))
        *dot = '\0';
    assert_names(host); /* holders of this library are shown by host and pid */
    cr_assert_eq(hlk_lock_acquire(lock, 700), HLK_TIMEOUT);
    assert_names(" s ago"); /* the age of that information: the holder may be another one by now */
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

Test(errors, of_release_and_extend_name_what_was_not_held)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_last_status(), HLK_NOT_HOLDER);
    assert_names("release \"t\"");
    cr_assert_eq(hlk_lock_extend(lock, 1000), HLK_NOT_HOLDER);
    assert_names("extend \"t\"");
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
    assert_names("break \"t\"");
}

Test(errors, of_a_loss_name_lock_and_cause)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_last_status(), HLK_LOST);
    assert_names("release \"t\"");
    assert_names("broken by this process");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    raw(fixture.redis, "DEL t");
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    cr_assert_eq(hlk_lock_extend(lock, 60000), HLK_LOST);
    assert_names("unknown to the server");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_LOST);
    assert_names("lost an earlier hold (unknown to the server");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    assert_names("unknown to the server");
}

Test(errors, of_interruption_name_operation_lock_and_server)
{
    hlk_client *client = fixture_open(NULL);
    hlk_cancel *cancel = hlk_cancel_create(client);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = cancel;
    hlk_cancel_trigger(cancel);
    cr_assert_eq(hlk_lock_acquire_with(fixture_lock(client, "t", NULL), &opts), HLK_INTERRUPTED);
    assert_names("acquire \"t\"");
    assert_names(endpoint());
    assert_names("nothing is held");
    hlk_cancel_destroy(cancel);
}

Test(errors, of_a_wait_behind_this_process_name_holder_and_ttl)
{
    hlk_client *client = fixture_open(NULL);
    hlk_owner *owner = hlk_owner_create(client, "order-4711");
    hlk_lock *owned = fixture_owned(client, "t", owner), *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = 20000;
    cr_assert_eq(hlk_lock_acquire_with(owned, &opts), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    assert_names("held by owner \"order-4711\" of this process, ttl 1"); /* 20 s minus the margin and some time */
    cr_assert_eq(hlk_lock_acquire(lock, 20), HLK_TIMEOUT);
    assert_names("held by owner \"order-4711\" of this process");
    cr_assert_eq(hlk_lock_release(owned), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(owned, HLK_NOWAIT), HLK_BUSY);
    assert_names("held by another thread or owner of this process, ttl 2");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    struct actor *gone = actor_start_wait(lock, HLK_NOWAIT);
    cr_assert_eq(actor_status(gone), HLK_OK);
    actor_leave(gone);
    fixture_wait_event(HLK_EVENT_ORPHANED, "t");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    assert_names("that has ended, ttl ");
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
    hlk_owner_destroy(owner);
}

Test(errors, of_the_server_are_quoted)
{
    hlk_lock *lock = fixture_lock(fixture_open(NULL), "t", NULL);
    raw(fixture.redis, "SET t text");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_SERVER);
    assert_names("acquire \"t\"");
    assert_names("the key is not a lock: another type is stored under this name");
    assert_names("WRONGTYPE");
    assert_names(endpoint());
    cr_assert_null(strstr(hlk_last_error(), "user_script"), "%s", hlk_last_error());
    raw(fixture.redis, "DEL t");
}

Test(errors, of_an_absent_server_name_where_it_should_be)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 1000;
    server_allow(fixture.server, SERVER_TOMBSTONES);
    hlk_lock *lock = fixture_lock(fixture_open(&opts), "t", NULL);
    redisFree(fixture.redis);
    server_kill(fixture.server);
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT); /* BUSY: the connection was broken already */
    cr_assert(status == HLK_BUSY || status == HLK_E_CONNECT, "%s", hlk_last_error());
    assert_names(endpoint());
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_E_CONNECT, "%s", hlk_last_error());
    assert_names("acquire \"t\"");
    assert_names(endpoint());
    server_restart(fixture.server, false);
    fixture.redis = raw_open(fixture.server);
}

Test(errors, show_names_of_locks_safely)
{
    hlk_client *client = fixture_open(NULL);
    char name[513];
    memset(name, 't', sizeof name);
    name[512] = '\0';
    cr_assert_eq(hlk_lock_release(fixture_lock(client, name, NULL)), HLK_NOT_HOLDER);
    cr_assert_lt(strlen(hlk_last_error()), 480u);
    assert_names("...");
    cr_assert_eq(hlk_lock_release(fixture_lock(client, "t\n\x1b[31m", NULL)), HLK_NOT_HOLDER);
    cr_assert_null(strchr(hlk_last_error(), '\n'));
    cr_assert_null(strchr(hlk_last_error(), '\x1b'));
}

static void *fail_differently(void *lock)
{
    cr_assert_str_eq(hlk_last_error(), "");
    cr_assert_eq(hlk_last_status(), HLK_OK);
    hlk_lock_release(lock);
    return NULL;
}

Test(errors, are_each_threads_own)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *other = fixture_lock(client, "t-other", NULL);
    pthread_t thread;
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_BUSY);
    pthread_create(&thread, NULL, fail_differently, other);
    pthread_join(thread, NULL);
    cr_assert_eq(hlk_last_status(), HLK_BUSY);
    assert_names("\"t\"");
    raw(fixture.redis, "DEL t");
}

Test(errors, stay_until_the_next_call_that_is_not_ok)
{
    hlk_client *client = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_last_status(), HLK_NOT_HOLDER);
    assert_names("release \"t\"");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- the table of codes */

Test(status, names_and_texts_exist_for_every_code_and_others)
{
    static const struct {
        enum hlk_status status;
        int value;
        const char *name;
    } codes[] = {
        { HLK_OK, 0, "HLK_OK" },
        { HLK_BUSY, 1, "HLK_BUSY" },
        { HLK_TIMEOUT, 2, "HLK_TIMEOUT" },
        { HLK_INTERRUPTED, 3, "HLK_INTERRUPTED" },
        { HLK_NOT_HOLDER, 4, "HLK_NOT_HOLDER" },
        { HLK_LOST, 5, "HLK_LOST" },
        { HLK_DEADLOCK, 6, "HLK_DEADLOCK" },
        { HLK_E_INVALID, -100, "HLK_E_INVALID" },
        { HLK_E_NOMEM, -101, "HLK_E_NOMEM" },
        { HLK_E_OS, -102, "HLK_E_OS" },
        { HLK_E_CONNECT, -103, "HLK_E_CONNECT" },
        { HLK_E_AUTH, -104, "HLK_E_AUTH" },
        { HLK_E_SERVER, -105, "HLK_E_SERVER" },
        { HLK_E_UNSURE, -106, "HLK_E_UNSURE" },
        { HLK_E_FORKED, -107, "HLK_E_FORKED" },
        { HLK_E_CLOSED, -108, "HLK_E_CLOSED" },
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        cr_assert_eq((int)codes[i].status, codes[i].value, "numbers never change");
        cr_assert_str_eq(hlk_status_name(codes[i].status), codes[i].name);
        cr_assert_str_not_empty(hlk_status_text(codes[i].status));
    }
    cr_assert_str_not_empty(hlk_status_name((enum hlk_status)77));
    cr_assert_str_not_empty(hlk_status_text((enum hlk_status) - 77));
}

Test(status, of_a_thread_that_made_no_call_is_ok_and_empty)
{
    cr_assert_str_eq(hlk_last_error(), "");
    cr_assert_eq(hlk_last_status(), HLK_OK);
}

Test(status, version_and_clock)
{
    cr_assert_str_eq(hlk_version(), "0.1.0");
    int64_t before = test_now_ms(), now = hlk_now_ms();
    cr_assert(before <= now && now <= test_now_ms());
}

/* --- a handle that could not be made */

/* What the creation said, which `call` says again on the handle that is NULL. */
#define SAYS_WHY(create, call)                                                                                         \
    do {                                                                                                               \
        char why[480];                                                                                                 \
        cr_assert_null(create);                                                                                        \
        snprintf(why, sizeof why, "%s", hlk_last_error());                                                             \
        for (int i = 0; i < 2; i++) {                                                                                  \
            cr_assert_eq(call, HLK_E_INVALID);                                                                         \
            assert_names(" is NULL; the last creation that failed in this thread: ");                                  \
            assert_names(why);                                                                                         \
        }                                                                                                              \
    } while (0)

/* Over several masters there is no read/write lock, semaphore or latch, and on one server no quorum. */
Test(status, of_a_null_handle_says_why_it_was_not_made)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    struct hlk_permits_state permits = HLK_PERMITS_STATE_INIT;
    hlk_client *client = NULL, *masters = NULL;
    hlk_lock *const members[] = { NULL };
    int64_t n;
    opts.flags = HLK_OPEN_LAZY;
    cr_assert_eq(hlk_client_open(&client, "redis://127.0.0.1:1", &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_client_open(&masters, "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", &opts), HLK_OK, "%s",
                 hlk_last_error());
    cr_assert_eq(hlk_lock_acquire(NULL, HLK_NOWAIT), HLK_E_INVALID);
    cr_assert_str_eq(hlk_last_error(), "acquire: lock is NULL");
    SAYS_WHY(hlk_rwlock_create(masters, "t", NULL), hlk_lock_acquire(hlk_rwlock_read(NULL), HLK_NOWAIT));
    SAYS_WHY(hlk_rwlock_create(masters, "t", NULL), hlk_lock_release(hlk_rwlock_write(NULL)));
    SAYS_WHY(hlk_lock_create(client, "", NULL), hlk_lock_query(NULL, &state));
    SAYS_WHY(hlk_lock_create(client, "", NULL), hlk_lock_acquire_async(NULL, NULL, NULL, NULL));
    SAYS_WHY(hlk_lock_create_multilock(NULL, 0, NULL), hlk_lock_extend(NULL, 1000));
    SAYS_WHY(hlk_latch_create(masters, "t"), hlk_latch_count(NULL, &n));
    SAYS_WHY(hlk_latch_create(masters, "t"), hlk_latch_await(NULL, 0));
    SAYS_WHY(hlk_semaphore_create(masters, "t"), hlk_semaphore_acquire(NULL, 1, 0));
    SAYS_WHY(hlk_semaphore_create(masters, "t"), hlk_semaphore_release(NULL, 1));
    SAYS_WHY(hlk_permits_create(masters, "t", NULL), hlk_permits_query(NULL, &permits));
    SAYS_WHY(hlk_permits_create(masters, "t", NULL), hlk_lock_acquire(hlk_permits_permit(NULL), 0));
    SAYS_WHY(hlk_quorum_create(client, "t", NULL), hlk_quorum_acquire(NULL, HLK_NOWAIT));
    SAYS_WHY(hlk_quorum_create(client, "t", NULL), hlk_quorum_release(NULL));
    cr_assert_null(hlk_lock_create(client, "", NULL));
    cr_assert_null(hlk_lock_create_multilock(members, 1, NULL));
    assert_names("create multilock: member 0 is NULL; the last creation that failed in this thread: create lock");
    hlk_client_close(client);
    hlk_client_close(masters);
}

/* --- scripts that the server has lost */

/* Only the release's script is lost: the release is sent again, behind the try. Whether its reply is processed before
 * or after the try's, the try must not be BUSY because of the hold that is over. */
Test(errors, of_a_forgotten_release_make_no_try_of_ours_busy)
{
    enum { ROUNDS = 200 };
    hlk_client *client = fixture_open(NULL), *other = fixture_open(NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    for (int i = 0; i < ROUNDS; i++) {
        char name[16];
        cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "round %d: %s", i, hlk_last_error());
        snprintf(name, sizeof name, "t%d", i);
        raw(fixture.redis, "SCRIPT FLUSH");
        cr_assert_eq(hlk_lock_acquire(fixture_lock(other, name, NULL), HLK_NOWAIT), HLK_OK);
        cr_assert_eq(hlk_lock_release_async(lock, NULL, NULL), HLK_OK);
    }
}
