/* What a reply to an acquire or a renewal means: only one that names the command's own hold gives or keeps the lock. */
/* Shows: S27 */
#include "kinds/kind.h"
#include "quorum/format.h"
#include "script/format.h"

#include "hasplock/quorum.h"

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <string.h>

#define OWN "$11\r\nhlk-t-1-a:7\r\n"

typedef enum hlk_answer_kind read_acquire(const struct hlk_command *cmd, const redisReply *reply,
                                          struct hlk_answer *out);

static const struct hlk_command asks = { .client_id = "hlk-t-1-a", .hold = 7 };

static redisReply *parse(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    cr_assert_eq(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    return reply;
}

static enum hlk_answer_kind read_as(read_acquire *read, bool fenced, const char *bytes)
{
    struct hlk_command cmd = asks;
    struct hlk_answer answer = { 0 };
    redisReply *reply = parse(bytes);
    cmd.fenced = fenced;
    enum hlk_answer_kind kind = read(&cmd, reply, &answer);
    freeReplyObject(reply);
    return kind;
}

static int renewal(const char *bytes)
{
    redisReply *reply = parse(bytes);
    int renewed = hlk_quorum_read_renew(&asks, reply);
    freeReplyObject(reply);
    return renewed;
}

static void believes_its_own_name_only(read_acquire *read)
{
    static const char *const others[] = { "$11\r\nhlk-t-1-a:8\r\n",
                                          "$12\r\nhlk-t-1-a:77\r\n",
                                          "$11\r\nhlk-t-1-b:7\r\n",
                                          "$10\r\nhlk-t-1-a:\r\n",
                                          "$0\r\n\r\n",
                                          "$-1\r\n",
                                          "+hlk-t-1-a:7\r\n",
                                          ("*1\r\n" OWN) };
    cr_assert_eq(read_as(read, false, OWN), HLK_ANSWER_ACQUIRED);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_assert_eq(read_as(read, false, others[i]), HLK_ANSWER_NONE, "%s", others[i]);
}

TestSuite(answer, .timeout = 20);

Test(answer, of_each_format_names_the_hold_that_it_gives)
{
    static const struct hlk_format *const formats[] = { &hlk_format_lock,     &hlk_format_fair,  &hlk_format_string,
                                                        &hlk_format_read,     &hlk_format_write, &hlk_format_permit,
                                                        &hlk_format_semaphore };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        believes_its_own_name_only(formats[i]->read_acquire);
}

Test(answer, of_a_master_names_the_hold_that_it_gives)
{
    believes_its_own_name_only(hlk_quorum_layout_get(HLK_QUORUM_STRING)->read_acquire);
    believes_its_own_name_only(hlk_quorum_layout_get(HLK_QUORUM_HASH)->read_acquire);
}

Test(answer, with_a_token_names_the_hold_that_it_gives)
{
    read_acquire *read = hlk_format_lock.read_acquire;
    cr_assert_eq(read_as(read, true, "*2\r\n:5\r\n" OWN), HLK_ANSWER_ACQUIRED);
    cr_assert_eq(read_as(read, true, "*2\r\n:5\r\n$11\r\nhlk-t-1-a:8\r\n"), HLK_ANSWER_NONE);
    cr_assert_eq(read_as(read, true, "*1\r\n:5\r\n"), HLK_ANSWER_NONE);
    cr_assert_eq(read_as(read, true, OWN), HLK_ANSWER_NONE, "it lacks the token");
}

static enum hlk_raised raised(const char *id, const char *bytes)
{
    struct hlk_command cmd = asks;
    cmd.id = id;
    cmd.id_len = id ? strlen(id) : 0;
    cmd.call.reply = bytes ? parse(bytes) : NULL;
    enum hlk_raised raised = hlk_answer_read_raised(&cmd);
    freeReplyObject(cmd.call.reply);
    return raised;
}

Test(answer, to_a_reacquire_names_the_hold_or_the_permit)
{
    cr_assert_eq(raised(NULL, OWN), HLK_RAISED_YES);
    cr_assert_eq(raised(NULL, "$17\r\nhlk-t-1-a:7:write\r\n"), HLK_RAISED_YES);
    cr_assert_eq(raised("abc", "$3\r\nabc\r\n"), HLK_RAISED_YES);
    cr_assert_eq(raised(NULL, ":0\r\n"), HLK_RAISED_GONE);
    cr_assert_eq(raised(NULL, ":-1\r\n"), HLK_RAISED_GONE);
    cr_assert_eq(raised(NULL, "-OOM full\r\n"), HLK_RAISED_REFUSED);
    cr_assert_eq(raised(NULL, NULL), HLK_RAISED_REFUSED);
    cr_assert_eq(raised(NULL, "$11\r\nhlk-t-1-a:8\r\n"), HLK_RAISED_NONE);
    cr_assert_eq(raised("abc", OWN), HLK_RAISED_NONE);
    cr_assert_eq(raised(NULL, "*0\r\n"), HLK_RAISED_NONE);
}

/* Of a string by its name alone, of a hash by a list of one. */
Test(answer, of_a_master_to_a_renewal_names_the_hold)
{
    cr_assert_eq(renewal(OWN), 1);
    cr_assert_eq(renewal(":0\r\n"), 0);
    cr_assert_eq(renewal("*2\r\n:1\r\n" OWN), 1);
    cr_assert_eq(renewal("*2\r\n:0\r\n" OWN), 0);
    cr_assert_eq(renewal("*2\r\n:-1\r\n" OWN), 0);
    cr_assert_eq(renewal(":1\r\n"), -1);
    cr_assert_eq(renewal("$11\r\nhlk-t-1-a:8\r\n"), -1);
    cr_assert_eq(renewal("*1\r\n:1\r\n"), -1);
    cr_assert_eq(renewal("*2\r\n:1\r\n$11\r\nhlk-t-1-a:8\r\n"), -1);
    cr_assert_eq(renewal("*2\r\n:0\r\n$11\r\nhlk-t-1-a:8\r\n"), -1);
}
