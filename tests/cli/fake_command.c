/* fake_command.c - a COMMAND that does what a test needs, and says what happens to it. One word a step:
 *
 *     catch     from now on every signal that can be caught is only told: "got SIGTERM"
 *     catch=N   signal N alone
 *     tell      "pid N", "parent N", "group N", "terminal N" (its foreground group, 0: none)
 *     ready     "ready"
 *     ignore=N  signal N is ignored
 *     stay      until killed
 *     read      until a line, or the end, comes on stdin: "read LINE"
 *     times     "at N" each 2 ms, milliseconds of CLOCK_BOOTTIME, until killed
 *     child     a process of the same group that does what follows, up to the word "."; this one goes on behind it
 *     session   it leads a session of its own from now on
 *     user=N    it is this user from now on, and no other one
 *     exit=N    kill=N (itself)
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void say(const char *line)
{
    ssize_t n = write(STDOUT_FILENO, line, strlen(line));
    (void)n;
}

static void say_number(const char *word, long long number)
{
    char line[64];
    snprintf(line, sizeof line, "%s %lld\n", word, number);
    say(line);
}

static void on_signal(int signal)
{
    const char *name = sigabbrev_np(signal);
    int keep = errno;
    char line[64];
    if (name)
        snprintf(line, sizeof line, "got SIG%s\n", name);
    else
        snprintf(line, sizeof line, "got signal %d\n", signal);
    say(line);
    errno = keep;
}

static void catch_one(int signal)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_signal;
    act.sa_flags = SA_RESTART;
    sigfillset(&act.sa_mask); /* one line at a time */
    sigaction(signal, &act, NULL);
}

static void catch_all(void)
{
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (signal != SIGKILL && signal != SIGSTOP && (signal < 32 || signal >= SIGRTMIN))
            catch_one(signal);
}

static void tell(void)
{
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    say_number("pid", getpid());
    say_number("parent", getppid());
    say_number("group", getpgrp());
    say_number("terminal", tty < 0 ? 0 : tcgetpgrp(tty));
    if (tty >= 0)
        close(tty);
}

static void read_line(void)
{
    char line[256] = "read ";
    size_t len = strlen(line);
    while (len < sizeof line - 2 && read(STDIN_FILENO, line + len, 1) == 1 && line[len] != '\n')
        len++;
    line[len] = '\n';
    say(line);
}

static void tell_times(void)
{
    struct timespec now;
    for (;;) {
        clock_gettime(CLOCK_BOOTTIME, &now);
        say_number("at", (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
        poll(NULL, 0, 2);
    }
}

static void become_user(uid_t user)
{
    if (setresuid(user, user, user) != 0)
        exit(98);
}

static void do_step(const char *step)
{
    if (strcmp(step, "catch") == 0)
        catch_all();
    else if (strncmp(step, "catch=", 6) == 0)
        catch_one(atoi(step + 6));
    else if (strncmp(step, "ignore=", 7) == 0)
        signal(atoi(step + 7), SIG_IGN);
    else if (strcmp(step, "tell") == 0)
        tell();
    else if (strcmp(step, "ready") == 0)
        say("ready\n");
    else if (strcmp(step, "read") == 0)
        read_line();
    else if (strcmp(step, "times") == 0)
        tell_times();
    else if (strcmp(step, "session") == 0)
        setsid();
    else if (strncmp(step, "user=", 5) == 0)
        become_user((uid_t)atoi(step + 5));
    else if (strncmp(step, "exit=", 5) == 0)
        exit(atoi(step + 5));
    else if (strncmp(step, "kill=", 5) == 0)
        raise(atoi(step + 5));
    else if (strcmp(step, "stay") == 0)
        for (;;)
            pause();
    else if (strcmp(step, ".") != 0)
        exit(99);
}

int main(int argc, char **argv)
{
    bool is_child = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], ".") == 0 && is_child)
            return 0;
        if (strcmp(argv[i], "child") != 0) {
            do_step(argv[i]);
        } else if (fork() == 0) {
            is_child = true;
        } else {
            while (++i < argc && strcmp(argv[i], ".") != 0)
                ;
        }
    }
    return 0;
}
