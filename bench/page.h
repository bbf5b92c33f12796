/* page.h - a page of memory that all contenders of one lock share. It shows whether the lock excludes, how long a
 * hand-over takes, and which acquisitions are overtaken.
 *
 * Only the holder writes, with plain loads and stores (except what is marked as atomic). If two hold at once, one
 * finds the owner's word set or overwrites an increment: the runner compares `counter` with the sum of all threads'
 * counts. The layout is 64-bit words in this order; drivers in other languages map the same file. */
#ifndef BENCH_PAGE_H
#define BENCH_PAGE_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_PAGE_PROCESSES = 64, BENCH_PAGE_THREADS = 1024 };

struct bench_page {
    volatile uint64_t owner;        /* 0: none; else process * BENCH_PAGE_THREADS + thread + 1 */
    volatile uint64_t counter;
    uint64_t violations;            /* atomic */
    volatile int64_t  released_ns;  /* just before the last call of release */
    volatile uint64_t last;         /* the previous holder */
    volatile uint64_t run;          /* its consecutive acquisitions */
    volatile uint64_t longest_run;
    uint64_t tickets;               /* atomic: the last number drawn; 0: this peer draws none */
    volatile uint64_t newest;       /* the highest number that has acquired */
    volatile uint64_t overtaken;    /* acquisitions after one with a higher number; 0 if first come is first served */
    uint64_t inside;                /* atomic: how many hold a permit now */
    uint64_t unused[5];
    volatile uint64_t turns[BENCH_PAGE_PROCESSES]; /* of each process; its consecutive acquisitions are one turn */
};

/* Called just before the acquire. */
static inline uint64_t bench_page_draw(struct bench_page *page)
{
    return __atomic_add_fetch(&page->tickets, 1, __ATOMIC_RELAXED);
}

/* `id` has acquired the lock with `ticket` at `now_ns`. Returns how long the hand-over took; -1: there was none. */
static inline int64_t bench_page_enter(struct bench_page *page, uint64_t id, uint64_t ticket, int64_t now_ns)
{
    uint64_t process = (id - 1) / BENCH_PAGE_THREADS;
    if (page->owner != 0)
        __atomic_fetch_add(&page->violations, 1, __ATOMIC_RELAXED);
    page->owner = id;
    page->counter = page->counter + 1;
    page->run = page->last == id ? page->run + 1 : 1;
    if (page->run > page->longest_run)
        page->longest_run = page->run;
    if (ticket < page->newest)
        page->overtaken = page->overtaken + 1;
    else
        page->newest = ticket;
    if (page->last == 0 || (page->last - 1) / BENCH_PAGE_THREADS != process)
        page->turns[process % BENCH_PAGE_PROCESSES] = page->turns[process % BENCH_PAGE_PROCESSES] + 1;
    return page->last == id || page->last == 0 ? -1 : now_ns - page->released_ns;
}

/* One of `permits` was acquired. */
static inline void bench_page_enter_one_of(struct bench_page *page, uint64_t permits)
{
    if (__atomic_add_fetch(&page->inside, 1, __ATOMIC_RELAXED) > permits)
        __atomic_fetch_add(&page->violations, 1, __ATOMIC_RELAXED);
}

static inline void bench_page_leave_one_of(struct bench_page *page)
{
    __atomic_fetch_sub(&page->inside, 1, __ATOMIC_RELAXED);
}

/* It may be held by many to read, or by one to write. */
#define BENCH_PAGE_WRITER (UINT64_C(1) << 32)

static inline void bench_page_enter_half(struct bench_page *page, bool writes)
{
    uint64_t before = __atomic_fetch_add(&page->inside, writes ? BENCH_PAGE_WRITER : 1, __ATOMIC_RELAXED);
    if (writes ? before > 0 : before >= BENCH_PAGE_WRITER)
        __atomic_fetch_add(&page->violations, 1, __ATOMIC_RELAXED);
}

static inline void bench_page_leave_half(struct bench_page *page, bool writes)
{
    __atomic_fetch_sub(&page->inside, writes ? BENCH_PAGE_WRITER : 1, __ATOMIC_RELAXED);
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
