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

#include "net/backoff.h"
#include "node/epochs.h"
#include "node/node.h"
#include "node/slots.h"
#include "script/engine.h"
#include "script/router.h"

struct hlk_cluster_call { /* one of the commands that read the map */
    struct hlk_call call;
    struct hlk_cluster *cluster;
};

struct hlk_cluster {
    struct hlk_router router;           /* first: router.h's functions get this */
    struct hlk_node *home;              /* read-only after open, like the next ones */
    hlk_loop *loop;
    struct hlk_node_opts opts;          /* of each server but its URL */
    struct hlk_node_owner owner;

    _Atomic(uint16_t) keepers[HLK_SLOTS];       /* which of the servers has the slot */
    struct hlk_node *servers[HLK_SERVERS_MAX];  /* [0] is the home; the loop thread appends */
    atomic_uint count;
    atomic_bool known;                  /* the map was read */
    struct hlk_thread *_Atomic opener;  /* waits for the first map */

    struct hlk_mutex mu;                /* rank LEAF; guards: */
    uint64_t moved[HLK_SLOTS / 64];     /*   slots whose waits and holds do not know it yet */
    struct hlk_address unknown;         /*   a server that was named, and is no node yet; port 0: none */
    struct hlk_error refusal;           /*   why the map was not read the last time */

    struct hlk_post post, read;         /* loop thread only, like the rest */
    struct hlk_alarm alarm;
    struct hlk_backoff backoff;
    bool wanted, reading, armed;
    int64_t next_ms;                    /* not read before */
    unsigned turn;                      /* which server is asked next */
    unsigned asked_at;                  /* which one this reading asks, */
    struct hlk_node *asked;             /* and its node */
    uint64_t read_epoch;                /* the cluster's epoch by this reading */
    struct hlk_epochs epochs;
    bool read_usable, read_sharded;
    struct hlk_cluster_call calls[3];
    uint64_t settling[HLK_SLOTS / 64];  /* hlk_cluster_moved */
};

/* Makes a cluster of a node that was opened with such a URL; its first server is that node. opts and owner are those of
 * that node. Before the loop is started. */
enum hlk_status hlk_cluster_open(struct hlk_node *home, const struct hlk_node_opts *opts, struct hlk_error *error);
void hlk_cluster_free(struct hlk_cluster *cluster);     /* after the loop has stopped; with its nodes but the home */

/* Blocks until the map is known. HLK_E_CONNECT at until_ms; HLK_E_AUTH and the like when no server lets us in. */
enum hlk_status hlk_cluster_wait(struct hlk_cluster *cluster, struct hlk_thread *self, int64_t until_ms,
                                 struct hlk_error *error);

/* cluster_servers.c */
/* The number of the server with this address. Else it is made, on the loop thread; HLK_SERVERS_MAX: it cannot be, or
 * this is another thread. host "": that of `from`. */
unsigned hlk_cluster_server(struct hlk_cluster *cluster, const struct hlk_node *from,
                            const struct hlk_address *address);
/* Has this server any slot? */
bool hlk_cluster_keeps(const struct hlk_cluster *cluster, unsigned server);
/* Sets who keeps the slot. True: it was another one, and that is noted in `moved`. */
bool hlk_cluster_set(struct hlk_cluster *cluster, unsigned slot, unsigned server);
/* Is the lock's slot among those that have just moved? In the owner's verify_moved only. */
bool hlk_cluster_moved(const struct hlk_cluster *cluster, const char *name, size_t len);

/* The node whose entries, releases and messages this one's are. */
static inline struct hlk_node *hlk_node_home(struct hlk_node *node)
{
    return node->cluster ? node->cluster->home : node;
}

/* Server i of the node: of a cluster's home all of its servers, else itself. NULL: there are no more. */
static inline struct hlk_node *hlk_node_server(struct hlk_node *node, unsigned i)
{
    if (!node->cluster)
        return i == 0 ? node : NULL;
    return i < atomic_load(&node->cluster->count) ? node->cluster->servers[i] : NULL;
}

/* False: of a cluster whose map of slots was not read yet. */
static inline bool hlk_cluster_known(const struct hlk_node *node)
{
    return !node->cluster || atomic_load(&node->cluster->known);
}

/* The server that keeps the lock now. */
static inline struct hlk_node *hlk_node_of(struct hlk_node *node, const char *name, size_t len)
{
    struct hlk_cluster *cluster = node->cluster;
    return cluster ? cluster->servers[atomic_load(&cluster->keepers[hlk_slot_of(name, len)])] : node;
}

/* Sets where the command goes, which is about the lock cmd->name. */
static inline void hlk_node_direct(struct hlk_node *node, struct hlk_command *cmd)
{
    cmd->pipeline = node->pipeline;
    if (!node->cluster)
        return;
    cmd->router = &node->cluster->router;
    cmd->slot = (uint16_t)hlk_slot_of(cmd->name, cmd->name_len);
    (void)hlk_command_route(cmd);
}

/* cluster_read.c */
void hlk_cluster_read_init(struct hlk_cluster *cluster);
void hlk_cluster_refresh(struct hlk_cluster *cluster);  /* any thread: the map is read again soon */

#endif
