/* hasplock demo, end to end and small: a real server, real processes that are really killed and stopped. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/hasplock-test-XXXXXX"; /* TMPDIR and working folder of the demo */

static void demo_start(void)
{
    cli_start();
    cr_assert_not_null(mkdtemp(dir));
    setenv("TMPDIR", dir, 1);
    cr_assert_eq(chdir(dir), 0);
}

static int files_left(void)
{
    int n = -2; /* . and .. */
    DIR *all = opendir(dir);
    while (readdir(all))
        n++;
    closedir(all);
    return n;
}

static void demo_stop(void)
{
    unlink("hasplock-demo.svg");
    unlink("other.svg");
    TEARDOWN_ASSERT(files_left() == 0);
    rmdir(dir);
    cli_stop();
}

TestSuite(demo, .init = demo_start, .fini = demo_stop);

#define DEMO(...) COMMAND("demo", "--url", getenv("HASPLOCK_URL"), __VA_ARGS__)

Test(demo, loses_updates_without_the_lock_and_none_with_it)
{
    struct command *c = DEMO("--items", "400", "--json");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    const char *out = c->text[OUT], *with = strstr(out, "\"event\":\"phase_end\",\"locked\":true");
    cr_assert_null(strstr(out, "\"lost_updates_without\":0,"), "%s", out);
    cr_assert_not_null(with, "%s", out);
    cr_assert_not_null(strstr(with, "\"items\":400,\"sold\":400,\"stock_left\":0,\"lost_updates\":0,\"oversold\":0"));
    const char *hand_overs = strstr(out, "\"event\":\"hand_overs\"");
    int local = 0, across = 0;
    cr_assert_not_null(hand_overs, "%s", out);
    cr_assert_eq(sscanf(strstr(hand_overs, "\"local\""), "\"local\":%d,\"across\":%d", &local, &across), 2);
    cr_assert_gt(local, 0);
    cr_assert_gt(across, 0);
    cr_assert_leq(local + across, 500, "as many as there were orders, or fewer");
    cr_assert_not_null(strstr(out, "\"overlaps\":0,\"picture\":\"hasplock-demo.svg\",\"good\":true}\n"));
    command_free(c);
    cr_assert_str_eq(raw(redis, "DBSIZE"), ":0");
}

static void tells(struct command *c, const char *const *story, size_t n)
{
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    const char *at = c->text[OUT];
    for (size_t i = 0; i < n; i++) {
        const char *next = strstr(at, story[i]);
        cr_assert_not_null(next, "no \"%s\" behind: %s", story[i], at);
        at = next + 1;
    }
    cr_assert_str_empty(c->text[ERR]);
    command_free(c);
}

/* Shows: S1, S24 */
Test(demo, tells_in_order_of_a_killed_and_a_stopped_holder)
{
    static const char *const story[] = {
        "KILLED while it holds the lock",
        "got the lock",
        "STOPPED while it holds the lock",
        "got the lock",
        "woken after",
        "its own check refuses its late write",
        "0 ms of lease left",
        "told LOST",
        "its release answered HLK_LOST",
        "Hand-overs",
    };
    struct command *c = DEMO("--items", "400", "--plain");
    tells(c, story, sizeof story / sizeof story[0]);
}

Test(demo, over_several_masters_goes_on_when_one_is_killed)
{
    static const char *const story[] = {
        "a majority of 3 servers (redlock://)",
        "KILLED while it holds the lock",
        "got the lock",
        "KILLED server 3 of 3",
        "STOPPED while it holds the lock",
        "got the lock",
        "told LOST",
        "its release answered HLK_LOST",
        "2 of 3 are left since",
        "with it 0",
        "none in",
    };
    struct command *c = COMMAND("demo", "--redlock", "--items", "400", "--plain");
    tells(c, story, sizeof story / sizeof story[0]);
}

Test(demo, over_several_masters_has_the_figures_as_json)
{
    struct command *c = COMMAND("demo", "--redlock", "--items", "400", "--json");
    int after = 0;
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    const char *out = c->text[OUT], *masters = strstr(out, "\"event\":\"masters\"");
    cr_assert_not_null(strstr(out, "\"masters\":3,"), "%s", out);
    cr_assert_not_null(strstr(out, "\"event\":\"master_killed\""), "%s", out);
    cr_assert_not_null(masters, "%s", out);
    cr_assert_eq(sscanf(strstr(masters, "\"left\""), "\"left\":2,\"holds_after\":%d", &after), 1);
    cr_assert_gt(after, 0);
    cr_assert_null(strstr(out, "\"event\":\"hand_overs\""), "these counters are of one server");
    cr_assert_not_null(strstr(out, "\"overlaps\":0,\"picture\":\"hasplock-demo.svg\",\"good\":true}\n"), "%s", out);
    command_free(c);
    c = COMMAND("demo", "--redlock", "--items", "400", "--svg", "other.svg", "--plain");
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_eq(system("grep -q 'a server is killed' other.svg"), 0);
    command_free(c);
}

/* A picture that cannot be written is said before the work, not after it. */
Test(demo, refuses_a_picture_that_cannot_be_written_at_once)
{
    static const char *const names[] = { "", "/tmp", "/nonexistent/x.svg" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct command *c = DEMO("--items", "100", "--svg", names[i]);
        cr_assert_eq(command_end(c), 73, "%s", c->text[ERR]);
        cr_assert_str_empty(c->text[OUT], "it had begun: %s", c->text[OUT]);
        cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
        command_free(c);
    }
}

/* It is another program, beside hasplock or in PATH. */
Test(demo, says_when_it_is_not_installed)
{
    char command[400];
    setenv("PATH", "/usr/bin:/bin", 1);
    snprintf(command, sizeof command, "cp %s %s/hasplock && LD_LIBRARY_PATH=%s/../lib %s/hasplock demo", HASPLOCK, dir,
             HLK_CLI_DIR, dir);
    struct command *c = command_start((const char *const[]){ "sh", "-c", command, NULL });
    cr_assert_eq(command_end(c), 127, "%s", c->text[ERR]);
    cr_assert_str_eq(c->text[ERR], "hasplock: demo: hasplock-demo is not installed. It needs SQLite, and is built with "
                                   "-DHLK_DEMO=ON\n");
    command_free(c);
    unlink("hasplock");
}

Test(demo, is_plain_in_a_pipe_and_draws_to_the_named_file)
{
    struct command *c = DEMO("--items", "100", "--processes", "2", "--threads", "2", "--svg", "other.svg");
    char head[5] = "";
    cr_assert_eq(command_end(c), 0, "%s", c->text[ERR]);
    cr_assert_null(strchr(c->text[OUT], '\033'));
    cr_assert_not_null(strstr(c->text[OUT], "other.svg\n"));
    FILE *picture = fopen("other.svg", "r");
    cr_assert_not_null(picture);
    cr_assert_eq(fread(head, 1, 4, picture), 4);
    cr_assert_str_eq(head, "<svg");
    fclose(picture);
    command_free(c);
}

/* Each of the demo's children: its pid stands in /proc/<pid>/task/<pid>/children. */
static int children_of(pid_t pid, long *pids, int most)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *in = fopen(path, "r");
    while (in && n < most && fscanf(in, "%ld", &pids[n]) == 1)
        n++;
    if (in)
        fclose(in);
    return n;
}

/* c runs; children: its workers, and servers of its own */
static void ends_with_its_children(struct command *c, int children, int with)
{
    long pids[8];
    command_until(c, OUT, "STOPPED"); /* the hardest moment: one of them cannot do anything for its own end */
    int n = children_of(c->pid, pids, 8);
    cr_assert_eq(n, children);
    kill(c->pid, with);
    cr_assert_eq(command_end(c), DIED_OF + with);
    for (int i = 0; i < n; i++)
        WAIT_FOR(process_is_gone((pid_t)pids[i]));
    command_free(c);
}

#define LONG_DEMO(...) COMMAND("demo", __VA_ARGS__, "--items", "3000", "--seconds", "60")

static void ends_with_its_workers(int with)
{
    ends_with_its_children(LONG_DEMO("--url", getenv("HASPLOCK_URL")), 4, with);
}

Test(demo, leaves_no_master_behind_when_it_is_interrupted)
{
    ends_with_its_children(LONG_DEMO("--redlock"), 4 + 2, SIGINT);
    cr_assert_eq(files_left(), 0);
}

Test(demo, takes_its_masters_along_when_it_is_killed)
{
    ends_with_its_children(LONG_DEMO("--redlock"), 4 + 2, SIGKILL);
    cr_assert_eq(system("rm -rf hasplock-demo*"), 0);
}

Test(demo, leaves_nothing_behind_when_it_is_interrupted)
{
    ends_with_its_workers(SIGINT);
    cr_assert_eq(files_left(), 0);
}

Test(demo, leaves_nothing_behind_when_it_is_terminated)
{
    ends_with_its_workers(SIGTERM);
    cr_assert_eq(files_left(), 0);
}

Test(demo, takes_its_workers_along_when_it_is_killed)
{
    server_allow(server, SERVER_QUEUE); /* nobody could, as of the files */
    ends_with_its_workers(SIGKILL);
    cr_assert_eq(system("rm -rf hasplock-demo*"), 0);
}

Test(demo, refuses_what_it_does_not_understand)
{
    static const struct {
        const char *option, *value, *says;
    } bad[] = {
        { "--processes", "1", "hasplock: demo: --processes: \"1\" is not within 2 to 16\n" },
        { "--threads", "four", "hasplock: demo: --threads: \"four\" is not a whole number\n" },
        { "--threads", "32", "hasplock: demo: 4 processes x 32 threads are 128 threads; 64 are possible\n" },
        { "--items", "-5", "hasplock: demo: --items: \"-5\" is not a whole number\n" },
        { "--seconds", "99999999999999999999", "is no length of time from 1s to 1h\n" },
        { "--nonsense", "1", "hasplock: demo: no option --nonsense" },
        { "--redlock", "--plain", "hasplock: demo: --redlock has servers of its own; --url is not possible with it\n" },
        { "--worker", "0", "hasplock: demo: --worker is for the demo's own processes\n" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct command *c = DEMO(bad[i].option, bad[i].value);
        cr_assert_eq(command_end(c), 64);
        cr_assert_not_null(strstr(c->text[ERR], bad[i].says), "%s", c->text[ERR]);
        cr_assert_eq(count_lines(c->text[ERR]), 1);
        cr_assert_str_empty(c->text[OUT]);
        command_free(c);
    }
}

Test(demo, says_where_no_server_is_and_begins_nothing)
{
    struct command *c = COMMAND("demo", "--url", "unix:/nowhere.sock");
    cr_assert_eq(command_end(c), 69);
    cr_assert_eq(count_lines(c->text[ERR]), 1);
    cr_assert_str_empty(c->text[OUT]);
    command_free(c);
}

Test(demo, says_when_the_picture_cannot_be_written)
{
    struct command *c = DEMO("--svg", "/nowhere/x.svg");
    cr_assert_eq(command_end(c), 73);
    cr_assert_str_eq(c->text[ERR],
                     "hasplock: demo: --svg: cannot write \"/nowhere/x.svg\": No such file or directory\n");
    command_free(c);
}

Test(demo, says_when_what_it_shows_cannot_be_written)
{
    struct command *c = command_start((const char *const[]){
        "sh", "-c", "exec \"$0\" demo --url \"$HASPLOCK_URL\" --items 50 --plain >/dev/full", HASPLOCK, NULL });
    cr_assert_eq(command_end(c), 74);
    cr_assert_str_eq(c->text[ERR], "hasplock: demo: cannot write to stdout\n");
    command_free(c);
}

Test(demo, says_when_the_stock_cannot_be_read)
{
    struct command *c = DEMO("--items", "1000000", "--seconds", "5");
    char path[200];
    command_until(c, OUT, "20 %"); /* its workers have it open; we shall open it 4 s later, at the end of the part */
    command_until(c, OUT, "hasplock-demo-");
    const char *at = strstr(c->text[OUT], "hasplock-demo-");
    snprintf(path, sizeof path, "%s/%.20s/stock-0", dir, at);
    cr_assert_eq(unlink(path), 0, "%s", path);
    cr_assert_eq(command_end(c), 74);
    cr_assert_not_null(strstr(c->text[ERR], "stock"), "%s", c->text[ERR]);
    command_free(c);
}

Test(demo, redraws_on_a_terminal_without_colour_when_asked)
{
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    struct command *c = command_start_on_terminal(
        (const char *const[]){ HASPLOCK, "demo", "--url", getenv("HASPLOCK_URL"), "--items", "100", NULL });
    cr_assert_eq(command_end(c), 0, "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "\033[K"));
    cr_assert_not_null(strstr(c->text[OUT], "\033[?25h"), "the cursor is back");
    cr_assert_null(strstr(c->text[OUT], "\033[0m"), "a colour");
    command_free(c);
}

Test(demo, explains_itself)
{
    struct command *c = COMMAND("demo", "--help");
    cr_assert_eq(command_end(c), 0);
    cr_assert_not_null(strstr(c->text[OUT], "--svg FILE"));
    cr_assert_null(strstr(c->text[OUT], "--worker"));
    cr_assert_not_null(strstr(c->text[OUT], " 74 "));
    command_free(c);
}
