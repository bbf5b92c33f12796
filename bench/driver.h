/* driver.h - the frame of a C driver: reads commands on stdin, runs the scenarios, answers with one JSON line each.
 *
 * A driver is one process of one peer. The runner (bench/run) starts it once, keeps it up and interleaves its rounds
 * with the other peers'. Drivers in other languages (peers/) speak the same lines:
 *
 *     round SCENARIO SECONDS THREADS    make threads and connections; answer {"ready":true}
 *     go START_NS                       begin at that moment of CLOCK_MONOTONIC; answer the counts of the round
 *     hold COUNT                        take COUNT locks and keep them; answer {"held":...}
 *     stats                             what the peer counts itself
 *     drop                              give the held locks back; answer {"dropped":...}
 *     take                              the main thread takes the lock that all share; answer {"taken":true}
 *     give                              and gives it back; answer {"released_ns":...}, the moment before
 *     quit, or end of input
 *
 * Scenarios of a round (what they ask is told in runner/scenarios/):
 *
 *     own      each thread acquires and releases a lock of its own
 *     shared   all threads of all processes contend for one lock, in the way of page.h
 *     drain    each of them takes it once; answer {"waiting":N} when all are about to acquire, then the counts
 *     nested   a holder acquires and releases once more
 *     async    THREADS pairs in flight, one thread
 *
 * A peer is a table of functions; each answers 0, or -1 after bench_fail. What a peer does not have is NULL.
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hist.h"

struct bench_page;

struct bench_options {          /* the driver's command line */
    int         port;           /* of the private server on 127.0.0.1 */
    const char *variant;        /* which way of the peer: "floor-hash", "ours-nospin", ... */
    int         process;        /* 0, 1, ...: which of the processes of this peer */
    const char *page;           /* file shared by the processes of this peer, for the check of exclusion */
    int64_t     lease_ms;       /* of locks that are held: W5 */
};

struct bench_worker {           /* one thread of a round */
    const struct bench_options *options;
    struct bench_page *page;    /* NULL unless the scenario is `shared` or `drain` */
    int      index;             /* within the process */
    uint64_t id;                /* unique among all processes of the peer, > 0 */
    char     key[64];           /* the lock's name */
    void    *state;             /* the peer's own */
    int64_t  start_ns, end_ns;  /* of the round, CLOCK_MONOTONIC */
    int      in_flight;         /* async */

    uint64_t ops;               /* pairs of acquire and release that succeeded */
    int64_t  finished_ns;
    char     error[192];        /* "" or why this thread stopped early */
    struct bench_hist acquire, pair, handoff;
};

struct bench_peer {
    const char *version;                                    /* of the library beneath, NULL: none */
    int  (*open)(const struct bench_options *options);      /* once, before the first command */
    int  (*thread_open)(struct bench_worker *worker);       /* in the worker's own thread */
    void (*thread_close)(struct bench_worker *worker);
    int  (*acquire)(struct bench_worker *worker);
    int  (*release)(struct bench_worker *worker);
    int  (*run_async)(struct bench_worker *worker);         /* counts into the worker itself */
    int  (*hold)(int count);
    int  (*drop)(void);
    void (*stats)(FILE *out);                               /* prints "name":value,... */
    void (*close)(void);
};

int bench_main(int argc, char **argv, const struct bench_peer *peer);

/* Notes why; `worker` NULL: the process as a whole. Returns -1. */
int bench_fail(struct bench_worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));

int64_t bench_now_ns(void);
void bench_sleep_until(int64_t at_ns);
int64_t bench_rss_bytes(void);

#endif
