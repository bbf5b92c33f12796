/* main.c - the hasplock command: chooses what is done. Exit codes are those of sysexits.h, docs/man/hasplock.1.scd. */
#include "barrier.h"
#include "break.h"
#include "doctor.h"
#include "help.h"
#include "helper.h"
#include "latch.h"
#include "list.h"
#include "options.h"
#include "run.h"
#include "say.h"
#include "semaphore.h"
#include "show.h"

#include <hasplock/hasplock.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define NOT_FOUND 127 /* as the shell has it */

static const struct {
    const char *word, *help;
    int (*function)(const struct options *options);
} commands[COMMANDS] = { [COMMAND_RUN] = { "run", help_run, run },
                         [COMMAND_SEMAPHORE] = { "semaphore", help_semaphore, semaphore },
                         [COMMAND_LATCH] = { "latch", help_latch, latch },
                         [COMMAND_BARRIER] = { "barrier", help_barrier, barrier },
                         [COMMAND_SHOW] = { "show", help_show, show },
                         [COMMAND_LIST] = { "list", help_list, list },
                         [COMMAND_BREAK] = { "break", help_break, break_lock },
                         [COMMAND_DOCTOR] = { "doctor", help_doctor, doctor } };

static int print(const char *text)
{
    return say_answer(text, strlen(text)) ? 0 : EX_IOERR;
}

static int print_version(void)
{
    char line[64];
    snprintf(line, sizeof line, "hasplock %s\n", hlk_version());
    return print(line);
}

/* Started with one of the three closed, a socket of ours would become it, and COMMAND's output would go to Redis. What
 * stands in for it is as good as closed: it cannot be read or written, and COMMAND does not inherit it. */
static int open_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        int useless = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", useless | O_CLOEXEC) != fd)
            return -1;
    }
    return 0;
}

static int do_command(enum command command, int argc, char **argv)
{
    struct options options;
    switch (options_parse(&options, command, argc, argv)) {
    case PARSED_GO:
        return commands[command].function(&options);
    case PARSED_HELP:
        return print(commands[command].help);
    case PARSED_VERSION:
        return print_version();
    default:
        return EX_USAGE;
    }
}

/* COMMANDS: none of ours. */
static enum command command_of(const char *word)
{
    int i = 0;
    while (i < COMMANDS && strcmp(word, commands[i].word) != 0)
        i++;
    return (enum command)i;
}

/* The demo needs SQLite and is a program of its own, beside this one or in PATH. argv[0] is its word here. */
static int do_demo(char **argv)
{
    static char name[] = "hasplock-demo";
    char path[PATH_MAX + sizeof name] = "";
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *slash = len > 0 ? strrchr(path, '/') : NULL;
    argv[0] = name;
    if (slash) {
        strcpy(slash + 1, name);
        execv(path, argv);
    }
    if (!slash || errno == ENOENT)
        execvp(name, argv);
    say_setup("demo", false, 0);
    if (errno == ENOENT)
        say(SAY_ERROR, "error", "hasplock-demo is not installed. It needs SQLite, and is built with -DHLK_DEMO=ON");
    else
        say(SAY_ERROR, "error", "cannot execute hasplock-demo: %s", strerror(errno));
    return NOT_FOUND;
}

static int no_command(const char *word)
{
    char shown[64];
    say(SAY_ERROR, "error",
        "no command \"%s\": run, semaphore, latch, barrier, show, list, break, doctor or demo (see: hasplock --help)",
        text_shown(shown, sizeof shown, word));
    return EX_USAGE;
}

/* `hasplock help`, and `hasplock help run`, the same as `hasplock run --help`. */
static int do_help(char **argv)
{
    static char word[] = "demo", option[] = "--help";
    if (!argv[1])
        return print(help_main);
    if (strcmp(argv[1], "demo") == 0)
        return do_demo((char *[]){ word, option, NULL });
    enum command command = command_of(argv[1]);
    return command == COMMANDS ? no_command(argv[1]) : print(commands[command].help);
}

int main(int argc, char **argv)
{
    enum parsed parsed;
    if (open_standard_descriptors() != 0)
        return EX_OSERR;
    helper_argv(argc, argv);
    if (!options_find_command(argc, argv, &parsed))
        return parsed == PARSED_HELP ? print(help_main) : parsed == PARSED_VERSION ? print_version() : EX_USAGE;
    const char *word = argv[1];
    enum command command = command_of(word);
    if (command != COMMANDS)
        return do_command(command, argc - 1, argv + 1);
    if (strcmp(word, "demo") == 0)
        return do_demo(argv + 1);
    if (strcmp(word, "help") == 0)
        return do_help(argv + 1);
    if (strcmp(word, "version") == 0)
        return print_version();
    return no_command(word);
}
