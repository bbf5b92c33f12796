/* The server is away while somebody waits or holds. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    pause_watch();
    server = server_start(SERVER_AOF, NULL);
    redis = raw_open(server);
    setenv("HASPLOCK_URL", hlk_test_url(server), 1);
    server_allow(server, SERVER_TOMBSTONES);
    server_allow(server, "hasplock_note:*"); /* one that a frozen server reads late stays for its ttl */
}

TestSuite(outage, .init = start, .fini = cli_stop);

/* Their renewals are due at ten moments of the 3 s between two of them, and at ten of 10 s. */
enum { HOLDERS = 10, APART_MS = 900 };

/* Seconds. Longer ones for a table: HLK_TEST_OUTAGE_S=20. */
static int length_s(void)
{
    const char *given = getenv("HLK_TEST_OUTAGE_S");
    return given ? atoi(given) : 15;
}

static void restart_later(void)
{
    redisFree(redis);
    server_kill(server);
    test_sleep_ms(1000 * length_s());
    server_restart(server, true);
    redis = raw_open(server);
}

static void continue_later(void)
{
    server_pause(server);
    test_sleep_ms(1000 * length_s());
    server_resume(server);
}

static void holds_through(void (*outage)(void))
{
    struct command *holders[HOLDERS];
    char name[8];
    int kept = 0;
    for (int i = 0; i < HOLDERS; i++) {
        snprintf(name, sizeof name, "t%d", i);
        holders[i] = COMMAND("run", name, "--", FAKE_COMMAND, "ready", "read");
        command_until(holders[i], OUT, "ready");
        test_sleep_ms(APART_MS);
    }
    struct command *waits = COMMAND("run", "t0", "--", "true");
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_queue:{t0}") == 1);
    outage();
    for (int i = 0; i < HOLDERS; i++) {
        command_type_end(holders[i]);
        int code = command_end(holders[i]);
        cr_assert(code == 0 || (length_s() > 15 && code == 75), "%d: %s", code, holders[i]->text[ERR]);
        kept += code == 0;
        command_free(holders[i]);
    }
    cr_log_info("away for %d s: %d of %d holds kept\n", length_s(), kept, HOLDERS);
    cr_assert_eq(command_end(waits), 0, "%s", waits->text[ERR]);
    command_free(waits);
}

Test(outage, of_15_s_ends_no_command)
{
    holds_through(restart_later);
}

Test(outage, of_15_s_by_a_frozen_server_ends_no_command)
{
    holds_through(continue_later);
}

#define FOREIGN "b983c153-7421-469a-addb-44fb92259a1b:1"

/* Longer than the library's default, which is 10 s. */
static void be_away_for_long(void)
{
    redisFree(redis);
    server_kill(server);
    test_sleep_ms(11000);
    server_restart(server, true);
    redis = raw_open(server);
}

Test(outage, of_any_length_does_not_end_a_wait)
{
    cr_assert_str_eq(raw(redis, "HSET t " FOREIGN " 1"), ":1");
    cr_assert_eq(RUN("latch", "set", "l", "1"), 0);
    struct command *run = COMMAND("run", "t", "--", "true"), *timed = COMMAND("run", "-w", "60", "t", "--", "true");
    struct command *latch = COMMAND("latch", "wait", "l"), *barrier = COMMAND("barrier", "-n", "2", "b");
    server_allow(server, "hasplock_barrier:{b}");
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_queue:{t}") == 2);
    WAIT_FOR(strstr(raw(redis, "PUBSUB NUMSUB redisson_countdownlatch__channel__{l}"), ":1]"));
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_arrived:{b}") == 1);
    be_away_for_long();
    raw(redis, "DEL t");
    cr_assert_eq(RUN("latch", "down", "l"), 0);
    cr_assert_eq(RUN("barrier", "-n", "2", "b"), 0);
    cr_assert_eq(command_end(barrier), 0, "%s", barrier->text[ERR]);
    cr_assert_eq(command_end(latch), 0, "%s", latch->text[ERR]);
    cr_assert_eq(command_end(run), 0, "%s", run->text[ERR]);
    cr_assert_eq(command_end(timed), 0, "%s", timed->text[ERR]);
    command_free(barrier);
    command_free(latch);
    command_free(run);
    command_free(timed);
}

Test(outage, before_the_first_connection_is_waited_out_as_asked)
{
    redisFree(redis);
    server_kill(server);
    struct command *run = COMMAND("run", "-w", "60", "t", "--", "true");
    struct command *several = COMMAND("run", "-w", "60", "a", "b", "--", "true");
    struct command *latch = COMMAND("latch", "wait", "--server-wait", "60", "l");
    test_sleep_ms(11000);
    server_restart(server, true);
    redis = raw_open(server);
    cr_assert_eq(command_end(run), 0, "%s", run->text[ERR]);
    cr_assert_eq(command_end(several), 0, "%s", several->text[ERR]);
    cr_assert_eq(command_end(latch), 0, "%s", latch->text[ERR]);
    command_free(run);
    command_free(several);
    command_free(latch);
}

static void gives_up(struct command *c)
{
    cr_assert_eq(command_end(c), 69, "%s", c->text[ERR]);
    const char *after = strstr(c->text[ERR], "; gave up after ");
    cr_assert_not_null(after, "%s", c->text[ERR]);
    double gave_up_s = strtod(after + strlen("; gave up after "), NULL);
    cr_assert(gave_up_s >= 0.4 && gave_up_s < 5, "%s", c->text[ERR]); /* by default it is 10 */
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
}

Test(outage, is_waited_for_no_longer_than_server_wait)
{
    cr_assert_str_eq(raw(redis, "HSET t " FOREIGN " 1"), ":1");
    struct command *run = COMMAND("run", "--server-wait", "0.4", "t", "--", "true");
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_queue:{t}") == 1);
    redisFree(redis);
    server_kill(server);
    cr_assert_eq(command_end(run), 69, "%s", run->text[ERR]);
    server_allow(server, "hasplock_queue:{t}"); /* it could not take its ticket away */
    command_free(run);
    gives_up(COMMAND("run", "--server-wait=0.4", "-w", "60", "t", "--", "true"));
    gives_up(COMMAND("run", "--server-wait=0.4", "-w", "60", "a", "b", "--", "true"));
    gives_up(COMMAND("semaphore", "-k", "2", "--server-wait", "400ms", "s", "--", "true"));
    gives_up(COMMAND("latch", "wait", "l", "--server-wait", "400ms"));
    gives_up(COMMAND("barrier", "-n", "2", "b", "--server-wait", "400ms"));
    server_restart(server, true);
    redis = raw_open(server);
    raw(redis, "DEL t");
}
