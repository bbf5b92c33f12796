/* demo_shared.c - the file that the demo's processes share, and the functions that write to it. */
#include "demo_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEMO_MAGIC 0x68617370646d6f31u /* "haspdmo1" */

int64_t demo_now_ns(void)
{
#ifdef CLOCK_BOOTTIME
    const clockid_t clock = CLOCK_BOOTTIME; /* the clock of hlk_now_ms */
#else
    const clockid_t clock = CLOCK_MONOTONIC;
#endif
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct demo_shared *demo_shared_create(const char *dir, uint32_t hold_cap, int *fd)
{
    char path[PATH_MAX];
    struct demo_shared *shared = NULL;
    size_t size = sizeof *shared + (size_t)hold_cap * sizeof shared->holds[0];

    if (snprintf(path, sizeof path, "%s/shared-XXXXXX", dir) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    int file = mkostemp(path, O_CLOEXEC);
    if (file < 0)
        return NULL;
    unlink(path);
    /* posix_fallocate and not ftruncate: a full disk is then an error here, not a SIGBUS later. */
    int err = posix_fallocate(file, 0, (off_t)size);
    void *map = err ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) {
        err = err ? err : errno;
        close(file);
        errno = err;
        return NULL;
    }
    shared = map;
    shared->magic = DEMO_MAGIC;
    shared->size = size;
    shared->hold_cap = hold_cap;
    *fd = file;
    return shared;
}

struct demo_shared *demo_shared_attach(int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof(struct demo_shared))
        return NULL;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    struct demo_shared *shared = map;
    if (shared->magic == DEMO_MAGIC && shared->size == (size_t)st.st_size)
        return shared;
    munmap(map, (size_t)st.st_size);
    return NULL;
}

void demo_shared_destroy(struct demo_shared *shared)
{
    if (shared)
        munmap(shared, shared->size);
}

struct demo_hold *demo_hold_begin(struct demo_shared *shared, int row)
{
    uint32_t index = atomic_fetch_add(&shared->hold_count, 1);
    if (index >= shared->hold_cap)
        return NULL;
    struct demo_hold *hold = &shared->holds[index];
    hold->row = row;
    hold->pid = (int32_t)getpid();
    hold->stock_wrote = -1;
    hold->asked_ns = demo_now_ns();
    return hold;
}

uint32_t demo_hold_count(const struct demo_shared *shared)
{
    uint32_t count = atomic_load(&shared->hold_count);
    return count < shared->hold_cap ? count : shared->hold_cap;
}

void demo_cell_set(struct demo_shared *shared, int row, int state)
{
    atomic_store(&shared->cells[row].since_ns, demo_now_ns());
    atomic_store(&shared->cells[row].state, state);
}

int demo_sold(const struct demo_shared *shared, int process)
{
    int threads = shared->order.threads, sold = 0;
    int from = process < 0 ? 0 : process * threads;
    int to = process < 0 ? shared->order.processes * threads : from + threads;
    for (int row = from; row < to; row++)
        sold += atomic_load(&shared->cells[row].sold);
    return sold;
}
