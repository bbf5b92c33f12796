/* driver.h - the frame of a C driver: reads commands from stdin, runs the scenarios, answers each with one line of
 * JSON.
 *
 * A driver is one process of one peer. The runner (bench/run) starts it once, keeps it running and interleaves its
 * rounds with those of the other peers. Drivers in other languages (peers/) read and write the same lines:
 *
 *     round SCENARIO SECONDS THREADS    make threads and connections; answer {"ready":true}
 *     go START_NS                       begin at that time of CLOCK_MONOTONIC; answer the counts of the round
 *     hold COUNT                        acquire COUNT locks and keep them; answer {"held":...}
 *     stats                             what the peer counts itself
 *     drop                              release the held locks; answer {"dropped":...}
 *     take                              the main thread acquires the shared lock; answer {"taken":true}
 *     give                              and releases it; answer {"released_ns":...}, the time before
 *                                       wake: `take` makes what all wait for, `give` lets it happen
 *                                       ours-condition-all: `take` connects, `give` broadcasts
 *                                       ours-multilock-3: they take and give the last member
 *     quit, or end of input
 *
 * Scenarios of a round (runner/scenarios/ has their questions):
 *
 *     own      each thread acquires and releases a lock of its own
 *     shared   all threads of all processes contend for one lock, as in page.h
 *     drain    each thread acquires it once; answer {"waiting":N} when all are about to acquire, then the counts
 *     permits  all threads of all processes contend for a few permits, counted in page.h
 *     halves   all threads of all processes read one lock, and some of their turns are to write, checked in page.h;
 *              the waits of writers are the hand-overs of the counts
 *     wake     each thread waits once, for what comes to all at the same time; answers as drain
 *     nested   a holder acquires and releases once more
 *     async    THREADS pairs in flight, one thread
 *
 * A peer is a table of functions. Each returns 0, or -1 after bench_fail. NULL: the peer does not support it. */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hist.h"

struct bench_page;

struct bench_options {          /* the driver's command line */
    int         port;           /* of the peer's own server on 127.0.0.1 */
    const char *url;            /* instead of the port: how the peer's servers are reached; "" */
    const char *masters;        /* further ones: their ports, with commas between; "" */
    const char *variant;        /* variant of the peer: "floor-hash", "ours-nospin", ... */
    int         process;        /* 0, 1, ...: index among the processes of this peer */
    const char *page;           /* file shared by the processes of this peer, to check exclusion */
    int64_t     lease_ms;       /* of locks that are held: W5 */
};

struct bench_worker {           /* one thread of a round */
    const struct bench_options *options;
    struct bench_page *page;    /* NULL unless all threads want the same */
    int      index;             /* within the process */
    uint64_t id;                /* unique among all processes of the peer, > 0 */
    char     key[64];           /* the lock's name */
    void    *state;             /* the peer's own */
    int64_t  start_ns, end_ns;  /* of the round, CLOCK_MONOTONIC */
    int      in_flight;         /* async */
    bool     writes;            /* halves: the next acquire and release are of the write half */

    uint64_t ops;               /* pairs of acquire and release that succeeded */
    int64_t  finished_ns;
    char     error[192];        /* "", or why this thread stopped early */
    struct bench_hist acquire, pair, handoff;
};

struct bench_peer {
    const char *version;                                    /* of the library that it uses, NULL: none */
    int  (*open)(const struct bench_options *options);      /* once, before the first command */
    int  (*thread_open)(struct bench_worker *worker);       /* in the worker's own thread */
    void (*thread_close)(struct bench_worker *worker);
    int  (*acquire)(struct bench_worker *worker);
    int  (*release)(struct bench_worker *worker);
    int  (*arm)(struct bench_worker *worker);               /* `take` and `give`, if not of the lock itself */
    int  (*fire)(struct bench_worker *worker);
    int  permits;                                           /* so many may hold it at once; 0: one */
    int  writes_every;                                      /* halves: one in so many turns is to write; 0: none */
    int  (*run_async)(struct bench_worker *worker);         /* counts into the worker itself */
    int  (*hold)(int count);
    int  (*drop)(void);
    void (*stats)(FILE *out);                               /* prints "name":value,... */
    void (*close)(void);
};

int bench_main(int argc, char **argv, const struct bench_peer *peer);

/* Stores the reason; `worker` NULL: for the whole process. Returns -1. */
int bench_fail(struct bench_worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));

int64_t bench_now_ns(void);
void bench_sleep_until(int64_t at_ns);
int64_t bench_rss_bytes(void);

#endif
