#include "fixture.h"

#include "support/wait.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void become(const char *const *argv, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    execvp(argv[0], (char *const *)(size_t)argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(126);
}

enum { COMMANDS_MOST = 32, SHOWN = 2000 };

static struct command *commands[COMMANDS_MOST];

/* Where `before` is, or nothing: there is room for COMMANDS_MOST. */
static void replace(struct command *before, struct command *after)
{
    for (int i = 0; i < COMMANDS_MOST; i++)
        if (commands[i] == before) {
            commands[i] = after;
            return;
        }
}

/* The last of what each command has printed that was not freed yet: one may wait for another. */
static const char *all_texts(void)
{
    static char all[COMMANDS_MOST * STREAMS * SHOWN];
    size_t len = 0;
    for (int i = 0; i < COMMANDS_MOST; i++)
        for (int stream = 0; commands[i] && stream < STREAMS; stream++) {
            const char *text = commands[i]->text[stream];
            size_t cut = strlen(text) > SHOWN / 2 ? strlen(text) - SHOWN / 2 : 0;
            len += (size_t)snprintf(all + len, sizeof all - len, "\ncommand %d, %s: %s", i + 1,
                                    stream == OUT ? "stdout" : "stderr", text + cut);
        }
    return all;
}

static struct command *create(void)
{
    struct command *command = calloc(1, sizeof *command);
    cr_assert_not_null(command);
    replace(NULL, command);
    command->in = command->from[OUT] = command->from[ERR] = -1;
    command->began_ms = test_now_ms();
    return command;
}

struct command *command_start(const char *const *argv)
{
    return command_start_with_stderr(argv, -1);
}

struct command *command_start_with_stderr(const char *const *argv, int stderr_fd)
{
    struct command *command = create();
    int in[2], out[2], err[2];
    pid_t parent = getpid();
    cr_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    fflush(NULL);
    command->pid = fork();
    cr_assert(command->pid >= 0);
    if (command->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(stderr_fd >= 0 ? stderr_fd : err[1], STDERR_FILENO);
        become(argv, parent);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    command->in = in[1];
    command->from[OUT] = out[0];
    command->from[ERR] = err[0];
    return command;
}

struct command *command_start_on_terminal(const char *const *argv)
{
    struct command *command = create();
    pid_t parent = getpid();
    fflush(NULL);
    command->pid = forkpty(&command->in, NULL, NULL, NULL);
    cr_assert(command->pid >= 0);
    if (command->pid == 0)
        become(argv, parent);
    fcntl(command->in, F_SETFD, FD_CLOEXEC);
    command->from[OUT] = dup(command->in);
    return command;
}

void command_type(struct command *command, const char *text)
{
    size_t len = strlen(text);
    cr_assert_eq(write(command->in, text, len), (ssize_t)len);
}

void command_type_end(struct command *command)
{
    if (command->in >= 0)
        close(command->in);
    command->in = -1;
}

/* A terminal whose last user is gone answers EIO: an end like any other. */
static void take(struct command *command, int stream)
{
    char *text = command->text[stream];
    size_t len = strlen(text);
    if (len > sizeof command->text[0] / 2) { /* what was read long ago is not asked for again */
        memmove(text, text + len / 2, len - len / 2 + 1);
        len -= len / 2;
    }
    ssize_t n = read(command->from[stream], text + len, sizeof command->text[0] - 1 - len);
    if (n > 0) {
        text[len + (size_t)n] = '\0';
    } else if (n == 0 || errno != EINTR) {
        close(command->from[stream]);
        command->from[stream] = -1;
    }
}

/* Reads what comes next on either stream. False: nothing more will come. */
static bool take_more(struct command *command, int64_t give_up_ms, const char *wanted)
{
    struct pollfd fds[STREAMS];
    int64_t left_ms = give_up_ms - test_now_ms();
    for (int i = 0; i < STREAMS; i++)
        fds[i] = (struct pollfd){ .fd = command->from[i], .events = POLLIN };
    if (command->from[OUT] < 0 && command->from[ERR] < 0)
        return false;
    if (left_ms <= 0 || poll(fds, STREAMS, (int)left_ms) == 0)
        test_give_up("waited in vain for %s%s", wanted, all_texts());
    for (int i = 0; i < STREAMS; i++)
        if (command->from[i] >= 0 && fds[i].revents)
            take(command, i);
    return true;
}

void command_until(struct command *command, enum stream stream, const char *text)
{
    int64_t give_up_ms = test_now_ms() + WAIT_MS;
    while (!strstr(command->text[stream], text))
        if (!take_more(command, give_up_ms, text))
            test_give_up("ended without \"%s\" (the machine stood still for up to %d ms)%s", text,
                         (int)pause_longest_ms(command->began_ms), all_texts());
}

long command_number(struct command *command, const char *word)
{
    char line[64];
    int64_t give_up_ms = test_now_ms() + WAIT_MS;
    snprintf(line, sizeof line, "%s ", word);
    command_until(command, OUT, line);
    char *number = strstr(command->text[OUT], line) + strlen(line);
    while (!strchr(number, '\n') && take_more(command, give_up_ms, word))
        ;
    return strtol(number, NULL, 10);
}

long long command_last_time(const struct command *command)
{
    long long last = 0, at;
    const char *line = command->text[OUT], *end;
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1)
        if (sscanf(line, "at %lld", &at) == 1)
            last = at;
    return last;
}

int command_wait(struct command *command)
{
    int64_t give_up_ms = test_now_ms() + WAIT_MS;
    pid_t ended;
    while (command->pid && (ended = waitpid(command->pid, &command->status, WNOHANG)) != command->pid) {
        cr_assert(ended == 0 || errno == EINTR);
        if (test_now_ms() > give_up_ms)
            test_give_up("hasplock does not end%s", all_texts());
        test_sleep_ms(1);
    }
    command->pid = 0;
    return WIFSIGNALED(command->status) ? DIED_OF + WTERMSIG(command->status) : WEXITSTATUS(command->status);
}

int command_end(struct command *command)
{
    int64_t give_up_ms = test_now_ms() + WAIT_MS;
    while (take_more(command, give_up_ms, "its end"))
        ;
    return command_wait(command);
}

int command_code(struct command *command)
{
    int code = command_end(command);
    command_free(command);
    return code;
}

void command_free(struct command *command)
{
    if (!command)
        return;
    replace(command, NULL);
    if (command->pid) {
        kill(command->pid, SIGKILL);
        waitpid(command->pid, NULL, 0);
    }
    command_type_end(command);
    for (int i = 0; i < STREAMS; i++)
        if (command->from[i] >= 0)
            close(command->from[i]);
    free(command);
}

struct server *server;
redisContext *redis;

struct command *holder_start(const char *const *argv)
{
    struct command *holder = command_start(argv);
    command_until(holder, OUT, "ready\n");
    return holder;
}

void holder_end(struct command *holder)
{
    command_type_end(holder);
    cr_assert_eq(command_end(holder), 0, "%s", holder->text[ERR]);
    command_free(holder);
}

void cli_start(void)
{
    pause_watch();
    server = server_start(0, NULL);
    server_allow(server, "hasplock_note:*"); /* of a run that was killed: until its lease is over */
    redis = raw_open(server);
    setenv("HASPLOCK_URL", hlk_test_url(server), 1);
}

void cli_stop(void)
{
    redisFree(redis);
    server_finish(server);
}

bool process_is_gone(pid_t pid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "r");
    if (!stat)
        return true;
    char *got = fgets(line, sizeof line, stat);
    fclose(stat);
    const char *state = got ? strrchr(line, ')') : NULL;
    return !state || state[2] == 'Z' || state[2] == 'X';
}

int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}
