#include "pipeline_fixture.h"

struct peer peer;

void calls_begin(void)
{
    peer_open(&peer);
}

void calls_end(void)
{
    peer_close(&peer);
    peer_free(&peer);
}

static void end_of(struct hlk_call *call, struct asked *asked)
{
    asked->ends++;
    asked->end = (enum hlk_call_end)atomic_load(&call->end);
    if (call->reply) {
        asked->answer = call->reply->integer;
        freeReplyObject(call->reply);
    }
}

static void on_next(struct hlk_call *call)
{
    if (call->reply)
        freeReplyObject(call->reply);
}

void on_done(struct hlk_call *call)
{
    struct asked *asked = HLK_CONTAINER(call, struct asked, call);
    end_of(call, asked);
    if (!asked->then)
        return;
    asked->next.done = on_next;
    asked->next.lazy = true;
    (void)hlk_pipeline_send(peer.pipeline, &asked->next, asked->then, strlen(asked->then));
}

enum hlk_status ask(struct asked *asked, const char *bytes)
{
    asked->call.done = on_done;
    asked->call.lazy = true;
    return hlk_pipeline_send(peer.pipeline, &asked->call, bytes, strlen(bytes));
}

void call(struct caller *c, const char *bytes)
{
    memset(c, 0, sizeof *c);
    hlk_park_init(&c->self.park);
    c->call.waiter = &c->self;
    cr_assert_eq(hlk_pipeline_send(peer.pipeline, &c->call, bytes, strlen(bytes)), HLK_OK);
}

bool answered(struct caller *c)
{
    bool yes = atomic_load(&c->call.end) == HLK_CALL_ANSWERED;
    if (yes)
        freeReplyObject(c->call.reply);
    return yes;
}
