#include "net/pipeline_batch.h"

#include "base/debug.h"
#include "net/pipeline_ends.h"

#include <string.h>

/* The calls from `node` on that may be one command: 1 at least. *len: their bytes. */
static unsigned pipeline_batch_gather(const struct hlk_pipeline *pipeline, struct hlk_list *node,
                                      struct hlk_call **calls, size_t *len)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(node != &pipeline->flight);
    unsigned n = 0;
    *len = 0;
    for (; n < HLK_BATCH_MAX && node != &pipeline->flight; node = node->next) {
        struct hlk_call *call = HLK_CONTAINER(node, struct hlk_call, link);
        if (n > 0 && !call->batch_letter)
            break;
        calls[n++] = call;
        *len += call->len;
        if (!call->batch_letter)
            break;
    }
    return n;
}

static bool move(struct hlk_pipeline *pipeline, const char *bytes, struct hlk_call **calls, unsigned n, size_t len)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(n > 0 && n <= HLK_BATCH_MAX);
    if (n == 1)
        return hlk_buffer_add(&pipeline->wire, bytes, len);
    if (!pipeline->owner.build_batch(&pipeline->wire, bytes, calls, n, pipeline->batch_script_lost))
        return false;
    pipeline->batch_script_lost = false;
    pipeline->counts.commands -= n - 1;
    calls[0]->batch_size = n;
    return true;
}

static void move_back(struct hlk_pipeline *pipeline, bool whole)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(pipeline->first_unsent);
    pipeline->wire.len = pipeline->wire.off = 0;
    pipeline->batch_script_lost = whole;
    for (struct hlk_list *node = &pipeline->first_unsent->link; node != &pipeline->flight; node = node->next) {
        struct hlk_call *call = HLK_CONTAINER(node, struct hlk_call, link);
        pipeline->counts.commands += call->batch_size ? call->batch_size - 1 : 0;
        call->batch_size = 0;
    }
}

bool hlk_pipeline_batch(struct hlk_pipeline *pipeline)
{
    hlk_mutex_assert_held(&pipeline->mu);
    HLK_DEBUG_ASSERT(pipeline->first_unsent);
    struct hlk_call *calls[HLK_BATCH_MAX];
    const char *bytes = pipeline->queued.data;
    bool whole = pipeline->batch_script_lost;
    size_t len;
    pipeline->wire.len = pipeline->wire.off = 0; /* it has been sent */
    struct hlk_list *node = &pipeline->first_unsent->link;
    while (node != &pipeline->flight) {
        unsigned n = pipeline_batch_gather(pipeline, node, calls, &len);
        if (!move(pipeline, bytes, calls, n, len)) {
            move_back(pipeline, whole);
            return false;
        }
        bytes += len;
        node = calls[n - 1]->link.next;
    }
    hlk_buffer_clear(&pipeline->queued);
    return true;
}

/* Out of the array, which keeps what says "by itself". */
static redisReply *take_own(redisReply *reply, unsigned i)
{
    HLK_DEBUG_ASSERT(i < reply->elements);
    redisReply *own = reply->element[i];
    if (own->type == REDIS_REPLY_INTEGER && own->integer == HLK_BATCH_REFUSED)
        return NULL;
    reply->element[i] = NULL;
    return own;
}

bool hlk_pipeline_unbatch(struct hlk_pipeline *pipeline, redisReply *reply, struct hlk_ends *ends)
{
    hlk_mutex_assert_held(&pipeline->mu);
    unsigned n = hlk_pipeline_first(pipeline)->batch_size;
    HLK_DEBUG_ASSERT(n > 1);
    bool refused = reply->type == REDIS_REPLY_ERROR; /* as a whole, before it ran: in it every call is a pcall */
    bool unknown = refused && strncmp(reply->str, "NOSCRIPT", 8) == 0;
    bool broke_off = refused && strstr(reply->str, "user_script"); /* none that we know of: what was done is not told */
    bool fits = refused || (reply->type == REDIS_REPLY_ARRAY && reply->elements == n);
    pipeline->batch_script_lost |= unknown;
    for (unsigned i = 0; fits && i < n; i++) {
        struct hlk_call *call = hlk_pipeline_first(pipeline);
        call->reply = refused ? NULL : take_own(reply, i);
        if (!call->reply && !unknown && pipeline->unbatched_left <= HLK_UNBATCHED_MAX - HLK_UNBATCHED_EACH)
            pipeline->unbatched_left += HLK_UNBATCHED_EACH;
        hlk_pipeline_end_call(pipeline, call, broke_off ? HLK_CALL_BROKEN : HLK_CALL_ANSWERED, ends);
    }
    freeReplyObject(reply);
    return fits;
}
