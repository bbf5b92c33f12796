/* acquire_listen.h - the channels that an acquire listens to: the inbox, and where foreign clients call. They are at
 * the server that keeps the lock, and go with it when its slot moves in a cluster. */
#ifndef HLK_ACQUIRE_ACQUIRE_LISTEN_H
#define HLK_ACQUIRE_ACQUIRE_LISTEN_H

#include "acquire/acquire_op.h"

/* Called with true when a wait for messages begins, with false when it ends. In between the loop thread reads the
 * messages of an acquire that has no thread. */
void hlk_acquire_listen_eager(struct hlk_acquire_op *op, bool more);
/* The inbox stays subscribed while it is behind others in the local queue. No-op before a cluster's map is known. */
void hlk_acquire_listen_retain(struct hlk_acquire_op *op);
/* Called before each command once it may listen somewhere: moves the listeners to the server that keeps the lock
 * now. */
void hlk_acquire_listen_follow(struct hlk_acquire_op *op);
/* Joins the inbox if it is subscribed already. True: it is, so the first command may take a ticket. Called only if the
 * server's channels are in use (hlk_channels_in_use). */
bool hlk_acquire_listen_live(struct hlk_acquire_op *op);
/* Joins the inbox; the channel where foreign clients call. HLK_ACQUIRE_ON_SUBSCRIBED; HLK_ACQUIRE_ON_JOINED;
 * HLK_ACQUIRE_ON_MESSAGE: the slot has moved, ask again; HLK_ACQUIRE_ON_ABORT with op->error. */
enum hlk_acquire_event hlk_acquire_listen_inbox(struct hlk_acquire_op *op);
enum hlk_acquire_event hlk_acquire_listen_foreign(struct hlk_acquire_op *op);
/* The subscription was refused: op->error is filled. */
void hlk_acquire_listen_failed(struct hlk_acquire_op *op);
void hlk_acquire_listen_end(struct hlk_acquire_op *op);

#endif
