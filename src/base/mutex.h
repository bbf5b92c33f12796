/* mutex.h - a mutex with a rank. Debug builds (HLK_DEBUG) check these rules and abort when one is broken: ranks are
 * taken in rising order only, a thread unlocks only what it holds, and the assert functions hold. A release build has a
 * plain pthread_mutex_t. pthread_cond_wait on `mu` is allowed: the checks count the mutex as held meanwhile. */
#ifndef HLK_BASE_MUTEX_H
#define HLK_BASE_MUTEX_H

#include <pthread.h>

enum hlk_rank {                 /* taken in rising order only */
    HLK_RANK_CLIENT = 1,        /* open and close */
    HLK_RANK_TABLE,             /* name -> entry */
    HLK_RANK_ENTRY,             /* one lock's entry, its local queue and its lease */
    HLK_RANK_WAITS,             /* a client's list of waits, for close */
    HLK_RANK_CANCEL,            /* a cancel object's list of waits */
    HLK_RANK_CHANNELS,          /* subscriptions and their waits */
    HLK_RANK_RELEASES,          /* releases that Redis has not answered */
    HLK_RANK_PIPELINE,          /* queue and lead of a shared connection; never held over send or recv */
    HLK_RANK_WATCHDOG,          /* the wheel */
    HLK_RANK_EVENTS,            /* queue of the events thread */
    HLK_RANK_ROUND,             /* the masters' answers to one command (quorum/round.h) */
    HLK_RANK_POST,              /* functions posted to the loop */
    HLK_RANK_LEAF               /* nothing is taken under it */
};

struct hlk_mutex {
    pthread_mutex_t mu;
#ifdef HLK_DEBUG
    enum hlk_rank rank;         /* its holder is in each thread's own list */
#endif
};

void hlk_mutex_init(struct hlk_mutex *m, enum hlk_rank rank);
void hlk_mutex_fini(struct hlk_mutex *m);

#ifdef HLK_DEBUG
void hlk_mutex_lock(struct hlk_mutex *m);
void hlk_mutex_unlock(struct hlk_mutex *m);
void hlk_mutex_assert_held(const struct hlk_mutex *m);
void hlk_mutex_assert_none(void);       /* this thread holds no ranked mutex: before I/O and before user code */
#else
static inline void hlk_mutex_lock(struct hlk_mutex *m) { pthread_mutex_lock(&m->mu); }
static inline void hlk_mutex_unlock(struct hlk_mutex *m) { pthread_mutex_unlock(&m->mu); }
static inline void hlk_mutex_assert_held(const struct hlk_mutex *m) { (void)m; }
static inline void hlk_mutex_assert_none(void) {}
#endif

#endif
