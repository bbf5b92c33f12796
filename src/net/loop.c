#include "net/loop.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/nocancel.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LINGER_TICKS (1000 / HLK_WHEEL_TICK_MS) /* a series of acquires and releases does not wake it each time */
#define TIMERS_MOST 64  /* two dials, two pauses before a dial, a ping, a silence timer, a dial for each sentinel */
#define AWAKE INT64_MIN /* wakes_ms while the loop runs: it computes the next wake-up itself */

struct hlk_loop {
    struct ev_loop *ev; /* loop thread only, from start on */
    struct ev_io any;   /*   one of the watches is ready */
    struct hlk_watch door, clock;
    struct hlk_list ticks;
    unsigned idle_ticks;
    bool stopping;

    int watches; /* epoll set of all watches. Its errors become statuses; libev's would abort */
    pthread_t thread;
    atomic_bool running;
    atomic_bool ticking; /* it wakes up every HLK_WHEEL_TICK_MS */
    atomic_bool knocked; /* the door eventfd was written to, and not read yet */

    struct hlk_mutex post_mu; /* rank POST; guards: */
    struct hlk_list posts;
    enum { MADE, STARTED, ENDED } life; /* ENDED: posts are not run any more */

    struct hlk_mutex wheel_mu; /* rank WATCHDOG; guards: */
    struct hlk_wheel wheel;
    int64_t wakes_ms; /* time set in `clock`; INT64_MAX: not set; AWAKE */
    int64_t asked_ms; /* earliest hlk_loop_wake_by while AWAKE */
};

bool hlk_loop_here(const hlk_loop *loop)
{
    return !atomic_load(&loop->running) || pthread_equal(pthread_self(), loop->thread);
}

struct ev_loop *hlk_loop_ev(hlk_loop *loop)
{
    hlk_loop_assert_here(loop);
    return loop->ev;
}

void hlk_loop_add_tick(hlk_loop *loop, struct hlk_tick *tick)
{
    hlk_loop_assert_here(loop);
    HLK_DEBUG_ASSERT(tick->run);
    hlk_list_push_back(&loop->ticks, &tick->link);
}

void hlk_loop_remove_tick(hlk_loop *loop, struct hlk_tick *tick)
{
    hlk_loop_assert_here(loop);
    hlk_list_remove(&tick->link);
}

/* --- descriptors --- */

enum hlk_status hlk_loop_watch(hlk_loop *loop, struct hlk_watch *watch, int fd, unsigned events,
                               struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(fd >= 0 && watch->ready);
    HLK_DEBUG_ASSERT(!watch->events || hlk_loop_here(loop));
    struct epoll_event event = { .events = events, .data.ptr = watch };
    int how = watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    assert(!watch->events || watch->fd == fd);
    if (events == watch->events && !(events & EPOLLONESHOT))
        return HLK_OK;
    unsigned before = watch->events;
    watch->fd = fd;
    watch->events = events; /* it may be ready at once */
    if (epoll_ctl(loop->watches, how, fd, &event) == 0)
        return HLK_OK;
    watch->events = before;
    return hlk_error_set(error, HLK_E_OS, "a descriptor cannot be watched: %s", strerror(errno));
}

void hlk_loop_unwatch(hlk_loop *loop, struct hlk_watch *watch)
{
    hlk_loop_assert_here(loop);
    if (watch->events)
        (void)epoll_ctl(loop->watches, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->events = 0;
}

/* One event at a time, because its handler may end the object of the next one. */
static void on_any(struct ev_loop *ev, struct ev_io *any, int revents)
{
    (void)ev, (void)revents;
    hlk_loop *loop = any->data;
    hlk_loop_assert_here(loop);
    hlk_mutex_assert_none();
    struct epoll_event event;
    if (epoll_wait(loop->watches, &event, 1, 0) != 1)
        return;
    struct hlk_watch *watch = event.data.ptr;
    watch->ready(watch, event.events);
}

/* --- posts --- */

static void run_posts(hlk_loop *loop, bool last)
{
    hlk_loop_assert_here(loop);
    struct hlk_list *node;
    for (;;) {
        hlk_mutex_lock(&loop->post_mu);
        node = hlk_list_pop(&loop->posts);
        if (last && !node)
            loop->life = ENDED;
        hlk_mutex_unlock(&loop->post_mu);
        if (!node)
            return;
        struct hlk_post *post = HLK_CONTAINER(node, struct hlk_post, link);
        post->run(post);
    }
}

static void on_door(struct hlk_watch *door, unsigned events)
{
    hlk_loop *loop = HLK_CONTAINER(door, hlk_loop, door);
    eventfd_t knocks;
    (void)events;
    (void)eventfd_read(door->fd, &knocks);
    atomic_store(&loop->knocked, false); /* a later post writes to the door again */
    run_posts(loop, false);
    if (loop->stopping)
        ev_break(loop->ev, EVBREAK_ALL);
}

static void loop_knock(hlk_loop *loop)
{
    if (atomic_exchange(&loop->knocked, true))
        return;
    int old = hlk_nocancel_begin();
    (void)eventfd_write(loop->door.fd, 1);
    hlk_nocancel_end(old);
}

/* Unlocks post_mu. */
static void queue(hlk_loop *loop, struct hlk_post *post)
{
    hlk_mutex_assert_held(&loop->post_mu);
    HLK_DEBUG_ASSERT(post->run);
    bool queued = hlk_list_linked(&post->link);
    if (!queued)
        hlk_list_push_back(&loop->posts, &post->link);
    hlk_mutex_unlock(&loop->post_mu);
    if (!queued)
        loop_knock(loop);
}

void hlk_loop_post(hlk_loop *loop, struct hlk_post *post)
{
    hlk_mutex_lock(&loop->post_mu);
    if (loop->life == ENDED)
        hlk_mutex_unlock(&loop->post_mu);
    else
        queue(loop, post);
}

bool hlk_loop_try_post(hlk_loop *loop, struct hlk_post *post)
{
    hlk_mutex_lock(&loop->post_mu);
    bool runs = loop->life == STARTED;
    if (runs)
        queue(loop, post);
    else
        hlk_mutex_unlock(&loop->post_mu);
    return runs;
}

/* --- time --- */

/* By an absolute time: after a suspension of the host everything due fires at once. */
static void wake_by(hlk_loop *loop, int64_t at_ms)
{
    hlk_mutex_assert_held(&loop->wheel_mu);
    if (at_ms >= loop->wakes_ms)
        return;
    loop->wakes_ms = at_ms;
    struct itimerspec at = { .it_value = { .tv_sec = (time_t)(at_ms / 1000), .tv_nsec = at_ms % 1000 * 1000000 + 1 } };
    (void)timerfd_settime(loop->clock.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void hlk_loop_wake_by(hlk_loop *loop, int64_t at_ms)
{
    hlk_mutex_lock(&loop->wheel_mu);
    wake_by(loop, at_ms);
    if (at_ms < loop->asked_ms)
        loop->asked_ms = at_ms;
    hlk_mutex_unlock(&loop->wheel_mu);
}

void hlk_loop_need_ticks(hlk_loop *loop)
{
    if (!atomic_load(&loop->ticking) && !atomic_exchange(&loop->ticking, true))
        hlk_loop_wake_by(loop, hlk_clock_ms() + HLK_WHEEL_TICK_MS);
}

void hlk_loop_arm(hlk_loop *loop, struct hlk_alarm *alarm, int64_t due_ms)
{
    hlk_mutex_lock(&loop->wheel_mu);
    wake_by(loop, hlk_wheel_arm(&loop->wheel, &alarm->timer, due_ms));
    hlk_mutex_unlock(&loop->wheel_mu);
}

/* Does not reset the clock: one needless wake-up is cheaper than setting it for each lock. */
void hlk_loop_cancel(hlk_loop *loop, struct hlk_alarm *alarm)
{
    hlk_mutex_lock(&loop->wheel_mu);
    hlk_wheel_cancel(&loop->wheel, &alarm->timer);
    hlk_mutex_unlock(&loop->wheel_mu);
}

static void fire_alarms(hlk_loop *loop, int64_t now_ms)
{
    hlk_loop_assert_here(loop);
    hlk_mutex_assert_none();
    struct hlk_list due;
    hlk_list_init(&due);
    hlk_mutex_lock(&loop->wheel_mu);
    loop->wakes_ms = AWAKE;
    loop->asked_ms = INT64_MAX;
    hlk_wheel_advance(&loop->wheel, now_ms, &due);
    hlk_mutex_unlock(&loop->wheel_mu);
    for (;;) {
        hlk_mutex_lock(&loop->wheel_mu); /* cancel and re-arm unlink from `due` too */
        struct hlk_list *node = hlk_list_pop(&due);
        hlk_mutex_unlock(&loop->wheel_mu);
        if (!node)
            return;
        struct hlk_alarm *alarm = HLK_CONTAINER(node, struct hlk_alarm, timer.link);
        alarm->fire(alarm);
    }
}

/* The earliest time at which a tick is due; 0: each tick. */
static int64_t ticks_due_ms(hlk_loop *loop, int64_t now_ms)
{
    hlk_loop_assert_here(loop);
    int64_t soonest = INT64_MAX;
    for (struct hlk_list *n = loop->ticks.next; n != &loop->ticks; n = n->next) {
        struct hlk_tick *tick = HLK_CONTAINER(n, struct hlk_tick, link);
        int64_t due_ms = tick->due_ms ? tick->due_ms(tick) : INT64_MAX;
        soonest = due_ms < soonest ? due_ms : soonest;
    }
    return soonest > now_ms ? soonest : 0;
}

/* Returns when to wake up for ticks. Another thread may need ticks just when they stop, so the flag is cleared first
 * and due times are checked again. */
static int64_t rest_when_idle(hlk_loop *loop, int64_t now_ms)
{
    hlk_loop_assert_here(loop);
    int64_t due_ms = ticks_due_ms(loop, now_ms);
    if (due_ms && atomic_load(&loop->ticking) && ++loop->idle_ticks >= LINGER_TICKS) {
        atomic_store(&loop->ticking, false);
        due_ms = ticks_due_ms(loop, now_ms);
    }
    if (!due_ms)
        atomic_store(&loop->ticking, true);
    if (!due_ms || !atomic_load(&loop->ticking))
        loop->idle_ticks = 0;
    return due_ms;
}

void hlk_loop_tick(hlk_loop *loop)
{
    hlk_loop_assert_here(loop);
    hlk_mutex_assert_none();
    int64_t now = hlk_clock_ms();
    fire_alarms(loop, now);
    for (struct hlk_list *n = loop->ticks.next; n != &loop->ticks; n = n->next) {
        struct hlk_tick *tick = HLK_CONTAINER(n, struct hlk_tick, link);
        tick->run(tick, now);
    }
    run_posts(loop, false); /* a tick may have posted a part of its work */
    int64_t due_ms = rest_when_idle(loop, now);
    hlk_mutex_lock(&loop->wheel_mu);
    loop->wakes_ms = INT64_MAX;
    if (atomic_load(&loop->ticking)) { /* a thread that needs ticks later finds wakes_ms set */
        wake_by(loop, now + HLK_WHEEL_TICK_MS);
    } else {
        wake_by(loop, due_ms < loop->asked_ms ? due_ms : loop->asked_ms);
        wake_by(loop, hlk_wheel_next_ms(&loop->wheel));
    }
    hlk_mutex_unlock(&loop->wheel_mu);
}

int64_t hlk_loop_wakes_ms(hlk_loop *loop)
{
    hlk_mutex_lock(&loop->wheel_mu);
    int64_t wakes_ms = loop->wakes_ms;
    hlk_mutex_unlock(&loop->wheel_mu);
    return wakes_ms;
}

static void on_clock(struct hlk_watch *clock, unsigned events)
{
    uint64_t expired;
    (void)events;
    ssize_t ignored = read(clock->fd, &expired, sizeof expired);
    (void)ignored;
    hlk_loop_tick(HLK_CONTAINER(clock, hlk_loop, clock));
}

/* --- making and ending --- */

static int make_clock(void)
{
    int fd = -1;
#ifdef CLOCK_BOOTTIME
    fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
#endif
    return fd < 0 && errno == EINVAL ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK) : fd;
}

static void fire_nothing(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)ev, (void)timer, (void)revents;
}

/* Makes libev allocate its tables now, for all timers of a client and their events. */
static void grow_tables(struct ev_loop *ev)
{
    struct ev_timer timers[TIMERS_MOST];
    for (int i = 0; i < TIMERS_MOST; i++) {
        ev_timer_init(&timers[i], fire_nothing, -1, 0);
        ev_timer_start(ev, &timers[i]);
    }
    ev_run(ev, EVRUN_NOWAIT);
    for (int i = 0; i < TIMERS_MOST; i++)
        ev_timer_stop(ev, &timers[i]);
}

/* Acquires everything now, because a later failure inside libev could not be reported. */
static enum hlk_status make_descriptors(hlk_loop *loop, struct hlk_error *error)
{
    int door = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), clock = door < 0 ? -1 : make_clock();
    loop->door.fd = door;
    loop->clock.fd = clock;
    loop->watches = clock < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
    loop->ev = loop->watches < 0 ? NULL : ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (!loop->ev)
        return hlk_error_set(error, HLK_E_OS, "no descriptor for the event loop: %s", strerror(errno));
    loop->door.ready = on_door;
    loop->clock.ready = on_clock;
    ev_io_init(&loop->any, on_any, loop->watches, EV_READ);
    loop->any.data = loop;
    ev_io_start(loop->ev, &loop->any);
    grow_tables(loop->ev);
    if (!ev_is_active(&loop->any)) /* libev has tried to add it to its epoll set */
        return hlk_error_set(error, HLK_E_OS, "the event loop cannot watch a descriptor");
    enum hlk_status status = hlk_loop_watch(loop, &loop->door, door, EPOLLIN, error);
    return status == HLK_OK ? hlk_loop_watch(loop, &loop->clock, clock, EPOLLIN, error) : status;
}

enum hlk_status hlk_loop_create(hlk_loop **out, struct hlk_error *error)
{
    hlk_loop *loop = hlk_mem_zalloc(sizeof *loop);
    *out = NULL;
    if (!loop)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    hlk_list_init(&loop->ticks);
    hlk_list_init(&loop->posts);
    hlk_mutex_init(&loop->post_mu, HLK_RANK_POST);
    hlk_mutex_init(&loop->wheel_mu, HLK_RANK_WATCHDOG);
    hlk_wheel_init(&loop->wheel, hlk_clock_ms());
    loop->wakes_ms = INT64_MAX;
    enum hlk_status status = make_descriptors(loop, error);
    if (status == HLK_OK)
        *out = loop;
    else
        hlk_loop_destroy(loop);
    return status;
}

static void *loop_thread_main(void *arg)
{
    hlk_loop *loop = arg;
    ev_run(loop->ev, 0);
    return NULL;
}

enum hlk_status hlk_loop_start(hlk_loop *loop, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(!atomic_load(&loop->running));
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&loop->thread, NULL, loop_thread_main, loop);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return hlk_error_set(error, HLK_E_OS, "no loop thread: %s", strerror(rc));
    hlk_mutex_lock(&loop->post_mu);
    loop->life = STARTED;
    hlk_mutex_unlock(&loop->post_mu);
    atomic_store(&loop->running, true);
    return HLK_OK;
}

struct stop_post {
    struct hlk_post post;
    hlk_loop *loop;
};

static void stop_here(struct hlk_post *post)
{
    ((struct stop_post *)(void *)post)->loop->stopping = true;
}

void hlk_loop_stop(hlk_loop *loop)
{
    if (!loop || !atomic_load(&loop->running))
        return;
    HLK_DEBUG_ASSERT(!pthread_equal(pthread_self(), loop->thread));
    struct stop_post stop = { .post = { .run = stop_here }, .loop = loop };
    hlk_loop_post(loop, &stop.post);
    pthread_join(loop->thread, NULL);
    atomic_store(&loop->running, false);
    run_posts(loop, true);
}

void hlk_loop_destroy(hlk_loop *loop)
{
    if (!loop)
        return;
    HLK_DEBUG_ASSERT(!atomic_load(&loop->running));
    if (loop->ev)
        ev_loop_destroy(loop->ev);
    for (int *fds[] = { &loop->watches, &loop->door.fd, &loop->clock.fd }, **fd = fds; fd < fds + 3; fd++)
        if (**fd >= 0)
            close(**fd);
    hlk_mutex_fini(&loop->post_mu);
    hlk_mutex_fini(&loop->wheel_mu);
    hlk_mem_free(loop);
}
