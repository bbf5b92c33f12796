/* Several callers' commands as one. A run of a script costs the server about as much as what a simple question does in
 * it: so what is queued when a write begins leaves in as few runs as may be (script/many.h; the figures are in
 * docs/decisions/combining.md). To its caller each call stays one of its own. */
#include "net/mux_inner.h"

#include <string.h>

/* The calls from `node` on that may be one command: 1 at least. *len: their bytes. */
static unsigned gather(const struct hlk_mux *mux, struct hlk_list *node, struct hlk_call **calls, size_t *len)
{
    unsigned n = 0;
    *len = 0;
    for (; n < HLK_COMBINE_MOST && node != &mux->flight; node = node->next) {
        struct hlk_call *call = HLK_CONTAINER(node, struct hlk_call, link);
        if (n > 0 && !call->part)
            break;
        calls[n++] = call;
        *len += call->len;
        if (!call->part)
            break;
    }
    return n;
}

static bool move(struct hlk_mux *mux, const char *bytes, struct hlk_call **calls, unsigned n, size_t len)
{
    if (n == 1)
        return hlk_buffer_add(&mux->wire, bytes, len);
    if (!mux->owner.combine(&mux->wire, bytes, calls, n, mux->combine_whole))
        return false;
    mux->combine_whole = false;
    mux->counts.commands -= n - 1;
    calls[0]->parts = n;
    return true;
}

static void move_back(struct hlk_mux *mux, bool whole)
{
    mux->wire.len = mux->wire.off = 0;
    mux->combine_whole = whole;
    for (struct hlk_list *node = &mux->first_unsent->link; node != &mux->flight; node = node->next) {
        struct hlk_call *call = HLK_CONTAINER(node, struct hlk_call, link);
        mux->counts.commands += call->parts ? call->parts - 1 : 0;
        call->parts = 0;
    }
}

bool hlk_mux_combine(struct hlk_mux *mux)
{
    struct hlk_call *calls[HLK_COMBINE_MOST];
    const char *bytes = mux->queued.data;
    bool whole = mux->combine_whole;
    size_t len;
    mux->wire.len = mux->wire.off = 0; /* it has been sent */
    struct hlk_list *node = &mux->first_unsent->link;
    while (node != &mux->flight) {
        unsigned n = gather(mux, node, calls, &len);
        if (!move(mux, bytes, calls, n, len)) {
            move_back(mux, whole);
            return false;
        }
        bytes += len;
        node = calls[n - 1]->link.next;
    }
    hlk_buffer_clear(&mux->queued);
    return true;
}

/* Out of the array, which keeps what says "by itself". */
static redisReply *take_own(redisReply *reply, unsigned i)
{
    redisReply *own = reply->element[i];
    if (own->type == REDIS_REPLY_INTEGER && own->integer == HLK_PART_ALONE)
        return NULL;
    reply->element[i] = NULL;
    return own;
}

bool hlk_mux_take_parts(struct hlk_mux *mux, redisReply *reply, struct hlk_ends *ends)
{
    unsigned n = hlk_mux_first(mux)->parts;
    bool refused = reply->type == REDIS_REPLY_ERROR; /* as a whole, before it ran: in it every call is a pcall */
    bool unknown = refused && strncmp(reply->str, "NOSCRIPT", 8) == 0;
    bool broke_off = refused && strstr(reply->str, "user_script"); /* none that we know of: what was done is not told */
    bool fits = refused || (reply->type == REDIS_REPLY_ARRAY && reply->elements == n);
    mux->combine_whole |= unknown;
    for (unsigned i = 0; fits && i < n; i++) {
        struct hlk_call *call = hlk_mux_first(mux);
        call->reply = refused ? NULL : take_own(reply, i);
        if (!call->reply && !unknown && mux->alone <= HLK_ALONE_MOST - HLK_ALONE_EACH)
            mux->alone += HLK_ALONE_EACH;
        hlk_mux_end_call(mux, call, broke_off ? HLK_CALL_BROKEN : HLK_CALL_ANSWERED, ends);
    }
    freeReplyObject(reply);
    return fits;
}
