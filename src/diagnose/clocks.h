/* clocks.h - samples of round trips and of the server's clock, and what follows from them. Pure. */
#ifndef HLK_DIAGNOSE_CLOCKS_H
#define HLK_DIAGNOSE_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct hlk_round_trips {
    unsigned n;                     /* 0: none was measured */
    int64_t p50_us, p99_us, max_us;
};

/* Sorts `us`. */
struct hlk_round_trips hlk_round_trips(int64_t *us, unsigned n);

struct hlk_time_sample {            /* one TIME: the server read its clock between `before` and `after` */
    int64_t before_us, after_us;    /* on a clock of this host that is never set */
    int64_t wall_us;                /* this host's calendar clock at `before` */
    int64_t server_us;
};

struct hlk_clocks {
    int64_t over_us;                /* of this host's time between the two samples; 0: the clock was not read */
    int64_t offset_us;              /* the server's calendar clock minus this host's */
    int64_t offset_error_us;
    int64_t gain_us;                /* how much more the server's clock moved than this host's in over_us */
    int64_t gain_error_us;
};

/* Of several samples the one that took least. n > 0. */
const struct hlk_time_sample *hlk_time_best(const struct hlk_time_sample *samples, size_t n);
struct hlk_clocks hlk_clocks(const struct hlk_time_sample *first, const struct hlk_time_sample *last);

#endif
