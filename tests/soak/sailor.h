/* sailor.h - one thread of a client process: takes locks in every way there is, holds them, gives them back, and says
 * what it was told. */
#ifndef HLK_SOAK_SAILOR_H
#define HLK_SOAK_SAILOR_H

#include "shared.h"

#include <pthread.h>

struct process;

struct sailor {
    struct process *process;
    pthread_t   thread;
    int         number;
    struct soak_rng rng;
    hlk_owner  *owner;
    hlk_lock   *owned[LOCKS];
    hlk_cancel *cancel;
    struct soak_thread *at;

    pthread_mutex_t mu;             /* guards what a completion tells: */
    pthread_cond_t  told;
    bool            is_told;
    enum hlk_status status;
    int64_t         told_at;
};

struct process {
    struct soak *soak;
    struct soak_slot *slot;
    int          number, incarnation, threads;
    struct soak_rng rng;
    hlk_client  *client;
    hlk_lock    *locks[LOCKS];                      /* held by threads */
    _Atomic(struct soak_hold *) current[LOCKS];     /* whom an event is about */
    struct sailor sailors[THREADS];
};

/* The process of slot `number`: until the soak's stop. Its exit code. */
int process_main(struct soak *soak, int number);

void *sail(void *sailor);       /* a thread's body */

/* The foreign client's process: hiredis, Redisson's scripts. */
int foreign_main(struct soak *soak);

#endif
