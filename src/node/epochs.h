/* epochs.h - pure: whose map of a cluster's slots is followed, by the epoch that each server names (CLUSTER INFO).
 *
 * The epoch of a cluster rises with each failover, so the map of a server with a smaller one is old: that server was
 * cut off. But a cluster that was made anew (its nodes.conf lost, CLUSTER RESET HARD) begins at small epochs again, and
 * one server may name an absurd one. So a majority counts more than an epoch: a smaller one is followed when more than
 * half of the servers that are connected have named a smaller one, each since the map has its epoch. The servers that
 * named the larger one by then are not believed again when they name more than the map's, until most do. */
#ifndef HLK_NODE_EPOCHS_H
#define HLK_NODE_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#define HLK_SERVERS_MAX 1000

struct hlk_epochs {
    uint64_t map;                       /* of the map that is followed; 0: there is none, or it names none */
    uint64_t said[HLK_SERVERS_MAX];     /* by each server, since the map has that epoch; 0: nothing */
    bool outvoted[HLK_SERVERS_MAX];
};

/* `server` has a map, and names `epoch` (0: none). up[i]: server i of `count` is connected. True: its map is followed,
 * and `map` is that epoch. */
bool hlk_epochs_follow(struct hlk_epochs *epochs, unsigned server, uint64_t epoch, const bool *up, unsigned count);

#endif
