#include "support/failing_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static atomic_int calls_left = FAILING_CALLS_NEVER;
static atomic_bool all_later;

void failing_calls_begin(int n, bool lasting)
{
    atomic_store(&all_later, lasting);
    atomic_store(&calls_left, n);
}

bool failing_calls_end(void)
{
    return atomic_exchange(&calls_left, FAILING_CALLS_NEVER) <= 0;
}

/* Calls of Criterion's threads and of the C library itself are neither counted nor failed. */
static bool fails(const void *caller)
{
    Dl_info info;
    if (atomic_load(&calls_left) == FAILING_CALLS_NEVER)
        return false;
    bool known = dladdr(caller, &info) && info.dli_fname;
    if (known && (strstr(info.dli_fname, "nanomsg") || strstr(info.dli_fname, "libc.")))
        return false;
    int left = atomic_fetch_sub(&calls_left, 1) - 1;
    return left == 0 || (left < 0 && atomic_load(&all_later));
}

/* The C library's own function. A function pointer and void * have the same size here. */
#define FIND_REAL(type, name, parameters)                                                                              \
    static type(*real) parameters;                                                                                     \
    if (!real) {                                                                                                       \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&real, &found, sizeof real);                                                                            \
    }

#define FAILING(name, parameters, arguments, fault)                                                                    \
    int name parameters                                                                                                \
    {                                                                                                                  \
        FIND_REAL(int, name, parameters)                                                                               \
        if (fails(__builtin_return_address(0))) {                                                                      \
            errno = fault;                                                                                             \
            return -1;                                                                                                 \
        }                                                                                                              \
        return real arguments;                                                                                         \
    }

FAILING(eventfd, (unsigned count, int flags), (count, flags), EMFILE)
FAILING(timerfd_create, (clockid_t clock, int flags), (clock, flags), EMFILE)
FAILING(epoll_create1, (int flags), (flags), EMFILE)
FAILING(pipe, (int fds[2]), (fds), EMFILE)
FAILING(pipe2, (int fds[2], int flags), (fds, flags), EMFILE)
FAILING(socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE)

/* A deletion of what is there needs no memory, and never fails. */
int epoll_ctl(int set, int how, int fd, struct epoll_event *event)
{
    FIND_REAL(int, epoll_ctl, (int, int, int, struct epoll_event *))
    if (how != EPOLL_CTL_DEL && fails(__builtin_return_address(0))) {
        errno = ENOSPC;
        return -1;
    }
    return real(set, how, fd, event);
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*start)(void *),
                   void *restrict arg)
{
    FIND_REAL(int, pthread_create,
              (pthread_t *restrict, const pthread_attr_t *restrict, void *(*)(void *), void *restrict))
    return fails(__builtin_return_address(0)) ? EAGAIN : real(thread, attr, start, arg);
}
