/* hist.h - a histogram of durations in nanoseconds, with buckets about 3 % wide.
 *
 * Drivers in other languages (peers/) use the same buckets, so the runner can add the histograms of several processes.
 * Below 64 ns a bucket is 1 ns wide. Above, each power of two has 32 buckets. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>
#include <stdio.h>

enum { BENCH_HIST_BUCKETS = 1184 };     /* up to 2^41 ns, half an hour; longer durations count in the last one */

struct bench_hist {
    uint64_t count;
    uint64_t buckets[BENCH_HIST_BUCKETS];
};

unsigned bench_hist_bucket(uint64_t ns);
void bench_hist_add(struct bench_hist *hist, int64_t ns);
void bench_hist_merge(struct bench_hist *into, const struct bench_hist *from);

/* Writes [[bucket,count],...], without empty buckets. */
void bench_hist_print(const struct bench_hist *hist, FILE *out);

#endif
