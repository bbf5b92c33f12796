/* tsan.c - blocking calls in which a thread may be cancelled, as ThreadSanitizer can bear them.
 *
 * gcc 12's libtsan stops looking at a thread while that is in poll() or sem_wait() and looks again when they return. A
 * thread that is cancelled there does not return: what its cleanup handlers lock, free and unlock stays unseen, and
 * everything they touch is reported as a race. These two take the place of libtsan's.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sanitizer/tsan_interface.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A cancellation point as glibc's own: cancellation may strike in the system call and nowhere else. */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    long rc = syscall(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &timeout, NULL, 0);
    int saved = errno;
    pthread_setcanceltype(old, &old);
    errno = saved;
    return (int)rc;
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
