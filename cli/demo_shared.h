/* demo_shared.h - what the demo's parent and its worker processes know of each other: one unlinked file, mapped by all.
 *
 *     parent   writes the order (what to do), go, and what it did to a process (killed, stopped, woken)
 *     worker   writes its process slot, its threads' cells and one record per order in `holds`
 *
 * Everything that changes while both run is atomic; a record belongs to the thread that took it until its process
 * ended. Times are ns on the clock of hlk_now_ms, so that moments of different processes can be compared. */
#ifndef HLK_CLI_DEMO_SHARED_H
#define HLK_CLI_DEMO_SHARED_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DEMO_MAX_PROCESSES 16
#define DEMO_MAX_THREADS 64             /* all processes together: as many rows as a picture can show */
#define DEMO_WATCHDOG_MS 1000           /* a short lease, so that the audience sees it run out */
#define DEMO_WRITE_MS 100               /* what must be left of the lease before a write is begun */
#define DEMO_WORKER_FD 3                /* where a worker finds the shared file */

enum demo_go { DEMO_READY, DEMO_GO, DEMO_END };

enum demo_state {                       /* of one thread, for the live view */
    DEMO_IDLE,                          /* not there yet, or between two orders */
    DEMO_WAITING,                       /* for the lock */
    DEMO_HOLDING,                       /* the lock; without the lock: between read and write */
    DEMO_DONE,                          /* sold out, or told to end */
    DEMO_DEAD                           /* its process was killed */
};

enum demo_how {                         /* how a record ended */
    DEMO_OPEN,                          /* not yet */
    DEMO_RELEASED,                      /* released; without the lock: written */
    DEMO_LOST,                          /* the lease was lost: release answered HLK_LOST */
    DEMO_KILLED,                        /* its process was killed, waiting or holding */
    DEMO_LEFT                           /* the wait was ended: the phase is over */
};

struct demo_hold {                      /* one order: asked -> got -> (wrote) -> ended. 0: not so far */
    int32_t row, pid;
    int32_t stock_read, stock_wrote;    /* stock_wrote -1: nothing was written */
    int64_t asked_ns;
    _Atomic int64_t got_ns, wrote_ns, ended_ns;
    int64_t valid_ns;                   /* as known before the write: until then nobody else can hold it */
    _Atomic int how;                    /* enum demo_how; set last */
};

enum demo_accident_kind { DEMO_KILL, DEMO_STOP, DEMO_ACCIDENTS };

enum demo_accident_state {
    DEMO_ARMED,                         /* the first holder who reads `at_left` or less takes it. Next: STANDING */
    DEMO_STANDING,                      /* a holder has read, not written, and stands still. Next: HIT (parent) */
    DEMO_HIT,                           /* the parent has killed or stopped it. Next: AWAKE (stopped one), or none */
    DEMO_AWAKE                          /* the stopped one goes on, and has filled the rest. Next: none */
};

struct demo_accident {
    _Atomic int state;                  /* enum demo_accident_state; one writer at a time, as drawn above */
    _Atomic int at_left;
    int row, pid;                       /* of the holder; by the worker, before STANDING, like the next three */
    int stock_read;
    uint32_t hold;                      /* its record */
    _Atomic int64_t valid_ns;           /* by the worker: end of its lease as it knows it, kept fresh while it stands */
    int64_t hit_ns, resumed_ns;         /* by the parent: before the signal was sent */
    /* The stopped one, by the worker before AWAKE: */
    int64_t awake_ns, left_ms;          /* its first look at the clock; what hlk_lock_left_ms said then */
    int stock_found;                    /* what the stock was meanwhile */
    int release_status;
    _Atomic int64_t told_ns;            /* HLK_EVENT_LOST came; by its events thread, after `why` */
    char why[160];
};

struct demo_cell {                      /* one thread */
    _Atomic int state;
    _Atomic int64_t since_ns;
    _Atomic int sold;
};

struct demo_process {
    _Atomic int pid, ready, failed;     /* failed: exit code of a worker that gave up; the reason is in `error` */
    _Atomic int lost;                   /* HLK_EVENT_LOST told to it */
    _Atomic int64_t passed, granted;    /* hand-overs as hlk_client_counters has them: from thread to thread within it;
                                         * to it by a release elsewhere. Of all its lives; kept fresh */
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
    _Atomic int stock_left;             /* as last written by anybody: for the live view */
    struct demo_accident accidents[DEMO_ACCIDENTS];
    struct demo_process processes[DEMO_MAX_PROCESSES];
    struct demo_cell cells[DEMO_MAX_THREADS];
    _Atomic uint32_t hold_count;        /* may exceed hold_cap: the rest was not recorded */
    uint32_t hold_cap;
    struct demo_hold holds[];
};

int64_t demo_now_ns(void);

/* Makes the file in `dir`, unlinked at once, and maps it; *fd is the caller's to close. NULL: errno tells. */
struct demo_shared *demo_shared_create(const char *dir, uint32_t hold_cap, int *fd);
struct demo_shared *demo_shared_attach(int fd);         /* in a worker. NULL: not such a file */
void demo_shared_destroy(struct demo_shared *shared);   /* unmaps. NULL is fine */

/* A new record of thread `row`, begun now; NULL when the file is full. */
struct demo_hold *demo_hold_begin(struct demo_shared *shared, int row);
uint32_t demo_hold_count(const struct demo_shared *shared);     /* recorded ones */
void demo_cell_set(struct demo_shared *shared, int row, int state);
int demo_sold(const struct demo_shared *shared, int process);   /* so far; -1: all processes */

#endif
