/* hist.h - a histogram of durations in nanoseconds, in buckets about 3 % wide.
 *
 * Drivers in other languages fill the same buckets (peers/), so the runner can add the histograms of several processes.
 * Below 64 ns a bucket is one ns; above, 32 buckets share each power of two.
 */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>
#include <stdio.h>

enum { BENCH_HIST_BUCKETS = 1184 };     /* up to 2^41 ns, half an hour; what takes longer lands in the last one */

struct bench_hist {
    uint64_t count;
    uint64_t buckets[BENCH_HIST_BUCKETS];
};

unsigned bench_hist_bucket(uint64_t ns);
void bench_hist_add(struct bench_hist *hist, int64_t ns);
void bench_hist_merge(struct bench_hist *into, const struct bench_hist *from);

/* Writes [[bucket,count],...], empty buckets left out. */
void bench_hist_print(const struct bench_hist *hist, FILE *out);

#endif
