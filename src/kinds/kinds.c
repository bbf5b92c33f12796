#include "kinds/kinds.h"

#include "base/debug.h"
#include "kinds/format_condition.h"

#include <hasplock/lock.h>

/* By the number that users know; behind these, what is no lock. */
static const struct hlk_kind kinds[] = {
    /* Redisson's RLock */
    [HLK_LOCK_PLAIN] = { .format = &hlk_format_lock },
    /* RFencedLock: each hold takes a number that only grows */
    [HLK_LOCK_FENCED] = { .format = &hlk_format_lock, .fenced = true },
    /* RFairLock */
    [HLK_LOCK_FAIR] = { .format = &hlk_format_fair },
    /* RSpinLock: its waits poll, and need no right to pub/sub. Its release is that of a plain lock, which tells waiters
     * of other kinds where this user may publish; each such call of the script may be refused */
    [HLK_LOCK_SPIN] = { .format = &hlk_format_lock, .polls = true },
    /* getNonReentrantLock and getNonReentrantFairLock: their holder cannot acquire them again */
    [HLK_LOCK_NON_REENTRANT] = { .format = &hlk_format_lock, .non_reentrant = true },
    [HLK_LOCK_NON_REENTRANT_FAIR] = { .format = &hlk_format_fair, .non_reentrant = true },
    /* SET NX PX with a token, as redis-py's Lock and bsm/redislock */
    [HLK_LOCK_STRING] = { .format = &hlk_format_string, .non_reentrant = true },
    /* the halves of RReadWriteLock */
    [HLK_LOCK_READ] = { .format = &hlk_format_read },
    [HLK_LOCK_WRITE] = { .format = &hlk_format_write },
    /* one of the permits of RPermitExpirableSemaphore */
    [HLK_LOCK_PERMIT] = { .format = &hlk_format_permit, .non_reentrant = true, .has_number = true },
    /* RSemaphore, RCountDownLatch, and hasplock's own barrier and condition */
    [23] = { .format = &hlk_format_semaphore, .no_lock = true },
    [24] = { .format = &hlk_format_latch, .no_lock = true },
    [25] = { .format = &hlk_format_barrier, .no_lock = true },
    [26] = { .format = &hlk_format_condition, .no_lock = true },
};

#define KINDS (sizeof kinds / sizeof *kinds)
_Static_assert(KINDS <= HLK_FORMATS_MAX, "a kind's number fits into an entry");

const struct hlk_kind *hlk_kind_get(int number)
{
    return number >= 0 && (size_t)number < KINDS && kinds[number].format ? &kinds[number] : NULL;
}

int hlk_kind_of(const struct hlk_format *format)
{
    int number = 0;
    while ((size_t)number < KINDS && kinds[number].format != format)
        number++;
    HLK_DEBUG_ASSERT(hlk_kind_get(number) && kinds[number].no_lock);
    return number;
}

void hlk_kind_formats(const struct hlk_format *out[HLK_FORMATS_MAX])
{
    for (size_t i = 0; i < HLK_FORMATS_MAX; i++)
        out[i] = i < KINDS ? kinds[i].format : NULL;
}
