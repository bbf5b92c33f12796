/* subscriber_internal.h - what subscriber.c (the connection's life, commands) and subscriber_read.c (replies, messages)
 * share. */
#ifndef HLK_NET_SUBSCRIBER_INTERNAL_H
#define HLK_NET_SUBSCRIBER_INTERNAL_H

#include "net/subscriber.h"

enum what { SUBSCRIBE, UNSUBSCRIBE, PING };

struct asked { /* a command whose answer is due */
    struct hlk_list link;
    enum what what;
    size_t len;
    char channel[];
};

#endif
