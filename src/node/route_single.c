#include "node/route_single.h"

unsigned hlk_route_single(const char *name, size_t len, unsigned nodes)
{
    (void)name, (void)len, (void)nodes;
    return 0;
}
