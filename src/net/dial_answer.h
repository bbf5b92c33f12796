/* dial_answer.h - what the answers to a dial's own commands mean: AUTH, SELECT, ROLE or INFO, PING, CLIENT
 * SETNAME. */
#ifndef HLK_NET_DIAL_ANSWER_H
#define HLK_NET_DIAL_ANSWER_H

#include "net/dial.h"

/* The answer to command i, i < dial->own. HLK_OK: go on. Else the dial fails with it, and dial->error says why. */
enum hlk_status hlk_dial_check_answer(struct hlk_dial *dial, unsigned i, const redisReply *reply);

#endif
