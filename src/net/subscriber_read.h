/* subscriber_read.h - which thread reads the subscriber connection: a waiter that is parked, or else the loop.
 *
 * A grant that the loop reads wakes two threads one after the other, the loop and the waiter; measured, that is a
 * fifth of a hand-over between processes. So a waiter that would sleep anyway sleeps in poll at this socket, and reads
 * for all. The right to read is one: LOOP, a waiter's, or for a moment NOBODY's, between a waiter that got its lock
 * and the next one that parks; the loop takes it from NOBODY at its next tick, or at once when some wait cannot read.
 * The loop is never woken to give it away: it notices at the next message, and stops watching. While it reads no waiter
 * takes the right from it: a waiter that parks then leaves it there, and sleeps. */
#ifndef HLK_NET_SUBSCRIBER_READ_H
#define HLK_NET_SUBSCRIBER_READ_H

#include "net/subscriber.h"

/* Sleeps until a bit of mask is set or at_ms has come; reads for all meanwhile, if no other thread does. Any thread; a
 * pthread cancellation point like hlk_park_until. */
void hlk_subscriber_park(struct hlk_subscriber *ps, struct hlk_thread *self, unsigned mask, int64_t at_ms);

/* a wait that cannot read begins, or ends. Any thread */
void hlk_subscriber_eager(struct hlk_subscriber *ps, bool more);

/* the thread with the right: what is there */
bool hlk_subscriber_read(struct hlk_subscriber *ps, struct hlk_error *error);

/* The loop: */
bool hlk_subscriber_loop_reads(struct hlk_subscriber *ps);      /* it has the right */
bool hlk_subscriber_loop_begins(struct hlk_subscriber *ps);     /* the same, and keeps it until it ends */
void hlk_subscriber_loop_ends(struct hlk_subscriber *ps);
bool hlk_subscriber_loop_takes(struct hlk_subscriber *ps);      /* it was NOBODY's: the loop has it */
void hlk_subscriber_readable(struct hlk_subscriber *ps);        /* a new connection: the loop reads it */
void hlk_subscriber_reclaim(struct hlk_subscriber *ps);         /* no waiter reads any more, before it hangs up */

#endif
