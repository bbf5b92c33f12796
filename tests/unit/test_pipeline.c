/* The stream of a shared connection: how calls end, and which caller writes. The test has the other end. */
#include "pipeline_fixture.h"

#include "base/mem.h"
#include "net/pipeline.h"
#include "net/pipeline_lead.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"

#include <stdio.h>
#include <stdlib.h>

TestSuite(pipeline, .init = calls_begin, .fini = calls_end, .timeout = 20);

/* --- calls with a completion --- */

Test(pipeline, without_a_connection_nothing_is_queued)
{
    struct asked a = { .ends = 0 };
    cr_assert_eq(ask(&a, "A"), HLK_E_CONNECT);
    peer_up(&peer);
    hlk_pipeline_push(peer.pipeline);
    cr_assert_str_eq(peer_hears(&peer), "");
    cr_assert_eq(a.ends, 0);
}

Test(pipeline, without_memory_nothing_is_queued)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    hlk_mem_fail_once(1);
    cr_assert_eq(ask(&a, "A"), HLK_E_NOMEM);
    cr_assert_eq(ask(&a, "B"), HLK_OK);
    cr_assert_str_eq(peer_hears(&peer), "B");
    peer_answers(&peer, ":7\r\n");
    cr_assert_eq(a.ends, 1);
}

Test(pipeline, a_command_is_written_at_once)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    cr_assert_eq(ask(&a, "A"), HLK_OK);
    cr_assert_str_eq(peer_hears(&peer), "A");
    cr_assert_eq(a.call.sent_ns, hlk_clock_ns());
    cr_assert_eq(a.call.epoch, hlk_pipeline_epoch(peer.pipeline));
    peer_answers(&peer, ":7\r\n");
    cr_assert_eq(a.end, HLK_CALL_ANSWERED);
    cr_assert_eq(a.answer, 7);
}

Test(pipeline, replies_go_to_calls_in_the_order_of_the_stream)
{
    struct asked a[300];
    memset(a, 0, sizeof a);
    peer_up(&peer);
    char answers[300 * 16] = "";
    for (int i = 0; i < 300; i++) {
        ask(&a[i], "A");
        peer_hears(&peer);
        (void)snprintf(answers + strlen(answers), 16, ":%d\r\n", i);
    }
    peer_answers(&peer, answers);
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(a[i].ends, 1);
        cr_assert_eq(a[i].answer, i);
    }
}

Test(pipeline, a_reply_may_come_in_pieces)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    peer_answers(&peer, ":4");
    peer_answers(&peer, "2\r");
    cr_assert_eq(a.ends, 0);
    peer_answers(&peer, "\n");
    cr_assert_eq(a.answer, 42);
}

Test(pipeline, calls_say_whether_they_may_have_happened)
{
    struct asked written = { .ends = 0 }, unwritten = { .ends = 0 };
    peer_up(&peer);
    ask(&written, "A");
    hlk_pipeline_hold_back(peer.pipeline, true);
    ask(&unwritten, "B");
    peer_breaks(&peer);
    cr_assert_eq(written.end, HLK_CALL_BROKEN);
    cr_assert_eq(written.ends, 1);
    cr_assert_eq(unwritten.ends, 1);
    cr_assert(unwritten.end == HLK_CALL_BROKEN || unwritten.end == HLK_CALL_UNSENT);
    cr_assert_eq(unwritten.end == HLK_CALL_UNSENT, unwritten.call.sent_ns == 0);
}

Test(pipeline, what_was_not_written_did_not_happen)
{
    struct asked a = { .ends = 0 };
    struct hlk_error why = { .status = HLK_E_CONNECT };
    peer_up(&peer);
    hlk_pipeline_hold_back(peer.pipeline, true);
    ask(&a, "A");
    cr_assert_str_eq(peer_hears(&peer), "");
    hlk_pipeline_broke(peer.pipeline, &why);
    cr_assert_eq(a.end, HLK_CALL_UNSENT);
    cr_assert_str_eq(peer_hears(&peer), "");
}

/* The socket accepts nothing: the server was gone before. */
Test(pipeline, what_could_not_be_written_did_not_happen)
{
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    cr_assert_str_eq(peer_hears(&peer), "A");
    peer_passes(&peer, 1);
    close(peer.fd);
    peer.fd = -1;
    cr_assert_eq(ask(&b, "B"), HLK_OK);
    peer_reads(&peer);
    cr_assert_eq(a.end, HLK_CALL_BROKEN);
    cr_assert_eq(b.end, HLK_CALL_UNSENT);
}

Test(pipeline, nothing_of_an_old_stream_is_written_to_the_next)
{
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    struct hlk_error why = { .status = HLK_E_CONNECT };
    peer_up(&peer);
    uint64_t epoch = hlk_pipeline_epoch(peer.pipeline);
    hlk_pipeline_hold_back(peer.pipeline, true);
    ask(&a, "A");
    hlk_pipeline_broke(peer.pipeline, &why);
    hlk_pipeline_hold_back(peer.pipeline, false);
    close(peer.fd);
    peer_up(&peer);
    ask(&b, "B");
    cr_assert_str_eq(peer_hears(&peer), "B");
    cr_assert_gt(b.call.epoch, epoch);
    peer_answers(&peer, ":1\r\n");
    cr_assert_eq(b.answer, 1);
}

Test(pipeline, an_answer_that_nobody_asked_for_ends_the_stream)
{
    peer_up(&peer);
    peer_answers(&peer, ":1\r\n");
    peer_reads(&peer);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN);
}

/* Surplus replies, more than one round reads, must not be taken for the replies to commands that a completion sends
 * meanwhile. */
Test(pipeline, an_unrequested_answer_is_not_taken_for_the_next)
{
    struct asked a = { .then = "B" };
    char answers[8 * HLK_REPLIES] = "";
    peer_up(&peer);
    ask(&a, "A");
    for (int i = 0; i <= HLK_REPLIES; i++)
        strcat(answers, ":1\r\n");
    peer_answers(&peer, answers);
    peer_reads(&peer);
    cr_assert_eq(a.end, HLK_CALL_ANSWERED);
    cr_assert_eq(a.next.end, HLK_CALL_UNSENT, "the stream takes nothing more");
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN);
}

Test(pipeline, bytes_that_are_no_replies_end_the_stream)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    peer_answers(&peer, "HTTP/1.1 400 Bad Request\r\n");
    cr_assert_eq(a.end, HLK_CALL_BROKEN);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN);
}

/* --- a server that is silent --- */

Test(pipeline, a_silent_server_is_given_up_after_reply_ms)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    peer_passes(&peer, 2999);
    peer_reads(&peer);
    cr_assert_eq(a.ends, 0);
    peer_passes(&peer, 1);
    peer_reads(&peer);
    cr_assert_eq(a.end, HLK_CALL_BROKEN);
    cr_assert_eq(peer.pipeline->error.status, HLK_E_CONNECT);
}

Test(pipeline, a_server_that_speaks_is_not_silent)
{
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    ask(&b, "B");
    peer_passes(&peer, 2900);
    peer_answers(&peer, ":1\r\n");
    peer_passes(&peer, 2900);
    peer_reads(&peer);
    cr_assert_eq(b.ends, 0);
    peer_passes(&peer, 100);
    peer_reads(&peer);
    cr_assert_eq(b.end, HLK_CALL_BROKEN);
}

/* `bytes` of a reply arrive each second, for `seconds`. */
static void comes_slowly(const char *bytes, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        peer_passes(&peer, 1000);
        peer_answers(&peer, bytes);
    }
}

Test(pipeline, an_answer_that_comes_slowly_is_waited_for)
{
    struct asked a = { .ends = 0 };
    static char piece[2048 + 1];
    memset(piece, 'x', sizeof piece - 1);
    peer_up(&peer);
    ask(&a, "A");
    peer_answers(&peer, "$61440\r\n");
    comes_slowly(piece, 30);
    cr_assert_eq(a.ends, 0);
    peer_answers(&peer, "\r\n");
    cr_assert_eq(a.end, HLK_CALL_ANSWERED);
}

Test(pipeline, an_answer_that_comes_byte_by_byte_is_given_up)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    peer_answers(&peer, "$61440\r\n");
    comes_slowly("x", 2);
    cr_assert_eq(a.ends, 0);
    comes_slowly("x", 1);
    cr_assert_eq(a.end, HLK_CALL_BROKEN);
    cr_assert_eq(peer.pipeline->error.status, HLK_E_CONNECT);
}

Test(pipeline, an_answer_larger_than_any_ends_the_stream)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    peer_answers(&peer, "*2147483647\r\n");
    cr_assert_eq(a.end, HLK_CALL_BROKEN);
    cr_assert(strstr(peer.pipeline->error.text, "larger than any reply"), "%s", peer.pipeline->error.text);
}

/* The bound of other replies applies again behind it. */
Test(pipeline, a_map_of_slots_may_be_larger_than_any_other_answer)
{
    struct asked a = { .ends = 0, .call = { .map = true } }, b = { .ends = 0 }, c = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    ask(&b, "B");
    char head[32];
    (void)snprintf(head, sizeof head, "*%d\r\n", HLK_REPLY_ELEMENTS + 1);
    peer_answers(&peer, head);
    for (int i = 0; i <= HLK_REPLY_ELEMENTS; i++)
        peer_answers(&peer, ":1\r\n");
    cr_assert_eq(a.end, HLK_CALL_ANSWERED);
    peer_answers(&peer, ":5\r\n");
    cr_assert_eq(b.answer, 5);
    ask(&c, "C");
    peer_answers(&peer, head);
    cr_assert_eq(c.end, HLK_CALL_BROKEN);
}

Test(pipeline, a_server_that_is_asked_nothing_may_be_silent)
{
    peer_up(&peer);
    peer_passes(&peer, 3600000);
    peer_reads(&peer);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_UP);
}

/* --- few writes --- */

Test(pipeline, a_batch_leaves_in_one_write)
{
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    peer_up(&peer);
    hlk_pipeline_hold_back(peer.pipeline, true);
    ask(&a, "A");
    ask(&b, "B");
    cr_assert_str_eq(peer_hears(&peer), "");
    hlk_pipeline_hold_back(peer.pipeline, false);
    cr_assert_str_eq(peer_hears(&peer), "AB");
    cr_assert_eq(peer.pipeline->counts.writes, 1u);
    peer_answers(&peer, ":1\r\n:2\r\n");
    cr_assert_eq(b.answer, 2);
}

Test(pipeline, what_completions_send_leaves_in_one_write)
{
    struct asked a = { .then = "C" }, b = { .then = "D" };
    peer_up(&peer);
    ask(&a, "A");
    ask(&b, "B");
    peer_hears(&peer);
    uint64_t writes = peer.pipeline->counts.writes;
    peer_answers(&peer, ":1\r\n:2\r\n");
    cr_assert_str_eq(peer_hears(&peer), "CD");
    cr_assert_eq(peer.pipeline->counts.writes, writes + 1);
    peer_answers(&peer, ":3\r\n:4\r\n");
}

Test(pipeline, few_callers_are_written_one_by_one)
{
    struct caller c[HLK_PIPELINE_FEW];
    peer_up(&peer);
    for (int i = 0; i < HLK_PIPELINE_FEW; i++) {
        call(&c[i], "A");
        cr_assert_str_eq(peer_hears(&peer), "A");
    }
    peer_answers(&peer, ":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n");
    for (int i = 0; i < HLK_PIPELINE_FEW; i++) {
        cr_assert_eq(hlk_park_take(&c[i].self.park, HLK_WAKE_REPLY), HLK_WAKE_REPLY);
        cr_assert(answered(&c[i]));
    }
}

Test(pipeline, many_callers_share_the_writes_after_two)
{
    struct caller c[HLK_PIPELINE_FEW + 4];
    int n = 0;
    peer_up(&peer);
    for (; n < HLK_PIPELINE_FEW; n++)
        call(&c[n], "A");
    peer_hears(&peer);
    for (; n < HLK_PIPELINE_FEW + 4; n++)
        call(&c[n], "B");
    cr_assert_str_eq(peer_hears(&peer), ""); /* 8 writes are unanswered */
    peer_answers(&peer, ":1\r\n:1\r\n:1\r\n:1\r\n");
    cr_assert_str_eq(peer_hears(&peer), "BBBB"); /* so few callers are left that they write at once */
    peer_answers(&peer, ":1\r\n:1\r\n:1\r\n:1\r\n:2\r\n:2\r\n:2\r\n:2\r\n");
    for (int i = 0; i < n; i++)
        cr_assert(answered(&c[i]));
}

/* --- more than the socket accepts --- */

Test(pipeline, a_write_that_was_not_taken_whole_goes_on)
{
    enum { BIG = 1 << 20 };
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    char *big = malloc(BIG + 1);
    size_t got = 0, last = 0;
    memset(big, 'A', BIG);
    big[BIG] = '\0';
    peer_up(&peer);
    ask(&a, big);
    free(big);
    cr_assert(peer.pipeline->write_blocked);
    ask(&b, "B");
    for (int i = 0; i < 100000 && got < BIG + 1; i++) {
        last = strlen(peer_hears(&peer));
        for (size_t k = 0; k < last; k++)
            cr_assert_eq(peer.message_pending[k], got + k < BIG ? 'A' : 'B');
        got += last;
        peer_reads(&peer);
        hlk_pipeline_push(peer.pipeline);
    }
    cr_assert_eq(got, (size_t)BIG + 1);
    cr_assert_not(peer.pipeline->write_blocked);
    peer_answers(&peer, ":1\r\n:2\r\n");
    cr_assert_eq(a.answer, 1);
    cr_assert_eq(b.answer, 2);
}

Test(pipeline, an_answer_to_what_was_not_written_ends_the_stream)
{
    enum { BIG = 1 << 20 };
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    char *big = calloc(1, BIG + 1);
    memset(big, 'A', BIG);
    peer_up(&peer);
    ask(&a, big);
    free(big);
    ask(&b, "B");
    peer_answers(&peer, ":1\r\n:2\r\n"); /* B waits behind A, of which only a part was written */
    peer_reads(&peer);
    cr_assert_eq(a.answer, 1);
    cr_assert_eq(b.end, HLK_CALL_UNSENT);
}

/* --- is it up? --- */

static void run_up(struct hlk_up *up)
{
    (void)up;
}

Test(pipeline, waiting_for_a_connection_ends_at_its_time)
{
    struct hlk_error error;
    cr_assert_eq(hlk_pipeline_wait_up(peer.pipeline, hlk_thread_get(), hlk_clock_ms(), 0, &error), HLK_E_CONNECT);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN); /* and the call caused a dial */
    peer_up(&peer);
    cr_assert_eq(hlk_pipeline_wait_up(peer.pipeline, hlk_thread_get(), hlk_clock_ms(), 0, &error), HLK_OK);
    cr_assert_eq(hlk_pipeline_health(peer.pipeline, &error), HLK_OK);
}

Test(pipeline, a_server_that_refused_us_is_not_waited_for)
{
    struct hlk_error error;
    struct hlk_up up = { .run = run_up };
    (void)hlk_pipeline_wait_up(peer.pipeline, hlk_thread_get(), 0, 0, &error);
    hlk_mutex_lock(&peer.pipeline->mu);
    (void)hlk_error_set(&peer.pipeline->error, HLK_E_AUTH, "WRONGPASS");
    hlk_mutex_unlock(&peer.pipeline->mu);
    cr_assert_eq(hlk_pipeline_wait_up(peer.pipeline, hlk_thread_get(), INT64_MAX, 0, &error), HLK_E_AUTH);
    cr_assert_str_eq(error.text, "WRONGPASS");
    cr_assert_not(hlk_pipeline_when_up(peer.pipeline, &up, 0));
}

Test(pipeline, waiting_for_a_connection_ends_when_called_away)
{
    struct hlk_error error;
    struct hlk_thread *self = hlk_thread_get();
    hlk_park_wake(&self->park, HLK_WAKE_CANCEL);
    cr_assert_eq(hlk_pipeline_wait_up(peer.pipeline, self, INT64_MAX, HLK_WAKE_CANCEL, &error), HLK_INTERRUPTED);
    cr_assert_not(hlk_list_linked(&self->link));
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
}

Test(pipeline, who_waits_without_a_thread_may_change_its_mind)
{
    struct hlk_up up = { .run = run_up };
    cr_assert(hlk_pipeline_when_up(peer.pipeline, &up, 0));
    cr_assert(hlk_pipeline_forget_up(peer.pipeline, &up));
    cr_assert_not(hlk_pipeline_forget_up(peer.pipeline, &up));
    peer_up(&peer);
    cr_assert_not(hlk_pipeline_when_up(peer.pipeline, &up, 0));
}

static int reroutes_heard;

static void count_up(struct hlk_up *up)
{
    (void)up;
    reroutes_heard++;
}

/* It chose this server before the slot moved, and begins to wait after it. */
Test(pipeline, a_wait_for_a_server_that_lost_its_slot_looks_again)
{
    struct hlk_error error;
    struct hlk_up up = { .run = count_up };
    unsigned chosen = hlk_pipeline_reroutes(peer.pipeline);
    cr_assert(hlk_pipeline_when_up(peer.pipeline, &up, chosen));
    hlk_pipeline_reroute(peer.pipeline);
    cr_assert_eq(reroutes_heard, 1);
    cr_assert_not(hlk_pipeline_when_up(peer.pipeline, &up, chosen));
    cr_assert_eq(hlk_pipeline_wait_since(peer.pipeline, hlk_thread_get(), INT64_MAX, 0, chosen, &error), HLK_OK);
    chosen = hlk_pipeline_reroutes(peer.pipeline);
    cr_assert_eq(hlk_pipeline_wait_since(peer.pipeline, hlk_thread_get(), hlk_clock_ms(), 0, chosen, &error),
                 HLK_E_CONNECT);
}

/* The connection breaks again before the second callback runs, as when the server has killed all clients. */
static int ups_heard;

static void break_up(struct hlk_up *up)
{
    struct hlk_error error;
    cr_assert_lt(++ups_heard, 3, "told again and again of one connection");
    if (ups_heard == 1) {
        hlk_error_set(&error, HLK_E_CONNECT, "killed");
        hlk_pipeline_broke(peer.pipeline, &error);
    }
    cr_assert(hlk_pipeline_when_up(peer.pipeline, up, 0));
}

Test(pipeline, an_async_wait_is_told_once_of_each_connection)
{
    struct hlk_up first = { .run = break_up }, second = { .run = break_up };
    int fds[2];
    cr_assert(hlk_pipeline_when_up(peer.pipeline, &first, 0));
    cr_assert(hlk_pipeline_when_up(peer.pipeline, &second, 0));
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    struct hlk_conn conn;
    cr_assert(hlk_conn_adopt(&conn, fds[0]));
    peer.fd = fds[1];
    peer.pipeline->dial.done(peer.pipeline->dial.ctx, &conn, NULL);
    cr_assert_eq(ups_heard, 2);
    cr_assert(hlk_pipeline_forget_up(peer.pipeline, &first)); /* both wait for the next connection */
    cr_assert(hlk_pipeline_forget_up(peer.pipeline, &second));
}

/* --- to another server --- */

Test(pipeline, leaves_a_replica_when_all_written_is_answered)
{
    struct asked a = { .ends = 0 }, b = { .ends = 0 }, c = { .ends = 0 };
    struct hlk_error error;
    peer_up(&peer);
    ask(&a, "A");
    ask(&b, "B");
    peer_passes(&peer, HLK_PIPELINE_REDIAL_MS);
    peer_answers(&peer, ":1\r\n");
    hlk_pipeline_look_again(peer.pipeline, a.call.epoch);
    cr_assert_eq(ask(&c, "C"), HLK_E_CONNECT);
    cr_assert_eq(hlk_pipeline_health(peer.pipeline, &error), HLK_E_CONNECT);
    cr_assert_str_eq(peer_hears(&peer), "AB");
    peer_answers(&peer, ":2\r\n");
    cr_assert_eq(b.answer, 2);
    peer_reads(&peer);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN);
    cr_assert_eq(a.ends + b.ends + c.ends, 2);
}

Test(pipeline, leaves_a_replica_at_once_when_nothing_is_in_flight)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    peer_answers(&peer, ":1\r\n");
    peer_passes(&peer, HLK_PIPELINE_REDIAL_MS);
    hlk_pipeline_look_again(peer.pipeline, a.call.epoch);
    peer_reads(&peer);
    cr_assert_eq(peer.pipeline->state, HLK_PIPELINE_DOWN);
}

Test(pipeline, what_was_only_queued_when_it_left_did_not_happen)
{
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    hlk_pipeline_hold_back(peer.pipeline, true);
    ask(&b, "B");
    peer_passes(&peer, HLK_PIPELINE_REDIAL_MS);
    hlk_pipeline_look_again(peer.pipeline, a.call.epoch);
    hlk_pipeline_hold_back(peer.pipeline, false);
    peer_answers(&peer, ":1\r\n");
    peer_reads(&peer);
    cr_assert_eq(a.end, HLK_CALL_ANSWERED);
    cr_assert_eq(b.end, HLK_CALL_UNSENT);
}

Test(pipeline, does_not_leave_a_stream_that_is_young_or_over)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    peer_passes(&peer, HLK_PIPELINE_REDIAL_MS - 1);
    hlk_pipeline_look_again(peer.pipeline, hlk_pipeline_epoch(peer.pipeline));
    peer_passes(&peer, 1);
    hlk_pipeline_look_again(peer.pipeline, hlk_pipeline_epoch(peer.pipeline) - 1);
    cr_assert_eq(ask(&a, "A"), HLK_OK);
    peer_answers(&peer, ":1\r\n");
    cr_assert_eq(a.end, HLK_CALL_ANSWERED);
}

/* --- the end --- */

Test(pipeline, close_ends_everything_and_refuses_the_rest)
{
    struct asked a = { .ends = 0 }, b = { .ends = 0 };
    struct hlk_error error;
    struct hlk_up up = { .run = run_up };
    peer_up(&peer);
    ask(&a, "A");
    hlk_pipeline_close(peer.pipeline);
    cr_assert_eq(a.end, HLK_CALL_BROKEN);
    cr_assert_eq(ask(&b, "B"), HLK_E_CLOSED);
    cr_assert_eq(hlk_pipeline_wait_up(peer.pipeline, hlk_thread_get(), INT64_MAX, 0, &error), HLK_E_CLOSED);
    cr_assert_not(hlk_pipeline_when_up(peer.pipeline, &up, 0));
    cr_assert_eq(hlk_pipeline_health(peer.pipeline, &error), HLK_E_CLOSED);
}

Test(pipeline, is_drained_when_everything_before_is_answered)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    peer_says(&peer, ":1\r\n+PONG\r\n");
    cr_assert(hlk_pipeline_drain(peer.pipeline, INT64_MAX));
    cr_assert_eq(a.answer, 1);
    cr_assert_str_eq(peer_hears(&peer), "A*1\r\n$4\r\nPING\r\n");
}

Test(pipeline, at_rest_is_drained_without_a_command)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    cr_assert(hlk_pipeline_drain(peer.pipeline, hlk_clock_ms()));
    ask(&a, "A");
    peer_answers(&peer, ":1\r\n");
    cr_assert(hlk_pipeline_drain(peer.pipeline, hlk_clock_ms()));
    cr_assert_str_eq(peer_hears(&peer), "A");
}

Test(pipeline, is_not_drained_when_its_time_is_over)
{
    struct asked a = { .ends = 0 };
    peer_up(&peer);
    ask(&a, "A");
    cr_assert_not(hlk_pipeline_drain(peer.pipeline, hlk_clock_ms()));
    peer_answers(&peer, ":1\r\n+PONG\r\n");
    cr_assert(hlk_list_empty(&peer.pipeline->flight));
}

Test(pipeline, what_is_down_is_not_drained)
{
    cr_assert_not(hlk_pipeline_drain(peer.pipeline, INT64_MAX));
}
