/* call.h - one question to the server by script, with as many copies of it as it takes, one at a time.
 *
 * A question is sent, its call ends, hlk_question_end says what that means: an answer, send again, wait for a
 * connection, wait a little, or a fault. Who waits, and how, is the caller's business: blocking callers and
 * completions drive the same steps. A copy that was written to a connection that broke stays in doubt: it may have
 * run, or run yet. */
#ifndef HLK_SCRIPT_CALL_H
#define HLK_SCRIPT_CALL_H

#include "net/mux.h"
#include "script/keys.h"
#include "script/reply.h"
#include "script/table.h"

#define HLK_PAUSE_MS 50             /* between two copies when the server asked us to come later */
#define HLK_VOID_MS 600000          /* how long a hold that ended in doubt is remembered */

#define HLK_PLACE_MS 300000         /* how long a place in the queue may outlive its waiter (lua/lock_acquire.lua) */
#define HLK_FAIR_PATIENCE_MS 300000 /* what a place in a fair lock's queue adds to scores: Redisson's default */

struct hlk_question {
    struct hlk_call call;           /* the copy that flies, or flew last */
    enum hlk_script script;
    const char *client_id;          /* borrowed, like name */
    const char *name;
    size_t name_len;
    uint64_t hold;
    int64_t lease_ms;               /* acquire, reacquire */
    int64_t count;                  /* reacquire; query: the most waiters that it names */
    struct hlk_member place;        /* acquire, end: its place in the queue; since_ms 0: none, it does not wait. Of
                                     * which tokens and floor concern a fenced acquire too */
    int64_t open_ms;                /* end: with an open window */
    bool fenced;                    /* acquire, end: the counter of tokens is among the keys */
    bool fair;                      /* end: of a fair lock */
    bool join;                      /* fair acquire: takes a place in the queue, or keeps it */
    bool voiding;                   /* end: with the void set */
    bool whole;                     /* the next copy carries the script's text */
    bool alone;                     /* the next copy is none of many (script/many.h) */
    bool doubt;                     /* some copy of it is in doubt */
    unsigned copies;
};

enum hlk_question_step {
    HLK_STEP_ANSWER,                /* call.reply is an answer */
    HLK_STEP_AGAIN,                 /* send another copy */
    HLK_STEP_PAUSE,                 /* the same, HLK_PAUSE_MS later; error says why */
    HLK_STEP_FAULT                  /* error; the server has not done it: not by this copy */
};

/* Formats and sends a copy. Status as hlk_mux_send; call.waiter or call.done are the caller's to set before. */
enum hlk_status hlk_question_send(struct hlk_question *q, hlk_mux *mux);

/* What the answer of a call means. One that a replica gave makes the connection look for its server again. */
enum hlk_reply_kind hlk_call_read(const struct hlk_call *call, hlk_mux *mux, struct hlk_error *error);

/* After the call has ended. Frees the reply unless it is an answer. refusals_pass: OOM and the like are worth a
 * pause. */
enum hlk_question_step hlk_question_end(struct hlk_question *q, hlk_mux *mux, bool refusals_pass,
                                        struct hlk_error *error);

/* After HLK_STEP_PAUSE: when to go on. True: with another copy; false: limit_ms, and the refusal is the answer. No copy
 * is sent so late that it would mostly be unanswered: that would make "sent, may have run" out of a refusal. */
bool hlk_question_pauses(int64_t now_ms, int64_t limit_ms, int64_t *until_ms);

/* It is not asked any more, for what *error says. If a copy may have run that is HLK_E_UNSURE, in *error too. */
enum hlk_status hlk_question_gives_up(const struct hlk_question *q, struct hlk_error *error);

void hlk_question_drop_reply(struct hlk_question *q);
static inline int64_t hlk_question_sent_ms(const struct hlk_question *q) { return q->call.sent_ns / 1000000; }

/* Blocking: asks until answered. at_ms: no longer than that; up_by_ms: no longer than that without a connection (<=
 * at_ms or not); once: a copy that broke is not repeated (HLK_E_UNSURE). HLK_OK: q->call.reply is an answer, the
 * caller's to drop. HLK_INTERRUPTED: a bit of mask. HLK_E_UNSURE, HLK_E_CLOSED: a copy may have run; any other fault:
 * none has. *left (false before the first call) says whether the call still flies: then it is the caller's to
 * hlk_mux_leave, or to ask on for, by calling again. A cancellation point if the thread is cancellable. */
struct hlk_limits { int64_t at_ms, up_by_ms; unsigned mask; bool once; bool refusals_pass; };
enum hlk_status hlk_question_ask(struct hlk_question *q, hlk_mux *mux, struct hlk_self *self,
                                 const struct hlk_limits *limits, bool *left, struct hlk_error *error);

/* The renewal of many locks in one script. */
struct hlk_renewal { const char *name; size_t name_len; uint64_t hold; int64_t lease_ms; };
enum hlk_status hlk_renewals_send(hlk_mux *mux, struct hlk_call *call, const char *client_id,
                                  const struct hlk_renewal *renewals, unsigned n, bool whole);

/* What a connection says first: SCRIPT LOAD of all, and a probe that names a missing right. */
bool hlk_scripts_greeting(struct hlk_greeting *greeting, const char *client_id);

#endif
