/* round.h - one command to all masters at once, and the count of their answers.
 *
 * A round is decided as soon as a majority has said yes, or as soon as that is impossible. Answers that come later are
 * still read: what they granted is known to the release. Each vote has the memory for its release in it, so that
 * nothing is left behind for want of memory. The round lives until its last command and its last release have ended.
 *
 * While its hold lasts, masters that have not granted it are asked again (hlk_round_retake), by the same votes. The
 * thread that sends such a command marks the vote as `sending` first. A release that finds it so is sent by that
 * thread, behind the command. After the release was decided nothing is asked again. */
#ifndef HLK_QUORUM_ROUND_H
#define HLK_QUORUM_ROUND_H

#include "quorum/quorum.h"

enum hlk_vote_state {
    HLK_VOTE_IN_FLIGHT,
    HLK_VOTE_RESEND,            /* it was not run: its sender is to send it again */
    HLK_VOTE_YES,
    HLK_VOTE_NO,                /* acquire: others hold it; renewal: it is not held there */
    HLK_VOTE_FAILED             /* error */
};

struct hlk_vote {
    struct hlk_command cmd;
    struct hlk_release release;
    struct hlk_round *round;
    struct hlk_renewal renewal;
    uint64_t epoch;             /* the sender's: of the stream that it was sent in last; 0: never sent */
    int64_t sent_ms;            /* the sender's: before its last send */

    enum hlk_vote_state state;  /* under the round's mutex, like the next ones */
    void (*again)(struct hlk_vote *vote);   /* RESEND: sends it; NULL: the round's owner does */
    bool sending;               /* a thread is asking it again now */
    bool had;                   /* acquire: it has said yes, so a release is due whatever it says later */
    bool doubt;                 /* it may have run, or may run yet */
    bool for_good;              /* FAILED: asking again would not help */
    bool young;                 /* FAILED: the master counts from a moment on that is known */
    size_t holder_len;          /* NO: whose it is; 0: not known */
    char holder[HLK_FIELD_MAX];
    struct hlk_error error;
};

struct hlk_round {
    struct hlk_quorum *quorum;  /* referenced */
    atomic_int refs;            /* its owner's, and one for each call and each release on its way */
    uint64_t hold;
    int64_t sent_ms;            /* before the first send */
    int64_t ttl_ms;
    int64_t release_at_ms;      /* of a lost hold, set before its release: when that is sent; 0: at once */
    int64_t keep_ms;            /* acquire: the longest ttl that a master was asked for so far, also by extensions */
    unsigned n, need;
    bool acquires;              /* else it renews */
    bool eager;                 /* no thread waits for it: the loop reads its answers as they come */
    /* Or NULL; any thread, no mutex held: */
    void (*on_decided)(struct hlk_round *round);    /* once */
    void (*on_released)(struct hlk_round *round);   /* once; hlk_round_released knows it */
    void (*on_no)(struct hlk_round *round, unsigned i);     /* master i has said no */
    void *ctx;                  /* for them */
    atomic_bool decided, wants_resend;
    /* of the releases */
    atomic_bool released;       /* it is decided whether a majority is free */
    struct hlk_alarm alarm;     /* `alarmed`: node_timeout_ms after the releases were sent */
    struct hlk_post end;
    bool alarmed;

    struct hlk_mutex mu;        /* rank ROUND; guards: */
    struct hlk_waker *waker;    /*   set by hlk_round_watch */
    unsigned yes, open;         /*   answers; those that are still to come */
    int64_t release_until_ms;   /* 0: no release yet; else for how long it is repeated, and: */
    bool release_eager;
    unsigned freed, absent, refused, settled, releases;
    struct hlk_error refusal;   /*   of a release */
    struct hlk_vote votes[];
};

/* Everything is set but sent_ms. NULL: no memory. */
struct hlk_round *hlk_round_make(struct hlk_quorum *quorum, bool acquires, uint64_t hold, int64_t ttl_ms);
void hlk_round_ref(struct hlk_round *round);
void hlk_round_unref(struct hlk_round *round);

/* Sends to all. A master that may have lost its data by a restart is not asked to acquire. */
void hlk_round_send(struct hlk_round *round);

/* From now on the waker gets HLK_WAKE_SETTLED when the round is decided, when something is to be sent again, and when
 * it is released. NULL: none, and the one before may be freed. */
void hlk_round_watch(struct hlk_round *round, struct hlk_waker *waker);

/* Sends again what was not run (wants_resend). Only for the round's owner, and before its release. */
void hlk_round_resend(struct hlk_round *round);

/* Waits until it is decided, wants_resend, a bit of mask is set, or at_ms comes. It is watched by that thread. */
void hlk_round_wait(struct hlk_round *round, struct hlk_thread *self, unsigned mask, int64_t at_ms);

/* Sends to one of them. `sending` ends: the release that was decided meanwhile is sent. For round_retake.c. */
void hlk_vote_ask(struct hlk_vote *vote);

/* Wakes the thread that waits for it. */
void hlk_round_wake(struct hlk_round *round);

/* A majority said yes. */
bool hlk_round_won(struct hlk_round *round);
/* So many masters said no to a renewal that no majority has the hold. */
bool hlk_round_absent(struct hlk_round *round);

/* Waits for that until at_ms. It is watched by that thread. */
void hlk_round_wait_released(struct hlk_round *round, struct hlk_thread *self, int64_t at_ms);

#endif
