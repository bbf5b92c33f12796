/* nocancel.h - the only pthread cancellation points of the library are the sleeps of an acquire (base/thread.h). Most
 * system calls are cancellation points too. A thread that was cancelled in one would leave a locked mutex or half a
 * command behind. So each system call on a caller's thread, and each other sleep, stands between these two. */
#ifndef HLK_BASE_NOCANCEL_H
#define HLK_BASE_NOCANCEL_H

#include <pthread.h>

static inline int hlk_nocancel_begin(void)
{
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    return old;
}

static inline void hlk_nocancel_end(int old)
{
    pthread_setcancelstate(old, &old);
}

#endif
