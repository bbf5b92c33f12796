/* acquire_listen.h - the channels that an acquire listens to: the inbox, and where foreign clients call. They are at
 * the server that keeps the lock, and go with it when its slot moves in a cluster. */
#ifndef HLK_SYNC_ACQUIRE_LISTEN_H
#define HLK_SYNC_ACQUIRE_LISTEN_H

#include "sync/acquire_op.h"

void hlk_acquire_listen_init(struct hlk_acquire_op *op);
/* It begins, or ends, to wait for messages: does the loop thread have to read them for it? */
void hlk_acquire_listen_eager(struct hlk_acquire_op *op, bool more);
/* The inbox stays subscribed while it is in line behind others of this process. */
void hlk_acquire_listen_retain(struct hlk_acquire_op *op);
/* Before each command: from now on at the server that keeps the lock now. */
void hlk_acquire_listen_follow(struct hlk_acquire_op *op);
/* Does this client hear what its inbox is told? Where it does already the first command takes a place at once, and is
 * enough. */
bool hlk_acquire_listen_live(struct hlk_acquire_op *op);
/* Joins the inbox; the channel where foreign clients call. HLK_ACQUIRE_ON_SUBSCRIBED; HLK_ACQUIRE_ON_JOINED;
 * HLK_ACQUIRE_ON_MESSAGE: the slot has moved, ask again; HLK_ACQUIRE_ON_ABORT with op->error. */
enum hlk_acquire_event hlk_acquire_listen_inbox(struct hlk_acquire_op *op);
enum hlk_acquire_event hlk_acquire_listen_foreign(struct hlk_acquire_op *op);
/* The subscription was refused: op->error is filled. */
void hlk_acquire_listen_failed(struct hlk_acquire_op *op);
void hlk_acquire_listen_end(struct hlk_acquire_op *op);

#endif
