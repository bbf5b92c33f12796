/* test_quorum_close.c - close of a client of several masters: what it releases, and what it waits for. */
#include "quorum_fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    quorum_begin(0);
}

TestSuite(quorum_close, .init = start, .fini = quorum_end, .timeout = 60);

/* A master had the hold and is away: a majority has answered the release, and is enough. */
static void close_without_it(bool releases)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = WAIT_MS;
    hlk_client *client = quorum_open_url(3, "", &opts);
    hlk_lock *lock = quorum_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    quorum_forget_view(0);
    server_kill(masters[0]);
    int64_t began = test_now_ms();
    if (releases)
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    quorum_close(client);
    cr_assert_lt(running_ms(began), WAIT_MS / 2);
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_close, does_not_await_an_absent_master_of_a_released_hold)
{
    close_without_it(true);
}

Test(quorum_close, does_not_await_an_absent_master_that_has_the_hold)
{
    close_without_it(false);
}

static void *closes(void *client)
{
    quorum_close(client);
    return NULL;
}

/* Redis 6.2 counts an error within a script as ERR. */
static int64_t refusals(int i)
{
    return raw_errors(views[i], "NOREPLICAS") + raw_errors(views[i], "ERR");
}

/* Close waits for the connection to the first master when the second one confirms the release. */
Test(quorum_close, ends_when_a_majority_confirms_with_a_master_away)
{
    struct hlk_client_opts opts = fixture_opts();
    pthread_t thread;
    opts.reply_timeout_ms = WAIT_MS;
    hlk_client *client = quorum_open_url(3, "", &opts);
    cr_assert_eq(hlk_lock_acquire(quorum_lock(client, "t", NULL), HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    raw(views[1], "CONFIG SET min-replicas-to-write 1");
    int64_t before = refusals(1);
    quorum_forget_view(0);
    server_kill(masters[0]);
    int64_t began = test_now_ms();
    pthread_create(&thread, NULL, closes, client);
    WAIT_FOR(refusals(1) - before >= 4); /* in pauses of 50 ms: close has looked at the first master since */
    raw(views[1], "CONFIG SET min-replicas-to-write 0");
    pthread_join(thread, NULL);
    cr_assert_lt(running_ms(began), WAIT_MS / 2);
    WAIT_FOR(quorum_keys("t") == 0);
}

Test(quorum_close, of_a_lost_hold_needs_no_release)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000;
    hlk_lock *lock = quorum_lock(quorum_open_url(3, PATIENT, &opts), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 3);
    for (int i = 0; i < 3; i++)
        raw(views[i], "DEL t");
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
}
