/* show, list and break find the kind of a name by themselves. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void start(void)
{
    cli_start();
    if (server->acl)
        raw(redis, "ACL SETUSER locks +scan"), raw(redis, "ACL SETUSER locks +type");
}

static void stop(void)
{
    raw(redis, "FLUSHALL"); /* queues, tombstones, numbers of permits */
    cli_stop();
}

TestSuite(kinds, .init = start, .fini = stop);

/* Runs until a line is typed. The lease is so long that no renewal finds a break. */
#define HOLD(...) HOLDER(__VA_ARGS__, "t")
static void end_holder(struct command *holder, int code)
{
    command_type_end(holder);
    cr_assert_eq(command_end(holder), code, "%s", holder->text[ERR]);
    command_free(holder);
}

static void says(const char *command, const char *option, int code, const char *words)
{
    struct command *c = option ? COMMAND(command, option, "t") : COMMAND(command, "t");
    cr_assert_eq(command_end(c), code, "%s%s", c->text[OUT], c->text[ERR]);
    cr_assert(*words ? strstr(c->text[OUT], words) != NULL : !*c->text[OUT], "%s: %s instead of %s", command,
              c->text[OUT], words);
    command_free(c);
}

static void refuses(const char *command, const char *words)
{
    struct command *c = COMMAND(command, "t");
    cr_assert_eq(command_end(c), 70, "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[ERR], words), "%s", c->text[ERR]);
    cr_assert_str_empty(c->text[OUT]);
    command_free(c);
}

Test(kinds, of_a_lock_to_read_is_found)
{
    struct command *first = HOLD("run", "-s", "--lease", "1h"), *second = HOLD("run", "-s", "--lease", "1h");
    says("show", NULL, 0, "t: held to read 2 times, once by ");
    says("show", "--json", 0, "\"held\":true,\"kind\":\"read\",\"holder\":");
    says("list", NULL, 0, "t: held to read 2 times, once by ");
    says("break", "--now", 0, "t: taken from ");
    end_holder(first, 75);
    end_holder(second, 75);
    says("show", NULL, 1, "t: free\n");
    says("list", NULL, 0, "");
}

Test(kinds, of_a_lock_to_write_is_found)
{
    struct command *writer = HOLD("run", "-x", "--lease", "1h");
    struct command *reader = COMMAND("run", "-s", "t", "--", "true");
    WAIT_FOR(raw_int(redis, "ZCOUNT hasplock_rwlock:{t} 1 1e15") == 1);
    says("show", NULL, 0, "t: held to write by ");
    says("list", "--json", 0, "\"kind\":\"write\",\"holder\":");
    says("list", NULL, 0, ", 1 waiting; for ");
    says("break", "--now", 0, "t: taken from ");
    end_holder(writer, 75);
    end_holder(reader, 0);
}

Test(kinds, of_a_fair_lock_is_found_by_its_queue)
{
    struct command *holder = HOLD("run", "--fair", "--lease", "1h");
    struct command *next = COMMAND("run", "--fair", "t", "--", "true");
    WAIT_FOR(raw_int(redis, "LLEN redisson_lock_queue:{t}") == 1);
    says("show", NULL, 0, ", 1 waiting\n");
    says("show", NULL, 0, "\n  1. ");
    says("show", "--json", 0, "\"kind\":\"fair\",");
    says("break", "--now", 0, "t: taken from ");
    end_holder(holder, 75);
    end_holder(next, 0);
}

/* It looks like a plain lock. */
Test(kinds, of_a_fair_lock_without_waiters_is_broken_too)
{
    struct command *holder = HOLD("run", "--fair", "--lease", "1h");
    says("show", NULL, 0, "t: held by ");
    says("break", "--now", 0, "t: taken from ");
    end_holder(holder, 75);
}

Test(kinds, of_a_string_lock_of_hasplock_is_found)
{
    struct command *holder = HOLD("run", "--string", "--lease", "1h");
    says("show", NULL, 0, "t: held by ");
    says("show", "--json", 0, "\"kind\":\"string\",");
    says("list", NULL, 0, "t: held by ");
    says("break", "--now", 0, "t: taken from ");
    end_holder(holder, 75);
}

Test(kinds, of_another_string_is_not_guessed)
{
    raw(redis, "SET t 1f0b6c7e");
    refuses("show", "--string takes it for a lock");
    refuses("break", "--string takes it for a lock");
    says("list", NULL, 0, "");
    cr_assert_eq(raw_int(redis, "EXISTS t"), 1);
    says("show", "--string", 0, "t: held by 1f0b6c7e, ");
}

Test(kinds, of_permits_is_found)
{
    struct command *first = HOLD("semaphore", "-k", "3"), *second = HOLD("semaphore", "-k", "3");
    says("show", NULL, 0, "t: 1 permit free, 2 held with a lease, one by ");
    says("show", "--json", 0, "\"kind\":\"semaphore\",\"holder\":");
    says("list", NULL, 0, "t: 1 permit free, 2 held with a lease, one by ");
    says("list", "--json", 0, ",\"free\":1,\"waiting\":0}\n");
    refuses("break", "a semaphore has no holder to break");
    end_holder(first, 0);
    end_holder(second, 0);
    says("show", NULL, 1, "t: 3 permits free, none held with a lease\n");
    says("list", NULL, 0, "");
}

Test(kinds, of_a_number_are_told_apart_by_who_waits)
{
    cr_assert_eq(RUN("latch", "set", "t", "3"), 0);
    says("show", NULL, 0, "t: number 3: a latch, a semaphore, or other data\n");
    says("list", NULL, 0, "");
    says("list", "--numbers", 0, "t: number 3: ");
    refuses("break", "a number");
    struct command *waiter = COMMAND("latch", "wait", "t");
    WAIT_FOR(raw_clients(redis, "pubsub") == 1);
    says("show", NULL, 0, "t: latch, count 3\n");
    says("show", "--json", 0, "{\"name\":\"t\",\"held\":true,\"kind\":\"latch\",\"count\":3}\n");
    says("list", "--numbers", 0, "t: latch, count 3\n");
    refuses("break", "latch reset");
    cr_assert_eq(RUN("latch", "reset", "t"), 0);
    end_holder(waiter, 0);
}

Test(kinds, of_a_barrier_is_shown_while_somebody_waits)
{
    struct command *waiter = COMMAND("barrier", "-n", "2", "t");
    WAIT_FOR(raw_int(redis, "ZCARD hasplock_arrived:{t}") == 1);
    says("show", NULL, 0, "t: 1 waits at the barrier\n");
    says("show", "--json", 0, "{\"name\":\"t\",\"kind\":\"barrier\",\"waiting\":1}\n");
    says("list", NULL, 0, "t: 1 waits at the barrier\n");
    says("break", "--now", 1, "t: free, nothing to break\n");
    cr_assert_eq(RUN("barrier", "-n", "2", "-q", "t"), 0);
    end_holder(waiter, 0);
    says("show", NULL, 1, "t: free\n");
}

/* Its lock may have the same name. */
Test(kinds, of_a_condition_is_shown_beside_its_lock)
{
    raw(redis, "HSET t hlk-web-3-4711-9f3c:12 1");
    raw(redis, "ZADD hasplock_condition:{t} 7 hlk-a-1-x:1 8 hlk-b-1-x:1");
    says("show", NULL, 0, "t: held by web-3 pid 4711 (hold 12), without end");
    says("show", NULL, 0, "\nt: 2 wait at the condition\n");
    says("list", NULL, 0, "\nt: 2 wait at the condition\n");
    says("list", "--json", 0, "{\"name\":\"t\",\"kind\":\"condition\",\"waiting\":2}\n");
}

Test(kinds, that_an_option_names_are_not_looked_for)
{
    struct command *reader = HOLD("run", "-s");
    says("show", "-x", 1, "t: not held to write\n");
    struct command *c = COMMAND("show", "--fair", "t");
    cr_assert_eq(command_end(c), 70);
    command_free(c);
    end_holder(reader, 0);
}

Test(kinds, are_seen_to_change_while_it_watches)
{
    raw(redis, "SET t 3");
    struct command *c = COMMAND("show", "--watch=100ms", "t");
    command_until(c, OUT, "t: number 3: ");
    raw(redis, "DEL t");
    command_until(c, OUT, "t: free\n");
    raw(redis, "HSET t mode read hlk-web-3-4711-9f3c:12 1");
    command_until(c, OUT, "t: held to read by web-3 pid 4711 (hold 12), ");
    raw(redis, "DEL t");
    raw(redis, "HSET t hlk-web-3-4711-9f3c:13 1");
    command_until(c, OUT, "t: held by web-3 pid 4711 (hold 13), ");
    kill(c->pid, SIGTERM);
    cr_assert_eq(command_end(c), DIED_OF + SIGTERM);
    command_free(c);
}

/* A user of plain locks only. */
Test(kinds, need_no_more_rights_than_the_lock)
{
    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    char url[128];
    cr_assert_str_eq(raw(admin, "ACL SETUSER bob on >pw ~t* ~hasplock_queue:{t* ~redisson_lock_token:{t* &* +@all"),
                     "OK");
    snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", guarded->port);
    raw(admin, "HSET t hlk-web-3-4711-9f3c:12 1");
    struct command *c = COMMAND("show", "-u", url, "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], "t: held by web-3 pid 4711 (hold 12), "), "%s", c->text[OUT]);
    command_free(c);
    cr_assert_eq(RUN("break", "--now", "-q", "-u", url, "t"), 0);
    redisFree(admin);
    server_stop(guarded);
}
