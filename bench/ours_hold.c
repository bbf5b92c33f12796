/* ours_hold.c - many locks held by one thread under the watchdog: what renewal costs, and how much memory a held lock
 * takes.
 *
 * Memory is counted from before the first handle is made. So it includes handle, lease, entry and tables, but not the
 * array of handles, which belongs to the benchmark. */
#include "ours.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct {
    hlk_lock **locks; /* owned */
    int count;
    int64_t rss_before, rss_after;
    uint64_t heap_before, heap_after;
} held;

static int take(hlk_client *client, int index)
{
    char name[32];
    snprintf(name, sizeof name, "bench:held:%d", index);
    held.locks[index] = hlk_lock_create(client, name, NULL);
    enum hlk_status status = hlk_lock_acquire(held.locks[index], HLK_NOWAIT);
    return status == HLK_OK ? 0 : bench_fail(NULL, "%s: %s: %s", name, hlk_status_name(status), hlk_last_error());
}

/* Keeps the cost of connection, script cache and first allocations out of the figures of the held locks. */
static void warm_up(hlk_client *client)
{
    hlk_lock *lock = hlk_lock_create(client, "bench:warm", NULL);
    if (hlk_lock_acquire(lock, HLK_NOWAIT) == HLK_OK)
        hlk_lock_release(lock);
    hlk_lock_destroy(lock);
}

int ours_hold(hlk_client *client, int count)
{
    held.locks = malloc((size_t)count * sizeof *held.locks);
    if (!held.locks)
        return bench_fail(NULL, "no memory");
    memset(held.locks, 0xff, (size_t)count * sizeof *held.locks); /* touches its pages before the measurement */
    memset(held.locks, 0, (size_t)count * sizeof *held.locks);
    held.count = count;
    warm_up(client);
    held.rss_before = bench_rss_bytes();
    held.heap_before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < count; i++) {
        if (take(client, i) < 0)
            return -1;
    }
    held.rss_after = bench_rss_bytes();
    held.heap_after = mallinfo2().uordblks + mallinfo2().hblkhd;
    return 0;
}

int ours_drop(void)
{
    int failed = 0;
    for (int i = 0; i < held.count; i++) {
        enum hlk_status status = hlk_lock_release(held.locks[i]);
        if (status != HLK_OK)
            failed = bench_fail(NULL, "release %d: %s: %s", i, hlk_status_name(status), hlk_last_error());
        hlk_lock_destroy(held.locks[i]);
    }
    free(held.locks);
    memset(&held, 0, sizeof held);
    return failed;
}

void ours_stats(const hlk_client *client, FILE *out)
{
    struct hlk_counters counters = { .size = sizeof counters };
    if (hlk_client_counters(client, &counters) != HLK_OK)
        memset(&counters, 0, sizeof counters);
    fprintf(out,
            "\"rss_before\":%" PRId64 ",\"rss_after\":%" PRId64 ",\"heap_before\":%" PRIu64 ",\"heap_after\":%" PRIu64,
            held.rss_before, held.rss_after, held.heap_before, held.heap_after);
    fprintf(out, ",\"renewals\":%" PRIu64 ",\"renewals_late\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"holding\":%" PRIu64,
            counters.renewals, counters.renewals_late, counters.lost, counters.held);
    fprintf(out, ",\"commands\":%" PRIu64 ",\"writes\":%" PRIu64 ",\"reconnects\":%" PRIu64 ",\"woken\":%" PRIu64,
            counters.commands, counters.writes, counters.reconnects, counters.woken);
    fprintf(out, ",\"woken_by_ttl\":%" PRIu64, counters.woken_by_ttl);
}
