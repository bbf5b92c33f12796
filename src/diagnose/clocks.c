#include "diagnose/clocks.h"

#include "base/debug.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

struct hlk_round_trips hlk_round_trips(int64_t *us, unsigned n)
{
    if (n == 0)
        return (struct hlk_round_trips){ 0 };
    qsort(us, n, sizeof *us, by_size);
    return (struct hlk_round_trips){ n, us[(n - 1) / 2], us[(n - 1) * 99 / 100], us[n - 1] };
}

static int64_t took_us(const struct hlk_time_sample *sample)
{
    return sample->after_us - sample->before_us;
}

const struct hlk_time_sample *hlk_time_best(const struct hlk_time_sample *samples, size_t n)
{
    HLK_DEBUG_ASSERT(n > 0);
    const struct hlk_time_sample *best = samples;
    for (size_t i = 1; i < n; i++)
        if (took_us(&samples[i]) < took_us(best))
            best = &samples[i];
    return best;
}

/* The server's clock is taken to have been read half way. It may have been at either end. */
struct hlk_clocks hlk_clocks(const struct hlk_time_sample *first, const struct hlk_time_sample *last)
{
    int64_t first_middle_us = first->before_us + took_us(first) / 2;
    int64_t last_middle_us = last->before_us + took_us(last) / 2;
    int64_t over_us = last_middle_us - first_middle_us;
    return (struct hlk_clocks){ .over_us = over_us,
                                .offset_us = last->server_us - (last->wall_us + took_us(last) / 2),
                                .offset_error_us = took_us(last) / 2,
                                .gain_us = last->server_us - first->server_us - over_us,
                                .gain_error_us = took_us(first) / 2 + took_us(last) / 2 };
}
