#include "base/self.h"

#include "base/clock.h"
#include "base/mem.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_uint_fast64_t last_number;
static atomic_uint process_number;
static _Thread_local struct hlk_self *mine;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static pthread_mutex_t idle_mu = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static struct hlk_self *idle;                               /*   selves of threads that ended */
static void (*_Atomic on_exit_hook)(uint64_t);

uint64_t hlk_self_number(void)
{
    return atomic_fetch_add(&last_number, 1) + 1;
}

static void thread_ends(void *arg)
{
    struct hlk_self *self = arg;
    void (*hook)(uint64_t) = atomic_load(&on_exit_hook);
    if (hook && atomic_load(&self->holds) > 0)
        hook(self->id);
    mine = NULL;
    pthread_mutex_lock(&idle_mu);
    self->next = idle;
    idle = self;
    pthread_mutex_unlock(&idle_mu);
}

static void before_fork(void)
{
    pthread_mutex_lock(&idle_mu);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&idle_mu);
}

/* In the child: it holds nothing, and an eventfd that the parent polls too would take wake-ups from each other. */
static void part_from_parent(struct hlk_self *self)
{
    atomic_store(&self->holds, 0);
    if (self->event_fd >= 0)
        close(self->event_fd);
    self->event_fd = -1;
}

static void after_fork_child(void)
{
    struct hlk_self *survivor = pthread_getspecific(key); /* `mine` might have to be allocated first */
    if (survivor)
        part_from_parent(survivor);
    for (struct hlk_self *self = idle; self; self = self->next)
        part_from_parent(self);
    pthread_mutex_unlock(&idle_mu);
    atomic_fetch_add(&process_number, 1);
}

static void start(void)
{
    pthread_key_create(&key, thread_ends);
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static struct hlk_self *take_idle(void)
{
    pthread_mutex_lock(&idle_mu);
    struct hlk_self *self = idle;
    if (self)
        idle = self->next;
    pthread_mutex_unlock(&idle_mu);
    return self;
}

static struct hlk_self *make(void)
{
    pthread_once(&once, start);
    struct hlk_self *self = take_idle();
    if (!self) {
        self = hlk_mem_zalloc(sizeof *self);
        if (!self)
            return NULL;
        hlk_park_init(&self->park);
        self->event_fd = -1;
    }
    atomic_store(&self->park.bits, 0);
    self->cancellable = false; /* the one before may have been cancelled in its sleep */
    self->id = hlk_self_number();
    atomic_store(&self->holds, 0);
    if (pthread_setspecific(key, self) != 0) {
        thread_ends(self);
        return NULL;
    }
    mine = self;
    return self;
}

struct hlk_self *hlk_self_get(void)
{
    return mine ? mine : make();
}

int hlk_self_event_fd(struct hlk_self *self)
{
    if (self->event_fd < 0)
        self->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return self->event_fd;
}

void hlk_self_on_exit(void (*ended)(uint64_t id))
{
    pthread_once(&once, start);
    atomic_store(&on_exit_hook, ended);
}

unsigned hlk_self_process(void)
{
    pthread_once(&once, start);
    return atomic_load(&process_number);
}

unsigned hlk_self_process_in_handler(void)
{
    return atomic_load(&process_number);
}

void hlk_self_allow_cancel(struct hlk_self *self)
{
    if (self->cancellable)
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

void hlk_self_forbid_cancel(struct hlk_self *self)
{
    if (self->cancellable)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void poll_ends(void *self)
{
    hlk_park_end_poll(&((struct hlk_self *)self)->park);
}

void hlk_self_poll(struct hlk_self *self, int fd, short events, int kick_fd, unsigned mask, int64_t at_ms)
{
    struct pollfd fds[2] = { { .fd = fd, .events = events }, { .fd = kick_fd, .events = POLLIN } };
    atomic_store(&self->park.poll_fd, kick_fd);
    if (!hlk_park_begin(&self->park, mask)) {
        poll_ends(self);
        return;
    }
    pthread_cleanup_push(poll_ends, self);
    hlk_self_allow_cancel(self);
    (void)poll(fds, 2, hlk_clock_poll_ms(at_ms));
    hlk_self_forbid_cancel(self);
    pthread_cleanup_pop(0);
    poll_ends(self);
    uint64_t drained;
    if (fds[1].revents && read(kick_fd, &drained, sizeof drained) < 0)
        return; /* somebody else's token: as good */
}
