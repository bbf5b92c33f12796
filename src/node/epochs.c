#include "node/epochs.h"

#include "base/debug.h"

#include <string.h>

/* Those that were not asked since the map has its epoch count as servers, and as neither. */
static bool most_said(const struct hlk_epochs *epochs, uint64_t from, uint64_t to, const bool *up, unsigned count)
{
    HLK_DEBUG_ASSERT(count <= HLK_SERVERS_MAX);
    unsigned servers = 0, votes = 0;
    for (unsigned i = 0; i < count; i++) {
        servers += up[i];
        votes += up[i] && epochs->said[i] >= from && epochs->said[i] <= to;
    }
    return 2 * votes > servers;
}

static void follow_epoch(struct hlk_epochs *epochs, unsigned server, uint64_t epoch)
{
    HLK_DEBUG_ASSERT(server < HLK_SERVERS_MAX && epoch > 0);
    memset(epochs->said, 0, sizeof epochs->said);
    epochs->said[server] = epoch;
    epochs->map = epoch;
}

static void outvote(struct hlk_epochs *epochs, unsigned count)
{
    HLK_DEBUG_ASSERT(count <= HLK_SERVERS_MAX);
    for (unsigned i = 0; i < count; i++)
        epochs->outvoted[i] = epochs->said[i] >= epochs->map;
}

bool hlk_epochs_follow(struct hlk_epochs *epochs, unsigned server, uint64_t epoch, const bool *up, unsigned count)
{
    HLK_DEBUG_ASSERT(server < count && count <= HLK_SERVERS_MAX);
    if (epoch == 0)
        return true;
    epochs->said[server] = epoch;
    if (epoch <= epochs->map)
        epochs->outvoted[server] = false;
    if (epoch == epochs->map)
        return true;
    bool smaller = epoch < epochs->map;
    if (smaller && !most_said(epochs, 1, epochs->map - 1, up, count))
        return false;
    if (epochs->outvoted[server] && !most_said(epochs, epoch, UINT64_MAX, up, count))
        return false;
    if (smaller)
        outvote(epochs, count);
    follow_epoch(epochs, server, epoch);
    return true;
}
