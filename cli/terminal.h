/* terminal.h - which process group has the terminal. COMMAND has its own group, so hasplock hands the shell's terminal
 * over to it. It does so at once if stdin and stdout are terminals. Otherwise it waits until COMMAND was stopped for
 * using the terminal, so `hasplock run x -- a | less` leaves it to less. Without a controlling terminal nothing is
 * done. The caller has blocked SIGTTOU. */
#ifndef HLK_CLI_TERMINAL_H
#define HLK_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int fd;             /* -1: none */
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);

bool terminal_is_ours(const struct terminal *terminal);         /* our group is in the foreground */
bool terminal_give_at_once(const struct terminal *terminal);
bool terminal_give(const struct terminal *terminal, pid_t group);       /* async-signal-safe */
void terminal_take_back(const struct terminal *terminal, pid_t group);  /* if `group` has it */

#endif
