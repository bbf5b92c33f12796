/* nocancel.h - no call of ours is a pthread cancellation point but the sleeps of an acquire (base/self.h). Most system
 * calls are one, though, and a thread that ends in the middle of a write leaves behind whatever its callers hold: a
 * mutex, a half-sent command. So each such call that a caller's thread can come by stands between these two, and so
 * does every function of ours that sleeps for another reason. */
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
