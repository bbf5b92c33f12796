/* calls.h - what goes over the shared connection of peer.h: calls with a completion, and callers who wait. */
#ifndef HLK_TEST_CALLS_H
#define HLK_TEST_CALLS_H

#include "net/mux_inner.h"
#include "peer.h"

static struct peer peer;

static inline void calls_begin(void)
{
    peer_open(&peer);
}

static inline void calls_end(void)
{
    peer_close(&peer);
    peer_free(&peer);
}

struct asked {
    struct hlk_call call;
    int ends;
    enum hlk_call_end end;
    long long answer;
    const char *then; /* sent by the completion */
    struct hlk_call next;
};

static inline void end_of(struct hlk_call *call, struct asked *asked)
{
    asked->ends++;
    asked->end = (enum hlk_call_end)atomic_load(&call->end);
    if (call->reply) {
        asked->answer = call->reply->integer;
        freeReplyObject(call->reply);
    }
}

static inline void on_next(struct hlk_call *call)
{
    if (call->reply)
        freeReplyObject(call->reply);
}

static inline void on_done(struct hlk_call *call)
{
    struct asked *asked = HLK_CONTAINER(call, struct asked, call);
    end_of(call, asked);
    if (!asked->then)
        return;
    asked->next.done = on_next;
    asked->next.lazy = true;
    (void)hlk_mux_send(peer.mux, &asked->next, asked->then, strlen(asked->then));
}

static inline enum hlk_status ask(struct asked *asked, const char *bytes)
{
    asked->call.done = on_done;
    asked->call.lazy = true;
    return hlk_mux_send(peer.mux, &asked->call, bytes, strlen(bytes));
}

/* Callers who wait; here without threads: nobody is woken who is not asleep. */
struct caller {
    struct hlk_self self;
    struct hlk_call call;
};

static inline void call(struct caller *c, const char *bytes)
{
    memset(c, 0, sizeof *c);
    hlk_park_init(&c->self.park);
    c->call.waiter = &c->self;
    cr_assert_eq(hlk_mux_send(peer.mux, &c->call, bytes, strlen(bytes)), HLK_OK);
}

static inline bool answered(struct caller *c)
{
    bool yes = atomic_load(&c->call.end) == HLK_CALL_ANSWERED;
    if (yes)
        freeReplyObject(c->call.reply);
    return yes;
}

#endif
