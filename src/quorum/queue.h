/* queue.h - which waiter of a process is next for a lock over several masters. */
#ifndef HLK_QUORUM_QUEUE_H
#define HLK_QUORUM_QUEUE_H

#include "quorum/quorum.h"

/* all->mu is held in each of these. */

/* HLK_OK: at its head. HLK_BUSY: behind others; `waiter` is in it unless it is NULL. HLK_E_NOMEM. */
enum hlk_status hlk_quorum_queue_enter(struct hlk_quorums *all, const char *name, size_t len, int64_t now_ms,
                                       struct hlk_quorum_waiter *waiter, struct hlk_quorum_queue **out);

/* A waiter that is not the head leaves. */
void hlk_quorum_queue_leave(struct hlk_quorums *all, struct hlk_quorum_queue *queue, struct hlk_quorum_waiter *waiter);

/* The head leaves, and the next waiter becomes the head. */
void hlk_quorum_queue_pass(struct hlk_quorums *all, struct hlk_quorum_queue *queue, int64_t now_ms);

#endif
