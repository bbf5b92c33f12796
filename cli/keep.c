/* keep.c - see keep.h. Nobody is signalled here: what COMMAND has left in the background runs on without the lock. */
#include "keep.h"

#include "helper.h"
#include "note.h"
#include "say.h"
#include "signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/timerfd.h>

/* Absolute, so that it fires after a suspension of the host, too. */
static void arm(int timer_fd, int64_t at_ms)
{
    struct itimerspec when = { .it_value = { .tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000 } };
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Returns the signal that asks for an end; 0: none has come. ^Z stops hasplock: then the lease runs on. */
static int take_signals(int signal_fd)
{
    int signal, by = 0;
    while ((signal = signals_next(signal_fd)) != 0) {
        if (signal == SIGTSTP)
            signals_stop_self(signal);
        else if (signals_ask_for_an_end(signal) || signal == SIGHUP)
            by = signal;
    }
    return by;
}

/* The timer also wakes it up at the end of the lease as it was known: the lock may be lost without an event. */
static int wait_until(hlk_lock *lock, int64_t until_ms, int signal_fd, const struct watch_fds *from, bool *asked)
{
    struct pollfd fds[] = { { .fd = signal_fd, .events = POLLIN },
                            { .fd = hlk_lock_lost_fd(lock), .events = POLLIN },
                            { .fd = from->timer, .events = POLLIN },
                            { .fd = from->event_read, .events = POLLIN } };
    int by = 0;
    while (!by && !*asked && hlk_now_ms() < until_ms) {
        int64_t held_until_ms = hlk_lock_held_until(lock);
        if (held_until_ms <= hlk_now_ms())
            break;
        int64_t at_ms = note_write();
        at_ms = at_ms < until_ms ? at_ms : until_ms;
        arm(from->timer, held_until_ms < at_ms ? held_until_ms : at_ms);
        if (poll(fds, sizeof fds / sizeof fds[0], -1) > 0)
            by = take_signals(signal_fd);
        *asked = watch_was_asked(from);
    }
    return by;
}

void keep(struct watch_result *result, const struct options *options, hlk_lock *lock, int64_t until_ms, int signal_fd,
          const struct watch_fds *fds)
{
    bool asked = false;
    struct json fields;
    char name[16];
    int64_t keep_ms = until_ms - hlk_now_ms();
    if (keep_ms <= 0)
        return;
    helper_kill_at(INT64_MAX);
    say_begin(&fields, "kept");
    json_int(&fields, "keep_ms", keep_ms);
    say_with(&fields, SAY_VERBOSE, "COMMAND has ended; kept for %.2f s more (--min-hold)", (double)keep_ms / 1000);
    int by = wait_until(lock, until_ms, signal_fd, fds, &asked);
    int64_t left_ms = hlk_lock_left_ms(lock);
    result->at_risk = left_ms <= options->grace_ms;
    result->lost = left_ms == 0;
    if (result->lost)
        say(SAY_ERROR, "lost", "lost when COMMAND had ended, while it was kept (--min-hold)");
    else if (asked)
        say(SAY_NOTE, "asked", "hasplock break ended --min-hold");
    else if (by)
        say(SAY_VERBOSE, "interrupted", "%s ended --min-hold", signals_name(by, name));
}
