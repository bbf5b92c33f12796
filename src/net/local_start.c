#include "net/local_start.h"

#include "base/debug.h"
#include "base/mem.h"
#include "net/local.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct hlk_local_start {
    atomic_int refs;
    int fd;
    int64_t reconnect_timeout_ms;
    char name[64];
    atomic_bool done;       /* set after the next three; orders them for the reader of fd */
    enum hlk_status status; /* these three belong to the thread until fd is readable */
    char path[108];
    struct hlk_error error;
};

void hlk_local_start_drop(struct hlk_local_start *local_start)
{
    HLK_DEBUG_ASSERT(!local_start || atomic_load(&local_start->refs) > 0);
    if (!local_start || atomic_fetch_sub(&local_start->refs, 1) != 1)
        return;
    close(local_start->fd);
    hlk_mem_free(local_start);
}

static void *local_start_ensure(void *arg)
{
    struct hlk_local_start *local_start = arg;
    local_start->status = hlk_local_ensure(local_start->name, local_start->reconnect_timeout_ms, local_start->path,
                                           sizeof local_start->path, &local_start->error);
    atomic_store(&local_start->done, true);
    uint64_t one = 1;
    ssize_t ignored = write(local_start->fd, &one, sizeof one);
    (void)ignored;
    hlk_local_start_drop(local_start);
    return NULL;
}

struct hlk_local_start *hlk_local_start_begin(const char *name, int64_t reconnect_timeout_ms, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(strlen(name) < sizeof((struct hlk_local_start *)0)->name);
    struct hlk_local_start *local_start = hlk_mem_zalloc(sizeof *local_start);
    if (!local_start) {
        (void)hlk_error_set(error, HLK_E_NOMEM, "no memory");
        return NULL;
    }
    atomic_init(&local_start->refs, 2);
    local_start->reconnect_timeout_ms = reconnect_timeout_ms;
    strncpy(local_start->name, name, sizeof local_start->name - 1);
    local_start->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    int rc = local_start->fd < 0 ? errno : pthread_create(&thread, &attr, local_start_ensure, local_start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        return local_start;
    (void)hlk_error_set(error, HLK_E_OS, "cannot start a local server: %s", strerror(rc));
    if (local_start->fd >= 0)
        close(local_start->fd);
    hlk_mem_free(local_start);
    return NULL;
}

int hlk_local_start_fd(const struct hlk_local_start *local_start)
{
    return local_start->fd;
}

enum hlk_status hlk_local_start_take(struct hlk_local_start *local_start, char *path, size_t size,
                                     struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(size > 0);
    if (!atomic_load(&local_start->done))
        return hlk_error_set(error, HLK_BUSY, "not yet");
    if (local_start->status != HLK_OK) {
        *error = local_start->error;
        return local_start->status;
    }
    strncpy(path, local_start->path, size - 1);
    path[size - 1] = '\0';
    return HLK_OK;
}
