/* child.c - see child.h. */
#include "child.h"

#include "helper.h"
#include "signals.h"

#include <errno.h>
#include <signal.h>

int child_start(struct child *child, char *const env[])
{
    *child = (struct child){ 0 };
    terminal_open(&child->terminal);
    child->foreground = terminal_give_at_once(&child->terminal);
    int why = helper_run(env, child->foreground, &child->pid);
    if (why)
        terminal_close(&child->terminal);
    return why;
}

int child_look(struct child *child)
{
    struct helper_report report;
    helper_look(&report);
    child->helper_died = report.died;
    child->exec_errno = report.exec_errno;
    child->stopped = report.stopped;
    child->status = report.status;
    child->ended = report.ended;
    child->gone = report.gone;
    return child->stopped ? report.stopped_by : 0;
}

/* Between COMMAND's end and its report here its id belongs to nobody else: ids are given out in a cycle. */
bool child_signal(const struct child *child, int signal)
{
    return child->ended || kill(-child->pid, signal) == 0 || errno == ESRCH;
}

int child_signal_all(const struct child *child, int signal, struct descendants_refused *refused)
{
    int group = signal == SIGKILL && !child->ended && kill(-child->pid, SIGKILL) == 0; /* most of them, at once */
    return group + descendants_signal(helper_root(), signal, refused);
}

void child_was_stopped(struct child *child, int signal)
{
    struct descendants_refused refused;
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
    child->all_stopped = true; /* those that ignore ^Z, or are of another group, would work on without renewal */
    child_signal_all(child, SIGSTOP, &refused);
    signals_stop_self(signal);
}

void child_continue(struct child *child)
{
    struct descendants_refused refused;
    if (child->foreground && terminal_is_ours(&child->terminal))
        terminal_give(&child->terminal, child->pid);
    child->stopped = false;
    if (child->all_stopped)
        child_signal_all(child, SIGCONT, &refused);
    else
        child_signal(child, SIGCONT);
    child->all_stopped = false;
}

void child_close(struct child *child)
{
    terminal_take_back(&child->terminal, child->pid);
    terminal_close(&child->terminal);
}
