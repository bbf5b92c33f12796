/* route.h - which node keeps a lock. One server: that one. Other topologies are a file of their own each. */
#ifndef HLK_NODE_ROUTE_H
#define HLK_NODE_ROUTE_H

#include "node/node.h"

/* The index of the node, of `nodes` (> 0), that keeps the lock. Pure; any thread. */
typedef unsigned hlk_route(const char *name, size_t len, unsigned nodes);

#endif
