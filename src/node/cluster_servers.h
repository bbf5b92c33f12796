/* cluster_servers.h - the servers of a cluster as nodes, and which of them keeps a slot. */
#ifndef HLK_NODE_CLUSTER_SERVERS_H
#define HLK_NODE_CLUSTER_SERVERS_H

#include "node/topology.h"

/* The number of the server with this address. Else it is made, on the loop thread; HLK_SERVERS_MAX: it cannot be, or
 * this is another thread. host "": that of `from`. */
unsigned hlk_cluster_server(struct hlk_cluster *cluster, const struct hlk_node *from,
                            const struct hlk_address *address);

/* Has this server any slot? */
bool hlk_cluster_keeps(const struct hlk_cluster *cluster, unsigned server);

/* Sets which server keeps the slot. True: it was another one, and that is noted in `moved`. */
bool hlk_cluster_set(struct hlk_cluster *cluster, unsigned slot, unsigned server);

/* Is the lock's slot among those that have just moved? In the owner's verify_moved only. */
bool hlk_cluster_moved(const struct hlk_cluster *cluster, const char *name, size_t len);

#endif
