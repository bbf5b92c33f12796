/* pass_permits.h - permits of a semaphore that one call gives back while another call of this process waits for as
 * many: the second call gets them, and nothing is sent. What Redis has stays true: the number of free permits, and the
 * tickets.
 *
 * The head waiter is served last. It has a ticket in Redis, which a command has to end. So while passes are likely no
 * call becomes the head waiter: the first one waits for a pass, and asks Redis at the end of the turn. It asks at once
 * if more is waited for than calls of the process have: then some of it has to come from other processes. */
#ifndef HLK_LEASE_PASS_PERMITS_H
#define HLK_LEASE_PASS_PERMITS_H

#include "lease/entry.h"

/* The entry is the line in which acquires of this process wait. */

/* A call gives these permits back. True: the next call in line has them, and nothing is to be sent. False: send the
 * release. No call waits, or only one whose command is on its way; the next one needs another number; or it is the turn
 * of Redis' queue. */
bool hlk_entry_pass_permits(struct hlk_entry *e, int64_t permits);

/* A call of this process has so many from Redis. */
void hlk_entry_note_permits(struct hlk_entry *e, int64_t permits);

/* It gives so many back to Redis, without hlk_entry_pass_permits. */
void hlk_entry_note_given_back(struct hlk_entry *e, int64_t permits);

/* The alarm of an entry that is not held; its mutex is held. If its first waiter has not asked Redis yet, it does
 * now. */
void hlk_entry_ask_at_last(struct hlk_entry *e);

/* A new call need not wait in line: a command of the head waiter is on its way, and no answer was BUSY in the last
 * HLK_CONTENDED_MS. */
bool hlk_entry_may_try_permits(struct hlk_entry *e);

#endif
