/* hist.c - see hist.h. */
#include "hist.h"

#include <inttypes.h>

unsigned bench_hist_bucket(uint64_t ns)
{
    if (ns < 64)
        return (unsigned)ns;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(ns); /* >= 6 */
    unsigned shift = exponent - 5;
    unsigned bucket = shift * 32 + (unsigned)(ns >> shift); /* ns >> shift is 32..63 */
    return bucket < BENCH_HIST_BUCKETS ? bucket : BENCH_HIST_BUCKETS - 1;
}

void bench_hist_add(struct bench_hist *hist, int64_t ns)
{
    hist->buckets[bench_hist_bucket(ns > 0 ? (uint64_t)ns : 0)]++;
    hist->count++;
}

void bench_hist_merge(struct bench_hist *into, const struct bench_hist *from)
{
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
}

void bench_hist_print(const struct bench_hist *hist, FILE *out)
{
    const char *comma = "";
    fputc('[', out);
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++) {
        if (hist->buckets[i] == 0)
            continue;
        fprintf(out, "%s[%u,%" PRIu64 "]", comma, i, hist->buckets[i]);
        comma = ",";
    }
    fputc(']', out);
}
