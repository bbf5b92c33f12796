/* depth.h - a guard that hiredis 1.0 to 1.2.0 lack: against replies nested so deep that freeing them ends the stack. */
#ifndef HLK_NET_DEPTH_H
#define HLK_NET_DEPTH_H

#include <hiredis/read.h>
#include <stdbool.h>

#define HLK_REPLY_DEPTH 32 /* the deepest reply we ask for has 4 levels */

/* True: what comes is no answer of Redis, drop the connection. To be asked after each feed whose
 * redisReaderGetReply gave nothing: one feed of 16 KiB cannot nest deeper than any stack bears. */
static inline bool hlk_reply_too_deep(const redisReader *reader)
{
    return reader->ridx > HLK_REPLY_DEPTH;
}

#endif
