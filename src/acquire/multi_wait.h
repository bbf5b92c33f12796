/* multi_wait.h - one thread waits for answers on several connections, which no other thread is woken to read (`lazy` of
 * struct hlk_call). It reads them itself while they come quickly, on all connections in turn. Then it sleeps, and the
 * loop threads read. */
#ifndef HLK_ACQUIRE_MULTI_WAIT_H
#define HLK_ACQUIRE_MULTI_WAIT_H

#include "base/thread.h"
#include "net/pipeline.h"

#define HLK_MULTI_WAIT_MAX 64

struct hlk_multi_wait {             /* the caller sets: */
    struct hlk_thread *self;
    bool (*over)(void *ctx);    /*   true: what it waits for has come */
    void *ctx;
    unsigned mask;              /*   events that end the wait. HLK_WAKE_SETTLED, too, ends a sleep */
    bool cancellable;           /*   a sleep is a cancellation point, if the thread is cancellable */
    bool asleep;                /* false at first, as the number is 0 */
    unsigned count;
    hlk_pipeline *pipelines[HLK_MULTI_WAIT_MAX];    /* each once */
};

/* True: it was not there yet. */
bool hlk_multi_wait_add(struct hlk_multi_wait *wait, hlk_pipeline *pipeline);
/* While on, what is sent to the connections so far is kept; off: it leaves in one write each. */
void hlk_multi_wait_hold_back(struct hlk_multi_wait *wait, bool on);

/* Polls for `ns`, then sleeps, until it is over, one of `mask`, or at_ms. */
void hlk_multi_wait_run(struct hlk_multi_wait *wait, int64_t ns, int64_t at_ms);

/* --- its parts --- */

/* For how long polling may be worth it: while answers come quickly, on the slowest of the connections. */
int64_t hlk_multi_wait_spin_ns(const struct hlk_multi_wait *wait);
/* Reads for so long. True: it is over. */
bool hlk_multi_wait_poll(struct hlk_multi_wait *wait, int64_t ns);
/* Sleeps until an event, or at_ms. False: at_ms has come. hlk_multi_wait_end must follow. */
bool hlk_multi_wait_sleep(struct hlk_multi_wait *wait, int64_t at_ms);
void hlk_multi_wait_end(struct hlk_multi_wait *wait);

#endif
