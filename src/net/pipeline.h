/* pipeline.h - a node's shared connection: all threads' commands in one stream, no thread of its own on the way.
 *
 * A caller appends its command; if no thread leads, it leads: sends what is queued in one write, reads, gives each
 * caller its reply, and when its own is in hands the lead to a follower that still waits. Answers that no thread waits
 * for are read by the loop thread (or the user's loop, with dispatch) when no caller leads.
 *
 * A command lives in a struct hlk_call, never on its caller's stack: a caller that leaves (deadline, cancel) leaves
 * it in the stream, where its reply is still counted. One stream lives for one epoch; when it breaks every call in
 * it ends, and says whether it may have reached the server. */
#ifndef HLK_NET_PIPELINE_H
#define HLK_NET_PIPELINE_H

#include "base/mutex.h"
#include "base/thread.h"
#include "net/backoff.h"
#include "net/dial.h"
#include "net/spin.h"

#define HLK_PIPELINE_REDIAL_MS 500
#define HLK_BATCH_MAX 16     /* calls in one command: it runs for as long as so many short scripts */
#define HLK_BATCH_REFUSED (-2)
#define HLK_TEXTS 64         /* numbers of scripts, from 1 */

enum hlk_call_end {
    HLK_CALL_IN_FLIGHT = 0,
    HLK_CALL_ANSWERED,          /* reply is there */
    HLK_CALL_UNSENT,            /* the connection broke before it was written: it did not happen */
    HLK_CALL_BROKEN             /* written, not answered, connection reset: it may have happened, or happen yet */
};

struct hlk_call {
    struct hlk_list link;       /* pipeline's flight, in the order of the stream */
    struct hlk_thread *waiter;  /* blocking: this thread. NULL: `done` gets it */
    /* on the leader's thread, no mutex held; quick; owns the call from then on */
    void (*done)(struct hlk_call *call);
    redisReply *reply;          /* the receiver's to free */
    int64_t sent_ns;            /* taken just before the write that carried it; 0: not written yet */
    uint64_t epoch;             /* of the stream it is in */
    atomic_int end;             /* enum hlk_call_end */
    bool last_of_write;
    bool skips;                 /* its bytes are two commands, and the reply to the first one is dropped */
    bool lazy;                  /* no thread waits for `done`: no thread is woken to read its answer */
    bool map;                   /* its reply is the map of a cluster's slots */
    uint8_t text;               /* not 0: what it carries makes the server know text `text` (a script) from then on */
    uint64_t place;             /* the pipeline's: counts all calls that it sent */
    /* not 0: it may be sent in one batch with its neighbours. ANSWERED without a reply: the batch was refused, nothing
     * was done; the caller resends it with batch_letter 0 */
    char batch_letter;
    unsigned keys_at, args_at, args_end;    /* batch_letter: where, among its bytes, its keys and arguments are */
    unsigned len;                           /* the pipeline's: all its bytes, */
    unsigned batch_size;                    /* and on the first call of a batch how many calls that has, else 0 */
};

enum hlk_pipeline_state {
    HLK_PIPELINE_IDLE,               /* not asked for yet */
    HLK_PIPELINE_DOWN,               /* dialling, or waiting to dial again */
    HLK_PIPELINE_READYING,           /* connected; the owner's first commands go before all other ones */
    HLK_PIPELINE_UP,
    HLK_PIPELINE_LEAVING,            /* nothing more is written; when what was written is answered it ends, and is
                                      * dialled */
    HLK_PIPELINE_CLOSED
};

enum hlk_lead { HLK_LEAD_FREE, HLK_LEAD_LOOP, HLK_LEAD_TAKEN };     /* LOOP: taken, but any caller may have it */

typedef struct hlk_pipeline hlk_pipeline;

struct hlk_pipeline_owner {
    void *ctx;
    void (*on_up)(void *ctx);                               /* loop thread, READYING: what must go first */
    void (*on_down)(void *ctx, const struct hlk_error *why);/* loop thread; also after each failed attempt */
    /* loop thread, after on_up: hlk_pipeline_look_again led to it */
    void (*on_moved)(void *ctx);
    /* Dispatch mode: the user's loop has answers to read, or commands to write. Also while a round that does not block
     * has the lead, and again at its end. Any thread */
    void (*on_work)(void *ctx);
    /* Appends n >= 2 calls with a batch_letter, whose bytes are at `bytes` one behind the other, as one command, which
     * is answered by an array: an answer for each, HLK_BATCH_REFUSED for what has to be sent by itself. whole: the
     * server does not know the script. False: no memory, nothing appended. The pipeline's mutex is held. NULL: nothing
     * is batched */
    bool (*build_batch)(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n,
                        bool whole);
};

/* Waits for the connection without a thread; `up` runs on the loop thread once it is up or known to be refused. */
struct hlk_up {
    struct hlk_list link;
    void (*run)(struct hlk_up *up);
};

struct hlk_pipeline_counts { uint64_t commands, writes, reconnects, connected; };     /* connected: 1 or 0, now */

/* --- callers --- */

/* Queues a command in the living stream, and mostly writes it. HLK_OK: it is in (call->epoch is set), and will end.
 * A call with `done` may be over, and gone, on return. HLK_E_CONNECT: no connection now, nothing queued. HLK_E_NOMEM,
 * HLK_E_CLOSED: the same. Takes any thread. */
enum hlk_status hlk_pipeline_send(hlk_pipeline *pipeline, struct hlk_call *call, const char *bytes, size_t len);

/* The text (below HLK_TEXTS) was sent after that call: what is sent from now on may count on it. */
bool hlk_pipeline_text_follows(hlk_pipeline *pipeline, const struct hlk_call *call, unsigned text);

uint64_t hlk_pipeline_epoch(hlk_pipeline *pipeline);           /* of the living stream */

/* The server of this epoch is a replica, and the endpoint may mean another one by now: it is dialled anew as soon as
 * what is in flight is answered, but once in HLK_PIPELINE_REDIAL_MS. Then on_moved. */
void hlk_pipeline_look_again(hlk_pipeline *pipeline, uint64_t epoch);

void hlk_pipeline_counts(hlk_pipeline *pipeline, struct hlk_pipeline_counts *sum);   /* adds to it */

/* --- for the other files of the pipeline --- */

/* mu held; lets go of it while it writes */
void hlk_pipeline_flush(struct hlk_pipeline *pipeline);

/* the leader, mu not held: 1, 0, -1 */
int hlk_pipeline_read(struct hlk_pipeline *pipeline, struct hlk_error *error);

/* the leader: goes on with a write that was not taken whole */
bool hlk_pipeline_write_rest(struct hlk_pipeline *pipeline, struct hlk_error *error);

/* the leader, mu not held; not leader after it */
void hlk_pipeline_broke(struct hlk_pipeline *pipeline, const struct hlk_error *why);

/* mu held, the leader: to a follower, the loop, or none */
void hlk_pipeline_give_lead(struct hlk_pipeline *pipeline);

/* mu held */
void hlk_pipeline_set_lead(struct hlk_pipeline *pipeline, enum hlk_lead lead, struct hlk_thread *leader);

/* mu held, let go of while it sleeps: until a sender is through, the lead is given on or an end has been told */
void hlk_pipeline_await_change(struct hlk_pipeline *pipeline);

/* mu held, the leader; *dead_ns INT64_MAX: nothing due */
bool hlk_pipeline_overdue(const struct hlk_pipeline *pipeline, int64_t now_ns, int64_t *dead_ns);
void hlk_pipeline_end_all(struct hlk_pipeline *pipeline, enum hlk_pipeline_state state);    /* mu held; lets go of it */

/* mu held: nothing more is written, and when the stream ends, for `why`, another is dialled */
void hlk_pipeline_leave_server(struct hlk_pipeline *pipeline, const char *why);

#endif
