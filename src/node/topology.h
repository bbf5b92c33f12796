/* topology.h - of which servers a node consists, and which of them keeps a lock: itself, or those of a cluster
 * (node/cluster.h). */
#ifndef HLK_NODE_TOPOLOGY_H
#define HLK_NODE_TOPOLOGY_H

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
    atomic_uint answers_due;            /* of them; any thread */
    uint64_t settling[HLK_SLOTS / 64];  /* hlk_cluster_moved */
};

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

#endif
