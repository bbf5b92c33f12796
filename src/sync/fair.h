/* fair.h - what a fair lock's request does that no plain one does: a place of its own in Redis' queue, a channel of its
 * own. */
#ifndef HLK_SYNC_FAIR_H
#define HLK_SYNC_FAIR_H

#include "sync/request.h"

/* Before each question: does it ask for a place? */
void hlk_fair_asks(struct hlk_request *r);
/* It has a new hold id, and so another channel, and no place. */
void hlk_fair_renumbered(struct hlk_request *r);

#endif
