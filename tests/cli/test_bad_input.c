/* Bad input: one clear line that names what and where, the right exit code, and nothing changed. */
#include "fixture.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(bad_input, .init = cli_start, .fini = cli_stop);
TestSuite(help, .init = cli_start, .fini = cli_stop);

/* Runs it; `line` is the beginning of the one line on stderr, and nothing ran. */
static void refused(int code, const char *line, const char *const *argv)
{
    struct command *c = command_start(argv);
    int got = command_end(c);
    cr_assert_eq(got, code, "%d instead of %d: %s", got, code, c->text[ERR]);
    cr_assert_eq(strncmp(c->text[ERR], line, strlen(line)), 0, "%s instead of %s", c->text[ERR], line);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    cr_assert_str_empty(c->text[OUT], "%s", c->text[OUT]);
    command_free(c);
    cr_assert_eq(raw_int(redis, "DBSIZE"), 0);
}
#define REFUSED(code, line, ...) refused(code, line, (const char *const[]){ HASPLOCK, __VA_ARGS__, NULL })

Test(bad_input, of_a_command)
{
    refused(64, "hasplock: run, semaphore, latch, barrier, show, list, break, doctor or demo? See: hasplock --help\n",
            (const char *const[]){ HASPLOCK, NULL });
    REFUSED(64, "hasplock: run, semaphore, latch, barrier, show, list, break, doctor or demo? See: hasplock --help\n",
            "-v");
    REFUSED(64, "hasplock: no command \"lock\": run, semaphore, latch, barrier, show, list, break, doctor or demo",
            "lock");
    REFUSED(64, "hasplock: no command \"lock\": run, semaphore, latch, barrier, show, list, break, doctor or demo",
            "help", "lock");
    REFUSED(64, "hasplock: no option -n here; options of one command stand behind it", "-n", "run", "t", "true");
    REFUSED(64, "hasplock: no option --lease here; options of one command stand behind it", "--lease", "5", "run", "t");
    REFUSED(64, "hasplock: --url needs a value\n", "--url");
}

Test(bad_input, of_a_name)
{
    char name[514];
    memset(name, 't', 513);
    name[513] = '\0';
    REFUSED(64, "hasplock: run: NAME is empty; it has 1 to 512 bytes\n", "run", "", "echo", "x");
    REFUSED(64, "hasplock: run: NAME has 513 bytes; 1 to 512 are possible\n", "run", name, "echo", "x");
    REFUSED(64, "hasplock: show: NAME is empty", "show", "");
    REFUSED(64, "hasplock: break: NAME has 513 bytes", "break", name);
    REFUSED(64, "hasplock: run: no NAME given", "run");
    REFUSED(64, "hasplock: show: no NAME given", "show", "-q");
    REFUSED(64, "hasplock: show \"t\": one NAME, and no \"t2\" behind it\n", "show", "t", "t2");
    name[512] = '\0';
    cr_assert_eq(RUN("run", name, "true"), 0);
}

Test(bad_input, of_a_command_to_run)
{
    REFUSED(64, "hasplock: run \"t\": no COMMAND given\n", "run", "t");
    REFUSED(64, "hasplock: run \"t\": --fair and --fenced: a fair lock has no tokens\n", "run", "--fair", "--fenced",
            "t", "true");
    REFUSED(64, "hasplock: run \"t\": --string and --fenced: a string lock has no tokens\n", "run", "--string",
            "--fenced", "t", "true");
    REFUSED(64, "hasplock: show \"t\": --string and --fair: these are different locks\n", "show", "--string", "--fair",
            "t");
    REFUSED(64, "hasplock: run \"t\": -s and -x: to read or to write?\n", "run", "-sx", "t", "true");
    REFUSED(64, "hasplock: run \"t\": -s and --fair: these are different locks\n", "run", "-s", "--fair", "t", "true");
    REFUSED(64, "hasplock: show \"t\": -x and --string: these are different locks\n", "show", "-x", "--string", "t");
    REFUSED(64, "hasplock: run \"t\": -x and --fenced: a read/write lock has no tokens\n", "run", "-x", "--fenced", "t",
            "true");
    REFUSED(64, "hasplock: run \"t\": --spin and --fair: these are different locks\n", "run", "--spin", "--fair", "t",
            "true");
    REFUSED(64, "hasplock: run \"t\": --spin and --fenced: a spin lock has no tokens\n", "run", "--spin", "--fenced",
            "t", "true");
    REFUSED(64, "hasplock: show: no option --spin ", "show", "--spin", "t");
    REFUSED(64, "hasplock: show \"t\": -s is for locks only\n", "show", "-s", "--semaphore", "t");
    REFUSED(64, "hasplock: semaphore: no option -s; ", "semaphore", "-s", "-k", "1", "t", "true");
    REFUSED(64, "hasplock: run \"t\": no COMMAND given\n", "run", "t", "--");
    REFUSED(64, "hasplock: run \"t\": COMMAND is empty\n", "run", "t", "");
    REFUSED(64, "hasplock: run \"t\": -c and a COMMAND: which of the two?\n", "run", "t", "-c", "true", "true");
}

Test(bad_input, of_numbers)
{
    REFUSED(64, "hasplock: run: -w: \"ten\" is no length of time such as 90, 0.5, 250ms, 5s, 1m30s or 2h\n", "run",
            "-w", "ten", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"-1\" is negative\n", "run", "-w", "-1", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"\" is no length of time ", "run", "-w", "", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"inf\" is no length of time ", "run", "-w", "inf", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"0x10\" is no length of time ", "run", "-w", "0x10", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"1e3\" is no length of time ", "run", "-w", "1e3", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"5x\" is no length of time ", "run", "-w", "5x", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"5 s\" is no length of time ", "run", "-w", "5 s", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"1m30\" is no length of time ", "run", "-w", "1m30", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \".\" is no length of time ", "run", "-w", ".", "t", "echo");
    REFUSED(64, "hasplock: run: --timeout: \"ten\" is no length of time ", "run", "--timeout", "ten", "t", "echo");
    REFUSED(64, "hasplock: show: --watch: \"1ms\" is not within a tenth of a second to a year\n", "show", "--watch=1ms",
            "t");
    REFUSED(64, "hasplock: list: --watch: \"0.5\" is not within a second to a year\n", "list", "--watch=0.5");
    REFUSED(64, "hasplock: list: --limit: \"0\" is not a number of locks, 1 to 100000\n", "list", "--limit", "0");
    REFUSED(64, "hasplock: run: -w: \"1.2.3\" is no length of time ", "run", "-w", "1.2.3", "t", "echo");
    REFUSED(64, "hasplock: run \"t\": --lease: \"-5\" is negative\n", "run", "t", "--lease", "-5", "echo");
    REFUSED(64, "hasplock: run: -w: \"99999999999999999999\" is not within 0 to 100 years\n", "run", "-w",
            "99999999999999999999", "t", "echo");
    REFUSED(64, "hasplock: run: -w: \"-99999999999999999999\" is negative\n", "run", "-w", "-99999999999999999999", "t",
            "echo");
    REFUSED(64, "hasplock: run: --lease: \"0.5\" is not within a second to a year\n", "run", "--lease", "0.5", "t",
            "echo");
    REFUSED(64, "hasplock: run: --lease: \"99999999\" is not within ", "run", "--lease", "99999999", "t", "echo");
    REFUSED(64, "hasplock: run: --max-hold: \"0\" is not within a millisecond to 100 years\n", "run", "--max-hold", "0",
            "t", "echo");
    REFUSED(64, "hasplock: run: --min-hold: \"0\" is not within a millisecond to 100 years\n", "run", "--min-hold", "0",
            "t", "echo");
    REFUSED(64, "hasplock: run \"t\": --min-hold is 2 min and --max-hold 90 s: for how long?\n", "run", "--min-hold",
            "2m", "--max-hold", "90", "t", "echo");
    REFUSED(64, "hasplock: run: --grace: \"0\" is not within a millisecond to half of the lease\n", "run", "--grace",
            "0", "t", "echo");
    REFUSED(64, "hasplock: run: --max-hold: \"-2\" is negative\n", "run", "--max-hold=-2", "t", "echo");
    REFUSED(64, "hasplock: run: --grace: \"-2\" is negative\n", "run", "--grace=-2", "t", "echo");
    REFUSED(64, "hasplock: run \"t\": --grace: 6 s are more than half of the lease, 10 s\n", "run", "--grace", "6",
            "--lease", "10", "t", "echo");
    REFUSED(64, "hasplock: run \"t\": --grace: 5000001 s are more than half of the lease, 10000000 s\n", "run",
            "--grace", "5000001", "--lease", "10000000", "t", "echo");
    REFUSED(64, "hasplock: run: -E: \"256\" is not an exit code, 0 to 255\n", "run", "-E", "256", "t", "echo");
    REFUSED(64, "hasplock: run: -E: \"-1\" is not an exit code, 0 to 255\n", "run", "-E", "-1", "t", "echo");
}

Test(bad_input, of_options)
{
    REFUSED(64, "hasplock: run: no option --foo; ", "run", "--foo", "t", "echo");
    REFUSED(64, "hasplock: run \"t\": no option -z; ", "run", "t", "-nz", "echo");
    REFUSED(64, "hasplock: run: --lease needs a value\n", "run", "--lease");
    REFUSED(64, "hasplock: run: -w needs a value\n", "run", "-w");
    REFUSED(64, "hasplock: run: --on-lost: \"cry\" is none of term, kill, warn\n", "run", "--on-lost", "cry", "t",
            "echo");
    REFUSED(64, "hasplock: show: no option -w ", "show", "-w", "1", "t");
    REFUSED(64, "hasplock: break: no option --lease ", "break", "--lease", "1", "t");
}

Test(bad_input, of_an_option_prints_no_control_bytes)
{
    REFUSED(64, "hasplock: run: no option --\\x1b[2J; ", "run", "--\033[2J", "t", "echo");
}

/* A cron job that forgot the URL must not run on every host. */
Test(bad_input, no_url_names_the_variable_and_the_option)
{
    static const char *const commands[] = { "run", "show", "break", "list" };
    for (int set = 0; set < 2; set++) {
        if (set)
            setenv("HASPLOCK_URL", "", 1);
        else
            unsetenv("HASPLOCK_URL");
        for (int i = 0; i < 4; i++) {
            struct command *c = COMMAND(commands[i], "t", i == 0 ? "true" : NULL);
            cr_assert_eq(command_end(c), 64);
            cr_assert_not_null(strstr(c->text[ERR], "HASPLOCK_URL"), "%s", c->text[ERR]);
            cr_assert_not_null(strstr(c->text[ERR], "--url local:"), "%s", c->text[ERR]);
            cr_assert_eq(count_lines(c->text[ERR]), 1);
            command_free(c);
        }
    }
}

Test(bad_input, of_a_url)
{
    static const char *const urls[] = { "nonsense", "http://localhost", "redis://",   "redis://h:99999",
                                        "unix:",    "redis://h/x",      "redis://::1" };
    REFUSED(64, "hasplock: run \"t\": URL: an IPv6 address stands in brackets, as in redis://[::1]:6379\n", "run", "-u",
            "redis://::1", "t", "true");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        REFUSED(64, "hasplock: run \"t\": ", "run", "-u", urls[i], "t", "echo", "x");
        REFUSED(64, "hasplock: show \"t\": ", "show", "-u", urls[i], "t");
    }
}

Test(bad_input, of_a_url_shows_no_password)
{
    struct command *c = COMMAND("show", "-u", "redis://me:s3cret@h:99999", "t");
    cr_assert_eq(command_end(c), 64);
    cr_assert_null(strstr(c->text[ERR], "s3cret"), "%s", c->text[ERR]);
    command_free(c);
}

Test(bad_input, an_unreachable_server_is_69)
{
    int64_t started_ms = test_now_ms();
    struct command *run = COMMAND("run", "-u", "unix:/nonexistent/socket", "t", "--", "echo", "x");
    struct command *verbose = COMMAND("run", "-v", "-u", "unix:/nonexistent/socket", "t", "--", "echo", "x");
    struct command *show = COMMAND("show", "-u", "unix:/nonexistent/socket", "t");
    cr_assert_eq(command_end(run), 69);
    cr_assert_eq(command_end(show), 69);
    cr_assert_geq(test_now_ms() - started_ms, 9000); /* rides out 10 s */
    static const char line[] = "hasplock: %s \"t\": no server at unix:/nonexistent/socket: ";
    char run_line[128], show_line[128];
    snprintf(run_line, sizeof run_line, line, "run");
    snprintf(show_line, sizeof show_line, line, "show");
    cr_assert_eq(strncmp(run->text[ERR], run_line, strlen(run_line)), 0, "%s", run->text[ERR]);
    cr_assert_eq(strncmp(show->text[ERR], show_line, strlen(show_line)), 0, "%s", show->text[ERR]);
    cr_assert_not_null(strstr(run->text[ERR], "; gave up after 10."), "%s", run->text[ERR]);
    cr_assert_eq(count_lines(run->text[ERR]), 1, "%s", run->text[ERR]);
    cr_assert_eq(count_lines(show->text[ERR]), 1, "%s", show->text[ERR]);
    cr_assert_str_empty(run->text[OUT]);
    command_free(run);
    command_free(show);
    cr_assert_eq(command_end(verbose), 69);
    cr_assert_not_null(strstr(verbose->text[ERR], "; gave up after 10."), "the same with -v: %s", verbose->text[ERR]);
    cr_assert_leq(count_lines(verbose->text[ERR]), 8, "repeated lines are folded: %s", verbose->text[ERR]);
    cr_assert_not_null(strstr(verbose->text[ERR], " times more)"), "%s", verbose->text[ERR]);
    command_free(verbose);
}

/* With -v, too: it changes no time. */
Test(bad_input, an_unreachable_server_costs_no_more_than_the_wait)
{
    static const char *const asked[][3] = { { "-n", "-q", "; gave up after 3." },
                                            { "-w", "1", "; gave up after 1." },
                                            { "-vw", "4", "; gave up after 4." } };
    struct command *c[3];
    for (int i = 0; i < 3; i++)
        c[i] = COMMAND("run", "-u", "unix:/nonexistent/socket", asked[i][0], asked[i][1], "t", "--", "true");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(command_end(c[i]), 69);
        cr_assert_not_null(strstr(c[i]->text[ERR], asked[i][2]), "%s", c[i]->text[ERR]);
        command_free(c[i]);
    }
}

/* A server that expects TLS resets the connection when it reads our first words. */
static void *reset_each(void *listening)
{
    for (;;) {
        struct linger hard = { .l_onoff = 1, .l_linger = 0 };
        int fd = accept4(*(int *)listening, NULL, NULL, SOCK_CLOEXEC);
        char byte;
        if (fd < 0)
            return NULL;
        (void)!read(fd, &byte, 1);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(fd);
    }
}

Test(bad_input, a_port_that_hangs_up_may_be_one_for_tls)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    pthread_t thread;
    char url[64];
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(listening, 64), 0);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &len), 0);
    cr_assert_eq(pthread_create(&thread, NULL, reset_each, &listening), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", ntohs(address.sin_port));
    struct command *c = COMMAND("run", "-n", "-u", url, "t", "--", "true");
    cr_assert_eq(command_end(c), 69);
    cr_assert_not_null(strstr(c->text[ERR], "before the server said anything (a port for TLS?"), "%s", c->text[ERR]);
    command_free(c);
    shutdown(listening, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listening);
}

Test(bad_input, a_wrong_password_is_77)
{
    static const char *const commands[] = { "run", "show", "break" };
    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    cr_assert_str_eq(raw(admin, "CONFIG SET requirepass s3cret"), "OK");
    char urls[2][128];
    snprintf(urls[0], sizeof urls[0], "redis://127.0.0.1:%d", guarded->port);
    snprintf(urls[1], sizeof urls[1], "redis://:wr0ng@127.0.0.1:%d", guarded->port);
    for (int u = 0; u < 2; u++)
        for (int i = 0; i < 3; i++) {
            struct command *c = COMMAND(commands[i], "-u", urls[u], "t", i == 0 ? "true" : NULL);
            cr_assert_eq(command_end(c), 77, "%s %s: %s", commands[i], urls[u], c->text[ERR]);
            cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
            cr_assert_null(strstr(c->text[ERR], "wr0ng"), "%s", c->text[ERR]);
            cr_assert_str_empty(c->text[OUT]);
            command_free(c);
        }
    redisFree(admin);
    server_stop(guarded);
}

Test(bad_input, a_missing_right_is_77_and_named)
{
    struct server *guarded = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    redisContext *admin = raw_open(guarded);
    char url[128];
    cr_assert_str_eq(raw(admin, "ACL SETUSER bob on >pw ~* &* +@all -hset"), "OK");
    snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", guarded->port);
    struct command *c = COMMAND("run", "-u", url, "t", "--", "echo", "x");
    cr_assert_eq(command_end(c), 77, "%s", c->text[ERR]);
    cr_assert_not_null(strstr(c->text[ERR], "hset"), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    cr_assert_str_empty(c->text[OUT]);
    cr_assert_eq(raw_int(admin, "DBSIZE"), 0);
    command_free(c);
    redisFree(admin);
    server_stop(guarded);
}

Test(bad_input, another_type_under_the_name_is_70)
{
    static const char *const commands[] = { "run", "show", "break" };
    cr_assert_str_eq(raw(redis, "SET t precious"), "OK");
    for (int i = 0; i < 3; i++) {
        struct command *c = COMMAND(commands[i], "t", i == 0 ? "true" : NULL);
        cr_assert_eq(command_end(c), 70, "%s: %s%s", commands[i], c->text[OUT], c->text[ERR]);
        cr_assert_not_null(strstr(c->text[ERR], i == 0 ? "WRONGTYPE" : "a string"), "%s", c->text[ERR]);
        cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
        cr_assert_str_empty(c->text[OUT]);
        command_free(c);
    }
    cr_assert_str_eq(raw(redis, "GET t"), "\"precious\"");
    raw(redis, "DEL t");
}

Test(bad_input, a_hash_that_is_no_lock_is_70_and_stays)
{
    static const char *const commands[] = { "run", "show", "break" };
    raw(redis, "HSET t name bob mail x");
    for (int i = 0; i < 6; i++) {
        struct command *c = COMMAND(commands[i / 2], "-q", "t", i % 2 ? "--fair" : "--", i < 2 ? "true" : NULL);
        cr_assert_eq(command_end(c), 70, "%s: %s%s", commands[i / 2], c->text[OUT], c->text[ERR]);
        cr_assert_not_null(strstr(c->text[ERR], "\"t\""), "%s", c->text[ERR]);
        cr_assert_not_null(strstr(c->text[ERR], "a hash, but no lock"), "%s", c->text[ERR]);
        cr_assert_str_empty(c->text[OUT]);
        command_free(c);
    }
    cr_assert_str_eq(raw(redis, "HGETALL t"), "[\"name\", \"bob\", \"mail\", \"x\"]");
    raw(redis, "DEL t");
}

Test(help, goes_to_stdout_and_is_no_error)
{
    static const char *const asked[][2] = { { "--help", NULL },   { "-h", NULL },        { "run", "--help" },
                                            { "run", "-h" },      { "show", "--help" },  { "break", "--help" },
                                            { "list", "--help" }, { "--version", NULL }, { "run", "-V" },
                                            { "help", NULL },     { "help", "run" },     { "help", "list" },
                                            { "version", NULL },  { "-V", NULL },        { "-h", "run" } };
    unsetenv("HASPLOCK_URL");
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct command *c = COMMAND(asked[i][0], asked[i][1]);
        cr_assert_eq(command_end(c), 0);
        cr_assert_str_empty(c->text[ERR], "%s", c->text[ERR]);
        cr_assert_eq(strncmp(c->text[OUT], "hasplock ", 9), 0, "%s", c->text[OUT]);
        command_free(c);
    }
}

static int longest_line(const char *text)
{
    size_t longest = 0;
    for (; *text; text += strcspn(text, "\n") + 1)
        longest = strcspn(text, "\n") > longest ? strcspn(text, "\n") : longest;
    return (int)longest;
}

Test(help, fits_a_terminal_of_80_columns)
{
    static const char *const of[] = { NULL,   "run",  "semaphore", "latch",  "barrier",
                                      "show", "list", "break",     "doctor", "demo" };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct command *c = COMMAND("help", of[i]);
        cr_assert_eq(command_end(c), 0);
        cr_assert_leq(longest_line(c->text[OUT]), 80, "help %s", of[i]);
        command_free(c);
    }
}

static int without_stdout(const char *first, const char *second)
{
    struct command *c =
        command_start((const char *const[]){ "sh", "-c", "exec \"$@\" >&-", "sh", HASPLOCK, first, second, NULL });
    int code = command_end(c);
    cr_assert_not_null(strstr(c->text[ERR], "cannot write to stdout: Bad file descriptor\n"), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
    return code;
}

Test(help, and_every_answer_is_74_on_a_closed_stdout)
{
    cr_assert_eq(without_stdout("--help", NULL), 74);
    cr_assert_eq(without_stdout("-V", NULL), 74);
    cr_assert_eq(without_stdout("show", "t"), 74);
    cr_assert_eq(without_stdout("break", "t"), 74);
}

/* Every option that is read is told, and the other way round. */
Test(help, names_every_option)
{
    static const char *const options[] = { "--nonblock", "--wait",     "--conflict-exit-code",
                                           "--lease",    "--max-hold", "--grace",
                                           "--on-lost",  "--command",  "--url",
                                           "--verbose",  "--quiet",    "--json",
                                           "--timeout",  "--url-file", "--fair",
                                           "--fenced",   "--shared",   "--exclusive",
                                           "--min-hold", "--spin",     "--note" };
    struct command *c = COMMAND("run", "--help");
    cr_assert_eq(command_end(c), 0);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        cr_assert_not_null(strstr(c->text[OUT], options[i]), "%s", options[i]);
    command_free(c);
}
