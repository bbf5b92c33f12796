/* What a reader refuses, with every version of hiredis, long before memory or stack run out. */
/* Shows: P28 */
#include "net/resp.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hlk_resp *resp;
static const char *why;

static void init(void)
{
    resp = hlk_resp_create();
}

static void fini(void)
{
    hlk_resp_destroy(resp);
}

TestSuite(resp, .init = init, .fini = fini, .timeout = 20);

static void feed(const char *bytes)
{
    cr_assert(hlk_resp_feed(resp, bytes, strlen(bytes)));
}

/* As a connection does: feeds a part, takes the replies, and so on. True: refused. */
static bool feed_often(const char *bytes, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        feed(bytes);
        redisReply *reply;
        while ((reply = hlk_resp_next(resp, &why)))
            freeReplyObject(reply);
        if (why)
            return true;
    }
    return false;
}

static redisReply *next(void)
{
    redisReply *reply = hlk_resp_next(resp, &why);
    cr_assert_null(why, "%s", why);
    return reply;
}

static void expect_integer(long long number)
{
    redisReply *reply = next();
    cr_assert(reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == number);
    freeReplyObject(reply);
}

Test(resp, gives_whole_replies_in_their_order)
{
    feed(":1\r\n:2\r\n*2\r\n:3\r\n");
    expect_integer(1);
    expect_integer(2);
    cr_assert_null(next());
    feed(":4\r\n");
    redisReply *reply = next();
    cr_assert_eq(reply->elements, 2u);
    freeReplyObject(reply);
    cr_assert_null(next());
}

Test(resp, knows_how_much_of_a_reply_is_there)
{
    cr_assert_eq(hlk_resp_amid(resp), 0u);
    feed(":1\r\n:2");
    cr_assert_null(why);
    expect_integer(1);
    cr_assert_null(next());
    cr_assert_eq(hlk_resp_amid(resp), 2u);
    feed("\r\n");
    expect_integer(2);
    cr_assert_eq(hlk_resp_amid(resp), 0u);
}

Test(resp, refuses_what_is_no_reply)
{
    cr_assert(feed_often("HTTP/1.1 200 OK\r\n", 1));
    cr_assert(strstr(why, "no reply of a Redis server"));
}

/* --- nesting */

Test(resp, takes_the_nesting_that_redis_answers)
{
    cr_assert_not(feed_often("*1\r\n", 6));
    feed(":1\r\n");
    redisReply *reply = next();
    cr_assert_not_null(reply);
    freeReplyObject(reply);
}

Test(resp, refuses_nesting_that_goes_too_deep)
{
    cr_assert(feed_often("*1\r\n", HLK_REPLY_DEPTH + 1));
}

Test(resp, refuses_nesting_that_goes_too_deep_in_one_piece)
{
    static char bytes[4096 * 4 + 1];
    for (int i = 0; i < 4096; i++)
        strcat(bytes + (size_t)i * 4, "*1\r\n");
    cr_assert(feed_often(bytes, 1));
}

/* --- elements */

static void announce(size_t elements)
{
    char head[32];
    (void)snprintf(head, sizeof head, "*%zu\r\n", elements);
    feed(head);
}

Test(resp, takes_as_many_elements_as_we_ask_for)
{
    announce(HLK_REPLY_ELEMENTS);
    cr_assert_not(feed_often(":1\r\n", HLK_REPLY_ELEMENTS - 1));
    feed(":1\r\n");
    redisReply *reply = next();
    cr_assert_eq(reply->elements, (size_t)HLK_REPLY_ELEMENTS);
    freeReplyObject(reply);
    announce(HLK_REPLY_ELEMENTS); /* counted for each reply */
    cr_assert_null(next());
}

Test(resp, refuses_an_array_of_more)
{
    announce(HLK_REPLY_ELEMENTS + 1);
    cr_assert_null(hlk_resp_next(resp, &why));
    cr_assert(strstr(why, "larger than any"), "%s", why);
}

Test(resp, refuses_arrays_that_have_more_together)
{
    announce(3);
    announce(HLK_REPLY_ELEMENTS - 4);
    cr_assert_not(feed_often("+\r\n", HLK_REPLY_ELEMENTS - 4));
    announce(1);
    cr_assert_null(next());
    announce(1); /* within that one */
    cr_assert_null(hlk_resp_next(resp, &why));
    cr_assert_not_null(why);
}

Test(resp, refuses_what_no_memory_could_hold)
{
    static const char *const heads[] = { "*4294967295\r\n",          "*2147483647\r\n",           "*2147483648\r\n",
                                         "*9223372036854775807\r\n", "*99999999999999999999\r\n", "*-2\r\n" };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        feed(heads[i]);
        cr_assert_null(hlk_resp_next(resp, &why));
        cr_assert_not_null(why, "%s", heads[i]);
        fini();
        init();
    }
}

/* --- bytes */

static void expect_end(const char *head, const char *piece)
{
    size_t most = HLK_REPLY_BYTES / strlen(piece) + 1;
    feed(head);
    cr_assert(feed_often(piece, most), "%s", head);
    cr_assert(strstr(why, "larger than any"), "%s", why);
    cr_assert_geq(hlk_resp_amid(resp), (size_t)HLK_REPLY_BYTES);
    fini();
    init();
}

Test(resp, ends_a_reply_that_does_not_end)
{
    static char xs[16385];
    memset(xs, 'x', sizeof xs - 1);
    expect_end("+", xs);
    expect_end("-ERR ", xs);
    expect_end(":", "1111111111111111111111111111111111111111111111111111111111111111");
    expect_end("$2147483647\r\n", xs);
    expect_end("*2\r\n$2147483647\r\n", xs);
}

Test(resp, takes_any_number_of_small_replies)
{
    static char bytes[128]; /* two replies, small beside the most that one may have, and few enough for valgrind */
    (void)snprintf(bytes, sizeof bytes, "$100\r\n%0100d\r\n+OK\r\n", 0);
    cr_assert_not(feed_often(bytes, HLK_REPLY_BYTES / 50));
}

/* --- the map of a cluster's slots */

enum { SLOTS = 16384 };

/* As Redis 7 answers CLUSTER SLOTS, with host names, when no two neighbouring slots are on one server. */
static bool feed_map(int slots, int nodes)
{
    char range[64], node[512];
    announce((size_t)slots);
    for (int slot = 0; slot < slots; slot++) {
        (void)snprintf(range, sizeof range, "*%d\r\n:%d\r\n:%d\r\n", 2 + nodes, slot, slot);
        feed(range);
        for (int i = 0; i < nodes; i++) {
            (void)snprintf(node, sizeof node,
                           "*4\r\n$60\r\n%060d\r\n:6379\r\n$40\r\n%040d\r\n"
                           "*4\r\n+ip\r\n+10.0.0.1\r\n+hostname\r\n+%060d\r\n",
                           i, slot % 3, i);
            feed(node);
        }
        if (slot < slots - 1 && hlk_resp_next(resp, &why))
            return false;
        if (why)
            return false;
    }
    return true;
}

Test(resp, takes_a_map_of_as_many_ranges_as_there_are_slots, .timeout = 120)
{
    hlk_resp_expect_map(resp, true);
    cr_assert(feed_map(SLOTS, 5), "%s", why);
    redisReply *reply = next();
    cr_assert_eq(reply->elements, (size_t)SLOTS);
    cr_assert_eq(reply->element[SLOTS - 1]->elements, 7u);
    cr_assert_eq(reply->element[SLOTS - 1]->element[6]->element[1]->integer, 6379);
    freeReplyObject(reply);
    feed(":7\r\n");
    expect_integer(7);
}

Test(resp, refuses_a_map_that_it_does_not_expect)
{
    hlk_resp_expect_map(resp, true);
    hlk_resp_expect_map(resp, false);
    cr_assert_not(feed_map(SLOTS, 5));
    cr_assert(strstr(why, "larger than any"), "%s", why);
}

/* What comes behind it answers other commands. */
Test(resp, skips_a_map_that_is_too_large_and_goes_on, .timeout = 120)
{
    hlk_resp_expect_map(resp, true);
    for (int i = 0; i < 2; i++) {
        cr_assert(feed_map(SLOTS, 9), "%s", why);
        redisReply *reply = next();
        cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
        cr_assert(strstr(reply->str, "more elements than any"), "%s", reply->str);
        freeReplyObject(reply);
        feed("*2\r\n:1\r\n$-1\r\n");
        reply = next();
        cr_assert(reply->elements == 2 && reply->element[0]->integer == 1);
        freeReplyObject(reply);
    }
    announce(HLK_MAP_ELEMENTS + 1);
    feed("+O");
    cr_assert_null(next()); /* and is freed amid one */
}

Test(resp, ends_a_map_that_does_not_end, .timeout = 120)
{
    hlk_resp_expect_map(resp, true);
    announce(2147483647);
    static char piece[16384];
    for (size_t i = 0; i + 1024 < sizeof piece; i += 1024)
        (void)snprintf(piece + i, sizeof piece - i, "+%01021d\r\n", 0);
    cr_assert(feed_often(piece, HLK_MAP_BYTES / strlen(piece) + 2));
    cr_assert(strstr(why, "larger than any"), "%s", why);
}
