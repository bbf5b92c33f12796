/* loop.h - the one loop thread of a client: subscriber connection, reconnects, alarms, and answers nobody waits for.
 *
 * Other threads speak to it by one door, hlk_loop_post. Alarms are armed from any thread without waking it: while
 * there is anything to look after it ticks every HLK_WHEEL_TICK_MS, and stops ticking after a second with nothing
 * armed. */
#ifndef HLK_NET_LOOP_H
#define HLK_NET_LOOP_H

#include "base/error.h"
#include "base/wheel.h"

#include <ev.h>

typedef struct hlk_loop hlk_loop;

/* Work for the loop thread, embedded in what it is about. Posting one that is queued already changes nothing; it may be
 * posted again from `run` on. Its memory must live until `run` was called. */
struct hlk_post {
    struct hlk_list link;               /* under the door's mutex */
    void (*run)(struct hlk_post *post);
};

/* A moment at which `fire` runs on the loop thread, at most a tick early. Its memory may only be freed on the loop
 * thread (or after the loop ended), unless it was never armed: an alarm that has gone off cannot be called back. */
struct hlk_alarm {
    struct hlk_timer timer;             /* under the wheel's mutex */
    void (*fire)(struct hlk_alarm *alarm);
};

/* Something that the loop does after each tick's alarms: sends the batch that they collected, looks after a
 * connection. */
struct hlk_tick {
    struct hlk_list link;               /* loop thread only */
    void (*run)(struct hlk_tick *tick, int64_t now_ms);
    bool (*idle)(struct hlk_tick *tick);    /* true: needs no ticks. May be NULL */
};

enum hlk_status hlk_loop_create(hlk_loop **out, struct hlk_error *error);
enum hlk_status hlk_loop_start(hlk_loop *loop, struct hlk_error *error);   /* the thread; all signals blocked in it */
void hlk_loop_stop(hlk_loop *loop);         /* runs what was posted, ends the thread, joins it; not from the thread */
void hlk_loop_destroy(hlk_loop *loop);      /* NULL is fine */

struct ev_loop *hlk_loop_ev(hlk_loop *loop);            /* loop thread, or before start */
void hlk_loop_add_tick(hlk_loop *loop, struct hlk_tick *tick);  /* before start */

void hlk_loop_post(hlk_loop *loop, struct hlk_post *post);      /* any thread; nothing once it has ended */
bool hlk_loop_try_post(hlk_loop *loop, struct hlk_post *post);  /* false: no loop runs it, now or ever: the caller's */
void hlk_loop_arm(hlk_loop *loop, struct hlk_alarm *alarm, int64_t due_ms);     /* any thread; re-arms */
void hlk_loop_cancel(hlk_loop *loop, struct hlk_alarm *alarm);  /* any thread; it may be about to fire all the same */
void hlk_loop_need_ticks(hlk_loop *loop);                       /* any thread: for a second at least */
bool hlk_loop_here(const hlk_loop *loop);                       /* is this its thread? */
void hlk_loop_assert_here(const hlk_loop *loop);

#endif
