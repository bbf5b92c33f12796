/* A semaphore's command that has run and was not answered, and a server that cannot be reached for longer than Redis
 * keeps the note of it. No permit is made or taken twice: the command is not repeated, and who called it is told, or it
 * is logged. The client's clock is played. What the server does in such a time is done by hand: the notes go. */
/* Shows: P49 */
#include "fixture.h"

#include "base/clock.h"
#include "script/command.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MINUTE_MS = 60000, OUTAGE_MS = HLK_NOTE_MS + MINUTE_MS, SHORT_MS = HLK_REPEAT_MS - MINUTE_MS, PERMITS = 10 };

#define QUEUE "hasplock_queue:{t}"
#define NOTES "ZCOUNT " QUEUE " 3e15 (4e15"

static atomic_llong ahead_ns;

static int64_t played_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec + atomic_load(&ahead_ns);
}

static hlk_client *client;
static hlk_semaphore *ours, *theirs; /* theirs: no fault hits it */

static hlk_semaphore *semaphore_of(hlk_client *of)
{
    hlk_semaphore *semaphore = hlk_semaphore_create(of, "t");
    cr_assert_not_null(semaphore, "%s", hlk_last_error());
    return semaphore;
}

static void start(void)
{
    hlk_clock_play(played_ns);
    fault_up(STAGE_PROXY);
    struct hlk_client_opts opts = fault_opts();
    opts.reconnect_timeout_ms = -1; /* the played time passes in a moment */
    client = fixture_open(&opts);
    ours = semaphore_of(client);
    theirs = semaphore_of(bystander());
    cr_assert_eq(hlk_semaphore_try_set(theirs, PERMITS, 0), HLK_OK);
    cr_assert_eq(hlk_semaphore_acquire(theirs, PERMITS / 2, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_semaphore_release(ours, 1), HLK_OK, "%s", hlk_last_error()); /* it is connected */
    cr_assert_eq(hlk_semaphore_acquire(ours, 1, HLK_NOWAIT), HLK_OK);
}

static void stop(void)
{
    hlk_semaphore_destroy(ours);
    hlk_semaphore_destroy(theirs);
    fixture_close_all();
    raw(fixture.redis, "DEL t " QUEUE);
    fixture_end();
    hlk_clock_play(NULL);
}

TestSuite(outage, .init = start, .fini = stop, .timeout = 60);

static int64_t free_permits(void)
{
    return raw_int(fixture.redis, "EVAL %s 0", "return tonumber(redis.call('get', 't') or 0)");
}

/* The next script of the client runs, is not answered, and no connection is made after it. */
static void begin_outage(void)
{
    proxy_refuse(fixture.proxy, true);
    proxy_arm(fixture.proxy, PROXY_CUT_AFTER, PROXY_SCRIPTS, 1);
}

static void end_outage(int64_t after_ms)
{
    proxy_wait_struck(fixture.proxy);
    atomic_fetch_add(&ahead_ns, after_ms * 1000000);
    if (after_ms > HLK_NOTE_MS)
        raw(fixture.redis, "ZREMRANGEBYSCORE " QUEUE " 2e15 +inf");
    proxy_refuse(fixture.proxy, false);
}

/* What is repeated was sent before this is answered, and answers that nobody waits for are read with this one. */
static bool next_command(void)
{
    int64_t n;
    cr_assert_eq(hlk_semaphore_available(ours, &n), HLK_OK, "%s", hlk_last_error());
    return true;
}

/* --- releases */

static void released_before_an_outage(void)
{
    begin_outage();
    enum hlk_status status = hlk_semaphore_release(ours, 1);
    cr_assert_eq(status, HLK_E_UNSURE, "%s", hlk_last_error());
    cr_assert(strstr(hlk_last_error(), "happens once"), "%s", hlk_last_error());
    cr_assert_eq(free_permits(), PERMITS / 2 + 1);
}

Test(outage, makes_no_permits)
{
    released_before_an_outage();
    end_outage(OUTAGE_MS);
    next_command();
    cr_assert_eq(free_permits(), PERMITS / 2 + 1, "%lld", (long long)free_permits());
    WAIT_FOR(fixture_logged("1 permits are given back, or missing"));
}

Test(outage, that_is_short_is_waited_out)
{
    released_before_an_outage();
    end_outage(SHORT_MS);
    next_command();
    cr_assert_eq(free_permits(), PERMITS / 2 + 1, "%lld", (long long)free_permits());
    cr_assert_not(fixture_logged("or missing"));
}

static void on_done(hlk_semaphore *semaphore, enum hlk_status status, void *ctx)
{
    (void)semaphore;
    atomic_store((atomic_int *)ctx, (int)status);
}

Test(outage, is_told_to_the_completion_of_a_release)
{
    atomic_int answer = 1;
    begin_outage();
    cr_assert_eq(hlk_semaphore_release_async(ours, 1, on_done, &answer), HLK_OK);
    end_outage(OUTAGE_MS);
    WAIT_FOR(atomic_load(&answer) != 1);
    cr_assert_eq(atomic_load(&answer), HLK_E_UNSURE, "%s", hlk_status_name((enum hlk_status)atomic_load(&answer)));
    next_command();
    cr_assert_eq(free_permits(), PERMITS / 2 + 1, "%lld", (long long)free_permits());
}

/* Without a server, too: nobody would know more when it is back. */
Test(outage, ends_a_release_while_it_lasts)
{
    atomic_int answer = 1;
    begin_outage();
    cr_assert_eq(hlk_semaphore_release_async(ours, 1, on_done, &answer), HLK_OK);
    proxy_wait_struck(fixture.proxy);
    atomic_fetch_add(&ahead_ns, OUTAGE_MS * INT64_C(1000000));
    WAIT_FOR(atomic_load(&answer) == HLK_E_UNSURE);
    proxy_refuse(fixture.proxy, false);
}

/* What was never sent has left no note: it is sent however late it is. */
Test(outage, delays_a_release_that_was_not_sent)
{
    proxy_refuse(fixture.proxy, true);
    proxy_cut_all(fixture.proxy);
    enum hlk_status status = hlk_semaphore_release(ours, 1);
    cr_assert_eq(status, HLK_E_CONNECT, "%s", hlk_last_error());
    atomic_fetch_add(&ahead_ns, OUTAGE_MS * INT64_C(1000000));
    proxy_refuse(fixture.proxy, false);
    WAIT_FOR(free_permits() == PERMITS / 2 + 1);
    next_command();
    /* Its caller has left. Its note goes with the next command all the same. */
    int64_t notes = raw_int(fixture.redis, NOTES);
    cr_assert_eq(hlk_semaphore_release(ours, 1), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(fixture.redis, NOTES), notes);
}

/* --- acquires */

struct taker {
    pthread_t thread;
    int64_t wait_ms;
    hlk_cancel *cancel;
    enum hlk_status status;
    char error[256];
};

static void *takes(void *arg)
{
    struct taker *taker = arg;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = taker->wait_ms;
    opts.cancel = taker->cancel;
    taker->status = hlk_semaphore_acquire_with(ours, 1, &opts);
    if (taker->status != HLK_OK)
        snprintf(taker->error, sizeof taker->error, "%s", hlk_last_error());
    return NULL;
}

Test(outage, takes_no_permits_twice)
{
    struct taker taker = { .wait_ms = HLK_FOREVER };
    begin_outage();
    cr_assert_eq(pthread_create(&taker.thread, NULL, takes, &taker), 0);
    end_outage(OUTAGE_MS);
    pthread_join(taker.thread, NULL);
    cr_assert_eq(free_permits(), PERMITS / 2 - 1, "%lld", (long long)free_permits());
    cr_assert_eq(taker.status, HLK_E_UNSURE, "%s: %s", hlk_status_name(taker.status), taker.error);
    cr_assert(strstr(taker.error, "nobody has them"), "%s", taker.error);
    next_command();
    cr_assert_eq(free_permits(), PERMITS / 2 - 1, "%lld", (long long)free_permits());
    cr_assert_eq(raw_int(fixture.redis, NOTES), 0);
}

Test(outage, that_is_short_leaves_an_acquire_its_permits)
{
    struct taker taker = { .wait_ms = HLK_FOREVER };
    begin_outage();
    cr_assert_eq(pthread_create(&taker.thread, NULL, takes, &taker), 0);
    end_outage(SHORT_MS);
    pthread_join(taker.thread, NULL);
    cr_assert_eq(taker.status, HLK_OK, "%s: %s", hlk_status_name(taker.status), taker.error);
    cr_assert_eq(free_permits(), PERMITS / 2 - 1, "%lld", (long long)free_permits());
}

/* Cancelled with its attempt in doubt: what it may have taken is given back if its note is there. */
static void cancelled(int64_t outage_ms)
{
    struct taker taker = { .wait_ms = HLK_FOREVER, .cancel = hlk_cancel_create(client) };
    begin_outage();
    cr_assert_eq(pthread_create(&taker.thread, NULL, takes, &taker), 0);
    proxy_wait_struck(fixture.proxy);
    hlk_cancel_trigger(taker.cancel);
    pthread_join(taker.thread, NULL);
    cr_assert_eq(taker.status, HLK_INTERRUPTED, "%s: %s", hlk_status_name(taker.status), taker.error);
    cr_assert_eq(free_permits(), PERMITS / 2 - 1);
    end_outage(outage_ms);
    next_command();
    hlk_cancel_destroy(taker.cancel);
}

Test(outage, that_keeps_permits_of_a_cancel_is_logged)
{
    cancelled(OUTAGE_MS);
    WAIT_FOR(next_command() && fixture_logged("If it had, nobody has them"));
    cr_assert_eq(free_permits(), PERMITS / 2 - 1);
}

Test(outage, that_is_short_gives_back_after_a_cancel)
{
    cancelled(SHORT_MS);
    WAIT_FOR(next_command() && free_permits() == PERMITS / 2);
    cr_assert_not(fixture_logged("nobody has them"));
}

/* --- how long a note lives */

Test(outage_notes, live_as_long_in_lua_as_in_c)
{
    static const enum hlk_script scripts[] = { HLK_SCRIPT_SEMAPHORE_ACQUIRE, HLK_SCRIPT_SEMAPHORE_CHANGE,
                                               HLK_SCRIPT_SEMAPHORE_END, HLK_SCRIPT_SEMAPHORE_CONFIRM };
    char line[64];
    snprintf(line, sizeof line, "\nlocal NOTE_MS = %d\n", HLK_NOTE_MS);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        cr_assert(strstr(hlk_script_table[scripts[i]].text, line), "%s", hlk_script_table[scripts[i]].name);
    cr_assert_lt(HLK_REPEAT_MS + HLK_REPEAT_MS / 50, HLK_NOTE_MS, "clocks may differ by 2 percent");
}
