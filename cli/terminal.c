/* terminal.c - see terminal.h. */
#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal)
{
    terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

bool terminal_is_ours(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

bool terminal_give_at_once(const struct terminal *terminal)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && terminal_is_ours(terminal);
}

bool terminal_give(const struct terminal *terminal, pid_t group)
{
    return terminal->fd >= 0 && tcsetpgrp(terminal->fd, group) == 0;
}

void terminal_take_back(const struct terminal *terminal, pid_t group)
{
    if (terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group)
        tcsetpgrp(terminal->fd, getpgrp());
}
