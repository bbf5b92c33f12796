/* tsan.c - blocking calls in which a thread may be cancelled, as ThreadSanitizer can bear them.
 *
 * gcc 12's libtsan stops looking at a thread while that is in poll() or sem_wait() and looks again when they return. A
 * thread that is cancelled there does not return: what its cleanup handlers lock, free and unlock stays unseen, and
 * everything they touch is reported as a race. These two take the place of libtsan's.
 */
#include <poll.h>
#include <sanitizer/tsan_interface.h>
#include <semaphore.h>
#include <time.h>

/* glibc's own, by the name under which libtsan does not know it. A cancellation must not strike in libtsan: what that
 * has begun stays undone, and a lock of its own stays locked. So no call that libtsan knows, such as
 * pthread_setcanceltype, may be one. */
int __poll(struct pollfd *fds, nfds_t n, int timeout_ms);

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    return __poll(fds, n, timeout_ms);
}

/* sem_clockwait is one that libtsan does not know. */
int sem_wait(sem_t *sem)
{
    struct timespec never = { .tv_sec = 1L << 40 };
    int rc = sem_clockwait(sem, CLOCK_MONOTONIC, &never);
    if (rc == 0)
        __tsan_acquire(sem);
    return rc;
}
