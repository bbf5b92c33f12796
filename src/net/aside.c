#include "net/aside.h"

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

struct hlk_aside {
    atomic_int refs;
    int fd;
    int64_t patience_ms;
    char name[64];
    atomic_bool done;       /* orders what follows for who saw fd readable */
    enum hlk_status status; /* these three: the thread's until fd is readable */
    char path[108];
    struct hlk_error error;
};

void hlk_aside_drop(struct hlk_aside *aside)
{
    if (!aside || atomic_fetch_sub(&aside->refs, 1) != 1)
        return;
    close(aside->fd);
    hlk_mem_free(aside);
}

static void *ensure(void *arg)
{
    struct hlk_aside *aside = arg;
    aside->status = hlk_local_ensure(aside->name, aside->patience_ms, aside->path, sizeof aside->path, &aside->error);
    atomic_store(&aside->done, true);
    uint64_t one = 1;
    ssize_t ignored = write(aside->fd, &one, sizeof one);
    (void)ignored;
    hlk_aside_drop(aside);
    return NULL;
}

struct hlk_aside *hlk_aside_local(const char *name, int64_t patience_ms, struct hlk_error *error)
{
    struct hlk_aside *aside = hlk_mem_zalloc(sizeof *aside);
    if (!aside) {
        (void)hlk_error_set(error, HLK_E_NOMEM, "no memory");
        return NULL;
    }
    atomic_init(&aside->refs, 2);
    aside->patience_ms = patience_ms;
    strncpy(aside->name, name, sizeof aside->name - 1);
    aside->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    int rc = aside->fd < 0 ? errno : pthread_create(&thread, &attr, ensure, aside);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        return aside;
    (void)hlk_error_set(error, HLK_E_OS, "cannot start a local server: %s", strerror(rc));
    if (aside->fd >= 0)
        close(aside->fd);
    hlk_mem_free(aside);
    return NULL;
}

int hlk_aside_fd(const struct hlk_aside *aside)
{
    return aside->fd;
}

enum hlk_status hlk_aside_take(struct hlk_aside *aside, char *path, size_t size, struct hlk_error *error)
{
    if (!atomic_load(&aside->done))
        return hlk_error_set(error, HLK_BUSY, "not yet");
    if (aside->status != HLK_OK) {
        *error = aside->error;
        return aside->status;
    }
    strncpy(path, aside->path, size - 1);
    path[size - 1] = '\0';
    return HLK_OK;
}
