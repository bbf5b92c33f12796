/* demo_shared.h - the memory that the demo's parent and its workers share: one unlinked file, mapped by all.
 *
 *     parent   writes the order (what to do), go, and what it did to a process (killed, stopped, woken)
 *     worker   writes its process slot, its threads' cells, and one record for each order in `holds`
 *
 * Everything that changes while both run is atomic. A record belongs to the thread that took it, until its process has
 * ended. Times are ns on the clock of hlk_now_ms, so they can be compared between processes. */
#ifndef HLK_DEMO_SHARED_H
#define HLK_DEMO_SHARED_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DEMO_MAX_PROCESSES 16
#define DEMO_MAX_THREADS 64             /* over all processes: as many rows as a picture can show */
#define DEMO_WATCHDOG_MS 1000           /* a short lease, so that one runs out during the demo */
#define DEMO_WRITE_MS 100               /* a write begins only if so much of the lease is left */
#define DEMO_WORKER_FD 3                /* the descriptor of the shared file in a worker */

enum demo_go { DEMO_READY, DEMO_GO, DEMO_END };

enum demo_state {                       /* of one thread, for the live view */
    DEMO_IDLE,                          /* not started yet, or between two orders */
    DEMO_WAITING,                       /* for the lock */
    DEMO_HOLDING,                       /* the lock; without the lock: between read and write */
    DEMO_DONE,                          /* sold out, or ended by the parent */
    DEMO_DEAD                           /* its process was killed */
};

enum demo_how {                         /* how a record ended */
    DEMO_OPEN,                          /* not yet */
    DEMO_RELEASED,                      /* released; without the lock: written */
    DEMO_LOST,                          /* the lease was lost: release returned HLK_LOST */
    DEMO_KILLED,                        /* its process was killed while it waited or held */
    DEMO_LEFT                           /* the wait was ended with the phase */
};

struct demo_hold {                      /* one order: asked -> got -> (wrote) -> ended. 0: not reached */
    int32_t row, pid;
    int32_t stock_read, stock_wrote;    /* stock_wrote -1: nothing was written */
    int64_t asked_ns;
    _Atomic int64_t got_ns, wrote_ns, ended_ns;
    int64_t valid_ns;                   /* as known before the write: until then no other client can hold the lock */
    _Atomic int how;                    /* enum demo_how; set last */
};

enum demo_accident_kind { DEMO_KILL, DEMO_STOP, DEMO_ACCIDENTS };

enum demo_accident_state {
    DEMO_ARMED,                         /* the first holder that reads `at_left` or less takes it. Next: STANDING */
    DEMO_STANDING,                      /* that holder has read, not written, and waits. Next: HIT (parent) */
    DEMO_HIT,                           /* the parent has killed or stopped it. Next: AWAKE (if stopped), or none */
    DEMO_AWAKE                          /* the stopped holder runs again and has filled in the rest. Next: none */
};

struct demo_accident {
    _Atomic int state;                  /* enum demo_accident_state; one writer at a time, as drawn above */
    _Atomic int at_left;
    int row, pid;                       /* of the holder; set by the worker before STANDING, like the next three */
    int stock_read;
    uint32_t hold;                      /* its record */
    _Atomic int64_t valid_ns;           /* by the worker: the end of its lease as it knows it, updated while it waits */
    int64_t hit_ns, resumed_ns;         /* by the parent: before the signal was sent */
    /* For the stopped holder, set by the worker before AWAKE: */
    int64_t awake_ns, left_ms;          /* when it ran again; what hlk_lock_left_ms returned then */
    int stock_found;                    /* the stock at that time */
    int release_status;
    _Atomic int64_t lost_ns;            /* time of HLK_EVENT_LOST; set by its events thread, after `why` */
    char why[160];
};

struct demo_cell {                      /* one thread */
    _Atomic int state;
    _Atomic int64_t since_ns;
    _Atomic int sold;
};

struct demo_process {
    _Atomic int pid, ready, failed;     /* failed: exit code of a worker that gave up, with the reason in `error` */
    _Atomic int lost;                   /* HLK_EVENT_LOST events */
    _Atomic int64_t passed, granted;    /* hand-overs as in hlk_client_counters: between its threads; to it by a release
                                         * elsewhere. Including earlier processes of this number; updated often */
    char error[320];
};

struct demo_order {                     /* by the parent, before the workers begin */
    bool locked;
    int processes, threads, items;      /* threads of each process */
    uint64_t seed;
    int parent_pid;
    char url[1024], lock[64], stock[PATH_MAX];
};

struct demo_shared {
    uint64_t magic;
    size_t size;                        /* of the mapping */
    struct demo_order order;
    _Atomic int go;                     /* enum demo_go */
    _Atomic int stock_left;             /* the last value written, for the live view */
    struct demo_accident accidents[DEMO_ACCIDENTS];
    struct demo_process processes[DEMO_MAX_PROCESSES];
    struct demo_cell cells[DEMO_MAX_THREADS];
    _Atomic uint32_t hold_count;        /* may exceed hold_cap: the rest was not recorded */
    uint32_t hold_cap;
    struct demo_hold holds[];
};

int64_t demo_now_ns(void);

/* Makes the file in `dir`, unlinks it at once, and maps it. *fd is the caller's to close. NULL: see errno. */
struct demo_shared *demo_shared_create(const char *dir, uint32_t hold_cap, int *fd);
struct demo_shared *demo_shared_attach(int fd);         /* in a worker. NULL: the wrong file */
void demo_shared_destroy(struct demo_shared *shared);   /* unmaps. NULL is fine */

/* A new record of thread `row`, begun now; NULL when the file is full. */
struct demo_hold *demo_hold_begin(struct demo_shared *shared, int row);
uint32_t demo_hold_count(const struct demo_shared *shared);     /* number of records */
void demo_cell_set(struct demo_shared *shared, int row, int state);
int demo_sold(const struct demo_shared *shared, int process);   /* so far; process -1: all */

#endif
