/* signals.c - see signals.h. */
#include "signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t original, ours;
static hlk_cancel *wait_cancel;
static volatile sig_atomic_t caught;

static bool is_forwarded(int signal)
{
    switch (signal) {
    case SIGKILL: /* cannot be caught */
    case SIGSTOP:
    case SIGSEGV: /* faults of hasplock itself */
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
    case SIGPIPE: /* reported by EPIPE */
    case SIGCHLD: /* about COMMAND, not for it */
    case SIGTSTP: /* job control: terminal.h */
    case SIGTTIN:
    case SIGTTOU:
    case SIGURG: /* caused by sockets, ignored by default */
        return false;
    default:
        return true;
    }
}

static bool ends_a_process(int signal)
{
    return signal != SIGCONT && signal != SIGWINCH;
}

static bool was_ignored(int signal)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) != 0 || now.sa_handler == SIG_IGN;
}

/* The C library reserves the first real-time signals: they are not between SIGRTMIN and SIGRTMAX. */
static int next_signal(int signal)
{
    signal++;
    return signal >= NSIG ? 0 : signal >= 32 && signal < SIGRTMIN ? SIGRTMIN : signal;
}

void signals_block(void)
{
    sigset_t blocked;
    sigemptyset(&ours);
    for (int s = next_signal(0); s && s <= SIGRTMAX; s = next_signal(s))
        if (is_forwarded(s) && !was_ignored(s))
            sigaddset(&ours, s);
    blocked = ours;
    sigaddset(&blocked, SIGPIPE); /* blocked and not ignored, which COMMAND would inherit */
    sigaddset(&blocked, SIGTTOU); /* hasplock hands over the terminal from the background */
    sigprocmask(SIG_BLOCK, &blocked, &original);
    signal(SIGCHLD, SIG_DFL); /* if the parent has set it to be ignored, ended children could not be seen */
}

static void on_signal(int signal)
{
    if (!caught)
        caught = signal;
    hlk_cancel_trigger(wait_cancel);
}

static void handle(void (*handler)(int))
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = handler;
    act.sa_flags = SA_RESTART;
    sigfillset(&act.sa_mask);
    for (int s = next_signal(0); s && s <= SIGRTMAX; s = next_signal(s))
        if (sigismember(&ours, s) == 1 && ends_a_process(s))
            sigaction(s, &act, NULL);
}

void signals_wait_begin(hlk_cancel *cancel)
{
    wait_cancel = cancel;
    handle(on_signal);
    sigprocmask(SIG_UNBLOCK, &ours, NULL);
}

int signals_wait_end(void)
{
    sigprocmask(SIG_BLOCK, &ours, NULL);
    handle(SIG_DFL); /* before the fork: a signal between fork and exec must not run our handler */
    return caught;
}

int signals_open(void)
{
    sigset_t set = ours;
    sigaddset(&set, SIGCHLD);
    if (!was_ignored(SIGTSTP))
        sigaddset(&set, SIGTSTP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int signals_next(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

bool signals_ask_for_an_end(int signal)
{
    return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT;
}

void signals_restore(void)
{
    sigprocmask(SIG_SETMASK, &original, NULL);
}

/* The kernel discards these three in an orphaned process group, so hasplock cannot stop for ever. */
void signals_stop_self(int stop_signal)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, stop_signal);
    kill(0, stop_signal);
    sigprocmask(SIG_UNBLOCK, &set, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void signals_die_of(int signal)
{
    sigset_t set;
    struct sigaction act = { .sa_handler = SIG_DFL };
    prctl(PR_SET_DUMPABLE, 0); /* a core dump would contain the password */
    sigaction(signal, &act, NULL);
    sigemptyset(&set);
    sigaddset(&set, signal);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + signal); /* its default action does not end a process, or this one is process 1 */
}

const char *signals_name(int signal, char buf[16])
{
    const char *name = sigabbrev_np(signal);
    if (name)
        snprintf(buf, 16, "SIG%s", name);
    else
        snprintf(buf, 16, "signal %d", signal);
    return buf;
}
