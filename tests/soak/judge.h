/* judge.h - after a round: do the history and the server agree with what was promised?
 *
 * Of locks, permits and multilocks (judge.c). The semaphore, the latch, the barrier and the condition have rules and
 * files of their own.
 *
 * 1. Two holds of a lock do not overlap within what their holders were told: from the answer of the acquire until its
 *    release was called, LOST was told, or hlk_lock_held_until as last asked, whichever came first.
 *    Readers of a read/write lock may overlap, and a writer that reads too; permits may as many as there are. A
 *    multilock is a hold of each of its members.
 * 2. Later holds of a fenced lock have larger tokens, and no token is there twice.
 * 3. A hold is not lost before its held_until unless somebody took it.
 * 4. One that was taken is not renewed: it is told at the latest when the lease that it had then is over. A break that
 *    found nothing to take, such as that of the readers while a writer holds, has taken nothing.
 *
 * What an operator does (hlk_lock_break, DEL, a server without its data) excuses a hold from the moment he began: his
 * command may have run between then and its answer (or some seconds later, if none came), and whoever held then, or
 * had been given the lock and not heard of it yet, was not told. So a hold with such a moment between its asking and
 * its end counts only before it; a hold that was passed on within its process was asked for by the first of its h.
 */
#ifndef HLK_SOAK_JUDGE_H
#define HLK_SOAK_JUDGE_H

#include "shared.h"

enum { ALL_LOCKS = -1, LATE_MS = 5000 };     /* a command that was not answered has certainly run after this */
#define LATE_NS (LATE_MS * INT64_C(1000000))

struct soak_deed {              /* of an operator; of all locks: the server has lost its data, counters of tokens too */
    int64_t begin, end;
    int lock;
    bool took_nothing;          /* a break of a lock that nobody held, or of the half that nobody held */
};

struct judge_sums {             /* over all rounds */
    int64_t  tokens[LOCKS];     /* the largest one yet */
    uint64_t holds[TURNS];      /* holds that were judged: they counted for a while at least */
    uint64_t woken;             /* waits at the condition that ended with HLK_OK */
};

/* False: something was wrong, and was told. */
bool judge_history(struct soak *soak, const struct soak_deed *deeds, size_t n, struct judge_sums *sums);

void judge_semaphore(struct soak *soak, struct judge_sums *sums);
void judge_latch(struct soak *soak, const struct soak_deed *deeds, size_t n, struct judge_sums *sums);
void judge_barrier(struct soak *soak, const struct soak_deed *deeds, size_t n, struct judge_sums *sums);
void judge_condition(struct soak *soak, struct judge_sums *sums);

/* Nobody is there any more: what is left on the server? */
struct redisContext;
void judge_server(struct soak *soak, struct redisContext *redis);
void judge_semaphore_left(struct soak *soak, struct redisContext *redis);     /* and removes it */

#endif
