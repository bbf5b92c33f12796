/* loop.h - the one loop thread of a client: subscriber connection, reconnects, alarms, and replies without a waiting
 * thread.
 *
 * Other threads reach it only through hlk_loop_post. Any thread may arm an alarm without waking it. It sleeps until the
 * next slot of the wheel that has an alarm, and without alarms until it is woken. While ticks are needed, and for a
 * second afterwards, it wakes up every HLK_WHEEL_TICK_MS.
 *
 * libev runs the loop and keeps its timers. Descriptors are watched by an epoll set of our own, which is the only
 * descriptor that libev watches. libev calls abort() when it lacks a descriptor or memory, so nothing in it grows after
 * create. */
#ifndef HLK_NET_LOOP_H
#define HLK_NET_LOOP_H

#include "base/debug.h"
#include "base/error.h"
#include "base/wheel.h"

#include <ev.h>

typedef struct hlk_loop hlk_loop;

/* Work for the loop thread, embedded in its object. Posting a queued one again has no effect; from `run` on it may be
 * posted again. Its memory must live until `run` was called. */
struct hlk_post {
    struct hlk_list link;               /* under post_mu */
    void (*run)(struct hlk_post *post);
};

/* A time at which `fire` runs on the loop thread, at most one tick early. An alarm that was armed may be freed only on
 * the loop thread, or after the loop has ended, because a timer that has just fired cannot be cancelled any more. */
struct hlk_alarm {
    struct hlk_timer timer;             /* under the wheel's mutex */
    void (*fire)(struct hlk_alarm *alarm);
};

/* Runs after the alarms of each tick: sends the batch that they collected, checks a connection. */
struct hlk_tick {
    struct hlk_list link;               /* loop thread only */
    void (*run)(struct hlk_tick *tick, int64_t now_ms);
    int64_t (*due_ms)(struct hlk_tick *tick);   /* When it must run; 0: in each tick, INT64_MAX: together with others.
                                                 * May be NULL */
};

/* A descriptor that the loop watches, embedded in its object; zeroed at first. */
struct hlk_watch {
    int fd;
    unsigned events;                    /* EPOLL...; 0: not watched */
    void (*ready)(struct hlk_watch *watch, unsigned events);    /* loop thread */
};

enum hlk_status hlk_loop_create(hlk_loop **out, struct hlk_error *error);
enum hlk_status hlk_loop_start(hlk_loop *loop, struct hlk_error *error);   /* the thread; all signals blocked in it */
void hlk_loop_stop(hlk_loop *loop);         /* runs what was posted, ends and joins the thread; not from the thread */
void hlk_loop_destroy(hlk_loop *loop);      /* NULL is fine */

struct ev_loop *hlk_loop_ev(hlk_loop *loop);            /* loop thread, or before start */
void hlk_loop_add_tick(hlk_loop *loop, struct hlk_tick *tick);  /* the same */
void hlk_loop_remove_tick(hlk_loop *loop, struct hlk_tick *tick);  /* the same; no-op for one that is not there */

void hlk_loop_post(hlk_loop *loop, struct hlk_post *post);      /* any thread; no effect after the loop has ended */
bool hlk_loop_try_post(hlk_loop *loop, struct hlk_post *post);  /* false: not queued, because the loop is not running */
void hlk_loop_arm(hlk_loop *loop, struct hlk_alarm *alarm, int64_t due_ms);     /* any thread; re-arms */
void hlk_loop_cancel(hlk_loop *loop, struct hlk_alarm *alarm);  /* any thread; it may still fire once */
void hlk_loop_need_ticks(hlk_loop *loop);                       /* any thread: for a second at least */
void hlk_loop_wake_by(hlk_loop *loop, int64_t at_ms);           /* any thread: a tick is due then */

/* Watches for `events` from now on (EPOLL... of <sys/epoll.h>). Any thread for the first time, then the loop thread, or
 * before start. HLK_E_OS: nothing has changed. */
enum hlk_status hlk_loop_watch(hlk_loop *loop, struct hlk_watch *watch, int fd, unsigned events,
                               struct hlk_error *error);
/* Before `fd` is closed: a forked child may have a copy, and epoll would then still report it. Loop thread, or before
 * start or after the end. No-op when not watched. */
void hlk_loop_unwatch(hlk_loop *loop, struct hlk_watch *watch);

bool hlk_loop_here(const hlk_loop *loop);       /* true also before start and after the end */
static inline void hlk_loop_assert_here(const hlk_loop *loop)
{
    HLK_DEBUG_ASSERT(hlk_loop_here(loop));
    (void)loop;
}

/* What the loop thread does at a timed wake-up, and the time of the next one (INT64_MAX: none). For tests without
 * it. */
void hlk_loop_tick(hlk_loop *loop);
int64_t hlk_loop_wakes_ms(hlk_loop *loop);

#endif
