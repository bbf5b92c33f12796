#include "base/thread.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/mutex.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_uint_fast64_t last_number;
static atomic_uint process_number;
static _Thread_local struct hlk_thread *mine;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;                                       /* set once, then read-only */
static pthread_mutex_t idle_mu = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static struct hlk_thread *idle;                             /* contexts of threads that have ended */
static void (*_Atomic on_exit_hook)(uint64_t);

uint64_t hlk_thread_next_id(void)
{
    return atomic_fetch_add(&last_number, 1) + 1;
}

static void thread_ends(void *arg)
{
    struct hlk_thread *self = arg;
    void (*callback)(uint64_t) = atomic_load(&on_exit_hook);
    if (callback && atomic_load(&self->holds) > 0)
        callback(self->id);
    mine = NULL;
    pthread_mutex_lock(&idle_mu);
    self->next = idle;
    idle = self;
    pthread_mutex_unlock(&idle_mu);
}

static void thread_before_fork(void)
{
    pthread_mutex_lock(&idle_mu);
}

static void thread_after_fork_parent(void)
{
    pthread_mutex_unlock(&idle_mu);
}

/* In the child, the thread holds nothing. An eventfd shared with the parent would deliver wake-ups to the wrong
 * process. A waker in the parent's other threads does not exist here. */
static void leave_parent(struct hlk_thread *self)
{
    atomic_store(&self->holds, 0);
    hlk_park_init(&self->park);
    if (self->event_fd >= 0)
        close(self->event_fd);
    self->event_fd = -1;
}

static void thread_after_fork_child(void)
{
    struct hlk_thread *survivor =
        key_made ? pthread_getspecific(key) : NULL; /* `mine` might have to be allocated first */
    if (survivor)
        leave_parent(survivor);
    for (struct hlk_thread *self = idle; self; self = self->next)
        leave_parent(self);
    pthread_mutex_unlock(&idle_mu);
    atomic_fetch_add(&process_number, 1);
}

static void thread_start(void)
{
    key_made = pthread_key_create(&key, thread_ends) == 0;
    pthread_atfork(thread_before_fork, thread_after_fork_parent, thread_after_fork_child);
}

static struct hlk_thread *take_idle(void)
{
    pthread_mutex_lock(&idle_mu);
    struct hlk_thread *self = idle;
    if (self)
        idle = self->next;
    pthread_mutex_unlock(&idle_mu);
    return self;
}

static struct hlk_thread *thread_make(void)
{
    HLK_DEBUG_ASSERT(!mine);
    pthread_once(&once, thread_start);
    if (!key_made)
        return NULL;
    struct hlk_thread *self = take_idle();
    if (!self) {
        self = hlk_mem_zalloc(sizeof *self);
        if (!self)
            return NULL;
        hlk_park_init(&self->park);
        self->event_fd = -1;
    }
    atomic_store(&self->park.bits, 0);
    self->cancellable = false; /* its previous thread may have been cancelled in its sleep */
    self->id = hlk_thread_next_id();
    atomic_store(&self->holds, 0);
    if (pthread_setspecific(key, self) != 0) {
        thread_ends(self);
        return NULL;
    }
    mine = self;
    return self;
}

struct hlk_thread *hlk_thread_get(void)
{
    return mine ? mine : thread_make();
}

int hlk_thread_event_fd(struct hlk_thread *self)
{
    HLK_DEBUG_ASSERT(self == mine);
    if (self->event_fd < 0)
        self->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return self->event_fd;
}

void hlk_thread_on_exit(void (*ended)(uint64_t id))
{
    pthread_once(&once, thread_start);
    atomic_store(&on_exit_hook, ended);
}

unsigned hlk_thread_process(void)
{
    pthread_once(&once, thread_start);
    return atomic_load(&process_number);
}

unsigned hlk_thread_process_in_handler(void)
{
    return atomic_load(&process_number);
}

void hlk_thread_allow_cancel(struct hlk_thread *self)
{
    HLK_DEBUG_ASSERT(self == mine);
    if (self->cancellable)
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

void hlk_thread_forbid_cancel(struct hlk_thread *self)
{
    HLK_DEBUG_ASSERT(self == mine);
    if (self->cancellable)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void poll_ends(void *self)
{
    hlk_park_end_poll(&((struct hlk_thread *)self)->park);
}

void hlk_thread_poll(struct hlk_thread *self, int fd, short events, int kick_fd, unsigned mask, int64_t at_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self == mine && kick_fd >= 0);
    struct pollfd fds[2] = { { .fd = fd, .events = events }, { .fd = kick_fd, .events = POLLIN } };
    atomic_store(&self->park.poll_fd, kick_fd);
    if (!hlk_park_begin(&self->park, mask)) {
        poll_ends(self);
        return;
    }
    pthread_cleanup_push(poll_ends, self);
    hlk_thread_allow_cancel(self);
    (void)poll(fds, 2, hlk_clock_poll_ms(at_ms));
    hlk_thread_forbid_cancel(self);
    pthread_cleanup_pop(0);
    poll_ends(self);
    uint64_t drained;
    if (fds[1].revents && read(kick_fd, &drained, sizeof drained) < 0)
        return; /* another thread has read the token already */
}
