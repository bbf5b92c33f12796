/* glance.h - one thread that waits for answers on several connections, which nobody else is woken to read (hlk_call's
 * `lazy`). It reads them itself while they come quickly, on all connections in turn; then it sleeps, and the loop
 * threads read. */
#ifndef HLK_API_GLANCE_H
#define HLK_API_GLANCE_H

#include "client.h"

#define HLK_GLANCE_MAX 64

struct hlk_glance_client {
    hlk_client *client;
    struct hlk_wait_entry closing; /* its close wakes the thread */
    struct hlk_thread *self;
};

struct hlk_glance { /* zeroed before, but self */
    struct hlk_thread *self;
    bool (*over)(void *ctx); /* what it waits for has come */
    void *ctx;
    unsigned pipeline_count, client_count;
    bool asleep;
    hlk_pipeline *pipelines[HLK_GLANCE_MAX];           /* each once */
    struct hlk_glance_client clients[HLK_GLANCE_MAX]; /* each once */
};

/* Before the first command to this connection. What follows leaves in one write, with hlk_glance_send. */
void hlk_glance_add(struct hlk_glance *glance, hlk_client *client, hlk_pipeline *pipeline);
void hlk_glance_send(struct hlk_glance *glance);

/* Reads for as long as answers come quickly. True: it is over. */
bool hlk_glance_poll(struct hlk_glance *glance);
/* Sleeps until HLK_WAKE_SETTLED or one of its clients is being closed, or at_ms: true, unless at_ms has come. It may be
 * over or not. A cancellation point if the thread is cancellable. hlk_glance_end must follow. */
bool hlk_glance_sleep(struct hlk_glance *glance, int64_t at_ms);
bool hlk_glance_closing(const struct hlk_glance *glance); /* one of its clients is being closed */
void hlk_glance_end(struct hlk_glance *glance);

#endif
