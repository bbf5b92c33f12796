/* glance.h - one thread waits for answers on several connections, which nobody else is woken to read (`lazy` of
 * struct hlk_call). It reads them itself while they come quickly, on all connections in turn. Then it sleeps, and the
 * loop threads read. */
#ifndef HLK_API_GLANCE_H
#define HLK_API_GLANCE_H

#include "base/thread.h"
#include "net/pipeline.h"

#define HLK_GLANCE_MAX 64

struct hlk_glance {             /* the caller sets: */
    struct hlk_thread *self;
    bool (*over)(void *ctx);    /*   true: what it waits for has come */
    void *ctx;
    unsigned mask;              /*   events that end the wait. HLK_WAKE_SETTLED, too, ends a sleep */
    bool cancellable;           /*   a sleep is a cancellation point, if the thread is cancellable */
    bool asleep;                /* false at first, as the number is 0 */
    unsigned count;
    hlk_pipeline *pipelines[HLK_GLANCE_MAX];    /* each once */
};

/* True: it was not there yet. */
bool hlk_glance_add(struct hlk_glance *glance, hlk_pipeline *pipeline);
/* While on, what is sent to the connections so far is kept; off: it leaves in one write each. */
void hlk_glance_hold_back(struct hlk_glance *glance, bool on);

/* Polls for `ns`, then sleeps, until it is over, one of `mask`, or at_ms. */
void hlk_glance_wait(struct hlk_glance *glance, int64_t ns, int64_t at_ms);

/* --- its parts --- */

/* For how long polling may be worth it: while answers come quickly, on the slowest of the connections. */
int64_t hlk_glance_spin_ns(const struct hlk_glance *glance);
/* Reads for so long. True: it is over. */
bool hlk_glance_poll(struct hlk_glance *glance, int64_t ns);
/* Sleeps until an event, or at_ms. False: at_ms has come. hlk_glance_end must follow. */
bool hlk_glance_sleep(struct hlk_glance *glance, int64_t at_ms);
void hlk_glance_end(struct hlk_glance *glance);

#endif
