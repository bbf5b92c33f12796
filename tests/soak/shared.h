/* shared.h - what the soak's processes have in common: one piece of memory with the round's settings, the history of
 * holds and of calls about latch, barrier and condition, what each thread is at, and what went wrong. Made by the
 * parent, inherited as a descriptor by the processes that it starts.
 *
 * All randomness is drawn from generators that are seeded with the soak's seed and the place where they are used.
 */
#ifndef HLK_SOAK_SHARED_H
#define HLK_SOAK_SHARED_H

#include "locks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SOAK_FD = 3,            /* the shared memory, in a process that was started */
    SLOTS = 6,              /* processes at a time; the last one is the foreign client */
    FOREIGN = SLOTS - 1,
    PROXIES = 2,            /* slots 2 and 3 speak through the first, 4 and the foreign one through the second */
    THREADS = 4,            /* of one process, at most */
    BURST = 6,              /* owners of one process that ask at once: burst.c */
    HOLDERS = THREADS + BURST,
    HOLDS = 1 << 20,        /* of a round */
    GENERATIONS = 2000,     /* of semaphores, in a round */
    EVENTS = 1 << 18,       /* of latches and barriers, in a round */
    PARTIES = 3,            /* of the barrier */
    LONGEST_LEASE_MS = 1500,
    WAIT_BUCKETS = 256,
    FAULTS_SHOWN = 4000,
    WRONGS = 16
};

/* One hold, as its holder was told. Times in ns of CLOCK_BOOTTIME; 0: not yet. */
struct soak_hold {
    int64_t asked, from;        /* its acquire was called, and had answered */
    _Atomic int64_t until;      /* hlk_lock_held_until, as last asked */
    _Atomic int64_t end;        /* right before its release was called */
    _Atomic int64_t lost;       /* LOST was told, or it was found to be over */
    int64_t  token;             /* 0: not fenced */
    uint64_t h;
    int      pid;
    int16_t  lock, slot, how;
    int16_t  permits;           /* of a semaphore; `token` is its generation then */
    int16_t  holder;            /* of its process: a worker's number, or THREADS + that of a member of the burst */
    atomic_int ready;
};

/* One call about the latch, the barrier or the condition. It is there before it is called: its caller may be killed. */
enum soak_what { LATCH_SET, LATCH_DOWN, LATCH_DELETE, LATCH_AWAIT, BARRIER_AWAIT, BARRIER_RESET,
                 CONDITION_WAIT, CONDITION_SIGNAL, CONDITION_BROADCAST };
struct soak_event {
    int64_t begin;              /* right before it was called */
    _Atomic int64_t end;        /* answered, or EVENT_DIED; 0: neither yet */
    int64_t n;                  /* the count that was set, by how much it was counted down, a party's index, for how
                                 * long it waits, 1 if the lock was held all the time */
    int     what, pid;
    int     status;             /* enum hlk_status, or EVENT_DIED: its process was killed, or its thread cancelled */
    atomic_int ready;
};
enum { EVENT_DIED = 1000 };

/* What a thread is at, for those who ask why nothing moves. */
enum soak_doing { DOING_NOTHING, DOING_ACQUIRE, DOING_ACQUIRE_ASYNC, DOING_HOLD, DOING_RELEASE, DOING_CLOSE };
struct soak_thread {
    atomic_int doing, lock, how;
    _Atomic int64_t since, wait_ms;
};

struct soak_slot {
    atomic_int incarnation;             /* how many processes this slot has had in this round */
    atomic_int done;                    /* its counters below are this incarnation's */
    atomic_bool leaves;                 /* its close has said that releases were not answered */
    char client_id[128];
    struct hlk_counters counters;
    struct soak_thread threads[THREADS + 1];    /* the last one: its main thread */
};

/* How it was acquired. */
enum soak_how { HOW_ASYNC = 1, HOW_OWNER = 2, HOW_FIXED = 4, HOW_NESTED = 8, HOW_EXTENDED = 16, HOW_END_ASYNC = 32,
                HOW_FOREIGN = 64, HOW_MULTI = 128 };

struct soak {
    uint64_t seed, round;
    int      parent, slots, threads, hurry; /* hurry: how much a thread rests between two locks: 0 .. 2 */
    bool     quiet;                         /* no faults in this round: nothing may go wrong */
    char     urls[SLOTS][160], socket[SLOTS][96];
    atomic_bool stop;

    struct soak_slot slot[SLOTS];
    _Atomic uint64_t waits[WAIT_BUCKETS], answers[16], overrun_ns;
    _Atomic uint64_t longest_wait_ns[TURNS], longest_foreign_wait_ns;
    _Atomic uint64_t kinds[8];              /* holds by enum soak_how's bits */

    atomic_int semaphore;                   /* its generation: semaphores.h */
    _Atomic int64_t semaphore_closed[GENERATIONS];
    _Atomic uint64_t semaphore_kept;        /* permits that nobody gave back, in this round */

    atomic_int wrongs;                      /* what went wrong: the first of them with their texts */
    char wrong[WRONGS][400];

    atomic_size_t claimed, claimed_events;
    struct soak_hold holds[HOLDS];
    struct soak_event events[EVENTS];
};

int64_t soak_now(void);                     /* ns of CLOCK_BOOTTIME */
extern int64_t soak_zero;                   /* times are shown from here on */

struct soak *soak_create(int *fd);          /* the parent's */
struct soak *soak_map(void);                /* a started process's */
void soak_new_round(struct soak *soak);

struct soak_rng { uint64_t state; };
struct soak_rng soak_rng(const struct soak *soak, uint64_t slot, uint64_t incarnation, uint64_t thread);
uint64_t soak_draw(struct soak_rng *rng, uint64_t below);      /* 0 .. below - 1 */
bool soak_chance(struct soak_rng *rng, unsigned percent);
int soak_draw_lock(struct soak_rng *rng);                      /* by the weights of the table */
void soak_rest(int64_t us);

void soak_wrong(struct soak *soak, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Recording. */
struct soak_hold *soak_acquired(struct soak *soak, int64_t asked, int lock, int slot, int holder, int how);
struct soak_event *soak_event_begin(struct soak *soak, int what, int64_t n);
void soak_event_end(struct soak_event *event, int status, int64_t n);
void soak_process_died(struct soak *soak, int pid);
void soak_waited(struct soak *soak, int64_t ns);
void soak_longest(_Atomic uint64_t *longest, int64_t ns);
uint64_t soak_wait_quantile(const struct soak *soak, double q);    /* us */
void soak_doing(struct soak_thread *thread, int doing, int lock, int64_t wait_ms);
void soak_show_hold(const struct soak_hold *hold);

#endif
