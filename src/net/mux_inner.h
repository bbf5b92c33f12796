/* mux_inner.h - the shared connection's insides, for mux.c (the stream and its lead) and mux_link.c (its life). */
#ifndef HLK_NET_MUX_INNER_H
#define HLK_NET_MUX_INNER_H

#include "net/mux.h"

/* with so few callers a command is written at once; with more they wait for the write before */
#define HLK_MUX_FEW 8
#define HLK_MUX_WRITES 2        /* and so many writes may be unanswered then */
/* Who was combined in vain has to ask twice: for each such one so many calls are not combined, up to as many in all */
#define HLK_ALONE_EACH 8
#define HLK_ALONE_MOST 1024

struct hlk_mux {
    hlk_loop *loop;                     /* borrowed, like the next ones; read-only after create */
    const struct hlk_endpoint *endpoint;
    const struct hlk_greeting *greeting;
    struct hlk_mux_owner owner;
    int kick_fd;                        /* wakes a leader that polls */

    struct hlk_mutex mu;                /* rank MUX; guards: */
    enum hlk_mux_state state;
    enum hlk_lead lead;
    struct hlk_self *leader;            /*   when TAKEN by a caller; NULL: the loop or a dispatcher, for a moment */
    struct hlk_list flight;             /*   calls in the stream */
    struct hlk_list followers;          /*   selves that wait for their reply, newest last */
    struct hlk_list waiting_up;         /*   selves that wait for the connection */
    struct hlk_list whens;              /*   hlk_up */
    struct hlk_buffer queued;           /*   commands not yet given to a write */
    struct hlk_call *first_unsent;      /*   of the flight */
    bool sending;                       /*   somebody is in send(): `wire` and the socket's sending side are theirs */
    bool stuffed;                       /*   `wire` was not taken whole: the leader goes on when it is writable */
    bool corked;                        /*   the leader writes soon, all at once */
    bool batching;                      /*   a dispatch runs completions: what they send leaves in few writes */
    /*   threads that tell the ends of a stream that is over: close waits for them */
    unsigned telling;
    unsigned callers;                   /*   blocking calls in flight */
    unsigned eager;                     /*   calls in flight whose `done` somebody waits for */
    unsigned writes;                    /*   unanswered writes */
    int64_t heard_ns;                   /*   when the last byte came */
    int64_t up_ms;                      /*   when this stream began */
    bool moving;                        /*   the one before was left to look again */
    uint64_t epoch;
    bool combine_whole;                 /*   the server has lost the script of combined calls */
    unsigned alone;                     /*   so many calls are not combined */
    struct hlk_spin spin;
    struct hlk_error error;             /*   why it is down */
    struct hlk_mux_counts counts;

    struct hlk_conn conn;               /* the leader's; its socket also the sender's */
    struct hlk_buffer wire;             /* the sender's */

    struct hlk_dial dial;               /* loop thread only, like the rest */
    struct hlk_backoff backoff;
    struct ev_timer redial;
    struct ev_io io;                    /* while lead is LOOP */
    struct hlk_tick tick;
    int64_t looked_ms;
    struct hlk_conn dead;               /* under mu: broken, to be closed by the loop */
    struct hlk_post adopt, broken;
};

#define HLK_REPLIES 32          /* taken in one round */
#define HLK_ENDS_MOST (HLK_REPLIES * HLK_COMBINE_MOST)

/* What ended in one round: woken and called after mu was let go. */
struct hlk_ends {
    struct hlk_list calls;              /* with `done` */
    struct hlk_self *waiters[HLK_ENDS_MOST];
    unsigned waiting;
};

void hlk_mux_flush(struct hlk_mux *mux);                                /* mu held; lets go of it while it writes */
int hlk_mux_read(struct hlk_mux *mux, struct hlk_error *error);         /* the leader, mu not held: 1, 0, -1 */
/* the leader: goes on with a write that was not taken whole */
bool hlk_mux_unstuff(struct hlk_mux *mux, struct hlk_error *error);
/* the leader, mu not held; not leader after it */
void hlk_mux_broke(struct hlk_mux *mux, const struct hlk_error *why);
/* mu held, the leader: to a follower, the loop, nobody */
void hlk_mux_give_lead(struct hlk_mux *mux);
/* mu held; *dead_ns INT64_MAX: nothing due */
bool hlk_mux_overdue(const struct hlk_mux *mux, int64_t now_ns, int64_t *dead_ns);
void hlk_mux_end_all(struct hlk_mux *mux, enum hlk_mux_state state);    /* mu held; lets go of it */

struct hlk_call *hlk_mux_first(const struct hlk_mux *mux);              /* mu held: of the flight; NULL: none */
/* mu held: takes it out of the flight */
void hlk_mux_end_call(struct hlk_mux *mux, struct hlk_call *call, enum hlk_call_end end, struct hlk_ends *ends);

/* mux_combine.c; mu held */
/* Moves what is queued into `wire`, neighbours combined. False: no memory, nothing was moved */
bool hlk_mux_combine(struct hlk_mux *mux);
/* The answer of a combined command, whose calls are the first of the flight; frees it. False: it is none of such a one,
 * and they fly on */
bool hlk_mux_take_parts(struct hlk_mux *mux, redisReply *reply, struct hlk_ends *ends);

/* mux_link.c */
void hlk_mux_link_dial(struct hlk_mux *mux);    /* any thread: IDLE -> DOWN, and the loop dials */
void hlk_mux_wake_up(struct hlk_mux *mux);      /* mu held: everybody in waiting_up looks again */

#endif
