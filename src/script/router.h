/* router.h - where a command about a lock is sent when several servers share the locks by slot: a Redis Cluster.
 *
 * The engine asks before each attempt, and reports what a server says about slots. Implemented by node/cluster.c,
 * which is above this layer. On one server a command has no router, and its pipeline is set once. */
#ifndef HLK_SCRIPT_ROUTER_H
#define HLK_SCRIPT_ROUTER_H

#include "net/pipeline.h"

#include <stdatomic.h>

struct hlk_router {
    /* The server that keeps the slot, as far as is known. NULL: no server is known yet. */
    hlk_pipeline *(*find)(struct hlk_router *router, unsigned slot);
    /* `words` is a refusal that `from` answered, MOVED or ASK. The server that it names; MOVED is remembered. NULL: it
     * is not known yet, and is connected to soon. */
    hlk_pipeline *(*redirect)(struct hlk_router *router, const hlk_pipeline *from, const char *words);
    /* What is known may be out of date: it is read again soon. */
    void (*refresh)(struct hlk_router *router);
    atomic_bool sharded;                /* messages go by sharded pub/sub; set before find answers a server */
    _Atomic(int64_t) moved_ms;          /* when it was last noticed that a slot is another server's; 0: never */
};

#endif
