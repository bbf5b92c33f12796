#include "net/loop.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/nocancel.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LIBEV_DESCRIPTORS 4                     /* epoll, its door, and two in reserve */
#define LINGER_TICKS (1000 / HLK_WHEEL_TICK_MS) /* a thread that locks and releases must not wake us each time */

struct hlk_loop {
    struct ev_loop *ev;   /* loop thread only, from start on */
    struct ev_async door; /*   sent from any thread */
    struct ev_timer ticker;
    struct hlk_list ticks;
    unsigned idle_ticks;
    bool stopping;

    pthread_t thread;
    atomic_bool running;
    atomic_bool ticking; /* the ticker runs, or the door was rung for it */

    struct hlk_mutex post_mu; /* rank POST; guards: */
    struct hlk_list posts;
    enum { MADE, STARTED, ENDED } life; /* ENDED: nobody runs posts any more */

    struct hlk_mutex wheel_mu; /* rank WATCHDOG; guards: */
    struct hlk_wheel wheel;
};

bool hlk_loop_here(const hlk_loop *loop)
{
    return atomic_load(&loop->running) && pthread_equal(pthread_self(), loop->thread);
}

void hlk_loop_assert_here(const hlk_loop *loop)
{
    assert(!atomic_load(&loop->running) || pthread_equal(pthread_self(), loop->thread));
    (void)loop;
}

struct ev_loop *hlk_loop_ev(hlk_loop *loop)
{
    return loop->ev;
}

void hlk_loop_add_tick(hlk_loop *loop, struct hlk_tick *tick)
{
    hlk_list_push_back(&loop->ticks, &tick->link);
}

static void run_posts(hlk_loop *loop, bool last)
{
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

static bool nothing_to_look_after(hlk_loop *loop)
{
    hlk_mutex_lock(&loop->wheel_mu);
    bool armed = loop->wheel.armed > 0;
    hlk_mutex_unlock(&loop->wheel_mu);
    if (armed)
        return false;
    for (struct hlk_list *n = loop->ticks.next; n != &loop->ticks; n = n->next) {
        struct hlk_tick *tick = HLK_CONTAINER(n, struct hlk_tick, link);
        if (tick->idle && !tick->idle(tick))
            return false;
    }
    return true;
}

/* Stopping to tick and somebody arming at the same time: the flag is lowered first, then looked at again. */
static void rest_when_idle(hlk_loop *loop)
{
    loop->idle_ticks = nothing_to_look_after(loop) ? loop->idle_ticks + 1 : 0;
    if (loop->idle_ticks < LINGER_TICKS)
        return;
    loop->idle_ticks = 0;
    atomic_store(&loop->ticking, false);
    if (nothing_to_look_after(loop))
        ev_timer_stop(loop->ev, &loop->ticker);
    else
        atomic_store(&loop->ticking, true);
}

static void on_tick(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    hlk_loop *loop = timer->data;
    (void)ev;
    int64_t now = hlk_clock_ms();
    struct hlk_list due;
    hlk_list_init(&due);
    hlk_mutex_lock(&loop->wheel_mu);
    hlk_wheel_advance(&loop->wheel, now, &due);
    hlk_mutex_unlock(&loop->wheel_mu);
    for (;;) {
        hlk_mutex_lock(&loop->wheel_mu); /* cancel and re-arm unlink from `due` too */
        struct hlk_list *node = hlk_list_pop(&due);
        hlk_mutex_unlock(&loop->wheel_mu);
        if (!node)
            break;
        struct hlk_alarm *alarm = HLK_CONTAINER(node, struct hlk_alarm, timer.link);
        alarm->fire(alarm);
    }
    for (struct hlk_list *n = loop->ticks.next; n != &loop->ticks; n = n->next) {
        struct hlk_tick *tick = HLK_CONTAINER(n, struct hlk_tick, link);
        tick->run(tick, now);
    }
    rest_when_idle(loop);
}

static void on_door(struct ev_loop *ev, struct ev_async *door, int revents)
{
    (void)revents;
    hlk_loop *loop = door->data;
    run_posts(loop, false);
    if (atomic_load(&loop->ticking) && !ev_is_active(&loop->ticker))
        ev_timer_again(ev, &loop->ticker);
    if (loop->stopping)
        ev_break(ev, EVBREAK_ALL);
}

static void *thread_main(void *arg)
{
    hlk_loop *loop = arg;
    ev_run(loop->ev, 0);
    return NULL;
}

/* libev aborts the process when it finds no descriptor for its own. What it needs is tried first. */
static bool has_descriptors(void)
{
    int fds[LIBEV_DESCRIPTORS], n = 0;
    while (n < LIBEV_DESCRIPTORS && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
        n++;
    bool enough = n == LIBEV_DESCRIPTORS;
    while (n > 0)
        close(fds[--n]);
    return enough;
}

enum hlk_status hlk_loop_create(hlk_loop **out, struct hlk_error *error)
{
    hlk_loop *loop = hlk_mem_zalloc(sizeof *loop);
    *out = NULL;
    if (!loop)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    loop->ev = !has_descriptors() ? NULL : ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (!loop->ev) {
        hlk_mem_free(loop);
        return hlk_error_set(error, HLK_E_OS, "no event loop: out of file descriptors?");
    }
    hlk_list_init(&loop->ticks);
    hlk_list_init(&loop->posts);
    hlk_mutex_init(&loop->post_mu, HLK_RANK_POST);
    hlk_mutex_init(&loop->wheel_mu, HLK_RANK_WATCHDOG);
    hlk_wheel_init(&loop->wheel, hlk_clock_ms());
    ev_async_init(&loop->door, on_door);
    loop->door.data = loop;
    ev_async_start(loop->ev, &loop->door);
    ev_init(&loop->ticker, on_tick);
    loop->ticker.repeat = HLK_WHEEL_TICK_MS / 1000.0;
    loop->ticker.data = loop;
    *out = loop;
    return HLK_OK;
}

enum hlk_status hlk_loop_start(hlk_loop *loop, struct hlk_error *error)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&loop->thread, NULL, thread_main, loop);
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
    ev_loop_destroy(loop->ev);
    hlk_mutex_fini(&loop->post_mu);
    hlk_mutex_fini(&loop->wheel_mu);
    hlk_mem_free(loop);
}

static void knock(hlk_loop *loop)
{
    int old = hlk_nocancel_begin();
    ev_async_send(loop->ev, &loop->door);
    hlk_nocancel_end(old);
}

/* post_mu held, and let go of. */
static void queue(hlk_loop *loop, struct hlk_post *post)
{
    bool queued = hlk_list_linked(&post->link);
    if (!queued)
        hlk_list_push_back(&loop->posts, &post->link);
    hlk_mutex_unlock(&loop->post_mu);
    if (!queued)
        knock(loop);
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

void hlk_loop_need_ticks(hlk_loop *loop)
{
    if (!atomic_load(&loop->ticking) && !atomic_exchange(&loop->ticking, true))
        knock(loop);
}

void hlk_loop_arm(hlk_loop *loop, struct hlk_alarm *alarm, int64_t due_ms)
{
    hlk_mutex_lock(&loop->wheel_mu);
    hlk_wheel_arm(&loop->wheel, &alarm->timer, due_ms);
    hlk_mutex_unlock(&loop->wheel_mu);
    hlk_loop_need_ticks(loop);
}

void hlk_loop_cancel(hlk_loop *loop, struct hlk_alarm *alarm)
{
    hlk_mutex_lock(&loop->wheel_mu);
    hlk_wheel_cancel(&loop->wheel, &alarm->timer);
    hlk_mutex_unlock(&loop->wheel_mu);
}
