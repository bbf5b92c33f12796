/* child.c - see child.h. */
#include "child.h"

#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The forked child, in a process that had threads: nothing but async-signal-safe calls. (execvpe is: glibc's neither
 * allocates nor locks since 2.24.) Our signals are blocked until the last moment, their actions the default ones. */
static _Noreturn void become(const struct child *child, pid_t parent, int report, char *const argv[], char *const env[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0); /* it died before prctl: nobody is there to ask */
    setpgid(0, 0);
    if (child->foreground)
        terminal_give(&child->terminal, getpid());
    signals_restore();
    execvpe(argv[0], argv, env);
    int why = errno;
    ssize_t n = write(report, &why, sizeof why);
    _exit(n == (ssize_t)sizeof why ? 127 : 126);
}

int child_start(struct child *child, char *const argv[], char *const env[])
{
    int fds[2];
    pid_t parent = getpid();
    *child = (struct child){ .exec_fd = -1 };
    terminal_open(&child->terminal);
    child->foreground = terminal_give_at_once(&child->terminal);
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        int why = errno;
        terminal_close(&child->terminal);
        return why;
    }
    child->pid = fork();
    if (child->pid == 0)
        become(child, parent, fds[1], argv, env);
    int why = errno;
    close(fds[1]);
    if (child->pid < 0) {
        close(fds[0]);
        terminal_close(&child->terminal);
        return why;
    }
    setpgid(child->pid, child->pid); /* whoever comes first: from here on the group is there. Refused after its exec */
    child->exec_fd = fds[0];
    return 0;
}

void child_read_exec(struct child *child)
{
    ssize_t n = read(child->exec_fd, &child->exec_errno, sizeof child->exec_errno);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(child->exec_fd);
    child->exec_fd = -1;
}

void child_signal(const struct child *child, int signal)
{
    kill(-child->pid, signal);
}

/* An init that takes its time would keep the dead in the group. Not before: what COMMAND leaves in the background when
 * nobody stops it is init's, as ever. COMMAND does not inherit it. */
void child_stop(const struct child *child, int signal)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    child_signal(child, signal);
}

/* The id cannot be another's while a member is left, and pids come round too slowly for it to be so just after. */
bool child_group_is_gone(const struct child *child)
{
    while (waitpid(-child->pid, NULL, WNOHANG) > 0)
        ;
    return kill(-child->pid, 0) != 0 && errno == ESRCH;
}

int child_look(struct child *child)
{
    int status, stopped_by = 0;
    while (!child->ended && waitpid(child->pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == child->pid) {
        child->stopped = WIFSTOPPED(status);
        child->ended = WIFEXITED(status) || WIFSIGNALED(status);
        child->status = status;
        stopped_by = child->stopped ? WSTOPSIG(status) : 0;
    }
    return stopped_by;
}

void child_was_stopped(struct child *child, int signal)
{
    bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
    if (child->terminal.fd < 0 || signal == SIGSTOP)
        return;
    if (wants_terminal)
        child->foreground = true;
    if (wants_terminal && terminal_is_ours(&child->terminal)) {
        child_continue(child);
        return;
    }
    terminal_take_back(&child->terminal, child->pid);
    signals_stop_self(signal);
}

void child_continue(struct child *child)
{
    if (child->foreground && terminal_is_ours(&child->terminal))
        terminal_give(&child->terminal, child->pid);
    child->stopped = false;
    child_signal(child, SIGCONT);
}

void child_close(struct child *child)
{
    if (child->exec_fd >= 0)
        child_read_exec(child);
    terminal_take_back(&child->terminal, child->pid);
    terminal_close(&child->terminal);
}
