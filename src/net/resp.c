#include "net/resp.h"

#include "base/debug.h"
#include "base/mem.h"

#include <string.h>

#if HIREDIS_MAJOR == 0
typedef int elements_fn_count;
#else
typedef size_t elements_fn_count;
#endif

struct hlk_resp {
    redisReader *hiredis;
    redisReplyObjectFunctions functions; /* ours, which call these: */
    redisReplyObjectFunctions make;
    size_t elements; /* announced so far by the current reply, at all levels */
    size_t bytes;    /* of an incomplete reply */
    bool ends;       /* a line has ended since the last parse: every item ends with a line */
    bool too_large;
    bool map;   /* hlk_resp_expect_map */
    bool skips; /* the current reply is a map with too many elements: nothing more of it is kept */
};

/* --- hiredis makes the objects of a reply by these --- */

/* In place of what is skipped. hiredis takes NULL for a lack of memory. */
static redisReply nothing;

/* Checks the limits before memory is taken for the elements, and before the next level. */
static void *make_array(const redisReadTask *task, elements_fn_count n)
{
    struct hlk_resp *resp = task->privdata;
    size_t limit = resp->map ? HLK_MAP_ELEMENTS : HLK_REPLY_ELEMENTS;
    bool many = (size_t)n > limit || resp->elements > limit - (size_t)n;
    resp->skips |= many && resp->map;
    if ((many && !resp->map) || resp->hiredis->ridx >= HLK_REPLY_DEPTH) {
        resp->too_large = true;
        return NULL;
    }
    if (resp->skips)
        return &nothing;
    resp->elements += (size_t)n;
    return resp->make.createArray(task, n);
}

static bool skips(const redisReadTask *task)
{
    return ((const struct hlk_resp *)task->privdata)->skips;
}

static void *make_string(const redisReadTask *task, char *text, size_t len)
{
    return skips(task) ? &nothing : ((struct hlk_resp *)task->privdata)->make.createString(task, text, len);
}

static void *make_integer(const redisReadTask *task, long long number)
{
    return skips(task) ? &nothing : ((struct hlk_resp *)task->privdata)->make.createInteger(task, number);
}

static void *make_nil(const redisReadTask *task)
{
    return skips(task) ? &nothing : ((struct hlk_resp *)task->privdata)->make.createNil(task);
}

#if HIREDIS_MAJOR > 0
static void *make_double(const redisReadTask *task, double number, char *text, size_t len)
{
    return skips(task) ? &nothing : ((struct hlk_resp *)task->privdata)->make.createDouble(task, number, text, len);
}

static void *make_bool(const redisReadTask *task, int value)
{
    return skips(task) ? &nothing : ((struct hlk_resp *)task->privdata)->make.createBool(task, value);
}
#endif

static void free_object(void *object)
{
    if (object != &nothing)
        freeReplyObject(object);
}

static void set_functions(struct hlk_resp *resp)
{
    resp->make = *resp->hiredis->fn;
    resp->functions = resp->make;
    resp->functions.createArray = make_array;
    resp->functions.createString = make_string;
    resp->functions.createInteger = make_integer;
    resp->functions.createNil = make_nil;
#if HIREDIS_MAJOR > 0
    resp->functions.createDouble = make_double;
    resp->functions.createBool = make_bool;
#endif
    resp->functions.freeObject = free_object;
    resp->hiredis->fn = &resp->functions;
    resp->hiredis->privdata = resp;
}

/* --- */

struct hlk_resp *hlk_resp_create(void)
{
    struct hlk_resp *resp = hlk_mem_zalloc(sizeof *resp);
    redisReader *hiredis = resp ? redisReaderCreate() : NULL;
    if (!hiredis) {
        hlk_mem_free(resp);
        return NULL;
    }
    resp->hiredis = hiredis;
    set_functions(resp);
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

/* In place of a map that was skipped. NULL: no memory. */
static redisReply *refusal(const struct hlk_resp *resp)
{
    HLK_DEBUG_ASSERT(resp->skips);
    static char text[] = "ERR the map of the slots has more elements than any that is read";
    const redisReadTask task = { .type = REDIS_REPLY_ERROR };
    return resp->make.createString(&task, text, sizeof text - 1);
}

redisReply *hlk_resp_next(struct hlk_resp *resp, const char **why)
{
    void *reply = NULL;
    /* hiredis searches for the end of a line from its start each time, so an endless line would cost quadratic time */
    bool failed = resp->ends && redisReaderGetReply(resp->hiredis, &reply) != REDIS_OK;
    resp->ends = reply != NULL;
    if (reply && resp->skips) {
        free_object(reply);
        reply = refusal(resp);
        failed = !reply;
        resp->skips = false;
    }
    if (!reply && resp->bytes > (resp->map ? HLK_MAP_BYTES : HLK_REPLY_BYTES))
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

void hlk_resp_expect_map(struct hlk_resp *resp, bool on)
{
    resp->map = on;
}

size_t hlk_resp_amid(const struct hlk_resp *resp)
{
    return resp->bytes;
}
