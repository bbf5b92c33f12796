/* reply.h - what the server's answer means: an answer, or one of the refusals that we know how to treat. */
#ifndef HLK_NET_REPLY_H
#define HLK_NET_REPLY_H

#include "base/error.h"

#include <hiredis/hiredis.h>

enum hlk_reply_kind {
    HLK_REPLY_ANSWER,
    HLK_REPLY_NOSCRIPT,         /* not executed: send the text */
    HLK_REPLY_MOVED,            /* not executed; in a cluster: the slot is another server's, */
    HLK_REPLY_ASK,              /* or for this command, while it is being moved */
    HLK_REPLY_LATER,            /* not executed; LOADING, BUSY, TRYAGAIN, CLUSTERDOWN: passes by itself */
    /* not executed; READONLY, MASTERDOWN: a replica, maybe since a failover, and the endpoint means another one by now.
     * Else as LATER */
    HLK_REPLY_REPLICA,
    HLK_REPLY_NO_WRITES,        /* not executed; OOM, MISCONF, NOREPLICAS: an operator must do something about it */
    HLK_REPLY_NO_RIGHT,         /* NOPERM, NOAUTH */
    HLK_REPLY_WRONG_TYPE,       /* the key is no lock */
    HLK_REPLY_FAULT             /* anything else */
};

/* error (may be NULL) gets status and the server's words, unless it is an answer: of what is known above without the
 * script and line where it happened, with a word of advice where there is one. */
enum hlk_reply_kind hlk_reply_read(const redisReply *reply, struct hlk_error *error);

#endif
