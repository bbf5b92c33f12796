/* terminal.h - whose turn it is at the terminal. COMMAND has a process group of its own, so a shell's terminal is given
 * to it: at once when hasplock plainly has it for itself (stdin and stdout are terminals), else when COMMAND
 * was stopped for touching it, so that `hasplock run x -- a | less` leaves it to less. Without a controlling terminal
 * all of this does nothing. The caller has SIGTTOU blocked. */
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
