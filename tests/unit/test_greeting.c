/* What a connection says first, and what is read from the answer. */
#include "script/command.h"
#include "script/greeting.h"

#include <criterion/criterion.h>
#include <string.h>

/* By an array of so many elements, the first of which is `word`, as reply i. */
static uint64_t server_by(const char *word, const char *id, unsigned i, size_t elements)
{
    struct hlk_greeting greeting = { .replies = 0 };
    const char *const texts[] = { word, "", id, "12" };
    redisReply words[4], *element[4];
    for (int k = 0; k < 4; k++) {
        words[k] = (redisReply){ .type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)texts[k] };
        element[k] = &words[k];
    }
    redisReply reply = { .type = REDIS_REPLY_ARRAY, .element = element, .elements = elements };
    cr_assert(hlk_scripts_greeting(&greeting, "hlk-t-1-a", true, false));
    uint64_t server = greeting.server(i, &reply);
    hlk_buffer_fini(&greeting.bytes);
    hlk_buffer_fini(&greeting.late);
    return server;
}

Test(greeting, knows_a_server_by_its_run_id)
{
    static const char id[] = "0123456789abcdef0123456789abcdef01234567";
    cr_assert_eq(server_by("probe", id, 0, 4), UINT64_C(0x0123456789abcdef));
    cr_assert_eq(server_by("probe", id, HLK_GREETING_LATE, 4), UINT64_C(0x0123456789abcdef));
    cr_assert_eq(server_by("probe", id, 1, 4), 0u, "the answer to SUBSCRIBE is none");
    cr_assert_eq(server_by("probe", id, 0, 3), 0u);
    cr_assert_eq(server_by("pmessage", id, 0, 4), 0u, "a message that nobody asked for");
    cr_assert_eq(server_by("probe", "", 0, 4), 0u, "no right to INFO");
    cr_assert_eq(server_by("probe", "0123", 0, 4), 0u);
    cr_assert_eq(server_by("probe", "0123456789ABCDEF", 0, 4), 0u);
}

/* A server that knows the probe is not sent its text; the other scripts' texts are never sent ahead. */
Test(greeting, is_short)
{
    struct hlk_greeting greeting = { .replies = 0 };
    cr_assert(hlk_scripts_greeting(&greeting, "hlk-t-1-a", true, false));
    cr_assert_lt(greeting.bytes.len, 400u);
    cr_assert_lt(greeting.late.len, 4000u);
    hlk_buffer_fini(&greeting.bytes);
    hlk_buffer_fini(&greeting.late);
}

Test(greeting, of_a_server_of_a_cluster_is_by_sharded_pubsub)
{
    static const char *const there[] = { "$10\r\nSSUBSCRIBE", "$12\r\nSUNSUBSCRIBE", "'spublish', key",
                                         "'shardnumsub'" };
    static const char *const not_there[] = { "$9\r\nSUBSCRIBE", "'publish', key", "'numsub'" };
    struct hlk_greeting greeting = { .replies = 0 };
    cr_assert(hlk_scripts_greeting(&greeting, "hlk-t-1-a", true, true));
    cr_assert(hlk_buffer_add(&greeting.bytes, greeting.late.data, greeting.late.len));
    cr_assert(hlk_buffer_add(&greeting.bytes, "", 1));
    cr_assert_eq(greeting.replies, 3u);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        cr_assert_not_null(strstr(greeting.bytes.data, there[i]), "%s", there[i]);
    for (size_t i = 0; i < sizeof not_there / sizeof *not_there; i++)
        cr_assert_null(strstr(greeting.bytes.data, not_there[i]), "%s", not_there[i]);
    hlk_buffer_fini(&greeting.bytes);
    hlk_buffer_fini(&greeting.late);
}

Test(greeting, of_a_client_without_pubsub_has_none_of_it)
{
    static const char *const words[] = { "$9\r\nSUBSCRIBE", "$11\r\nUNSUBSCRIBE", "$1\r\n1" };
    for (int pubsub = 0; pubsub < 2; pubsub++) {
        struct hlk_greeting greeting = { .replies = 0 };
        cr_assert(hlk_scripts_greeting(&greeting, "hlk-t-1-a", pubsub, false));
        cr_assert(hlk_buffer_add(&greeting.bytes, "", 1));
        cr_assert_eq(greeting.replies, pubsub ? 3u : 1u);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            cr_assert_eq(strstr(greeting.bytes.data, words[i]) != NULL, pubsub, "%s", words[i]);
        hlk_buffer_fini(&greeting.bytes);
        hlk_buffer_fini(&greeting.late);
    }
}

/* The number of times that `word` is there. */
static unsigned times(const char *text, const char *word)
{
    unsigned n = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        n++;
    return n;
}

/* The client's other connections greet, and so publish, at the same time: a message between the two would be one reply
 * more. */
Test(greeting, subscribes_to_a_channel_on_which_nobody_publishes)
{
    for (int sharded = 0; sharded < 2; sharded++) {
        struct hlk_greeting greeting = { .replies = 0 };
        cr_assert(hlk_scripts_greeting(&greeting, "hlk-t-1-a", true, sharded));
        cr_assert(hlk_buffer_add(&greeting.bytes, "", 1));
        cr_assert_eq(times(greeting.bytes.data, "\nhasplock_probe:{hlk-t-1-a}\r"), 1u, "of EVAL");
        cr_assert_eq(times(greeting.bytes.data, "SUBSCRIBE\r\n$27\r\nhasplock_probed:{hlk-t-1-a}\r"), 2u);
        hlk_buffer_fini(&greeting.bytes);
        hlk_buffer_fini(&greeting.late);
    }
}
