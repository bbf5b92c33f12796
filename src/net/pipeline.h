/* pipeline.h - a node's shared connection: all threads' commands in one stream, no thread of its own on the way.
 *
 * A caller appends its command; if nobody leads, it leads: sends what is queued in one write, reads, gives everybody
 * their reply, and when its own is in hands the lead to a follower that still waits. Answers that nobody waits for
 * are read by the loop thread (or the user's loop, with dispatch) when no caller leads.
 *
 * A command lives in a struct hlk_call, never on its caller's stack: a caller who leaves (deadline, cancel) leaves
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
    bool lazy;                  /* nobody is waiting for `done`: no thread is woken to read its answer */
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
    HLK_PIPELINE_READYING,           /* connected; the owner's first commands go before everybody else's */
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

enum hlk_status hlk_pipeline_create(hlk_pipeline **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                    const struct hlk_greeting *greeting, const struct hlk_pipeline_owner *owner,
                                    bool no_spin, struct hlk_error *error);
void hlk_pipeline_close(hlk_pipeline *pipeline);       /* everything in it ends; later calls are refused. Any thread */
void hlk_pipeline_destroy(hlk_pipeline *pipeline);     /* after close and after the loop has stopped */

/* --- callers --- */

/* Queues a command in the living stream, and mostly writes it. HLK_OK: it is in (call->epoch is set), and will end.
 * A call with `done` may be over, and gone, on return. HLK_E_CONNECT: no connection now, nothing queued. HLK_E_NOMEM,
 * HLK_E_CLOSED: the same. Takes any thread. */
enum hlk_status hlk_pipeline_send(hlk_pipeline *pipeline, struct hlk_call *call, const char *bytes, size_t len);

/* The text (below HLK_TEXTS) was sent after that call: what is sent from now on may count on it. */
bool hlk_pipeline_text_follows(hlk_pipeline *pipeline, const struct hlk_call *call, unsigned text);

/* Waits for the end of a call whose waiter is the calling thread, leading if nobody else does. False: at_ms came, or
 * a bit of mask was set, and it is still in flight: hlk_pipeline_leave it. A cancellation point if the thread is
 * cancellable. */
bool hlk_pipeline_wait(hlk_pipeline *pipeline, struct hlk_call *call, int64_t at_ms, unsigned mask);

/* The caller goes; `done` gets the call's end (lazily). False: it has ended this moment, the caller has it. */
bool hlk_pipeline_leave(hlk_pipeline *pipeline, struct hlk_call *call, void (*done)(struct hlk_call *call));

/* For a thread that waits for lazy calls on several pipelines at once. Reads what is there, unless another thread
 * leads; does not block. The ends of calls run before it returns. */
void hlk_pipeline_poll_once(hlk_pipeline *pipeline);
/* For how long such a thread polls before it sleeps, as far as this connection is concerned. */
int64_t hlk_pipeline_spin_ns(hlk_pipeline *pipeline);
/* While on, the loop reads answers as they come: such a thread goes to sleep. Each `on` is followed by one off. */
void hlk_pipeline_expect(hlk_pipeline *pipeline, bool on);

/* Waits until connected. HLK_OK; HLK_E_CONNECT at at_ms, or HLK_E_AUTH and the like at once when the server refused us
 * (see error), and HLK_E_OS or NOMEM at once as long as it was never up; HLK_E_CLOSED; HLK_INTERRUPTED: a bit of mask.
 * A cancellation point like hlk_pipeline_wait. */
enum hlk_status hlk_pipeline_wait_up(hlk_pipeline *pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask,
                                     struct hlk_error *error);
/* The same. HLK_OK also when there were more reroutes than these. */
enum hlk_status hlk_pipeline_wait_since(hlk_pipeline *pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask,
                                        unsigned reroutes, struct hlk_error *error);
/* The same without a thread. False: up already, or closed, or more reroutes: `up` will not run. */
bool hlk_pipeline_when_up(hlk_pipeline *pipeline, struct hlk_up *up, unsigned reroutes);
bool hlk_pipeline_forget_up(hlk_pipeline *pipeline, struct hlk_up *up);        /* true: it will not run */
/* Until when a call that began then rides out that there is no connection: reconnect_timeout_ms from its start, or
 * from the loss of the connection if that was later. < 0: INT64_MAX. */
int64_t hlk_pipeline_reconnect_until(hlk_pipeline *pipeline, int64_t began_ms, int64_t reconnect_timeout_ms);
/* HLK_OK: up. Else why not: E_CONNECT while it may still come, E_AUTH..., E_CLOSED. */
enum hlk_status hlk_pipeline_health(hlk_pipeline *pipeline, struct hlk_error *error);

/* Who waits for this connection looks again where to send: another server has got what this one had. Loop thread. */
void hlk_pipeline_reroute(hlk_pipeline *pipeline);
unsigned hlk_pipeline_reroutes(hlk_pipeline *pipeline);        /* how often that was */
/* Begins to connect, if that was not begun. Shortens the long pause of hlk_pipeline_rest. Any thread. */
void hlk_pipeline_link_dial(hlk_pipeline *pipeline);
/* true: no command needs this server. While it is away, an attempt to connect is made every 5 s. The pause is the usual
 * one again when a caller waits for the connection, or calls hlk_pipeline_link_dial. Any thread. */
void hlk_pipeline_rest(hlk_pipeline *pipeline, bool rests);

/* An attempt to connect has ended, well or not. */
bool hlk_pipeline_tried(hlk_pipeline *pipeline);
/* One has ended well. */
bool hlk_pipeline_was_up(hlk_pipeline *pipeline);

uint64_t hlk_pipeline_epoch(hlk_pipeline *pipeline);           /* of the living stream */

/* Since when the server has been the same process: what was sent from then on, and answered, was answered by the
 * process that is connected now, or was last. */
int64_t hlk_pipeline_server_since(hlk_pipeline *pipeline);

/* A number for that process; 0: not known. */
uint64_t hlk_pipeline_server(hlk_pipeline *pipeline);

/* The latest moment at which that process may have started. *told: the server has said so; else it is when this client
 * met it, for the user may not run INFO. */
int64_t hlk_pipeline_server_started(hlk_pipeline *pipeline, bool *told);

/* The stream of this epoch answered with something that was not the answer: it is out of step, and ended;
 * the log says so. */
void hlk_pipeline_distrust(hlk_pipeline *pipeline, uint64_t epoch);

/* The server of this epoch is a replica, and the endpoint may mean another one by now: it is dialled anew as soon as
 * what is in flight is answered, but once in HLK_PIPELINE_REDIAL_MS. Then on_moved. */
void hlk_pipeline_look_again(hlk_pipeline *pipeline, uint64_t epoch);

/* Loop thread: the endpoint means another server now, and the one before may answer still. What is in flight ends as if
 * the connection had broken, so that nothing more is taken from that server; what is being dialled is dialled anew. */
void hlk_pipeline_move(hlk_pipeline *pipeline);

/* Everything that is in the stream now has been answered, or at_ms came (false). Blocks. */
bool hlk_pipeline_drain(hlk_pipeline *pipeline, int64_t at_ms);

/* --- dispatch: the user's loop leads --- */
/* Leads for one round without blocking: writes what is queued, reads what is there. */
void hlk_pipeline_dispatch(hlk_pipeline *pipeline);
/* While on, calls without a waiter are only queued: a push, or the next dispatch, writes them. Off writes. */
void hlk_pipeline_hold_back(hlk_pipeline *pipeline, bool on);
/* Writes what is queued, if it may be written now. Any thread. */
void hlk_pipeline_push(hlk_pipeline *pipeline);
/* Puts the socket into epoll set `epfd`, for one event, if answers are due that no caller leads for. True: something is
 * queued that nobody will write unless dispatch comes again. */
bool hlk_pipeline_arm(hlk_pipeline *pipeline, int epfd);

void hlk_pipeline_counts(hlk_pipeline *pipeline, struct hlk_pipeline_counts *sum);   /* adds to it */

#endif
