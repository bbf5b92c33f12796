/* watch.c - see watch.h. */
#include "watch.h"

#include "helper.h"
#include "locks.h"
#include "note.h"
#include "say.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_AGAIN_MS 20   /* until what was forked during the last kill has been killed too */
#define KILL_AHEAD_MS 25   /* for the kill itself: it is over when the lock counts as lost */
#define HELPER_AHEAD_MS 15 /* the same for the helper, so that the loop usually kills first */
#define HELPER_NEWS 8      /* how often in a lease the helper's time is updated */
#define SLOW_MS 1000       /* after this time a message says what has not ended yet */

enum stage { GOING, ASKED, KILLED };

struct notice { /* an hlk_event, small enough for an atomic write to a pipe */
    int kind;
    int64_t held_until_at_ms;
    char lock[64]; /* its name; cut if longer */
    char why[200];
};

struct watch {
    const struct options *options;
    hlk_lock *lock;
    struct child *child;
    struct watch_result *result;
    int signal_fd, event_fd, timer_fd;

    enum stage stage;
    struct notice news;     /* the latest event; kind 0: none to handle */
    bool asked;             /* somebody asks for the lock's release */
    int64_t kill_at_ms;     /* ASKED: the end of the grace */
    int64_t max_hold_at_ms; /* 0: none, or done */
    int passed_on;          /* the last signal passed on that asks for an end; 0: none */
    bool rest;              /* COMMAND has ended; what it has started is waited for */
    int64_t slow_at_ms;     /* when to say what has not ended; 0: not waiting for that, or said */
};

int watch_open(struct watch_fds *fds)
{
    int ends[2];
    fds->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fds->timer < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return errno;
    fds->event_read = ends[0];
    fds->event_write = ends[1];
    return 0;
}

void watch_close(struct watch_fds *fds)
{
    close(fds->event_read);
    close(fds->event_write);
    close(fds->timer);
}

/* If the pipe is full (200 unread events), the event is dropped. The loop also checks at the end of the lease. */
void watch_on_event(const struct hlk_event *event, void *ctx)
{
    const struct watch_fds *fds = ctx;
    struct notice notice = { .kind = event->kind, .held_until_at_ms = event->held_until_at_ms };
    snprintf(notice.lock, sizeof notice.lock, "%s", event->lock);
    snprintf(notice.why, sizeof notice.why, "%s", event->why ? event->why : "no reason given");
    ssize_t n = write(fds->event_write, &notice, sizeof notice);
    (void)n;
}

/* --- actions on COMMAND, and messages. The signal comes first. */

static double seconds(int64_t ms)
{
    return (double)(ms < 0 ? 0 : ms) / 1000;
}

/* What it is signalled for is said before. */
static void say_refused(const struct watch *w, const struct descendants_refused *refused)
{
    char others[32] = "";
    if (refused->count == 0)
        return;
    if (refused->count > 1)
        snprintf(others, sizeof others, " and %d more", refused->count - 1);
    say(SAY_ERROR, "refused", "may not signal process %d (%s)%s: %s; the work goes on %s", (int)refused->pid,
        refused->name, others, strerror(refused->why),
        w->result->lost ? "without the lock" : "and the lock is kept while it can be renewed");
}

static void ask(struct watch *w, const char *event, const char *why, int64_t kill_at_ms)
{
    struct json fields;
    struct descendants_refused refused, ignored;
    int64_t left_ms = kill_at_ms - hlk_now_ms();
    int pid = (int)w->child->pid, reached = child_signal_all(w->child, SIGTERM, &refused);
    w->stage = ASKED;
    w->kill_at_ms = kill_at_ms;
    w->result->stopped |= reached > 0;
    if (w->child->stopped)
        child_signal_all(w->child, SIGCONT, &ignored); /* a stopped process does not handle it */
    say_begin(&fields, event);
    if (reached)
        json_string(&fields, "signal", "SIGTERM");
    json_int(&fields, "pid", pid);
    json_int(&fields, "kill_in_ms", left_ms);
    if (reached)
        say_with(&fields, SAY_ERROR, "%s; sent SIGTERM to %d, SIGKILL in %.1f s", why, pid, seconds(left_ms));
    else
        say_with(&fields, SAY_ERROR, "%s", why);
    say_refused(w, &refused);
}

static void kill_now(struct watch *w, const char *event, const char *why)
{
    struct json fields;
    struct descendants_refused refused;
    int pid = (int)w->child->pid, reached = child_signal_all(w->child, SIGKILL, &refused);
    bool sent = reached > 0 || refused.count == 0; /* or it has ended of it by now */
    w->stage = KILLED;
    w->slow_at_ms = refused.count ? 0 : hlk_now_ms() + SLOW_MS;
    w->result->stopped |= reached > 0 || helper_has_killed() || w->child->helper_died;
    say_begin(&fields, event);
    if (sent)
        json_string(&fields, "signal", "SIGKILL");
    json_int(&fields, "pid", pid);
    if (sent)
        say_with(&fields, SAY_ERROR, "%s; sent SIGKILL to %d", why, pid);
    else
        say_with(&fields, SAY_ERROR, "%s", why);
    say_refused(w, &refused);
}

static void kill_again(struct watch *w)
{
    struct descendants_refused refused;
    child_signal_all(w->child, SIGKILL, &refused);
}

/* --- the events */

static void on_at_risk(struct watch *w, const struct notice *news)
{
    static const char *const then[] = { [ON_LOST_KILL] = "SIGKILL", [ON_LOST_WARN] = "lost" };
    int64_t kill_at_ms = news->held_until_at_ms - KILL_AHEAD_MS;
    char why[320], which[LOCKS_WHICH];
    locks_which(w->options, news->lock, which);
    w->result->at_risk = true;
    if (w->stage == ASKED && kill_at_ms < w->kill_at_ms)
        w->kill_at_ms = kill_at_ms;
    if (w->stage != GOING)
        return;
    if (w->options->on_lost == ON_LOST_TERM) {
        snprintf(why, sizeof why, "%sat risk: %s", which, news->why);
        ask(w, "at_risk", why, kill_at_ms);
    } else {
        say(SAY_ERROR, "at_risk", "%sat risk: %s; %s in %.1f s unless it is renewed", which, news->why,
            then[w->options->on_lost], seconds(news->held_until_at_ms - hlk_now_ms()));
    }
}

/* Of several locks another one may be at risk still. */
static void on_safe(struct watch *w)
{
    if (w->options->names_count > 1 && hlk_lock_left_ms(w->lock) <= w->options->grace_ms)
        return;
    if (w->result->at_risk && w->stage == GOING)
        say(SAY_ERROR, "safe", "safe again: the lease was renewed");
    w->result->at_risk = false;
}

static void on_lost(struct watch *w, const char *lock, const char *reason)
{
    char why[320], which[LOCKS_WHICH];
    bool said = w->result->lost;
    w->result->lost = true;
    snprintf(why, sizeof why, "%slost: %s", *lock ? locks_which(w->options, lock, which) : "", reason);
    if (w->stage == KILLED && !said)
        say(SAY_ERROR, "lost", "%s; what has not ended works on without the lock", why);
    if (w->stage == KILLED)
        return;
    if (w->options->on_lost != ON_LOST_WARN)
        kill_now(w, "lost", why);
    else if (!said)
        say(SAY_ERROR, "lost", "%s; COMMAND runs on", why);
}

/* An AT_RISK and a SAFE of one lock between two reads cancel out. A loss is never replaced. */
static bool replaces(const struct notice *next, const struct notice *before)
{
    bool at_risk = before->kind == HLK_EVENT_AT_RISK && strcmp(before->lock, next->lock) != 0;
    return before->kind != HLK_EVENT_LOST && next->kind <= HLK_EVENT_LOST && !(at_risk && next->kind == HLK_EVENT_SAFE);
}

static void read_events(struct watch *w)
{
    struct notice next;
    while (read(w->event_fd, &next, sizeof next) == (ssize_t)sizeof next) {
        w->asked |= next.kind == HLK_EVENT_ASKED;
        if (replaces(&next, &w->news))
            w->news = next;
    }
}

bool watch_was_asked(const struct watch_fds *fds)
{
    struct notice next;
    bool asked = false;
    while (read(fds->event_read, &next, sizeof next) == (ssize_t)sizeof next)
        asked |= next.kind == HLK_EVENT_ASKED;
    return asked;
}

static void act_on_news(struct watch *w)
{
    struct notice news = w->news;
    w->news.kind = 0;
    if (news.kind == HLK_EVENT_AT_RISK)
        on_at_risk(w, &news);
    else if (news.kind == HLK_EVENT_SAFE)
        on_safe(w);
    else if (news.kind == HLK_EVENT_LOST)
        on_lost(w, news.lock, news.why);
    if (w->asked && w->stage == GOING)
        ask(w, "asked", "asked to end by hasplock break", hlk_now_ms() + w->options->grace_ms);
}

static bool kills(const struct watch *w)
{
    return w->stage != KILLED && w->options->on_lost != ON_LOST_WARN;
}

/* By when COMMAND must be killed, as far as the library knows; long past when the lock is lost. */
static int64_t kill_by_ms(const struct watch *w)
{
    return hlk_lock_held_until(w->lock) - KILL_AHEAD_MS;
}

void watch_order_kill(const struct options *options, const hlk_lock *lock)
{
    helper_kill_at(options->on_lost == ON_LOST_WARN ? INT64_MAX : hlk_lock_held_until(lock) - HELPER_AHEAD_MS);
}

static void say_what_is_slow(struct watch *w)
{
    char pids[128];
    w->slow_at_ms = 0;
    if (descendants_shown(helper_root(), pids, sizeof pids) == 0)
        return;
    if (w->stage != KILLED)
        say(SAY_NOTE, "waiting", "COMMAND has ended; the lock is held until what it has started has ended too: %s",
            pids);
    else
        say(SAY_ERROR, "waiting", "not ended yet after SIGKILL, %s: %s",
            w->result->lost ? "without the lock" : "and the lock is kept while it can be renewed", pids);
}

static void act_on_time(struct watch *w)
{
    int64_t now = hlk_now_ms();
    char why[128];
    if (w->slow_at_ms && now >= w->slow_at_ms)
        say_what_is_slow(w);
    if (w->stage == KILLED)
        kill_again(w);
    if (w->stage == GOING && w->max_hold_at_ms && now >= w->max_hold_at_ms) {
        snprintf(why, sizeof why, "--max-hold of %.13g s is over", seconds(w->options->max_hold_ms));
        ask(w, "max_hold", why, now + w->options->grace_ms);
    }
    if (kills(w) && now >= kill_by_ms(w))
        on_lost(w, w->news.lock, w->news.why[0] ? w->news.why : "the lease is over");
    else if (helper_has_killed())
        on_lost(w, "", "this process stood still for too long");
    else if (w->stage == ASKED && now >= w->kill_at_ms)
        kill_now(w, "kill", "the grace is over");
}

/* --- the loop */

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* For at_ms, or for what comes before that. An absolute time on the clock of hlk_now_ms: after a suspension of the host
 * a past time fires at once. */
static void arm_timer(struct watch *w, int64_t at_ms)
{
    struct itimerspec when = { 0 };
    if (w->stage == GOING && w->max_hold_at_ms)
        at_ms = earlier(at_ms, w->max_hold_at_ms);
    if (w->stage == ASKED)
        at_ms = earlier(at_ms, w->kill_at_ms);
    if (kills(w))
        at_ms = earlier(at_ms, kill_by_ms(w));
    if (w->slow_at_ms)
        at_ms = earlier(at_ms, w->slow_at_ms);
    if (w->stage == KILLED)
        at_ms = earlier(at_ms, hlk_now_ms() + KILL_AGAIN_MS);
    else if (kills(w))
        at_ms = earlier(at_ms, hlk_now_ms() + w->options->lease_ms / HELPER_NEWS);
    if (at_ms < 1)
        at_ms = 1; /* 0 would turn it off */
    if (at_ms < INT64_MAX)
        when.it_value = (struct timespec){ .tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000 };
    timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void pass_on(struct watch *w, int signal)
{
    struct descendants_refused refused;
    char name[16];
    if (signals_ask_for_an_end(signal))
        w->passed_on = signal;
    if (w->child->ended) {
        child_signal_all(w->child, signal, &refused);
        say_refused(w, &refused);
    } else if (!child_signal(w->child, signal)) {
        say(SAY_ERROR, "refused", "may not pass %s on to COMMAND (pid %d): %s", signals_name(signal, name),
            (int)w->child->pid, strerror(errno));
    }
}

static void read_signals(struct watch *w)
{
    int signal;
    while ((signal = signals_next(w->signal_fd)) != 0) {
        if (signal == SIGCHLD) /* child_look comes in any case */
            continue;
        if (signal == SIGCONT) {
            read_events(w); /* this process may have been stopped past its lease; then COMMAND must not continue */
            if (w->news.kind != HLK_EVENT_LOST && (!kills(w) || hlk_lock_left_ms(w->lock) > 0))
                child_continue(w->child);
        } else {
            pass_on(w, signal);
        }
    }
}

/* The signal that has asked COMMAND to end: we have passed it on, or it has died of it. 0: none. */
static int asked_by(const struct watch *w)
{
    int by = WIFSIGNALED(w->child->status) ? WTERMSIG(w->child->status) : 0;
    return w->passed_on ? w->passed_on : signals_ask_for_an_end(by) || by == SIGHUP ? by : 0;
}

/* The rest did not get the signal that has ended COMMAND if it has groups or sessions of its own. */
static void on_ended(struct watch *w)
{
    struct descendants_refused refused;
    bool died = WIFSIGNALED(w->child->status);
    if (w->rest || w->child->gone || w->stage != GOING || !(w->options->all || w->passed_on || died))
        return;
    w->rest = true;
    w->slow_at_ms = hlk_now_ms() + SLOW_MS;
    int by = asked_by(w);
    if (by)
        child_signal_all(w->child, by, &refused);
}

static void look_at_child(struct watch *w)
{
    int stopped_by = child_look(w->child);
    if (stopped_by)
        child_was_stopped(w->child, stopped_by);
    if (w->child->ended)
        on_ended(w);
    if (w->child->helper_died && w->stage != KILLED)
        kill_now(w, "error", "the helper process has died");
    w->result->stopped |= w->child->helper_died;
}

static bool is_over(const struct watch *w)
{
    bool by_itself = w->stage == GOING && !w->rest && !helper_has_killed() && !w->child->helper_died;
    return by_itself ? w->child->ended : w->child->gone;
}

static void turn(struct watch *w)
{
    struct pollfd fds[] = { { .fd = w->signal_fd, .events = POLLIN },
                            { .fd = w->event_fd, .events = POLLIN },
                            { .fd = w->timer_fd, .events = POLLIN },
                            { .fd = helper_fd(), .events = POLLIN } };
    watch_order_kill(w->options, w->lock);
    arm_timer(w, note_write()); /* each time, which also resets its readability */
    if (poll(fds, sizeof fds / sizeof fds[0], -1) < 0)
        return;
    read_signals(w);
    look_at_child(w);
    if (is_over(w) && !helper_has_killed())
        return;
    read_events(w);
    act_on_news(w);
    act_on_time(w);
}

void watch_run(struct watch_result *result, const struct options *options, hlk_lock *lock, struct child *child,
               int signal_fd, const struct watch_fds *fds)
{
    struct watch w = { .options = options,
                       .lock = lock,
                       .child = child,
                       .result = result,
                       .signal_fd = signal_fd,
                       .event_fd = fds->event_read,
                       .timer_fd = fds->timer };
    *result = (struct watch_result){ 0 };
    if (options->max_hold_ms)
        w.max_hold_at_ms = hlk_now_ms() + options->max_hold_ms;
    while (!is_over(&w))
        turn(&w);
    result->asked = w.asked || asked_by(&w) != 0;
}
