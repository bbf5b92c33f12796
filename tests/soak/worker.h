/* worker.h - one thread of a client process: takes locks in every way there is, holds them, gives them back, and says
 * what it was told. */
#ifndef HLK_SOAK_SAILOR_H
#define HLK_SOAK_SAILOR_H

#include "shared.h"

#include <pthread.h>

struct process;

struct worker {
    struct process *process;
    pthread_t   thread;
    int         number;
    struct soak_rng rng;
    hlk_owner  *owner;
    hlk_lock   *owned[LOCKS], *multilock;
    hlk_semaphore *semaphore;
    int         semaphore_generation;
    struct soak_event *event;       /* under way; its thread may be cancelled */
    hlk_cancel *cancel;
    struct soak_thread *at;

    pthread_mutex_t mu;             /* guards `thread`, which a successor may replace, and what a completion tells: */
    pthread_cond_t  done;
    bool            is_done;
    enum hlk_status status;
    unsigned        index;          /* of a party */
    int64_t         done_at;
};

/* Owners that ask for one lock at once, or for one each, by completions, and give it back in them. */
struct member {
    struct process *process;
    hlk_owner *owner;
    hlk_lock *locks[LOCKS];
    int lock;
    bool tries; /* does not wait */
    int64_t asked;
};

struct process {
    struct soak *soak;
    struct soak_slot *slot;
    int          number, incarnation, threads;
    struct soak_rng rng;
    hlk_client  *client;
    hlk_lock    *locks[LOCKS];                      /* held by threads */
    _Atomic(struct soak_hold *) current[LOCKS][HOLDERS];    /* whom an event is about */
    struct worker workers[THREADS];
    atomic_int   working;                           /* threads that have not ended */
    _Atomic int64_t long_at;                        /* not before this moment does one hold for long again */
    atomic_bool  closing;                           /* the client is being closed, or about to be */

    struct member burst[BURST];
    pthread_t     burst_thread;
    pthread_t     counter_thread;
    hlk_latch    *latch;
    hlk_barrier  *barrier;
    hlk_condition *condition;
    atomic_int    burst_waits;                      /* completions to come */
};

/* The process of slot `number`: until the soak's stop. Its exit code. */
int process_main(struct soak *soak, int number);

void *work(void *worker);                   /* a thread's body */
void begin_work(struct worker *worker);  /* starts one, detached; it takes its predecessor's place */

void *burst_main(void *process);    /* a thread's body */

/* The latch, the barrier and the condition. counter.c: sets the latch, counts it down, and now and then resets the
 * barrier. */
void make_counted(struct process *process);
void destroy_counted(struct process *process);
void *counter_main(void *process);  /* a thread's body */

/* A completion of the worker's, and the wait for it. */
void worker_report(struct worker *worker, enum hlk_status status);
void worker_done(hlk_lock *lock, enum hlk_status status, void *worker);
enum hlk_status worker_wait_done(struct worker *worker);

/* Has a hold ended, as its holder is told? From here on nothing counts. */
void end_hold(struct process *process, struct soak_hold *hold);
bool begin_hold(struct process *process, struct soak_hold *hold, hlk_lock *handle, bool by_id);
hlk_lock *make_lock(struct process *process, int i, hlk_owner *owner);

/* The foreign client's process: hiredis, Redisson's scripts. */
int foreign_main(struct soak *soak);

#endif
