/* fair.h - one wait for a fair lock: a place of its own in Redis' queue, a channel of its own. */
#ifndef HLK_SYNC_FAIR_H
#define HLK_SYNC_FAIR_H

#include "sync/request.h"

/* Drives r from its own thread until it has the lock, or its outcome is known. lined: another thread of the same owner
 * asks already; its win is this one's too. A cancellation point while it sleeps. */
enum hlk_status hlk_fair_run(struct hlk_request *r, bool lined);

#endif
