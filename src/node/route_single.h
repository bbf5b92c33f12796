/* route_single.h - the route of a client whose locks are all on one server. */
#ifndef HLK_NODE_ROUTE_SINGLE_H
#define HLK_NODE_ROUTE_SINGLE_H

#include "node/route.h"

unsigned hlk_route_single(const char *name, size_t len, unsigned nodes);

#endif
