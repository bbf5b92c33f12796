/* sentinels.h - asks each Sentinel of a URL once where the master is. */
#ifndef HLK_DIAGNOSE_SENTINELS_H
#define HLK_DIAGNOSE_SENTINELS_H

#include "diagnose/exam.h"
#include "diagnose/exchange.h"

/* One after the other, each for up to a second. HLK_OK also when none answers; HLK_E_NOMEM, HLK_E_OS. */
enum hlk_status hlk_exam_ask_sentinels(struct hlk_exam_sentinels *sentinels, const struct hlk_url *url,
                                       const struct hlk_exchange_login *login, struct hlk_error *error);

/* What one of them has answered to SENTINEL GET-MASTER-ADDR-BY-NAME: {host, port}, or nil. Pure. */
void hlk_exam_take_sentinel(struct hlk_exam_sentinels *sentinels, const redisReply *reply);

#endif
