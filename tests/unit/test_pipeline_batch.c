/* Neighbours among the queued calls are sent as one command, and each has its own reply. The test has the other end. */
#include "batch_fixture.h"

#include "base/mem.h"
#include "net/pipeline.h"
#include "net/pipeline_lead.h"
#include "net/pipeline_wait.h"

#include <stdlib.h>

TestSuite(combine, .init = combining_begin, .fini = calls_end, .timeout = 20);

/* --- what is sent --- */

Test(combine, neighbours_leave_as_one_command)
{
    struct asked a[3];
    peer_up(&peer);
    cr_assert_str_eq(ask_at_once(a, "abc"), "<a+b+c>");
    cr_assert_eq(peer.pipeline->counts.commands, 1u);
    cr_assert_eq(peer.pipeline->counts.writes, 1u);
    peer_passes(&peer, 5);
    peer_answers(&peer, "*3\r\n:1\r\n:2\r\n:3\r\n");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(a[i].ends, 1);
        cr_assert_eq(a[i].end, HLK_CALL_ANSWERED);
        cr_assert_eq(a[i].answer, i + 1);
        cr_assert_eq(a[i].call.sent_ns, hlk_clock_ns() - 5000000);
    }
    cr_assert_eq(peer.pipeline->writes, 0u);
}

Test(combine, without_an_owner_who_can_none_is_combined)
{
    struct asked a[3];
    peer.pipeline->owner.build_batch = NULL;
    peer_up(&peer);
    cr_assert_str_eq(ask_at_once(a, "abc"), "[a][b][c]");
    cr_assert_eq(peer.pipeline->counts.commands, 3u);
    peer_answers(&peer, singly(3, ":4"));
    cr_assert(all_end(a, 3, HLK_CALL_ANSWERED, 4));
}

Test(combine, a_lone_part_is_sent_as_it_is)
{
    struct asked a[2];
    peer_up(&peer);
    ask_letter(&a[0], 'a');
    cr_assert_str_eq(peer_hears(&peer), "[a]");
    ask_letter(&a[1], 'b'); /* the one before was sent already */
    cr_assert_str_eq(peer_hears(&peer), "[b]");
    cr_assert_eq(peer.pipeline->counts.commands, 2u);
    cr_assert_eq(combines, 0);
    peer_answers(&peer, ":4\r\n:4\r\n");
    cr_assert(all_end(a, 2, HLK_CALL_ANSWERED, 4));
}

Test(combine, what_is_no_part_keeps_its_place)
{
    static const struct {
        const char *letters, *sent, *answers;
        unsigned commands;
    } as[] = {
        { "abCde", "<a+b>C<d+e>", "*2\r\n:1\r\n:2\r\n:3\r\n*2\r\n:4\r\n:5\r\n", 3 },
        { "abCDef", "<a+b>CD<e+f>", "*2\r\n:1\r\n:2\r\n:3\r\n:4\r\n*2\r\n:5\r\n:6\r\n", 4 },
        { "Abc", "A<b+c>", ":1\r\n*2\r\n:2\r\n:3\r\n", 2 },
        { "abC", "<a+b>C", "*2\r\n:1\r\n:2\r\n:3\r\n", 2 },
        { "aBcd", "[a]B<c+d>", ":1\r\n:2\r\n*2\r\n:3\r\n:4\r\n", 3 },
        { "abCd", "<a+b>C[d]", "*2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", 3 },
        { "aBc", "[a]B[c]", ":1\r\n:2\r\n:3\r\n", 3 },
        { "ABC", "ABC", ":1\r\n:2\r\n:3\r\n", 3 },
    };
    peer_up(&peer);
    for (size_t i = 0; i < sizeof as / sizeof *as; i++) {
        struct asked a[6];
        uint64_t commands = peer.pipeline->counts.commands;
        cr_assert_str_eq(ask_at_once(a, as[i].letters), as[i].sent);
        cr_assert_eq(peer.pipeline->counts.commands, commands + as[i].commands, "%s", as[i].sent);
        peer_answers(&peer, as[i].answers);
        for (int k = 0; as[i].letters[k]; k++)
            cr_assert_eq(a[k].answer, k + 1, "%s: %d", as[i].sent, k);
        cr_assert_eq(peer.pipeline->writes, 0u);
    }
}

Test(combine, what_has_no_neighbours_is_not_copied)
{
    static const char *const letters[] = { "a", "aB", "Ab", "aBc", "ABC" };
    peer_up(&peer);
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        struct asked a[3];
        queue_letters(a, letters[i]);
        const char *queued = peer.pipeline->queued.data;
        hlk_pipeline_hold_back(peer.pipeline, false);
        cr_assert_eq(peer.pipeline->wire.data, queued, "%s", letters[i]);
        peer_answers(&peer, singly((unsigned)strlen(letters[i]), ":1"));
    }
}

Test(combine, no_command_has_more_than_sixteen)
{
    struct asked a[33];
    peer_up(&peer);
    ask_many(a, 17);
    cr_assert_str_eq(peer.message_pending, strcat(together(16), "[a]"));
    peer_says(&peer, array_of(16, ":1"));
    peer_answers(&peer, ":1\r\n");
    cr_assert(all_end(a, 17, HLK_CALL_ANSWERED, 1));
    ask_many(a, 16);
    cr_assert_str_eq(peer.message_pending, together(16));
    peer_answers(&peer, array_of(16, ":2"));
    cr_assert(all_end(a, 16, HLK_CALL_ANSWERED, 2));
    ask_many(a, 33);
    cr_assert_eq(peer.pipeline->counts.commands, 2u + 1 + 3);
    peer_says(&peer, array_of(16, ":3"));
    peer_says(&peer, array_of(16, ":3"));
    peer_answers(&peer, ":3\r\n");
    cr_assert(all_end(a, 33, HLK_CALL_ANSWERED, 3));
}

Test(combine, one_write_after_another)
{
    struct asked a[5];
    peer_up(&peer);
    for (int i = 0; i < 100; i++) {
        cr_assert_str_eq(ask_at_once(a, "ab"), "<a+b>");
        cr_assert_str_eq(ask_at_once(a + 2, "cdE"), "<c+d>E");
        peer_answers(&peer, "*2\r\n:6\r\n:6\r\n*2\r\n:6\r\n:6\r\n:6\r\n");
        cr_assert(all_end(a, 5, HLK_CALL_ANSWERED, 6));
    }
}

Test(combine, waits_behind_a_write_that_was_not_taken_whole)
{
    enum { BIG = 1 << 20 };
    struct asked big = { .ends = 0 }, a[2];
    char *bytes = calloc(1, BIG + 1), last[8] = "";
    size_t got = 0;
    memset(bytes, 'A', BIG);
    peer_up(&peer);
    ask(&big, bytes);
    free(bytes);
    cr_assert(peer.pipeline->write_blocked);
    queue_letters(a, "ab");
    hlk_pipeline_hold_back(peer.pipeline, false);
    for (int i = 0; i < 100000 && got < BIG + 5; i++) {
        size_t n = strlen(peer_hears(&peer));
        got += n;
        if (n >= 5)
            memcpy(last, peer.message_pending + n - 5, 5);
        peer_reads(&peer);
        hlk_pipeline_push(peer.pipeline);
    }
    cr_assert_eq(got, (size_t)BIG + 5);
    cr_assert_str_eq(last, "<a+b>");
    peer_answers(&peer, ":1\r\n*2\r\n:2\r\n:2\r\n");
    cr_assert(all_end(a, 2, HLK_CALL_ANSWERED, 2));
}

Test(combine, what_completions_send_is_combined_too)
{
    struct asked a[2];
    peer_up(&peer);
    ask_at_once(a, "ab");
    for (int i = 0; i < 2; i++)
        a[i].then = i ? "[d]" : "[c]", (void)as_part(&a[i].next, 'x');
    peer_answers(&peer, "*2\r\n:1\r\n:2\r\n");
    cr_assert_str_eq(peer_hears(&peer), "<c+d>");
    peer_answers(&peer, "*2\r\n:1\r\n:2\r\n");
    cr_assert(hlk_list_empty(&peer.pipeline->flight));
}

Test(combine, without_a_connection_nothing_is_queued)
{
    struct asked a[4];
    hlk_pipeline_hold_back(peer.pipeline, true);
    cr_assert_eq(ask_letter(&a[0], 'a'), HLK_E_CONNECT);
    cr_assert_eq(ask_letter(&a[1], 'b'), HLK_E_CONNECT);
    peer_up(&peer);
    cr_assert_str_eq(ask_at_once(a + 2, "cd"), "<c+d>");
    peer_answers(&peer, "*2\r\n:1\r\n:1\r\n");
    cr_assert_eq(a[0].ends + a[1].ends, 0);
    cr_assert(all_end(a + 2, 2, HLK_CALL_ANSWERED, 1));
}

/* --- no memory --- */

static void leaves_uncombined_when(int which, const char *letters, const char *bytes)
{
    struct asked a[40];
    unsigned n = (unsigned)strlen(letters);
    uint64_t commands = peer.pipeline->counts.commands;
    combines = 0;
    fails_at = which;
    cr_assert_str_eq(ask_at_once(a, letters), bytes);
    cr_assert_eq(combines, which);
    cr_assert_eq(peer.pipeline->counts.commands, commands + n);
    peer_answers(&peer, singly(n, ":9"));
    cr_assert(all_end(a, n, HLK_CALL_ANSWERED, 9));
    cr_assert_str_eq(ask_at_once(a, "ab"), "<a+b>");
    cr_assert_eq(peer.pipeline->counts.commands, commands + n + 1);
    peer_answers(&peer, "*2\r\n:1\r\n:1\r\n");
    cr_assert(all_end(a, 2, HLK_CALL_ANSWERED, 1));
}

Test(combine, without_memory_all_leave_as_they_are)
{
    peer_up(&peer);
    leaves_uncombined_when(1, "abCde", "[a][b]C[d][e]");
    leaves_uncombined_when(2, "abCde", "[a][b]C[d][e]");
    leaves_uncombined_when(3, "abCdeFGhijK", "[a][b]C[d][e]FG[h][i][j]K");
}

Test(combine, without_memory_for_what_is_between_all_go_apart)
{
    struct asked a[3];
    peer_up(&peer);
    queue_letters(a, "Abc");
    hlk_mem_fail_once(1);
    hlk_pipeline_hold_back(peer.pipeline, false);
    cr_assert_str_eq(peer_hears(&peer), "A[b][c]");
    cr_assert_eq(peer.pipeline->counts.commands, 3u);
    peer_answers(&peer, singly(3, ":9"));
    cr_assert(all_end(a, 3, HLK_CALL_ANSWERED, 9));
}

/* --- callers that wait --- */

static void call_letter(struct caller *c, char inbox_message)
{
    memset(c, 0, sizeof *c);
    hlk_park_init(&c->self.park);
    c->call.waiter = &c->self;
    const char *bytes = as_part(&c->call, inbox_message);
    cr_assert_eq(hlk_pipeline_send(peer.pipeline, &c->call, bytes, strlen(bytes)), HLK_OK);
}

/* As while another thread is in send(). */
static void sending(bool on)
{
    hlk_mutex_lock(&peer.pipeline->mu);
    peer.pipeline->sending = on;
    hlk_pipeline_flush(peer.pipeline);
    hlk_mutex_unlock(&peer.pipeline->mu);
}

static unsigned wakes(struct caller *c)
{
    return hlk_park_take(&c->self.park, HLK_WAKE_REPLY);
}

Test(combine, what_is_asked_during_a_write_is_combined)
{
    struct caller c[5];
    peer_up(&peer);
    call_letter(&c[0], 'a');
    cr_assert_str_eq(peer_hears(&peer), "[a]");
    sending(true);
    for (int i = 1; i < 5; i++)
        call_letter(&c[i], (char)('a' + i));
    cr_assert_str_eq(peer_hears(&peer), "");
    sending(false);
    cr_assert_str_eq(peer_hears(&peer), "<b+c+d+e>");
    peer_answers(&peer, ":0\r\n*4\r\n:1\r\n:-2\r\n:3\r\n:4\r\n");
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(wakes(&c[i]), HLK_WAKE_REPLY, "%d", i);
        cr_assert_eq(atomic_load(&c[i].call.end), HLK_CALL_ANSWERED);
        cr_assert_eq(c[i].call.reply ? c[i].call.reply->integer : NONE, i == 2 ? NONE : i);
        if (c[i].call.reply)
            freeReplyObject(c[i].call.reply);
    }
    cr_assert_eq(peer.pipeline->callers, 0u);
}

Test(combine, an_answer_of_any_kind_is_handed_out)
{
    struct caller c[4];
    peer_up(&peer);
    sending(true);
    for (int i = 0; i < 4; i++)
        call_letter(&c[i], 'a');
    sending(false);
    peer_answers(&peer, "*4\r\n$-1\r\n*3\r\n:500\r\n$3\r\nwho\r\n:-1\r\n$2\r\nhi\r\n:1\r\n");
    cr_assert_eq(c[0].call.reply->type, REDIS_REPLY_NIL);
    cr_assert_eq(c[1].call.reply->type, REDIS_REPLY_ARRAY);
    cr_assert_eq(c[1].call.reply->element[0]->integer, 500);
    cr_assert_str_eq(c[1].call.reply->element[1]->str, "who");
    cr_assert_str_eq(c[2].call.reply->str, "hi");
    cr_assert_eq(c[3].call.reply->integer, 1);
    for (int i = 0; i < 4; i++)
        cr_assert(answered(&c[i]));
}

Test(combine, who_leads_is_not_woken_and_reads_for_all)
{
    struct caller c[2];
    struct hlk_call mine = { .waiter = hlk_thread_get() };
    peer_up(&peer);
    sending(true);
    call_letter(&c[0], 'a');
    const char *bytes = as_part(&mine, 'm');
    hlk_pipeline_send(peer.pipeline, &mine, bytes, strlen(bytes));
    call_letter(&c[1], 'b');
    sending(false);
    cr_assert_str_eq(peer_hears(&peer), "<a+m+b>");
    peer_says(&peer, "*3\r\n:1\r\n:2\r\n:3\r\n");
    cr_assert(hlk_pipeline_wait(peer.pipeline, &mine, INT64_MAX, 0));
    cr_assert_eq(mine.reply->integer, 2);
    freeReplyObject(mine.reply);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(wakes(&c[i]), HLK_WAKE_REPLY);
        cr_assert_eq(c[i].call.reply->integer, 2 * i + 1);
        cr_assert(answered(&c[i]));
    }
    cr_assert_eq(peer.pipeline->lead, HLK_LEAD_FREE);
}

Test(combine, who_left_gets_its_own_answer)
{
    struct caller c[2];
    struct asked a = { .answer = NONE, .call.waiter = hlk_thread_get() };
    peer_up(&peer);
    sending(true);
    call_letter(&c[0], 'a');
    const char *bytes = as_part(&a.call, 'b');
    hlk_pipeline_send(peer.pipeline, &a.call, bytes, strlen(bytes));
    call_letter(&c[1], 'c');
    sending(false);
    cr_assert_str_eq(peer_hears(&peer), "<a+b+c>");
    cr_assert(hlk_pipeline_leave(peer.pipeline, &a.call, on_done));
    peer_answers(&peer, "*3\r\n:1\r\n:2\r\n:3\r\n");
    cr_assert_eq(a.ends, 1);
    cr_assert_eq(a.answer, 2);
    cr_assert_eq(c[0].call.reply->integer, 1);
    cr_assert_eq(c[1].call.reply->integer, 3);
    cr_assert(answered(&c[0]) && answered(&c[1]));
}

Test(combine, who_left_before_it_was_written_gets_its_own_answer)
{
    struct asked a[2] = { { .answer = NONE, .call.waiter = hlk_thread_get() } };
    peer_up(&peer);
    sending(true);
    const char *bytes = as_part(&a[0].call, 'a');
    hlk_pipeline_send(peer.pipeline, &a[0].call, bytes, strlen(bytes));
    ask_letter(&a[1], 'b');
    cr_assert(hlk_pipeline_leave(peer.pipeline, &a[0].call, on_done));
    sending(false);
    cr_assert_str_eq(peer_hears(&peer), "<a+b>");
    peer_answers(&peer, "*2\r\n:-2\r\n:2\r\n");
    cr_assert_eq(a[0].ends, 1);
    cr_assert_eq(a[0].answer, NONE);
    cr_assert_eq(a[1].answer, 2);
}

/* The array of woken threads is large enough for everything that one round reads. */
Test(combine, all_of_many_commands_in_one_read_are_woken)
{
    enum { COMMANDS = 2 * HLK_REPLIES + 1, CALLS = COMMANDS * HLK_BATCH_MAX };
    static struct caller c[CALLS];
    peer_up(&peer);
    sending(true);
    for (int i = 0; i < CALLS; i++)
        call_letter(&c[i], 'a');
    sending(false);
    cr_assert_eq(peer.pipeline->counts.commands, (uint64_t)COMMANDS);
    char *at = text;
    for (int i = 0; i < CALLS; i++)
        at += sprintf(at, i % HLK_BATCH_MAX ? ":%d\r\n" : "*16\r\n:%d\r\n", i);
    peer_answers(&peer, text);
    for (int i = 0; i < CALLS; i++) {
        cr_assert_eq(wakes(&c[i]), HLK_WAKE_REPLY, "%d", i);
        cr_assert_eq(c[i].call.reply->integer, i);
        cr_assert(answered(&c[i]));
    }
    cr_assert_eq(peer.pipeline->callers, 0u);
}
