/* resolve.c - see resolve.h. User and thread have a reference each; the last one frees the lookup. */
#include "net/resolve.h"

#include "base/debug.h"
#include "base/mem.h"
#include "base/mutex.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef int lookup_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);
static _Atomic(lookup_fn *) played;

/* A lookup that hangs cannot be ended: the dial that gives it up leaves its thread behind. A name whose lookups hang
 * has a share of the threads, and leaves the rest to other names. */
#define RUNNING_MOST 256
#define RUNNING_OF_ONE 16
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* a leaf; guards: */
static const char *running[RUNNING_MOST];              /*   the host that each thread looks up; NULL: no thread */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&mu);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mu);
}

static void in_child(void) /* the threads belong to the parent */
{
    memset(running, 0, sizeof running);
    pthread_mutex_unlock(&mu);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

/* The place of a thread that looks up `host`. -1: too many do already. */
static int begin_lookup(const char *host)
{
    int place = -1, same = 0;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&mu);
    for (int i = 0; i < RUNNING_MOST; i++) {
        same += running[i] && strcmp(running[i], host) == 0;
        place = place < 0 && !running[i] ? i : place;
    }
    if (same >= RUNNING_OF_ONE)
        place = -1;
    if (place >= 0)
        running[place] = host;
    pthread_mutex_unlock(&mu);
    return place;
}

static void end_lookup(int place)
{
    HLK_DEBUG_ASSERT(place >= 0 && place < RUNNING_MOST);
    pthread_mutex_lock(&mu);
    running[place] = NULL;
    pthread_mutex_unlock(&mu);
}

struct hlk_resolve {
    atomic_int refs;
    int fd; /* eventfd, counts 1 when done */
    char *host;
    char service[8]; /* the port */
    int place;       /* in `running` */

    atomic_bool done; /* set by the thread after the next three, which then belong to the user: */
    int fault;        /*   EAI_..., 0: none */
    int os_fault;     /*   errno */
    struct addrinfo *found;
};

static void resolve_unref(struct hlk_resolve *lookup)
{
    HLK_DEBUG_ASSERT(atomic_load(&lookup->refs) > 0);
    if (atomic_fetch_sub(&lookup->refs, 1) > 1)
        return;
    if (lookup->found)
        freeaddrinfo(lookup->found);
    close(lookup->fd);
    hlk_mem_free(lookup->host);
    hlk_mem_free(lookup);
}

static void look_up(struct hlk_resolve *lookup, lookup_fn *how, int flags)
{
    hlk_mutex_assert_none();
    struct addrinfo hints = { .ai_flags = AI_NUMERICSERV | flags, .ai_socktype = SOCK_STREAM };
    errno = 0;
    lookup->fault = how(lookup->host, lookup->service, &hints, &lookup->found);
    lookup->os_fault = errno;
    if (lookup->fault)
        lookup->found = NULL;
}

static void resolve_report(struct hlk_resolve *lookup)
{
    HLK_DEBUG_ASSERT(!atomic_load(&lookup->done));
    atomic_store_explicit(&lookup->done, true, memory_order_release);
    eventfd_write(lookup->fd, 1);
}

static void *resolve_run(void *arg)
{
    struct hlk_resolve *lookup = arg;
    lookup_fn *play = atomic_load(&played);
    look_up(lookup, play ? play : getaddrinfo, 0);
    end_lookup(lookup->place);
    resolve_report(lookup);
    resolve_unref(lookup);
    return NULL;
}

/* The thread is detached, and all signals are blocked in it. Returns 0 or an errno, EBUSY: there are too many. */
static int start_thread(struct hlk_resolve *lookup)
{
    HLK_DEBUG_ASSERT(lookup->fd >= 0);
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    if ((lookup->place = begin_lookup(lookup->host)) < 0)
        return EBUSY;
    int fault = pthread_attr_init(&attr);
    if (fault) {
        end_lookup(lookup->place);
        return fault;
    }
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&lookup->refs, 1);
    fault = pthread_create(&thread, &attr, resolve_run, lookup);
    if (fault) {
        atomic_fetch_sub(&lookup->refs, 1);
        end_lookup(lookup->place);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return fault;
}

struct hlk_resolve *hlk_resolve_start(const char *host, int port, struct hlk_error *error)
{
    struct hlk_resolve *lookup = hlk_mem_zalloc(sizeof *lookup);
    char *copy = hlk_mem_strdup(host);
    if (!lookup || !copy) {
        hlk_error_set(error, HLK_E_NOMEM, "no memory to look up \"%s\"", host);
        hlk_mem_free(lookup);
        hlk_mem_free(copy);
        return NULL;
    }
    lookup->host = copy;
    lookup->refs = 1;
    snprintf(lookup->service, sizeof lookup->service, "%d", port);
    lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->fd < 0) {
        hlk_error_set(error, HLK_E_OS, "eventfd for the lookup of \"%s\": %s", host, strerror(errno));
        hlk_mem_free(copy);
        hlk_mem_free(lookup);
        return NULL;
    }

    look_up(lookup, getaddrinfo, AI_NUMERICHOST);
    if (lookup->fault != EAI_NONAME) {
        resolve_report(lookup);
        return lookup;
    }
    int fault = start_thread(lookup);
    if (fault) {
        hlk_error_set(error, fault == EBUSY ? HLK_E_CONNECT : HLK_E_OS, "thread for the lookup of \"%s\": %s", host,
                      fault == EBUSY ? "as many as there may be hang already" : strerror(fault));
        resolve_unref(lookup);
        return NULL;
    }
    return lookup;
}

int hlk_resolve_fd(const struct hlk_resolve *lookup)
{
    return lookup->fd;
}

/* What this process lacked, or NULL. glibc also returns EAI_NONAME when it cannot open /etc/hosts or a socket. */
static const char *lacks(const struct hlk_resolve *lookup)
{
    bool lack = lookup->os_fault == EMFILE || lookup->os_fault == ENFILE || lookup->os_fault == ENOMEM;
    return lack ? strerror(lookup->os_fault) : lookup->fault == EAI_MEMORY ? gai_strerror(lookup->fault) : NULL;
}

enum hlk_status hlk_resolve_take(struct hlk_resolve *lookup, struct addrinfo **out, struct hlk_error *error)
{
    *out = NULL;
    if (!atomic_load_explicit(&lookup->done, memory_order_acquire))
        return HLK_BUSY;
    if (lookup->fault && lacks(lookup))
        return hlk_error_set(error, HLK_E_OS, "lookup of \"%s\": %s", lookup->host, lacks(lookup));
    if (lookup->fault) {
        const char *why = lookup->fault == EAI_SYSTEM ? strerror(lookup->os_fault) : gai_strerror(lookup->fault);
        return hlk_error_set(error, HLK_E_CONNECT, "no address found for \"%s\": %s", lookup->host, why);
    }
    assert(lookup->found);
    *out = lookup->found;
    lookup->found = NULL;
    return HLK_OK;
}

void hlk_resolve_drop(struct hlk_resolve *lookup)
{
    if (lookup)
        resolve_unref(lookup);
}

void hlk_resolve_play(int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **))
{
    atomic_store(&played, lookup);
}
