/* ours.h - the parts of the driver for hasplock; public headers only, as any user. */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include <hasplock/hasplock.h>

#include "driver.h"

/* ours_async.c: many pairs in flight, completions in the calling thread by hlk_client_dispatch. `await_release`: a pair
 * ends with the release's completion; else the next acquire follows at once. */
int ours_async_run(hlk_client *client, struct bench_worker *worker, bool await_release);

/* ours_hold.c: locks that are held for long. */
int ours_hold(hlk_client *client, int count);
int ours_drop(void);
void ours_stats(const hlk_client *client, FILE *out);

#endif
