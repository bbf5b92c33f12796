/* Acquires all members of a multilock, or none: tries at all of them at once, and waits for one after the other, in one
 * order, with one deadline. */
#include "api/multilock.h"
#include "api/tries.h"

#include "base/clock.h"
#include "base/nocancel.h"
#include "hasplock/async.h"

#include <pthread.h>
#include <string.h>

_Static_assert(HLK_MULTILOCK_MAX <= HLK_GLANCE_MAX, "all members may be on connections of their own");

/* So long a caller that holds members waits for another one: others may hold that one and wait for these. The random
 * part parts two that do it at the same time. */
enum { SLICE_MS = 1000, SLICE_JITTER_MS = 500 };

struct attempt {
    const hlk_lock *multilock;
    const struct hlk_acquire_opts *opts;
    struct hlk_thread *self;
    int64_t deadline_ms; /* INT64_MAX: none */
    size_t count;
    size_t held; /* so many of `order` are */
    unsigned random;
    hlk_lock *order[HLK_MULTILOCK_MAX]; /* first the one that is waited for while none is held; then by names */
    struct hlk_tries tries;
};

enum hlk_status hlk_multilock_fail(const hlk_lock *multilock, enum hlk_status status)
{
    return hlk_last_set(status, "multilock of %zu: %s", multilock->members->count, hlk_last_error());
}

/* From now on that member is the first. */
static void begin_with(struct attempt *a, hlk_lock *first)
{
    const struct hlk_members *members = a->multilock->members;
    size_t n = 0;
    a->order[n++] = first;
    for (size_t i = 0; i < members->count; i++)
        if (members->locks[i] != first)
            a->order[n++] = members->locks[i];
}

/* --- what is not kept --- */

/* Does not wait: what is not answered is repeated in the background. Without memory for that, the lease runs out. */
static void give_back(const struct attempt *a, hlk_lock *member)
{
    if (hlk_lock_release_async(member, NULL, NULL) != HLK_E_NOMEM || hlk_lock_group(member))
        return;
    uint64_t holder = hlk_lock_holder(member, a->self).id;
    struct hlk_entry *e = hlk_lock_find_entry(member, holder);
    if (!e)
        return;
    hlk_entry_give_back(e, holder);
    hlk_entry_unref(e);
}

static void give_all_back(struct attempt *a)
{
    while (a->held > 0)
        give_back(a, a->order[--a->held]);
}

static void on_thread_cancel(void *arg)
{
    struct attempt *a = arg;
    hlk_tries_end(&a->tries);
    for (size_t i = a->tries.count; i-- > 0;)
        if (a->tries.status[i] == HLK_OK)
            give_back(a, a->order[a->held + i]);
    give_all_back(a);
}

/* --- all at once --- */

/* Held are now those before the first that is not free. HLK_OK: all; HLK_BUSY: that one is to be waited for. */
static enum hlk_status take_tried(struct attempt *a)
{
    struct hlk_tries *tries = &a->tries;
    size_t i = 0, begun = a->held;
    while (i < tries->count && tries->status[i] == HLK_OK)
        i++;
    a->held += i;
    for (; i < tries->count; i++)
        if (tries->status[i] == HLK_OK)
            give_back(a, a->order[begun + i]);
    tries->count = 0;
    return tries->error.status == HLK_OK ? HLK_OK : hlk_last_set(tries->error.status, "%s", tries->error.text);
}

/* Members over several masters are asked by many commands each: they are waited for. */
static bool may_try(const struct attempt *a)
{
    for (size_t i = a->held; i < a->count; i++)
        if (hlk_lock_group(a->order[i]))
            return false;
    return a->opts->wait_ms != 0 && a->count - a->held > 1;
}

static enum hlk_status try_all(struct attempt *a)
{
    struct hlk_acquire_opts opts = *a->opts;
    opts.wait_ms = 0;
    int old = hlk_nocancel_begin();
    hlk_tries_start(&a->tries, a->self, &a->order[a->held], (unsigned)(a->count - a->held), &opts, a->deadline_ms);
    a->self->cancellable = old == PTHREAD_CANCEL_ENABLE;
    hlk_tries_wait(&a->tries);
    a->self->cancellable = false;
    hlk_tries_end(&a->tries);
    hlk_nocancel_end(old);
    return take_tried(a);
}

/* --- one after the other --- */

static int64_t slice_ms(struct attempt *a)
{
    a->random = a->random * 1103515245u + 12345u;
    return SLICE_MS + (a->random >> 16) % SLICE_JITTER_MS;
}

/* *slice: its time-out is not that of the caller. */
static enum hlk_status acquire_next(struct attempt *a, bool *slice)
{
    struct hlk_acquire_opts opts = *a->opts;
    *slice = false;
    if (opts.wait_ms != 0) {
        int64_t left = a->deadline_ms == INT64_MAX ? INT64_MAX : a->deadline_ms - hlk_clock_ms();
        int64_t max_ms = a->held > 0 ? slice_ms(a) : INT64_MAX;
        *slice = max_ms < left;
        opts.wait_ms = *slice ? max_ms : left == INT64_MAX ? HLK_FOREVER : left > 1 ? left : 1;
    }
    enum hlk_status status = hlk_lock_acquire_with(a->order[a->held], &opts);
    a->held += status == HLK_OK;
    return status;
}

static int64_t lease_of(const struct attempt *a, const hlk_lock *member)
{
    return a->opts->lease_ms ? a->opts->lease_ms : member->lease_ms;
}

/* While others were waited for, a hold may have been lost, and a fixed lease has become shorter. */
static enum hlk_status make_whole(const struct attempt *a)
{
    for (size_t i = 0; i < a->held; i++) {
        hlk_lock *member = a->order[i];
        int64_t lease = lease_of(a, member), left = hlk_lock_left_ms(member);
        enum hlk_status status = left == 0                               ? HLK_LOST
                                 : lease > 0 && left < lease - lease / 8 ? hlk_lock_extend(member, lease)
                                                                         : HLK_OK;
        if (status != HLK_OK)
            return status;
    }
    return HLK_OK;
}

/* --- both --- */

/* *again: some are held, and it is to begin again with the next one, or one of those that were acquired is lost. */
static enum hlk_status acquire_each(struct attempt *a, bool *again)
{
    enum hlk_status status = HLK_BUSY;
    bool waited = false;
    while (a->held < a->count) {
        *again = false;
        bool tries = may_try(a);
        status = tries ? try_all(a) : HLK_BUSY;
        if (status == HLK_BUSY && tries && hlk_clock_ms() >= a->deadline_ms) {
            status = hlk_last_set(HLK_TIMEOUT, "%s", hlk_last_error());
        } else if (status == HLK_BUSY) {
            waited = true;
            status = acquire_next(a, again);
        }
        if (status != HLK_OK) {
            *again = *again && status == HLK_TIMEOUT;
            return status;
        }
    }
    status = waited ? make_whole(a) : HLK_OK;
    *again = status == HLK_LOST;
    return status;
}

static enum hlk_status acquire_all(struct attempt *a)
{
    for (;;) {
        bool again;
        enum hlk_status status = acquire_each(a, &again);
        if (status == HLK_OK)
            return HLK_OK;
        hlk_lock *next = a->held < a->count ? a->order[a->held] : a->order[0];
        (void)hlk_multilock_fail(a->multilock, status);
        give_all_back(a);
        if (!again)
            return status;
        begin_with(a, next);
    }
}

enum hlk_status hlk_multilock_acquire(hlk_lock *multilock, const struct hlk_acquire_opts *given)
{
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(multilock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    struct hlk_acquire_opts opts = *given;
    if (opts.lease_ms == 0)
        opts.lease_ms = multilock->lease_ms;
    struct attempt a = { .multilock = multilock, .opts = &opts, .self = self, .count = multilock->members->count };
    int64_t now = hlk_clock_ms();
    a.deadline_ms = opts.wait_ms >= 0 ? hlk_clock_after(now, opts.wait_ms) : INT64_MAX;
    a.random = (unsigned)now ^ (unsigned)(uintptr_t)&a;
    a.tries.glance.self = self;
    begin_with(&a, multilock->members->locks[0]);
    enum hlk_status status;
    pthread_cleanup_push(on_thread_cancel, &a);
    status = acquire_all(&a);
    pthread_cleanup_pop(0);
    return status;
}
