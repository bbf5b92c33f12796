/* min.h - the smaller of two lengths, or the earlier of two moments, in ms. */
#ifndef HLK_BASE_MIN_H
#define HLK_BASE_MIN_H

#include <stdint.h>

static inline int64_t hlk_min_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
