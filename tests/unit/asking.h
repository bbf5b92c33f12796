/* asking.h - the acquire loop `a` in the test's hands: what happens, and when, is the test's to say; answers are of
 * `place` and `foreign`. */
#ifndef HLK_TEST_ASKING_H
#define HLK_TEST_ASKING_H

#include "sync/acquire.h"

#include <criterion/criterion.h>

#define NOW 1000000
#define DEADLINE (NOW + 5000)
#define TTL 2000

static struct hlk_acquire a;
static int64_t place = -1; /* of the answers to come: not in line */
static bool foreign;

static inline void init(void)
{
    hlk_acquire_init(&a, DEADLINE, false, 0);
    place = -1;
    foreign = false;
}

static inline enum hlk_do at(int64_t now_ms, enum hlk_happened what)
{
    return hlk_acquire_step(&a, what, now_ms, NULL, HLK_OK);
}

static inline enum hlk_do happens(enum hlk_happened what)
{
    return at(NOW, what);
}

static inline enum hlk_do busy(int64_t now_ms, int64_t ttl_ms)
{
    struct hlk_busy answer = { ttl_ms, place, foreign };
    return hlk_acquire_step(&a, HLK_IS_BUSY, now_ms, &answer, HLK_OK);
}

/* Asked, answered "busy", subscribed, confirmed, asked again, answered "busy": sleeps now. */
static inline void park(int64_t ttl_ms)
{
    happens(HLK_HAS_TURN);
    busy(NOW, ttl_ms);
    happens(HLK_JOINED);
    happens(HLK_HEARS);
    cr_assert_eq(busy(NOW, ttl_ms), HLK_DO_PARK);
}

#endif
