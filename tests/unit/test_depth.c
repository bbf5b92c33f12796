/* Nested replies, on whatever hiredis this is: refused by it or by our guard, long before the stack is in danger. */
#include "net/depth.h"

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>

static redisReader *reader;

static void init(void)
{
    reader = redisReaderCreate();
}

static void fini(void)
{
    redisReaderFree(reader);
}

TestSuite(depth, .init = init, .fini = fini);

/* Feeds n levels of nesting and asks as a connection does. */
static bool is_refused(int levels)
{
    void *reply = NULL;
    for (int i = 0; i < levels; i++)
        redisReaderFeed(reader, "*1\r\n", 4);
    bool broken = redisReaderGetReply(reader, &reply) != REDIS_OK;
    cr_assert_null(reply);
    return broken || hlk_reply_too_deep(reader);
}

Test(depth, what_redis_answers_passes)
{
    void *reply = NULL;
    cr_assert_not(is_refused(5));
    redisReaderFeed(reader, ":1\r\n", 4);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    cr_assert_not_null(reply);
    cr_assert_not(hlk_reply_too_deep(reader));
    freeReplyObject(reply);
}

Test(depth, a_reader_without_anything_passes)
{
    cr_assert_not(is_refused(0));
}

Test(depth, a_chunk_of_nesting_is_refused)
{
    cr_assert(is_refused(4096));
}

Test(depth, just_too_deep_is_refused)
{
    cr_assert(is_refused(HLK_REPLY_DEPTH + 2));
}

Test(depth, the_guard_alone_counts_levels)
{
    reader->ridx = HLK_REPLY_DEPTH;
    cr_assert_not(hlk_reply_too_deep(reader));
    reader->ridx = HLK_REPLY_DEPTH + 1;
    cr_assert(hlk_reply_too_deep(reader));
    reader->ridx = -1;
}
