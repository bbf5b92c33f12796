#include "async_fixture.h"

bool dispatching;
hlk_client *loop_client;
static _Thread_local bool inside_call, inside_dispatch;
static atomic_int orders;

hlk_client *open_for(bool dispatch)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.flags = dispatch ? HLK_OPEN_DISPATCH : 0;
    loop_use(fixture_open(&opts), dispatch);
    return loop_client;
}

void loop_use(hlk_client *client, bool dispatch)
{
    dispatching = dispatch;
    loop_client = client;
}

void turn(void)
{
    struct pollfd set = { hlk_client_fd(loop_client), POLLIN, 0 };
    if (!dispatching)
        return;
    poll(&set, 1, 5);
    if (!set.revents)
        return;
    inside_dispatch = true;
    hlk_client_dispatch(loop_client, 0);
    inside_dispatch = false;
}

void remember(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct done *done = ctx;
    done->status = status;
    done->lock = lock;
    done->was_inside_call = inside_call;
    done->was_inside_dispatch = inside_dispatch;
    done->thread = pthread_self();
    snprintf(done->error, sizeof done->error, "%s", status == HLK_OK ? "" : hlk_last_error());
    atomic_store(&done->order, atomic_fetch_add(&orders, 1) + 1);
    if (done->release && status == HLK_OK)
        hlk_lock_release_async(lock, NULL, NULL);
    atomic_fetch_add(&done->runs, 1);
}

void acquire(hlk_lock *lock, int64_t wait_ms, hlk_cancel *cancel, struct done *done)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    opts.cancel = cancel;
    inside_call = true;
    cr_assert_eq(hlk_lock_acquire_async(lock, &opts, remember, done), HLK_OK, "%s", hlk_last_error());
    inside_call = false;
    memset(&opts, 0xff, sizeof opts); /* they were copied */
}

void release(hlk_lock *lock, struct done *done)
{
    inside_call = true;
    cr_assert_eq(hlk_lock_release_async(lock, done ? remember : NULL, done), HLK_OK, "%s", hlk_last_error());
    inside_call = false;
}

enum hlk_status result(struct done *done)
{
    LOOP_UNTIL(atomic_load(&done->runs) > 0);
    cr_assert_not(done->was_inside_call, "never from inside the call");
    cr_assert_eq(done->was_inside_dispatch, dispatching);
    if (dispatching)
        cr_assert(pthread_equal(done->thread, pthread_self()));
    else
        cr_assert_not(pthread_equal(done->thread, pthread_self()));
    return done->status;
}
