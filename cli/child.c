/* child.c - see child.h. */
#include "child.h"

#include "helper.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs in the forked child of a process with threads, so it uses only async-signal-safe calls. (execvpe is one: glibc's
 * neither allocates nor locks since 2.24.) Signals stay blocked until the end, with their default actions. */
static _Noreturn void become(const struct child *child, pid_t parent, int report, char *const argv[], char *const env[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0); /* the parent died before prctl */
    setpgid(0, 0);
    helper_arm();
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
    setpgid(child->pid, child->pid); /* both processes call it, so the group exists from here on. Fails after exec */
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

/* Otherwise a slow init would keep dead processes in the group. Set only now: what COMMAND leaves in the background
 * otherwise belongs to init, as usual. COMMAND does not inherit it. */
void child_stop(const struct child *child, int signal)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    child_signal(child, signal);
}

/* The id cannot belong to another process while a member is left, and is not reused so soon afterwards. */
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
    child_signal(child, SIGSTOP); /* members of the group that ignore ^Z would work on without renewal */
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
