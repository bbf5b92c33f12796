/* cluster.h - the servers of a Redis Cluster, and which of them keeps which slot.
 *
 * The client has one node for the whole cluster, its home: the entries of all locks and the pending releases are
 * the home's, and stay there when a slot moves. Each server is a node as well, for its connections alone; the home is
 * the first server, too. A command is routed by its slot before each attempt (script/router.h).
 *
 * The map of slots is read with CLUSTER SLOTS on the loop thread: at the beginning, and again soon after MOVED, after a
 * connection broke or could not be made, and after the server said that it does not serve a slot now. A server that is
 * named for the first time becomes a node then. Nodes live until the client is closed. Whose map is followed:
 * epochs.h. */
#ifndef HLK_NODE_CLUSTER_H
#define HLK_NODE_CLUSTER_H

#include "node/topology.h"

/* Makes a cluster of a node that was opened with such a URL; its first server is that node. opts and owner are those of
 * that node. Before the loop is started. */
enum hlk_status hlk_cluster_open(struct hlk_node *home, const struct hlk_node_opts *opts, struct hlk_error *error);
void hlk_cluster_free(struct hlk_cluster *cluster);     /* after the loop has stopped; with its nodes but the home */

/* Blocks until the map is known. HLK_E_CONNECT at until_ms; HLK_E_AUTH and the like when no server lets us in. */
enum hlk_status hlk_cluster_wait(struct hlk_cluster *cluster, struct hlk_thread *self, int64_t until_ms,
                                 struct hlk_error *error);

#endif
