/* Batches whose calls get no reply of their own: calls to be sent unbatched, a script that the server has lost, a
 * stream that breaks. */
#include "batch_fixture.h"
#include "net/pipeline.h"
#include "net/pipeline_lead.h"

TestSuite(combine, .init = combining_begin, .fini = calls_end, .timeout = 20);

/* --- calls to be sent unbatched --- */

Test(combine, who_has_to_ask_alone_gets_no_reply)
{
    struct asked a[3];
    peer_up(&peer);
    ask_at_once(a, "abc");
    peer_answers(&peer, "*3\r\n:1\r\n:-2\r\n:0\r\n");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(a[i].end, HLK_CALL_ANSWERED);
    cr_assert_eq(a[0].answer, 1);
    cr_assert_eq(a[1].answer, NONE);
    cr_assert_null(a[1].call.reply);
    cr_assert_eq(a[2].answer, 0);
}

Test(combine, minus_two_to_who_was_not_combined_is_an_answer)
{
    struct asked a[3];
    peer_up(&peer);
    ask_at_once(a, "a");
    peer_answers(&peer, ":-2\r\n");
    cr_assert_eq(a[0].answer, -2);
    cr_assert_str_eq(ask_at_once(a, "ab"), "<a+b>");
    peer_answers(&peer, "*2\r\n:1\r\n$2\r\n-2\r\n"); /* the same as text */
    cr_assert_neq(a[1].answer, NONE);
    cr_assert_eq(peer.pipeline->unbatched_left, 0u);
}

/* So many calls are unbatched from now on. */
static void are_apart(unsigned n)
{
    static struct asked a[HLK_UNBATCHED_MAX + 2];
    cr_assert_eq(peer.pipeline->unbatched_left, n);
    ask_many(a, n + 2);
    cr_assert_str_eq(peer.message_pending, strcat(apart(n), "<a+a>"), "%u", n);
    peer_says(&peer, singly(n, ":5"));
    peer_answers(&peer, "*2\r\n:5\r\n:5\r\n");
    cr_assert(all_end(a, n + 2, HLK_CALL_ANSWERED, 5));
}

Test(combine, eight_behind_one_that_asks_alone_are_not_combined)
{
    struct asked a[2];
    peer_up(&peer);
    ask_at_once(a, "ab");
    peer_answers(&peer, "*2\r\n:1\r\n:-2\r\n");
    cr_assert_str_eq(ask_at_once(a, "AB"), "AB"); /* batchable calls */
    peer_answers(&peer, ":1\r\n:1\r\n");
    are_apart(HLK_UNBATCHED_EACH);
    ask_at_once(a, "ab");
    peer_answers(&peer, "*2\r\n:-2\r\n:-2\r\n");
    are_apart(2 * HLK_UNBATCHED_EACH);
}

/* As many commands as the limit allows, and one whose reply arrives when one call fewer is left. */
Test(combine, there_is_a_most_that_are_not_combined)
{
    enum { ALL = HLK_UNBATCHED_MAX / HLK_UNBATCHED_EACH };
    static struct asked a[ALL], b[2], c;
    peer_up(&peer);
    ask_many(a, ALL);
    ask_at_once(b, "ab");
    for (int i = 0; i < ALL; i += HLK_BATCH_MAX)
        peer_answers(&peer, array_of(HLK_BATCH_MAX, ":-2"));
    cr_assert_eq(peer.pipeline->unbatched_left, (unsigned)HLK_UNBATCHED_MAX);
    cr_assert_str_eq(ask_at_once(&c, "c"), "[c]");
    peer_says(&peer, "*2\r\n:-2\r\n:1\r\n");
    peer_answers(&peer, ":5\r\n");
    cr_assert_leq(peer.pipeline->unbatched_left, (unsigned)HLK_UNBATCHED_MAX);
    are_apart(peer.pipeline->unbatched_left);
}

/* --- an error for the whole batch --- */

Test(combine, a_script_the_server_lost_is_sent_whole_once)
{
    struct asked a[3];
    peer_up(&peer);
    ask_at_once(a, "abc");
    peer_answers(&peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert(all_end(a, 3, HLK_CALL_ANSWERED, NONE));
    cr_assert_eq(peer.pipeline->unbatched_left, 0u);
    cr_assert_str_eq(ask_at_once(a, "Ab"), "A[b]");
    peer_answers(&peer, ":1\r\n:1\r\n");
    cr_assert_str_eq(ask_at_once(a, "abC"), "<!a+b>C");
    peer_answers(&peer, "*2\r\n:1\r\n:1\r\n:1\r\n");
    cr_assert(all_end(a, 3, HLK_CALL_ANSWERED, 1));
    cr_assert_str_eq(ask_at_once(a, "ab"), "<a+b>");
    peer_answers(&peer, "*2\r\n:1\r\n:1\r\n");
}

Test(combine, only_the_first_of_a_write_is_whole)
{
    struct asked a[5];
    peer_up(&peer);
    ask_at_once(a, "ab");
    peer_answers(&peer, "-NOSCRIPT\r\n");
    cr_assert_str_eq(ask_at_once(a, "abCde"), "<!a+b>C<d+e>");
    peer_answers(&peer, "*2\r\n:1\r\n:1\r\n:1\r\n*2\r\n:1\r\n:1\r\n");
    cr_assert(all_end(a, 5, HLK_CALL_ANSWERED, 1));
}

Test(combine, what_lacked_memory_to_be_whole_is_whole_next_time)
{
    struct asked a[5];
    peer_up(&peer);
    ask_at_once(a, "ab");
    peer_answers(&peer, "-NOSCRIPT\r\n");
    fails_at = combines + 2;
    cr_assert_str_eq(ask_at_once(a, "abCde"), "[a][b]C[d][e]");
    peer_answers(&peer, singly(5, ":1"));
    cr_assert_str_eq(ask_at_once(a, "ab"), "<!a+b>");
    peer_answers(&peer, "*2\r\n:1\r\n:1\r\n");
}

Test(combine, any_other_error_is_by_itself_to_each)
{
    struct asked a[3];
    peer_up(&peer);
    ask_at_once(a, "abC");
    peer_answers(&peer, "-NOPERM this user has no permissions\r\n:3\r\n");
    cr_assert_eq(a[0].end, HLK_CALL_ANSWERED);
    cr_assert_eq(a[0].answer, NONE);
    cr_assert_eq(a[1].end, HLK_CALL_ANSWERED);
    cr_assert_eq(a[1].answer, NONE);
    cr_assert_eq(a[2].answer, 3);
    are_apart(2 * HLK_UNBATCHED_EACH);
}

/* An unknown error. The commands before it may have run. */
Test(combine, a_script_that_broke_off_leaves_all_in_doubt)
{
    struct asked a[2];
    peer_up(&peer);
    ask_at_once(a, "ab");
    peer_answers(&peer, "-ERR user_script:33: attempt to compare nil with number script: f, on @user_script:33.\r\n");
    cr_assert(all_end(a, 2, HLK_CALL_BROKEN, NONE));
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_UP);
    are_apart(2 * HLK_UNBATCHED_EACH);
    ask_at_once(a, "ab");
    peer_answers(&peer, "-ERR Error running script (call to f_1): @user_script:33: user_script:33: attempt\r\n");
    cr_assert(all_end(a, 2, HLK_CALL_BROKEN, NONE));
}

Test(combine, an_error_for_one_is_its_answer)
{
    struct asked a[2];
    peer_up(&peer);
    ask_at_once(a, "ab");
    peer_answers(&peer, "*2\r\n-OOM command not allowed\r\n:1\r\n");
    cr_assert_eq(a[0].end, HLK_CALL_ANSWERED);
    cr_assert_neq(a[0].answer, NONE);
    cr_assert_eq(a[1].answer, 1);
    are_apart(0);
}

/* --- a stream that breaks --- */

Test(combine, an_answer_of_another_shape_ends_the_stream)
{
    static const char *const shapes[] = { "*1\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n", "*0\r\n", "*-1\r\n", ":1\r\n",
                                          "+OK\r\n",      "$4\r\nabcd\r\n",           "$-1\r\n" };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct asked a[3];
        peer_up(&peer);
        ask_at_once(a, "abC");
        peer_answers(&peer, shapes[i]);
        peer_reads(&peer);
        cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN, "%s", shapes[i]);
        cr_assert(all_end(a, 3, HLK_CALL_BROKEN, NONE), "%s", shapes[i]);
        close(peer.fd);
        peer.fd = -1;
    }
}

Test(combine, answers_behind_one_of_another_shape_are_nobodys)
{
    struct asked a[5];
    peer_up(&peer);
    ask_at_once(a, "abCde");
    peer_answers(&peer, "*1\r\n:1\r\n*2\r\n:7\r\n:8\r\n*2\r\n:7\r\n:8\r\n");
    peer_reads(&peer);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN);
    cr_assert(all_end(a, 5, HLK_CALL_BROKEN, NONE));
}

Test(combine, a_break_ends_each_of_them)
{
    struct asked a[3], b[2], c[2];
    struct hlk_error why = { .status = HLK_E_CONNECT };
    peer_up(&peer);
    ask_at_once(a, "ab");
    ask_at_once(b, "ab");
    peer_answers(&peer, "*2\r\n:1\r\n:1\r\n*2\r\n:1\r\n"); /* half a reply does not count */
    queue_letters(c, "ab");
    hlk_pipeline_broke(peer.pipeline, &why);
    cr_assert_eq(a[1].answer, 1);
    cr_assert(all_end(b, 2, HLK_CALL_BROKEN, NONE));
    cr_assert(all_end(c, 2, HLK_CALL_UNSENT, NONE));
    hlk_pipeline_hold_back(peer.pipeline, false);
    close(peer.fd);
    peer_up(&peer);
    cr_assert_str_eq(ask_at_once(a, "abc"), "<a+b+c>");
    peer_answers(&peer, "*3\r\n:2\r\n:2\r\n:2\r\n");
    cr_assert(all_end(a, 3, HLK_CALL_ANSWERED, 2));
}

/* The same calls again. Some were in one batch in an earlier stream. */
Test(combine, a_call_that_is_sent_anew_is_one_of_its_own)
{
    struct asked a[2];
    struct hlk_error why = { .status = HLK_E_CONNECT };
    peer_up(&peer);
    ask_at_once(a, "ab");
    hlk_pipeline_broke(peer.pipeline, &why);
    close(peer.fd);
    peer_up(&peer);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(ask(&a[i], as_part(&a[i].call, 'a')), HLK_OK);
        cr_assert_str_eq(peer_hears(&peer), "[a]");
    }
    peer_answers(&peer, ":3\r\n:3\r\n");
    cr_assert_eq(a[0].answer, 3);
    cr_assert_eq(a[1].answer, 3);
}
