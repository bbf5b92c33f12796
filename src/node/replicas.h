/* replicas.h - holds that count only once the server's replicas have them: WAIT, on a connection of its own.
 *
 * WAIT blocks its whole connection, so it is never sent on the shared one. It answers how many replicas have
 * acknowledged the last write of its own connection, or, on servers before 7.2, its last command. So a round of this
 * connection is a write for each hold (lock_reacquire with the same count: it changes nothing that is read, and
 * is replicated), and one WAIT for all of them. The writes also find out whether this server has the holds at all: a
 * connection that follows to a new master must not confirm what only the old one had. Holds that come while a WAIT is
 * in flight share the next round. None of them loses by that: a replica that has the later write has the earlier one.
 *
 * Nothing here reads from a replica. */
#ifndef HLK_NODE_REPLICAS_H
#define HLK_NODE_REPLICAS_H

#include "script/engine.h"

enum hlk_replicated {
    HLK_REPLICATED_PENDING,
    HLK_REPLICATED_DONE,            /* enough replicas have it */
    HLK_REPLICATED_SHORT,           /* its time is over */
    HLK_REPLICATED_GONE,            /* the server does not have the hold */
    HLK_REPLICATED_FAILED           /* refused for good: error */
};

struct hlk_replicas;

struct hlk_replica_wait {           /* heap; one hold that is to be confirmed */
    struct hlk_list link;           /* under the replicas' mutex, like the next ones */
    struct hlk_replicas *replicas;
    unsigned refs;                  /* the caller's, and the round's */
    enum hlk_replicated outcome;
    int acknowledged;               /* by the last WAIT; < 0: none was answered */
    void (*wake)(void *ctx);        /* under that mutex: only wakes; outcome is set */
    void *ctx;
    int64_t until_ms;
    struct hlk_error error;
    struct hlk_command cmd;         /* the write; the round's, like the next one */
    enum hlk_progress progress;
    bool written;                   /* the server has the hold, and has written it anew */
    bool in_flight;                 /* in which list it is */
    char name[];
};

struct hlk_replicas {
    hlk_loop *loop;
    hlk_pipeline *pipeline;
    const char *client_id;
    unsigned need;                  /* so many replicas */
    int64_t reply_timeout_ms;

    struct hlk_mutex mu;            /* rank RELEASES; guards: */
    struct hlk_list waiting;        /*   for the next round */
    struct hlk_list in_flight;      /*   of the round that is under way; only the round changes this one */
    bool busy;                      /*   there is one */

    atomic_uint calls;              /* of the round that have not ended, and its sender */
    struct hlk_call wait;           /* its WAIT */
    int64_t begun_ms, wait_ms;
    int acknowledged;               /* < 0: not answered */
    struct hlk_error error;         /* WAIT was refused; HLK_OK: it was not */
    struct hlk_post post;
    struct hlk_alarm alarm;
    struct hlk_up up;
};

/* Like the node's shared connection, and connected at once. Before the loop is started, or on its thread. */
enum hlk_status hlk_replicas_open(struct hlk_replicas **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                  const struct hlk_greeting *greeting, const char *client_id, unsigned need,
                                  struct hlk_error *error);
/* Another server is the master now: dials anew. Loop thread. NULL is fine. */
void hlk_replicas_move(struct hlk_replicas *replicas);
/* As hlk_node_disconnect, hlk_node_fini. NULL is fine. */
void hlk_replicas_disconnect(struct hlk_replicas *replicas);
void hlk_replicas_free(struct hlk_replicas *replicas);

/* The lock `name` is held by `hold`: confirmed, or not by until_ms. reacquire: of the lock's format. wake comes once.
 * NULL: no memory. Any thread. */
struct hlk_replica_wait *hlk_replicas_begin(struct hlk_replicas *replicas, const struct hlk_command_type *reacquire,
                                            const char *name, size_t len, uint64_t hold, int64_t until_ms,
                                            void (*wake)(void *ctx), void *ctx);
/* *acknowledged: so many replicas had it when WAIT was last answered; < 0: not known. error: of FAILED. */
enum hlk_replicated hlk_replicas_outcome(struct hlk_replica_wait *wait, int *acknowledged, struct hlk_error *error);
/* The caller's last call, at any time. No wake after it. */
void hlk_replicas_end(struct hlk_replica_wait *wait);

#endif
