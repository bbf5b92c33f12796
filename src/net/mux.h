/* mux.h - a node's shared connection: all threads' commands in one stream, no thread of its own on the way.
 *
 * A caller appends its command; if nobody leads, it leads: sends what is queued in one write, reads, gives everybody
 * their reply, and when its own is in hands the lead to a follower that still waits. Answers that nobody waits for
 * are read by the loop thread (or the user's loop, with dispatch) when no caller leads.
 *
 * A command lives in a struct hlk_call, never on its caller's stack: a caller who leaves (deadline, cancel) leaves
 * it in the stream, where its reply is still counted. One stream lives for one epoch; when it breaks every call in
 * it ends, and says whether it may have reached the server. */
#ifndef HLK_NET_MUX_H
#define HLK_NET_MUX_H

#include "base/mutex.h"
#include "base/self.h"
#include "net/backoff.h"
#include "net/dial.h"
#include "net/spin.h"

#define HLK_MUX_LOOK_AGAIN_MS 500
#define HLK_COMBINE_MOST 16     /* calls in one command: it runs for as long as so many short scripts */
#define HLK_PART_ALONE (-2)

enum hlk_call_end {
    HLK_CALL_FLYING = 0,
    HLK_CALL_ANSWERED,          /* reply is there */
    HLK_CALL_UNSENT,            /* the connection broke before it was written: it did not happen */
    HLK_CALL_BROKEN             /* written, not answered, connection reset: it may have happened, or happen yet */
};

struct hlk_call {
    struct hlk_list link;       /* mux's flight, in the order of the stream */
    struct hlk_self *waiter;    /* blocking: this thread. NULL: `done` gets it */
    /* on the leader's thread, no mutex held; quick; owns the call from then on */
    void (*done)(struct hlk_call *call);
    redisReply *reply;          /* the receiver's to free */
    int64_t sent_ns;            /* taken just before the write that carried it; 0: not written yet */
    uint64_t epoch;             /* of the stream it is in */
    atomic_int end;             /* enum hlk_call_end */
    bool last_of_write;
    bool lazy;                  /* nobody is waiting for `done`: no thread is woken to read its answer */
    /* not 0: it may leave in one command with its neighbours (`combine`). If it was ANSWERED without a reply it was in
     * company, nothing was done, and it has to be sent anew with 0 in here */
    char part;
    unsigned keys_at, args_at, args_end;    /* part: where, among its bytes, its keys and its arguments are */
    unsigned len;               /* the mux's: all its bytes, */
    unsigned parts;             /* and on the first of several in one command how many these are, else 0 */
};

enum hlk_mux_state {
    HLK_MUX_IDLE,               /* not asked for yet */
    HLK_MUX_DOWN,               /* dialling, or waiting to dial again */
    HLK_MUX_READYING,           /* connected; the owner's first commands go before everybody else's */
    HLK_MUX_UP,
    HLK_MUX_LEAVING,            /* nothing more is written; when what was written is answered it ends, and is dialled */
    HLK_MUX_CLOSED
};

enum hlk_lead { HLK_LEAD_FREE, HLK_LEAD_LOOP, HLK_LEAD_TAKEN };     /* LOOP: taken, but any caller may have it */

typedef struct hlk_mux hlk_mux;

struct hlk_mux_owner {
    void *ctx;
    void (*on_up)(void *ctx);                               /* loop thread, READYING: what must go first */
    void (*on_down)(void *ctx, const struct hlk_error *why);/* loop thread; also after each failed attempt */
    void (*on_moved)(void *ctx);                            /* loop thread, after on_up: hlk_mux_look_again led to it */
    /* dispatch mode: answers are due and nobody leads. Any thread */
    void (*on_work)(void *ctx);
    /* Appends n >= 2 calls with a part, whose bytes are at `bytes` one behind the other, as one command, which is
     * answered by an array: an answer for each, HLK_PART_ALONE for what has to be asked by itself. whole: the server
     * does not know the script. False: no memory, nothing appended. The mux's mutex is held. NULL: none is combined */
    bool (*combine)(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n, bool whole);
};

/* Waits for the connection without a thread; `up` runs on the loop thread once it is up or known to be refused. */
struct hlk_up {
    struct hlk_list link;
    void (*run)(struct hlk_up *up);
};

struct hlk_mux_counts { uint64_t commands, writes, reconnects; };

enum hlk_status hlk_mux_create(hlk_mux **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                               const struct hlk_greeting *greeting, const struct hlk_mux_owner *owner, bool no_spin,
                               struct hlk_error *error);
void hlk_mux_close(hlk_mux *mux);       /* everything in it ends; later calls are refused. Any thread */
void hlk_mux_destroy(hlk_mux *mux);     /* after close and after the loop has stopped */

/* --- callers --- */

/* Queues a command in the living stream, and mostly writes it. HLK_OK: it is in (call->epoch is set), and will end.
 * A call with `done` may
 * be over, and gone, on return. HLK_E_CONNECT: no connection now, nothing queued. HLK_E_NOMEM, HLK_E_CLOSED: the
 * same. Takes any thread. */
enum hlk_status hlk_mux_send(hlk_mux *mux, struct hlk_call *call, const char *bytes, size_t len);

/* Waits for the end of a call whose waiter is the calling thread, leading if nobody else does. False: at_ms came, or
 * a bit of mask was set, and it still flies: hlk_mux_leave it. A cancellation point if the thread is cancellable. */
bool hlk_mux_wait(hlk_mux *mux, struct hlk_call *call, int64_t at_ms, unsigned mask);

/* The caller goes; `done` gets the call's end (lazily). False: it has ended this moment, the caller has it. */
bool hlk_mux_leave(hlk_mux *mux, struct hlk_call *call, void (*done)(struct hlk_call *call));

/* Waits until connected. HLK_OK; HLK_E_CONNECT at at_ms, or HLK_E_AUTH and the like at once when the server refused us
 * (see error), and HLK_E_OS or NOMEM at once as long as it was never up; HLK_E_CLOSED; HLK_INTERRUPTED: a bit of mask.
 * A cancellation point like hlk_mux_wait. */
enum hlk_status hlk_mux_wait_up(hlk_mux *mux, struct hlk_self *self, int64_t at_ms, unsigned mask,
                                struct hlk_error *error);
/* The same without a thread. False: up already (or closed), `up` will not run. */
bool hlk_mux_when_up(hlk_mux *mux, struct hlk_up *up);
bool hlk_mux_forget_up(hlk_mux *mux, struct hlk_up *up);        /* true: it will not run */
/* HLK_OK: up. Else why not: E_CONNECT while it may still come, E_AUTH..., E_CLOSED. */
enum hlk_status hlk_mux_health(hlk_mux *mux, struct hlk_error *error);

uint64_t hlk_mux_epoch(hlk_mux *mux);           /* of the living stream */

/* The stream of this epoch answered with something that was not the answer: it is out of step, and ended. */
void hlk_mux_distrust(hlk_mux *mux, uint64_t epoch);

/* The server of this epoch is a replica, and the endpoint may mean another one by now: it is dialled anew as soon as
 * what is in flight is answered, but once in HLK_MUX_LOOK_AGAIN_MS. Then on_moved. */
void hlk_mux_look_again(hlk_mux *mux, uint64_t epoch);

/* Everything that is in the stream now has been answered, or at_ms came (false). Blocks. */
bool hlk_mux_drain(hlk_mux *mux, int64_t at_ms);

/* --- dispatch: the user's loop leads --- */
/* Leads for one round without blocking: writes what is queued, reads what is there. */
void hlk_mux_dispatch(hlk_mux *mux);
/* While on, calls without a waiter are only queued: a push, or the next dispatch, writes them. Off writes. */
void hlk_mux_batch(hlk_mux *mux, bool on);
/* Writes what is queued, if it may be written now. Any thread. */
void hlk_mux_push(hlk_mux *mux);
/* Puts the socket into epoll set `epfd`, for one event, if answers are due that no caller leads for. True: something is
 * queued that nobody will write unless dispatch comes again. */
bool hlk_mux_arm(hlk_mux *mux, int epfd);

void hlk_mux_counts(hlk_mux *mux, struct hlk_mux_counts *out);

#endif
