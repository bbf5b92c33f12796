/* turn.h - one turn of a worker with a lock: what it acquires, holds and releases. A lock is its only part; a multilock
 * has its members for parts, and a hold of it is a hold of each of them. */
#ifndef HLK_SOAK_TURN_H
#define HLK_SOAK_TURN_H

#include "worker.h"

struct part {
    int lock;
    hlk_lock *handle;
    struct soak_hold *hold;
};

struct turn {
    int lock, how;
    hlk_lock *handle;
    struct hlk_acquire_opts opts;
    int64_t asked;
    struct part parts[MEMBERS];
    int n, depth;
};

/* Makes it one that is for this lock alone, by the handle of `how`. */
void turn_of_one(struct worker *worker, struct turn *turn, int lock);
void turn_of_many(struct worker *worker, struct turn *turn);    /* a multilock of some locks in any order */

void turn_begin(struct worker *worker, struct turn *turn);      /* acquired: writes it down */
void turn_hold(struct worker *worker, struct turn *turn);       /* the same, and holds it; `depth` 0 says that it is
                                                                 * released already */
void turn_forget(struct worker *worker, struct turn *turn);     /* its thread ends and releases nothing */
void turn_release(struct worker *worker, struct turn *turn);

/* Asks how long it is ours, and writes that down. False: it is not any more, or not all of it. */
bool turn_is_ours(struct turn *turn);

/* What is there to say about an answer other than OK: was it one that this call may give? */
void turn_judge_refusal(struct worker *worker, const struct turn *turn, enum hlk_status status);

/* It was answered: counts that, and how long it took. */
void turn_note_answer(struct worker *worker, const struct turn *turn, enum hlk_status status);

int64_t turn_draw_lease(struct soak_rng *rng);

/* The read half beside the write half that is held, and never the other way round. */
void turn_other_half(struct worker *worker, struct turn *turn);

/* All of a turn with a semaphore. */
void turn_with_semaphore(struct worker *worker, struct turn *turn);

/* The same with the latch: waits for it; and as a party of the barrier. */
void turn_with_latch(struct worker *worker, struct turn *turn);
void turn_with_barrier(struct worker *worker, struct turn *turn);

/* While it holds the lock of the condition: waits there, or wakes those who do. `depth` 0: it holds it no more. */
void turn_at_condition(struct worker *worker, struct turn *turn);

#endif
