/* node.h - one Redis server as a client sees it: its endpoint, the shared connection, the subscriber connection with
 * the client's inbox, its pending releases, and the entries of the locks that it keeps.
 *
 * A client has one node for each server that it uses; all of them share the client's loop thread and events thread.
 * Which node keeps a lock is the route's answer (node/route.h). A Redis Cluster is one node of the client's, with a
 * node more for each further server (node/cluster.h). Nothing above a node knows a connection. */
#ifndef HLK_NODE_NODE_H
#define HLK_NODE_NODE_H

#include "net/pipeline.h"
#include "net/sentinels.h"
#include "net/tls.h"
#include "script/pending_release.h"
#include "wait/channel.h"

struct hlk_node;
struct hlk_cluster;
struct hlk_replicas;
struct hlk_entry;
struct hlk_entry_table;

/* What a node calls up. Read-only; all but the first and last are required. */
struct hlk_node_owner {
    void *ctx;
    /* A new connection begins, or inbox messages may have been missed: every hold is to be verified. Loop thread. */
    void (*verify)(struct hlk_node *node);
    /* In a cluster: slots have moved (hlk_cluster_moved), and every hold in them is to be verified. Loop thread. */
    void (*verify_moved)(struct hlk_node *home);
    /* An inbox message. On whichever thread reads, no mutex held. */
    void (*receive)(struct hlk_node *node, const char *message, size_t len);
    /* Dispatch mode: answers are due and no thread reads them. Any thread. NULL: no dispatch. */
    void (*on_work)(void *ctx);
};

struct hlk_node_opts {
    const char *client_id;              /* borrowed */
    const char *client_name;            /* for CLIENT SETNAME; copied */
    const char *url, *username, *password;  /* the last two may be NULL: what the URL says */
    struct hlk_credentials_source credentials;
    struct hlk_tls_opts tls;
    const char *sentinel_username, *sentinel_password;      /* may be NULL: none */
    struct hlk_log log;
    int64_t reply_timeout_ms;
    unsigned yield_every;               /* see struct hlk_releases */
    int64_t yield_ms;
    bool no_spin, listening, pubsub;
    bool in_cluster;                    /* a server of a cluster: its scripts are sharded, commands are not combined */
    unsigned wait_replicas;             /* holds count once so many replicas have them (node/replicas.h) */
};

struct hlk_node {
    struct hlk_endpoint endpoint;       /* read-only after open, like the next ones */
    struct hlk_greeting greeting;
    struct hlk_node_owner owner;
    hlk_loop *loop;
    struct hlk_sentinels sentinels;     /* with a URL of sentinels, else zero */
    hlk_pipeline *pipeline;             /* NULL: was never opened */
    struct hlk_channels channels;
    struct hlk_releases releases;
    struct hlk_replicas *replicas;      /* NULL: holds count without replicas */
    struct hlk_post verify;             /* the owner's verify, posted to the loop */
    struct hlk_cluster *cluster;        /* that it is a server of. NULL: of none */
    /* Its connection is up, for what must go first only; or it broke, or could not be made. Loop thread. May be
     * NULL */
    void (*on_link)(struct hlk_node *node, bool up);

    /* lease/: the entries of the locks that this node keeps. */
    struct hlk_entry_table *table;      /* the client's */
    struct hlk_map entries;             /* by name; under the table's mutex, like the next one */
    struct hlk_map holds;               /* of fair locks: hold id -> entry */
    /* Loop thread only: the entries to renew in this tick, oldest first; if there are any, where one is appended */
    struct hlk_entry *due, **due_end;
};

/* node is zero before. Starts nothing: the loop runs later. Not HLK_OK: hlk_node_fini is still to be called. */
enum hlk_status hlk_node_open(struct hlk_node *node, hlk_loop *loop, const struct hlk_node_opts *opts,
                              const struct hlk_node_owner *owner, struct hlk_error *error);

/* In this order: every call in flight ends, later ones are refused; after the loop has stopped, releases that are still
 * owed are given up, and the subscriber connection is closed; memory is freed. Each accepts a node that was not opened,
 * or not completely. */
void hlk_node_disconnect(struct hlk_node *node);
void hlk_node_settle(struct hlk_node *node);
void hlk_node_fini(struct hlk_node *node);

/* Until what is in flight is answered, on the connections that are there, or at_ms comes. Blocks. */
void hlk_node_drain_connected(struct hlk_node *node, int64_t at_ms);
/* Until every release that close waits for is settled, on new connections if need be, or at_ms comes. Blocks. */
void hlk_node_drain(struct hlk_node *node, int64_t at_ms);

#endif
