/* pipeline_wait.h - waiting for an answer on a shared connection: one caller leads, which means that it reads for all;
 * the others follow. */
#ifndef HLK_NET_PIPELINE_WAIT_H
#define HLK_NET_PIPELINE_WAIT_H

#include "net/pipeline.h"

/* Waits for the end of a call whose waiter is the calling thread, leading if no other thread does. False: at_ms came,
 * or a bit of mask was set, and it is still in flight: hlk_pipeline_leave it. A cancellation point if the thread is
 * cancellable. */
bool hlk_pipeline_wait(hlk_pipeline *pipeline, struct hlk_call *call, int64_t at_ms, unsigned mask);

/* The caller goes; `done` gets the call's end (lazily). False: it has ended this moment, the caller has it. */
bool hlk_pipeline_leave(hlk_pipeline *pipeline, struct hlk_call *call, void (*done)(struct hlk_call *call));

#endif
