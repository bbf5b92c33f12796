/* pipeline_internal.h - the shared connection's insides, for pipeline.c (the stream), pipeline_wait.c (waiting for
 * an answer), pipeline_lead.c (reading without a waiting caller), pipeline_link.c (its life) and pipeline_batch.c. */
#ifndef HLK_NET_PIPELINE_INTERNAL_H
#define HLK_NET_PIPELINE_INTERNAL_H

#include "net/pipeline.h"

/* with so few callers a command is written at once; with more they wait for the write before */
#define HLK_PIPELINE_FEW 8
#define HLK_PIPELINE_WRITES 2        /* and so many writes may be unanswered then */
/* A call that was combined in vain is sent twice. For each such call the next 8 are not combined, 1024 at most. */
#define HLK_UNBATCHED_EACH 8
#define HLK_UNBATCHED_MAX 1024

struct hlk_pipeline {
    hlk_loop *loop;                     /* borrowed, like the next ones; read-only after create */
    const struct hlk_endpoint *endpoint;
    const struct hlk_greeting *greeting;
    struct hlk_pipeline_owner owner;
    int kick_fd;                        /* wakes a leader that polls */
    atomic_uint reroutes;               /* hlk_pipeline_reroute was called so often */
    atomic_uint maps;                   /* calls in flight whose reply is a map */

    struct hlk_mutex mu;                /* rank PIPELINE; guards: */
    enum hlk_pipeline_state state;
    enum hlk_lead lead;
    struct hlk_thread *leader;          /*   when TAKEN by a caller; NULL: the loop or a dispatcher, for a moment */
    struct hlk_list flight;             /*   calls in the stream */
    struct hlk_list followers;          /*   threads that wait for their reply, newest last */
    struct hlk_list waiting_up;         /*   threads that wait for the connection */
    struct hlk_list up_waiters;         /*   hlk_up */
    struct hlk_buffer queued;           /*   commands not yet given to a write */
    struct hlk_call *first_unsent;      /*   of the flight */
    bool sending;                       /*   a thread is in send(): `wire` and the socket's sending side are its */
    bool write_blocked;                 /*   `wire` was not taken whole: the leader goes on when it is writable */
    bool held_back;                     /*   the leader writes soon, all at once */
    bool hung_up;                       /*   the server has; the next read returns that */
    bool batching;                      /*   a dispatch runs completions: what they send leaves in few writes */
    /*   threads that report the ends of a stream that is over: close waits for them */
    unsigned reporters;
    pthread_cond_t changed;             /*   lead, sending or reporters; signalled only while a thread waits for that */
    unsigned awaiting;                  /*   these */
    unsigned callers;                   /*   blocking calls in flight */
    unsigned eager;                     /*   calls in flight whose `done` a caller waits for */
    unsigned writes;                    /*   unanswered writes */
    int64_t up_ms;                      /*   when this stream began */
    uint64_t server;                    /*   the server's process; 0: not known */
    int64_t since_ms;                   /*   it is the same since then */
    int64_t started_ms;                 /*   that process began then, at the latest */
    bool start_told;                    /*   by the server; else it is when we met it */
    unsigned expecting;                 /*   threads that wait for calls of others' (hlk_pipeline_expect) */
    int64_t sent_ns;                    /*   when the last write began, in whichever stream */
    int64_t down_ms;                    /*   not UP: since then */
    bool moving;                        /*   the one before was left to look again */
    bool rests;                         /*   hlk_pipeline_rest */
    bool resting;                       /*   the pause before the next attempt to connect is the long one */
    bool needed;                        /*   a connection is needed meanwhile: the loop shortens that pause */
    uint64_t epoch;
    uint64_t places;                    /*   calls that were sent */
    uint64_t texts[HLK_TEXTS];          /*   the last one that carried each text; 0: none */
    bool batch_script_lost;             /*   the server does not know the script of combined calls any more */
    unsigned unbatched_left;            /*   so many calls are not combined */
    struct hlk_spin spin;
    struct hlk_error error;             /*   why it is down */
    struct hlk_pipeline_counts counts;

    struct hlk_conn conn;               /* the leader's; its socket also the sender's */
    struct hlk_buffer wire;             /* the sender's */

    struct hlk_dial dial;               /* loop thread only, like the rest */
    struct hlk_backoff backoff;
    struct ev_timer redial;
    struct hlk_watch io;                /* for all that comes while lead is LOOP, else for the end of it */
    struct ev_timer silence;            /* while lead is LOOP: no byte has come for so long */
    struct hlk_tick tick;
    struct hlk_conn dead;               /* under mu: broken, to be closed by the loop */
    struct hlk_post adopt, broken;
};

#define HLK_REPLIES 32          /* taken in one round */
#define HLK_ENDS_MAX (HLK_REPLIES * HLK_BATCH_MAX)

/* What ended in one round: woken and called after mu was let go. */
struct hlk_ends {
    struct hlk_list calls;              /* with `done` */
    struct hlk_thread *waiters[HLK_ENDS_MAX];
    unsigned waiting;
};

#endif
