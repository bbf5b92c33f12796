/* halt.h - a thread that stands still at the worst moment. The linker's --wrap puts a halt before a function of the
 * library; all else is as it is. */
#ifndef HLK_TEST_HALT_H
#define HLK_TEST_HALT_H

#include "trouble.h"

#include <stdatomic.h>

static atomic_int armed, standing, going;

/* The first thread that comes by stands here until it may go on. `at` is the test program's own number of the place,
 * from 1. */
static inline void halt(int at)
{
    int expected = at;
    if (!atomic_compare_exchange_strong(&armed, &expected, 0))
        return;
    atomic_store(&standing, 1);
    WAIT_FOR(atomic_load(&going));
}

static inline void arm(int at)
{
    atomic_store(&armed, at);
}

static inline void go_on(void)
{
    atomic_store(&going, 1);
}

#define WRAPPED(type, name, parameters)                                                                                \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters

/* How often a completion has run, and what it was told last. */
struct done {
    atomic_int runs;
    enum hlk_status status;
};

static inline void remember(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct done *done = ctx;
    (void)lock;
    done->status = status;
    atomic_fetch_add(&done->runs, 1);
}

/* What a thread of its own calls: its argument is one of these. */
struct call {
    hlk_lock *lock;
    hlk_cancel *cancel;
    enum hlk_status status;
    struct done done;
};

static inline void *releases(void *arg)
{
    struct call *call = arg;
    call->status = hlk_lock_release(call->lock);
    return NULL;
}

#endif
