/* blocked.h - what a thread does that blocks on a request, whatever kind of lock: asks, sleeps, finds that it must
 * leave. */
#ifndef HLK_SYNC_BLOCKED_H
#define HLK_SYNC_BLOCKED_H

#include "sync/request.h"

/* A bit that ends the wait was set: is it true? Bits are hints. r->error says why it must leave. */
bool hlk_blocked_must_leave(struct hlk_request *r);

/* Asks until answered. HLK_OK: the answer is in r->q.call.reply; else leave with it. */
enum hlk_status hlk_blocked_ask(struct hlk_request *r);

/* Sleeps until a bit of `bits`, or one that may end the wait, is set, or at_ms has come. reads: and reads the
 * subscriber connection meanwhile, unless a signal is to end it. HLK_OK: look; HLK_INTERRUPTED: a signal (r->error). */
enum hlk_status hlk_blocked_sleep(struct hlk_request *r, unsigned bits, int64_t at_ms, bool reads);

#endif
