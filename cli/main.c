/* main.c - the hasplock command: chooses what is done. Exit codes are those of sysexits.h, docs/man/hasplock.1.scd. */
#include "break.h"
#include "demo.h"
#include "help.h"
#include "options.h"
#include "run.h"
#include "say.h"
#include "show.h"

#include <hasplock/hasplock.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

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
    static const struct {
        const char *help;
        int (*function)(const struct options *options);
    } commands[] = { [COMMAND_RUN] = { help_run, run },
                     [COMMAND_SHOW] = { help_show, show },
                     [COMMAND_BREAK] = { help_break, break_lock } };
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

int main(int argc, char **argv)
{
    static const char *const names[] = { [COMMAND_RUN] = "run", [COMMAND_SHOW] = "show", [COMMAND_BREAK] = "break" };
    char shown[64];
    const char *word = argc > 1 ? argv[1] : "";
    if (open_standard_descriptors() != 0)
        return EX_OSERR;
    for (int i = 0; i < 3; i++)
        if (strcmp(word, names[i]) == 0)
            return do_command((enum command)i, argc - 1, argv + 1);
    if (strcmp(word, "demo") == 0)
        return hlk_demo_main(argc - 1, argv + 1);
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return print(help_main);
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0)
        return print_version();
    if (!*word)
        say(SAY_ERROR, "error", "run, show, break or demo? See: hasplock --help");
    else if (*word == '-')
        say(SAY_ERROR, "error", "no option %s here; options stand behind run, show or break (see: hasplock --help)",
            say_shown(shown, sizeof shown, word));
    else
        say(SAY_ERROR, "error", "no command \"%s\": run, show, break or demo (see: hasplock --help)",
            say_shown(shown, sizeof shown, word));
    return EX_USAGE;
}
