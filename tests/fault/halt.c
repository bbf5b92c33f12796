#include "halt.h"

atomic_int armed, standing, going;

void halt(int at)
{
    int expected = at;
    if (!atomic_compare_exchange_strong(&armed, &expected, 0))
        return;
    atomic_store(&standing, 1);
    WAIT_FOR(atomic_load(&going));
}

void arm(int at)
{
    atomic_store(&armed, at);
}

void go_on(void)
{
    atomic_store(&going, 1);
}

void remember(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct done *done = ctx;
    (void)lock;
    done->status = status;
    atomic_fetch_add(&done->runs, 1);
}

void *releases(void *arg)
{
    struct call *call = arg;
    call->status = hlk_lock_release(call->lock);
    return NULL;
}
