#include "net/resp.h"

#include "base/mem.h"

#include <string.h>

#if HIREDIS_MAJOR == 0
typedef int elements_fn_count;
#else
typedef size_t elements_fn_count;
#endif

struct hlk_resp {
    redisReader *hiredis;
    redisReplyObjectFunctions functions; /* hiredis' own, except for arrays */
    void *(*make_array)(const redisReadTask *task, elements_fn_count n);
    size_t elements; /* announced so far by the current reply, at all levels */
    size_t bytes;    /* of an incomplete reply */
    bool ends;       /* a line has ended since the last parse: every item ends with a line */
    bool too_large;
};

/* Checks the limits before memory is taken for the elements, and before the next level. */
static void *make_array(const redisReadTask *task, elements_fn_count n)
{
    struct hlk_resp *resp = task->privdata;
    if ((size_t)n > HLK_REPLY_ELEMENTS - resp->elements || resp->hiredis->ridx >= HLK_REPLY_DEPTH) {
        resp->too_large = true;
        return NULL;
    }
    resp->elements += (size_t)n;
    return resp->make_array(task, n);
}

struct hlk_resp *hlk_resp_create(void)
{
    struct hlk_resp *resp = hlk_mem_zalloc(sizeof *resp);
    redisReader *hiredis = resp ? redisReaderCreate() : NULL;
    if (!hiredis) {
        hlk_mem_free(resp);
        return NULL;
    }
    resp->hiredis = hiredis;
    resp->functions = *hiredis->fn;
    resp->make_array = resp->functions.createArray;
    resp->functions.createArray = make_array;
    hiredis->fn = &resp->functions;
    hiredis->privdata = resp;
    return resp;
}

void hlk_resp_destroy(struct hlk_resp *resp)
{
    if (!resp)
        return;
    redisReaderFree(resp->hiredis);
    hlk_mem_free(resp);
}

bool hlk_resp_feed(struct hlk_resp *resp, const char *bytes, size_t len)
{
    resp->bytes += len;
    resp->ends = resp->ends || memchr(bytes, '\n', len);
    return redisReaderFeed(resp->hiredis, bytes, len) == REDIS_OK;
}

redisReply *hlk_resp_next(struct hlk_resp *resp, const char **why)
{
    void *reply = NULL;
    /* hiredis searches for the end of a line from its start each time, so an endless line would cost quadratic time */
    bool failed = resp->ends && redisReaderGetReply(resp->hiredis, &reply) != REDIS_OK;
    resp->ends = reply != NULL;
    if (!reply && resp->bytes > HLK_REPLY_BYTES)
        resp->too_large = failed = true;
    *why = resp->too_large ? "what came was larger than any reply of ours"
           : failed        ? "what came was no reply of a Redis server"
                           : NULL;
    if (!reply)
        return NULL;
    resp->elements = 0;
    resp->bytes = resp->hiredis->len - resp->hiredis->pos;
    return reply;
}

size_t hlk_resp_amid(const struct hlk_resp *resp)
{
    return resp->bytes;
}
