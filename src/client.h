/* client.h - the composition root: what one open client is made of. */
#ifndef HLK_CLIENT_INNER_H
#define HLK_CLIENT_INNER_H

#include "base/thread.h"
#include "hasplock/hasplock.h"
#include "lease/entry_table.h"
#include "node/route.h"
#include "wait/cancel.h"

#define HLK_RECONNECT_TIMEOUT_MS 10000

struct hlk_wait_entry {                 /* of a thread that waits for a lock: close wakes it */
    struct hlk_list link;               /* under waits_mu */
    void (*wake)(struct hlk_wait_entry *entry);
};

/* What a topology adds to a client; close and fini run once, in this order, if it is set. */
struct hlk_client_topology {
    const struct hlk_lock_group *locks; /* what its locks do (handle/handle.h) */
    char shown[32];                     /* in errors, instead of one server's URL */
    void (*close)(struct hlk_client_topology *topology, hlk_client *client);    /* what is held is to be released */
    void (*fini)(struct hlk_client_topology *topology);                         /* the loop has ended */
};

struct hlk_client {
    atomic_int refs;                    /* the opener's, each handle's, owner's, cancel's */
    unsigned process;                   /* hlk_thread_process() of its opener */
    atomic_bool closing;
    char id[HLK_FIELD_MAX - 24];
    struct hlk_log log;                 /* set by open, then read-only, like the next ones */
    int64_t reconnect_timeout_ms, reply_timeout_ms;
    atomic_bool warned_braces, warned_kinds;
    bool dispatching;                   /* completions by hlk_client_dispatch */
    bool listening;                     /* HLK_OPEN_LISTEN */
    bool pubsub;                        /* not HLK_OPEN_NO_PUBSUB */
    unsigned wait_replicas;             /* an acquire is over when so many replicas have the hold, or */
    int64_t wait_replicas_timeout_ms;   /* so long after it was acquired */

    hlk_loop *loop;
    struct hlk_node *nodes;             /* one for each server; read-only after open, like the next two */
    unsigned node_count;
    hlk_route *route;
    struct hlk_client_topology *topology;       /* NULL: none; set before another thread knows the client */
    struct hlk_events events;
    struct hlk_entry_table table;

    atomic_uint requests;               /* acquires on their way */
    struct hlk_thread *_Atomic closer;  /* woken when there are none any more */

    struct hlk_mutex waits_mu;          /* rank WAITS; guards: */
    struct hlk_list waits;

    /* -1 without dispatch. What the user's loop polls: work_fd and the shared connection */
    int epoll_fd, work_fd;
    atomic_bool work_signalled;                      /* work_fd is readable, or will be looked after by the running
                                                 * dispatch */
    _Atomic(struct hlk_thread *) dispatcher;    /* runs completions now; or NULL */
    struct hlk_mutex ready_mu;                  /* rank LEAF; guards: */
    struct hlk_list ready;                      /*   completions for hlk_client_dispatch: hlk_job */
};

/* Opens a client of several servers, whose locks are routed. Status and errors are those of hlk_client_open, which is
 * this for one URL. Without HLK_OPEN_LAZY every server has to answer. */
enum hlk_status hlk_client_open_nodes(hlk_client **out, const char *const *urls, unsigned count, hlk_route *route,
                                      const struct hlk_client_opts *opts);

/* The node that keeps the lock. */
static inline struct hlk_node *hlk_client_node(const hlk_client *client, const char *name, size_t len)
{
    return &client->nodes[client->route(name, len, client->node_count)];
}

/* Each server that the client is or may be connected to: of a cluster all that are known. */
void hlk_client_each_server(const hlk_client *client, void (*fn)(struct hlk_node *server));

/* False: in a forked child, or closed. */
static inline bool hlk_client_is_usable(const hlk_client *client)
{
    return client->process == hlk_thread_process() && !atomic_load(&client->closing);
}

/* At every public edge: HLK_OK, or HLK_E_FORKED / HLK_E_CLOSED with the thread's error set. */
enum hlk_status hlk_client_check(const hlk_client *client, const char *operation, const char *name);

void hlk_client_ref(hlk_client *client);
void hlk_client_unref(hlk_client *client);

/* A completion: on the events thread, or for the next dispatch. */
void hlk_client_complete(hlk_client *client, struct hlk_job *job);
void hlk_client_need_dispatch(hlk_client *client);           /* dispatch is wanted: any thread */

void hlk_client_warn_braces(hlk_client *client, const char *name);  /* once */
void hlk_client_warn_kinds(hlk_client *client, const char *name);   /* once */

/* Close waits for each call that is between these two. */
static inline void hlk_client_op_begin(hlk_client *client) { atomic_fetch_add(&client->requests, 1); }
void hlk_client_op_end(hlk_client *client);
void hlk_client_wait_add(hlk_client *client, struct hlk_wait_entry *entry);
void hlk_client_wait_remove(hlk_client *client, struct hlk_wait_entry *entry);

#endif
