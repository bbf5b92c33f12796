/* pipeline_lead.h - the lead of a shared connection without a waiting caller: the loop takes it for answers that no
 * thread waits for, dispatch for one round of the user's loop, and a thread that waits for several connections too. */
#ifndef HLK_NET_PIPELINE_LEAD_H
#define HLK_NET_PIPELINE_LEAD_H

#include "net/pipeline.h"

/* For a thread that waits for lazy calls on several pipelines at once. Reads what is there, unless another thread
 * leads; does not block. The ends of calls run before it returns. */
void hlk_pipeline_poll_once(hlk_pipeline *pipeline);

/* For how long such a thread polls before it sleeps, as far as this connection is concerned. */
int64_t hlk_pipeline_spin_ns(hlk_pipeline *pipeline);

/* While on, the loop reads answers as they come: such a thread goes to sleep. Each `on` is followed by one off. */
void hlk_pipeline_expect(hlk_pipeline *pipeline, bool on);

/* --- dispatch: the user's loop leads --- */

/* Leads for one round without blocking: writes what is queued, reads what is there. */
void hlk_pipeline_dispatch(hlk_pipeline *pipeline);

/* While on, calls without a waiter are only queued: a push, or the next dispatch, writes them. Off writes. */
void hlk_pipeline_hold_back(hlk_pipeline *pipeline, bool on);

/* Writes what is queued, if it may be written now. Any thread. */
void hlk_pipeline_push(hlk_pipeline *pipeline);

/* Puts the socket into epoll set `epfd`, for one event, if answers are due that no caller leads for. True: something is
 * queued that no thread will write unless dispatch comes again. */
bool hlk_pipeline_arm(hlk_pipeline *pipeline, int epfd);

/* --- for the other files of the pipeline --- */

void hlk_pipeline_lead_init(struct hlk_pipeline *pipeline);
bool hlk_pipeline_lives(const struct hlk_pipeline *pipeline); /* mu held: there is something to read */

#endif
