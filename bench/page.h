/* page.h - a page of memory that all contenders of one lock share: does the lock exclude, and how long is a hand-over?
 *
 * Only the holder writes, with plain loads and stores (but for `violations`). If two hold at once, one finds the
 * owner's word taken or overwrites an increment: the runner compares `counter` with the sum of what all threads count.
 * The layout is 64-bit words in this order; drivers in other languages map the same file.
 */
#ifndef BENCH_PAGE_H
#define BENCH_PAGE_H

#include <stdint.h>

struct bench_page {
    volatile uint64_t owner;        /* 0: nobody */
    volatile uint64_t counter;
    uint64_t violations;            /* atomic */
    volatile int64_t  released_ns;  /* just before the last release was called */
    volatile uint64_t last;         /* who held before */
    volatile uint64_t run;          /* how often in a row */
    volatile uint64_t longest_run;
};

/* The holder `id` has got the lock at `now_ns`. Returns how long the hand-over took, -1 when nobody handed over. */
static inline int64_t bench_page_enter(struct bench_page *page, uint64_t id, int64_t now_ns)
{
    if (page->owner != 0)
        __atomic_fetch_add(&page->violations, 1, __ATOMIC_RELAXED);
    page->owner = id;
    page->counter = page->counter + 1;
    page->run = page->last == id ? page->run + 1 : 1;
    if (page->run > page->longest_run)
        page->longest_run = page->run;
    return page->last == id || page->last == 0 ? -1 : now_ns - page->released_ns;
}

static inline void bench_page_leave(struct bench_page *page, uint64_t id, int64_t now_ns)
{
    if (page->owner != id)
        __atomic_fetch_add(&page->violations, 1, __ATOMIC_RELAXED);
    page->last = id;
    page->released_ns = now_ns;
    page->owner = 0;
}

#endif
