/* The slot of a key, and what servers say about slots. CLUSTER KEYSLOT answers the same:
 * tests/cluster/test_cluster.c. */
/* Shows: P27 */
#include "node/slots.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static unsigned slot(const char *key)
{
    return hlk_slot_of(key, strlen(key));
}

Test(slots, are_those_of_the_server)
{
    cr_assert_eq(slot("123456789"), 0x31c3); /* the check value of CRC-16/XMODEM */
    cr_assert_eq(slot(""), 0);
    cr_assert_eq(slot("foo"), 12182);
    cr_assert_eq(slot("lock"), 8718);
    cr_assert_eq(slot("redisson_lock__channel:{lock}"), 8718);
}

Test(slots, of_a_tag_are_those_of_its_text)
{
    cr_assert_eq(slot("{foo}bar"), slot("foo"));
    cr_assert_eq(slot("a{foo}{bar}"), slot("foo"));
    cr_assert_eq(slot("{{foo}}"), slot("{foo"));
    cr_assert_neq(slot("{}foo"), slot("foo"));
    cr_assert_neq(slot("{}foo"), slot("")); /* an empty tag is none */
    cr_assert_neq(slot("a{foo"), slot("foo"));
    cr_assert_neq(slot("}foo{"), slot("foo"));
}

static bool redirects(const char *words, unsigned number, const char *host, int port)
{
    struct hlk_address to;
    unsigned is;
    return hlk_slot_redirect_read(words, &is, &to) && is == number && strcmp(to.host, host) == 0 && to.port == port;
}

Test(slots, redirects_name_a_slot_and_a_server)
{
    cr_assert(redirects("MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1", 6381));
    cr_assert(redirects("ASK 0 redis-1.example:7000", 0, "redis-1.example", 7000));
    cr_assert(redirects("MOVED 16383 2001:db8::1:6381", 16383, "2001:db8::1", 6381));
    cr_assert(redirects("MOVED 1 :6381", 1, "", 6381)); /* the host is the same */
    cr_assert(redirects("MOVED 1 ?:6381", 1, "", 6381));
}

Test(slots, anything_else_is_no_redirect)
{
    static const char *const bad[] = {
        "",           "MOVED",       "MOVED ",          "MOVED x a:1",  "MOVED 16384 a:1", "MOVED 1",      "MOVED 1 a",
        "MOVED 1 a:", "MOVED 1 a:0", "MOVED 1 a:65536", "ASKING 1 a:1", "ERR MOVED 1 a:1", "MOVED -1 a:1", "MOVED 1:2 a"
    };
    struct hlk_address to;
    unsigned is;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(hlk_slot_redirect_read(bad[i], &is, &to), "%s", bad[i]);
    char long_host[600] = "MOVED 1 ";
    memset(long_host + 8, 'h', 400);
    strcat(long_host, ":1");
    cr_assert_not(hlk_slot_redirect_read(long_host, &is, &to));
}

/* --- CLUSTER SLOTS */

static char seen[512];

static void note(void *ctx, unsigned first, unsigned last, const struct hlk_address *master)
{
    (void)ctx;
    size_t len = strlen(seen);
    snprintf(seen + len, sizeof seen - len, "%u-%u@%s:%d ", first, last, master->host, master->port);
}

static bool reads(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    seen[0] = '\0';
    cr_assert_eq(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    cr_assert_not_null(reply, "%s", bytes);
    bool good = hlk_slots_read(reply, note, NULL);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return good;
}

#define NODE(host, port) "*2\r\n" host ":" port "\r\n"
#define A "$9\r\n127.0.0.1\r\n"

Test(slots, the_map_is_read_by_its_masters)
{
    cr_assert(reads("*2\r\n*4\r\n:0\r\n:8191\r\n" NODE(A, "7000")
                        NODE(A, "7003") "*3\r\n:8192\r\n:16383\r\n" NODE(A, "7001")));
    cr_assert_str_eq(seen, "0-8191@127.0.0.1:7000 8192-16383@127.0.0.1:7001 ");
    cr_assert(
        reads("*1\r\n*3\r\n:5\r\n:5\r\n" NODE("$-1\r\n", "7000"))); /* the name is not known: that of the server */
    cr_assert_str_eq(seen, "5-5@:7000 ");
    cr_assert(reads("*0\r\n"));
    cr_assert_str_eq(seen, "");
}

Test(slots, what_is_no_map_is_refused)
{
    cr_assert_not(reads("+OK\r\n"));
    cr_assert_not(reads("*1\r\n:1\r\n"));
    cr_assert_not(reads("*1\r\n*2\r\n:0\r\n:1\r\n"));
    cr_assert_not(reads("*1\r\n*3\r\n:0\r\n:16384\r\n" NODE(A, "7000")));
    cr_assert_not(reads("*1\r\n*3\r\n:-1\r\n:1\r\n" NODE(A, "7000")));
    cr_assert_not(reads("*1\r\n*3\r\n:2\r\n:1\r\n" NODE(A, "7000")));
    cr_assert_not(reads("*1\r\n*3\r\n:0\r\n:1\r\n" NODE(A, "0")));
    cr_assert_not(reads("*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n" A));
    cr_assert_not(reads("*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:1\r\n:1\r\n"));
    cr_assert_not(reads("*1\r\n*3\r\n$1\r\n0\r\n:1\r\n" NODE(A, "7000")));
}

static uint64_t epoch_of(const char *text, bool *usable)
{
    redisReply reply = { .type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)text, .len = strlen(text) };
    return hlk_slots_epoch(&reply, usable);
}

Test(slots, cluster_info_says_how_new_the_map_is)
{
    bool usable;
    cr_assert_eq(epoch_of("cluster_state:ok\r\ncluster_current_epoch:17\r\n", &usable), 17);
    cr_assert(usable);
    cr_assert_eq(epoch_of("cluster_state:fail\r\ncluster_current_epoch:3\r\n", &usable), 3);
    cr_assert_not(usable);
    redisReply refused = { .type = REDIS_REPLY_ERROR, .str = (char *)(uintptr_t) "NOPERM", .len = 6 };
    cr_assert_eq(hlk_slots_epoch(&refused, &usable), 0);
    cr_assert(usable);
}
