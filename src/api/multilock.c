/* Several locks, all or none: calls of lock.h in one order, with one deadline. */
#include "hasplock/multilock.h"

#include "api/acquire_op.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/min.h"
#include "hasplock/async.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* So long a caller that holds members waits for another one: others may hold that one and wait for these. The random
 * part parts two that do it at the same time. */
enum { SLICE_MS = 1000, SLICE_JITTER_MS = 500 };

struct hlk_multilock {
    size_t count;
    hlk_lock *members[]; /* in the order of their names */
};

struct attempt {
    const hlk_multilock *multilock;
    const struct hlk_acquire_opts *opts;
    int64_t deadline_ms; /* INT64_MAX: none */
    size_t first;        /* the member that is waited for while none is held; then the others in order */
    size_t held;         /* so many are */
    unsigned random;
};

/* --- the list --- */

/* Those of one name, which are of several clients, stay in the caller's order. */
static void insert(hlk_multilock *multilock, hlk_lock *lock)
{
    size_t at = multilock->count++;
    for (; at > 0 && strcmp(hlk_lock_text(multilock->members[at - 1]), hlk_lock_text(lock)) > 0; at--)
        multilock->members[at] = multilock->members[at - 1];
    multilock->members[at] = lock;
}

static enum hlk_status check_members(hlk_lock *const *members, size_t count)
{
    if (!members || count < 1 || count > HLK_MULTILOCK_MAX)
        return hlk_last_set(HLK_E_INVALID, "multilock: it has 1 to %d members", HLK_MULTILOCK_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!members[i])
            return hlk_last_set(HLK_E_INVALID, "multilock: member %zu is NULL", i);
        for (size_t k = 0; k < i; k++)
            if (members[k]->client == members[i]->client &&
                strcmp(hlk_lock_text(members[k]), hlk_lock_text(members[i])) == 0)
                return hlk_last_set(HLK_E_INVALID, "multilock: members %zu and %zu are both \"%s\"", k, i,
                                    hlk_lock_text(members[i]));
    }
    return HLK_OK;
}

hlk_multilock *hlk_multilock_create(hlk_lock *const *members, size_t count)
{
    if (check_members(members, count) != HLK_OK)
        return NULL;
    hlk_multilock *multilock = hlk_mem_zalloc(sizeof *multilock + count * sizeof(hlk_lock *));
    if (!multilock) {
        (void)hlk_last_set(HLK_E_NOMEM, "multilock: no memory");
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        insert(multilock, members[i]);
    return multilock;
}

void hlk_multilock_destroy(hlk_multilock *multilock)
{
    hlk_mem_free(multilock);
}

static enum hlk_status check(const hlk_multilock *multilock)
{
    return multilock ? HLK_OK : hlk_last_set(HLK_E_INVALID, "multilock: it is NULL");
}

/* --- acquire --- */

static hlk_lock *nth(const struct attempt *a, size_t i)
{
    size_t at = i == 0 ? a->first : i <= a->first ? i - 1 : i;
    return a->multilock->members[at];
}

/* Does not wait: what is not answered is repeated in the background. */
static void give_back(struct attempt *a)
{
    while (a->held > 0)
        (void)hlk_lock_release_async(nth(a, --a->held), NULL, NULL);
}

static void on_thread_cancel(void *attempt)
{
    give_back(attempt);
}

static int64_t slice_ms(struct attempt *a)
{
    a->random = a->random * 1103515245u + 12345u;
    return SLICE_MS + (a->random >> 16) % SLICE_JITTER_MS;
}

/* *slice: its time-out is not that of the caller. */
static enum hlk_status acquire_next(struct attempt *a, hlk_lock *lock, bool *slice)
{
    struct hlk_acquire_opts opts = *a->opts;
    if (opts.wait_ms != 0) {
        int64_t left = a->deadline_ms == INT64_MAX ? INT64_MAX : a->deadline_ms - hlk_clock_ms();
        int64_t max_ms = a->held > 0 ? slice_ms(a) : INT64_MAX;
        *slice = max_ms < left;
        opts.wait_ms = *slice ? max_ms : left == INT64_MAX ? HLK_FOREVER : left > 1 ? left : 1;
    }
    return hlk_lock_acquire_with(lock, &opts);
}

static int64_t lease_of(const struct attempt *a, const hlk_lock *lock)
{
    return a->opts->lease_ms ? a->opts->lease_ms : lock->lease_ms;
}

/* While others were waited for, a hold may have been lost, and a fixed lease has become shorter. */
static enum hlk_status make_whole(const struct attempt *a)
{
    for (size_t i = 0; i < a->held; i++) {
        hlk_lock *lock = nth(a, i);
        int64_t lease = lease_of(a, lock), left = hlk_lock_left_ms(lock);
        enum hlk_status status = left == 0                               ? HLK_LOST
                                 : lease > 0 && left < lease - lease / 8 ? hlk_lock_extend(lock, lease)
                                                                         : HLK_OK;
        if (status != HLK_OK)
            return status;
    }
    return HLK_OK;
}

/* From now on that member is the first. */
static void begin_with(struct attempt *a, const hlk_lock *lock)
{
    a->first = 0;
    while (a->multilock->members[a->first] != lock)
        a->first++;
}

/* All members are acquired, or some, which *missing is not, or one of which was lost (*missing NULL). */
static enum hlk_status acquire_each(struct attempt *a, const hlk_lock **missing, bool *slice)
{
    *missing = NULL;
    while (a->held < a->multilock->count) {
        hlk_lock *lock = nth(a, a->held);
        enum hlk_status status = acquire_next(a, lock, slice);
        if (status != HLK_OK) {
            *missing = lock;
            return status;
        }
        a->held++;
    }
    return make_whole(a);
}

static enum hlk_status acquire_all(struct attempt *a)
{
    for (;;) {
        const hlk_lock *missing;
        char text[HLK_ERROR_TEXT];
        bool slice = false;
        enum hlk_status status = acquire_each(a, &missing, &slice);
        if (status == HLK_OK)
            return HLK_OK;
        snprintf(text, sizeof text, "%s", hlk_last_error());
        give_back(a);
        if (missing && status == HLK_TIMEOUT && slice)
            begin_with(a, missing);
        else if (missing || status != HLK_LOST)
            return hlk_last_set(status, "multilock of %zu: %s", a->multilock->count, text);
    }
}

enum hlk_status hlk_multilock_acquire_with(hlk_multilock *multilock, const struct hlk_acquire_opts *given)
{
    enum hlk_status status = check(multilock);
    if (status != HLK_OK)
        return status;
    struct hlk_acquire_opts opts;
    status = hlk_acquire_op_read_opts(multilock->members[0], "acquire", given, &opts);
    if (status != HLK_OK)
        return status;
    struct attempt a = { .multilock = multilock, .opts = &opts, .deadline_ms = INT64_MAX };
    int64_t now = hlk_clock_ms();
    if (opts.wait_ms >= 0)
        a.deadline_ms = hlk_clock_after(now, opts.wait_ms);
    a.random = (unsigned)now ^ (unsigned)(uintptr_t)&a;
    pthread_cleanup_push(on_thread_cancel, &a);
    status = acquire_all(&a);
    pthread_cleanup_pop(0);
    return status;
}

enum hlk_status hlk_multilock_acquire(hlk_multilock *multilock, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_multilock_acquire_with(multilock, &opts);
}

/* --- what is held --- */

enum hlk_status hlk_multilock_release(hlk_multilock *multilock)
{
    enum hlk_status worst = check(multilock);
    char text[HLK_ERROR_TEXT] = "";
    if (worst != HLK_OK)
        return worst;
    for (size_t i = multilock->count; i-- > 0;) {
        enum hlk_status status = hlk_lock_release(multilock->members[i]);
        if (status != HLK_OK && (worst != HLK_LOST || status == HLK_LOST)) {
            worst = status;
            snprintf(text, sizeof text, "%s", hlk_last_error());
        }
    }
    return worst == HLK_OK ? HLK_OK : hlk_last_set(worst, "multilock of %zu: %s", multilock->count, text);
}

int64_t hlk_multilock_held_until(const hlk_multilock *multilock)
{
    int64_t until = INT64_MAX;
    for (size_t i = 0; multilock && i < multilock->count; i++)
        until =
            hlk_min_ms(until, hlk_lock_left_ms(multilock->members[i]) ? hlk_lock_held_until(multilock->members[i]) : 0);
    return multilock ? until : 0;
}

int64_t hlk_multilock_left_ms(const hlk_multilock *multilock)
{
    int64_t left = INT64_MAX;
    for (size_t i = 0; multilock && i < multilock->count; i++)
        left = hlk_min_ms(left, hlk_lock_left_ms(multilock->members[i]));
    return multilock ? left : 0;
}
