/* The reentrant lock: an acquire that waits. */
#include "acquire/acquire_blocking.h"
#include "base/opts.h"

#include <pthread.h>

static void end_terms(void *terms)
{
    hlk_acquire_terms_end(terms);
}

static enum hlk_status acquire_checked(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    const struct hlk_lock_group *group = hlk_lock_group(lock);
    if (group)
        return group->acquire(lock, opts);
    struct hlk_thread *self = hlk_thread_get();
    struct hlk_acquire_terms terms;
    if (!hlk_acquire_terms_of(lock, self, &terms))
        return HLK_E_NOMEM;
    enum hlk_status status;
    pthread_cleanup_push(end_terms, &terms);
    status = hlk_acquire_on(&terms, opts, self);
    pthread_cleanup_pop(1);
    return status;
}

enum hlk_status hlk_lock_acquire_with(hlk_lock *lock, const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(lock, "acquire", given, &opts);
    return status == HLK_OK ? acquire_checked(lock, &opts) : status;
}

enum hlk_status hlk_lock_acquire(hlk_lock *lock, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = hlk_opts_wait_ms(wait_ms); /* of the others each default is valid */
    enum hlk_status status = hlk_lock_check(lock, "acquire");
    return status == HLK_OK ? acquire_checked(lock, &opts) : status;
}
