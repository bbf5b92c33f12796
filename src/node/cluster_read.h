/* cluster_read.h - how the map of slots is read: from one server after the other, no more often than a backoff allows.
 * Loop thread. */
#ifndef HLK_NODE_CLUSTER_READ_H
#define HLK_NODE_CLUSTER_READ_H

#include "node/topology.h"

void hlk_cluster_read_init(struct hlk_cluster *cluster);
void hlk_cluster_refresh(struct hlk_cluster *cluster);  /* any thread: the map is read again soon */

#endif
