/* What a run says of itself beside its lock, for show and list: who, what, why, for how long. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void start(void)
{
    cli_start();
    if (server->acl)
        raw(redis, "ACL SETUSER locks +scan"), raw(redis, "ACL SETUSER locks +type");
}

static void stop(void)
{
    raw(redis, "FLUSHALL"); /* the number of permits, counters of tokens, locks of runs that were killed */
    cli_stop();
}

TestSuite(cli_note, .init = start, .fini = stop);

#define ECHO "sh", "-c", "echo ready; exec cat"
#define HOLD(...) holder_start((const char *const[]){ HASPLOCK, __VA_ARGS__, NULL })
static const char *notes(void)
{
    return raw(redis, "KEYS hasplock_note:*");
}

/* With its release the note is gone, too. */
static void end_holder(struct command *holder)
{
    holder_end(holder);
    cr_assert_str_eq(notes(), "[]");
}

static void says(const char *command, const char *name, const char *words)
{
    struct command *c = COMMAND(command, name);
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], words), "%s instead of %s", c->text[OUT], words);
    cr_assert_null(strchr(c->text[OUT], '\033'));
    command_free(c);
}

static void does_not_say(const char *command, const char *words)
{
    struct command *c = COMMAND(command, "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], "t: held by "), "%s", c->text[OUT]);
    cr_assert_null(strstr(c->text[OUT], words), "%s", c->text[OUT]);
    command_free(c);
}

static const char *user_name(void)
{
    const struct passwd *user = getpwuid(geteuid());
    static char number[32];
    snprintf(number, sizeof number, "uid %u", (unsigned)geteuid());
    return user ? user->pw_name : number;
}

/* The key of the only one. */
static const char *first_note(void)
{
    static char name[400];
    const char *keys = notes();
    cr_assert_eq(sscanf(keys, "[\"%399[^\"]\"]", name), 1, "%s", keys);
    return name;
}

Test(cli_note, says_who_runs_what_and_why)
{
    char words[300];
    struct command *holder = HOLD("run", "--note", "quarterly\nfigures", "t", "--", ECHO);
    says("show", "t", "\n  held for ");
    snprintf(words, sizeof words, " s by %s: sh\n  note: quarterly figures\n  for break: ", user_name());
    says("show", "t", words);
    snprintf(words, sizeof words, " s by %s: sh; note: quarterly figures\n", user_name());
    says("list", "t", words);
    says("list", "t", "; for ");
    end_holder(holder);
}

/* Nor does it need what COMMAND was given, which may be a password. */
Test(cli_note, needs_no_option)
{
    struct command *holder = HOLD("run", "t", "-c", "echo ready; exec cat");
    says("show", "t", ": /bin/sh\n");
    cr_assert_null(strstr(raw(redis, "GET %s", first_note()), "ready"));
    does_not_say("show", "note:");
    does_not_say("list", "note:");
    end_holder(holder);
}

Test(cli_note, is_not_written_if_it_is_empty)
{
    struct command *holder = HOLD("run", "--note", "", "t", "--", ECHO);
    cr_assert_str_eq(notes(), "[]");
    does_not_say("show", "held for");
    does_not_say("list", "; for");
    end_holder(holder);
}

static void is_in_json(const char *command)
{
    char user[300];
    struct command *c = COMMAND(command, "--json", "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    snprintf(user, sizeof user, ",\"user\":\"%s\",\"command\":\"sh\",", user_name());
    cr_assert_not_null(strstr(c->text[OUT], ",\"held_ms\":"), "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], user), "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "\"note\":\"a\\u001b[2Jb\\\"\""), "%s", c->text[OUT]);
    command_free(c);
}

Test(cli_note, has_fields_in_json)
{
    struct command *holder = HOLD("run", "--note", "a\033[2Jb\"", "t", "--", ECHO);
    is_in_json("show");
    is_in_json("list");
    end_holder(holder);
}

Test(cli_note, prints_no_control_bytes)
{
    struct command *holder = HOLD("run", "--note", "a\033[2Jb", "t", "--", ECHO);
    says("show", "t", "\n  note: a\\x1b[2Jb\n");
    says("list", "t", "; note: a\\x1b[2Jb\n");
    end_holder(holder);
}

/* A longer --note is refused. */
Test(cli_note, is_bounded)
{
    char note[202], shown[220];
    memset(note, 'n', sizeof note);
    note[201] = '\0';
    cr_assert_eq(RUN("run", "--note", note, "t", "--", "true"), 64);
    note[200] = '\0';
    struct command *holder = HOLD("run", "--note", note, "t", "--", ECHO);
    snprintf(shown, sizeof shown, "  note: %s\n", note);
    says("show", "t", shown);
    cr_assert_leq(raw_int(redis, "STRLEN %s", first_note()), 512);
    end_holder(holder);
}

Test(cli_note, is_written_for_each_of_several_names)
{
    struct command *holder = HOLD("run", "--note", "move", "ta", "tb", "--", ECHO);
    says("show", "ta", "\n  note: move\n");
    says("show", "tb", "\n  note: move\n");
    says("list", "ta", "; note: move\n");
    end_holder(holder);
}

Test(cli_note, is_written_for_each_kind)
{
    static const char *const kinds[] = { "--fair", "--string", "--spin", "-s", "-x", "--fenced" };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct command *holder = HOLD("run", kinds[i], "--note", "move", "t", "--", ECHO);
        says("show", "t", "\n  note: move\n");
        says("list", "t", "; note: move\n");
        end_holder(holder);
    }
    struct command *holder = HOLD("semaphore", "-k", "2", "--note", "move", "t", "--", ECHO);
    says("show", "t", "\n  note: move\n");
    says("list", "t", "; note: move\n");
    end_holder(holder);
}

Test(cli_note, is_found_beside_a_name_with_braces)
{
    struct command *holder = HOLD("run", "--note", "move", "t{1}", "--", ECHO);
    says("show", "t{1}", "\n  note: move\n");
    says("list", "t{1}", "; note: move\n");
    end_holder(holder);
}

/* For how long the lock had been held when the note was written; -1: there is no note. */
static long written_ms(void)
{
    char name[400];
    const char *key = notes();
    const char *text = sscanf(key, "[\"%399[^\"]\"]", name) == 1 ? raw(redis, "GET %s", name) : "";
    return *text == '"' ? strtol(text + 1, NULL, 10) : -1;
}

/* It lives for a lease, and is written again each third of it. */
Test(cli_note, lives_as_long_as_the_hold)
{
    struct command *holder = HOLD("run", "--lease", "3", "t", "--", ECHO);
    WAIT_FOR(written_ms() > 4000);
    command_type_end(holder);
    command_end(holder);
    cr_assert_str_eq(notes(), "[]");
    command_free(holder);
}

Test(cli_note, lives_on_while_the_lock_is_kept)
{
    struct command *holder = COMMAND("run", "--lease", "3", "--min-hold", "1h", "t", "--", "true");
    WAIT_FOR(written_ms() > 4000);
    kill(holder->pid, SIGTERM);
    cr_assert_eq(command_end(holder), 0, "%s", holder->text[ERR]);
    cr_assert_str_eq(notes(), "[]");
    command_free(holder);
}

Test(cli_note, ends_by_itself_when_its_run_is_killed)
{
    struct command *holder = HOLD("run", "--lease", "1", "t", "--", ECHO);
    kill(holder->pid, SIGKILL);
    cr_assert_eq(command_end(holder), DIED_OF + SIGKILL);
    WAIT_FOR(strcmp(notes(), "[]") == 0);
    command_free(holder);
}

Test(cli_note, of_a_broken_lock_is_removed)
{
    struct command *holder = HOLD("run", "--lease", "1h", "t", "--", ECHO);
    cr_assert_eq(RUN("break", "--now", "-q", "t"), 0);
    cr_assert_eq(command_end(holder), 75, "%s", holder->text[ERR]);
    WAIT_FOR(strcmp(notes(), "[]") == 0);
    command_free(holder);
}

Test(cli_note, of_a_program_is_any_text)
{
    raw(redis, "HSET t hlk-web-3-4711-9f3c:12 1");
    raw(redis, "SET hasplock_note:{t}:hlk-web-3-4711-9f3c:12 import");
    says("show", "t", ", without end (not by hasplock)\n  note: import\n  for break: ");
    says("list", "t", ", without end; note: import\n");
    raw(redis, "SET hasplock_note:{t}:hlk-web-3-4711-9f3c:12 %s PX 60000", "90061000 60000\nbob\n\nmake\nall");
    says("show", "t", "\n  held for 1 d 1 h by bob: make\\x0aall\n  for break: ");
}

/* Another holder's is not shown. */
Test(cli_note, belongs_to_its_holder)
{
    raw(redis, "HSET t hlk-web-3-4711-9f3c:12 1");
    raw(redis, "SET hasplock_note:{t}:hlk-web-3-4711-9f3c:11 import");
    does_not_say("show", "import");
    does_not_say("list", "import");
}

Test(cli_note, is_left_out_without_the_right)
{
    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    char url[128];
    cr_assert_str_eq(raw(admin, "ACL SETUSER bob on >pw ~t* ~hasplock_queue:{t* ~redisson_lock_token:{t* &* +@all"),
                     "OK");
    snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", guarded->port);
    struct command *holder = HOLD("run", "-u", url, "--note", "move", "t", "--", ECHO);
    struct command *c = COMMAND("show", "-u", url, "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], "t: held by "), "%s", c->text[OUT]);
    cr_assert_null(strstr(c->text[OUT], "held for"), "%s", c->text[OUT]);
    command_free(c);
    c = COMMAND("list", "-u", url, "t");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[OUT], "t: held by "), "%s", c->text[OUT]);
    command_free(c);
    cr_assert_str_eq(raw(admin, "KEYS hasplock_note:*"), "[]");
    command_type_end(holder);
    cr_assert_eq(command_end(holder), 0);
    cr_assert_str_empty(holder->text[ERR], "%s", holder->text[ERR]);
    command_free(holder);
    redisFree(admin);
    server_stop(guarded);
}

/* On a server that knows the scripts. What this test asks for is in the number. */
Test(cli_note, leaves_a_short_run_below_4_kb)
{
    cr_assert_eq(RUN("run", "-n", "t", "--", "true"), 0);
    int64_t before = raw_stat(redis, "total_net_input_bytes");
    cr_assert_eq(RUN("run", "-n", "t", "--", "true"), 0);
    cr_assert_lt(raw_stat(redis, "total_net_input_bytes") - before, 4096);
}

Test(cli_note, is_not_for_a_command_that_runs_nothing)
{
    cr_assert_eq(RUN("semaphore", "--delete", "--note", "move", "t"), 64);
    cr_assert_eq(RUN("show", "--note", "move", "t"), 64);
    cr_assert_eq(RUN("run", "--note"), 64);
}
