/* What each question says to the server, word by word: what is not needed is not sent. */
#include "script/call.h"

#include "peer.h"
#include "script/many.h"

#include <stdio.h>
#include <stdlib.h>

static struct peer peer;
static struct hlk_question q;

static void init(void)
{
    peer_open(&peer);
    peer_up(&peer);
    q = (struct hlk_question){ .client_id = "hlk-t-1-a", .name = "n", .name_len = 1, .hold = 7 };
}

static void fini(void)
{
    peer_close(&peer);
    peer_free(&peer);
}

TestSuite(call, .init = init, .fini = fini, .timeout = 20);

static void on_end(struct hlk_call *call)
{
    (void)call;
}

/* The words after the script's SHA-1, with a '|' between them. */
static const char *says(enum hlk_script script)
{
    static char words[1024];
    char *at = words;
    q.script = script;
    q.call.done = on_end;
    q.call.lazy = true;
    cr_assert_eq(hlk_question_send(&q, peer.mux), HLK_OK);
    const char *text = peer_hears(&peer);
    cr_assert_eq(text[0], '*');
    int count = atoi(text + 1);
    for (int i = 0; i < count; i++) {
        text = strchr(text, '\n') + 1;
        cr_assert_eq(text[0], '$');
        int len = atoi(text + 1);
        text = strchr(text, '\n') + 1;
        if (i == 1)
            cr_assert_arr_eq(text, hlk_script_table[script].sha1, 40);
        if (i > 1)
            at += sprintf(at, "%s%.*s", i > 2 ? "|" : "", len, text);
        text += len;
    }
    cr_assert_str_eq(text, "\r\n");
    peer_answers(&peer, ":0\r\n");
    hlk_question_drop_reply(&q);
    return words;
}

static void in_line(void)
{
    q.place = (struct hlk_member){ .ttl_ms = 5000, .tokens = 65, .floor = 17, .since_ms = 77 };
}

Test(call, acquire_without_waiting)
{
    q.lease_ms = 30000;
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_ACQUIRE), "2|n|hasplock_queue:{n}|30000|hlk-t-1-a:7");
}

Test(call, acquire_with_a_place)
{
    q.lease_ms = 30000;
    in_line();
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_ACQUIRE),
                     "2|n|hasplock_queue:{n}|30000|hlk-t-1-a:7|hlk-t-1-a:7 5000 65 17 77");
}

Test(call, acquire_fenced)
{
    q.lease_ms = 30000;
    q.fenced = true;
    in_line();
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_ACQUIRE), "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|30000|hlk-t-1-a:7|"
                                                    "hlk-t-1-a:7 5000 65 17 77|65|17");
    q.place.since_ms = 0; /* one try, which takes its tokens too */
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_ACQUIRE),
                     "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|30000|hlk-t-1-a:7||65|17");
}

Test(call, end)
{
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_END), "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}");
    q.voiding = true;
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_END), "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|600000");
}

Test(call, end_with_an_open_window)
{
    q.open_ms = 3;
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_END), "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|0|3");
}

Test(call, end_of_a_place)
{
    in_line();
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_END), "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|0|0|"
                                                "hlk-t-1-a:7 5000 65 17 77");
    q.open_ms = 3;
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_END), "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|0|3|"
                                                "hlk-t-1-a:7 5000 65 17 77");
}

Test(call, end_of_a_fenced_hold)
{
    q.fenced = true;
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_END),
                     "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}");
}

Test(call, reacquire_query_and_break)
{
    q.lease_ms = 30000;
    q.count = 2;
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_REACQUIRE), "1|n|hlk-t-1-a:7|2|30000");
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_QUERY), "2|n|hasplock_queue:{n}|redisson_lock__channel:{n}|2");
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_BREAK),
                     "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|redisson_lock__channel:{n}");
}

/* The room that is reckoned for a question is enough for the longest (a guard page would not tell, ASan does). */
Test(call, the_longest_question_fits)
{
    char name[HLK_NAME_MAX], client[HLK_FIELD_MAX - 21];
    memset(name, 'n', sizeof name);
    memset(client, 'c', sizeof client);
    client[sizeof client - 1] = '\0';
    q.name = name;
    q.name_len = sizeof name;
    q.client_id = client;
    q.hold = INT64_MAX;
    q.lease_ms = q.open_ms = INT64_MAX;
    q.fenced = q.voiding = true;
    q.place = (struct hlk_member){ INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    q.call.done = on_end;
    q.call.lazy = true;
    for (int i = 0; i < 4; i++) {
        q.script = i % 2 ? HLK_SCRIPT_LOCK_END : HLK_SCRIPT_LOCK_ACQUIRE;
        q.whole = i > 1;
        cr_assert_eq(hlk_question_send(&q, peer.mux), HLK_OK);
        (void)peer_hears(&peer);
        peer_answers(&peer, ":0\r\n");
        hlk_question_drop_reply(&q);
    }
}

#define FAIR_KEYS "4|n|redisson_lock_queue:{n}|redisson_lock_timeout:{n}|hasplock_fair:{n}|"

Test(call, fair_acquire)
{
    q.lease_ms = 30000;
    cr_assert_str_eq(says(HLK_SCRIPT_FAIR_ACQUIRE), FAIR_KEYS "30000|hlk-t-1-a:7|redisson_lock__channel:{n}|300000|0");
    q.join = true;
    cr_assert_str_eq(says(HLK_SCRIPT_FAIR_ACQUIRE), FAIR_KEYS "30000|hlk-t-1-a:7|redisson_lock__channel:{n}|300000|1");
}

Test(call, fair_end)
{
    cr_assert_str_eq(says(HLK_SCRIPT_FAIR_END), FAIR_KEYS "hlk-t-1-a:7|redisson_lock__channel:{n}|300000|0");
    q.voiding = true;
    cr_assert_str_eq(says(HLK_SCRIPT_FAIR_END), FAIR_KEYS "hlk-t-1-a:7|redisson_lock__channel:{n}|300000|600000");
}

Test(call, fair_break_and_query)
{
    cr_assert_str_eq(says(HLK_SCRIPT_FAIR_BREAK), "2|n|redisson_lock_queue:{n}|redisson_lock__channel:{n}");
    q.count = 9;
    cr_assert_str_eq(says(HLK_SCRIPT_FAIR_QUERY), "2|n|redisson_lock_queue:{n}|9");
}

/* --- among many (script/many.h), without an answer of its own --- */

static struct hlk_question other;
static const char *other_says; /* the server, when that one has ended */

static void on_other_end(struct hlk_call *call)
{
    (void)call;
    hlk_question_drop_reply(&other);
    if (other_says)
        peer_says(&peer, other_says);
}

/* The other one waits for the next write, which both leave in. */
static void send_other(void)
{
    peer.mux->owner.combine = hlk_many_combine;
    other =
        (struct hlk_question){ .script = HLK_SCRIPT_LOCK_END, .client_id = "hlk-t-1-a", .name = "m", .name_len = 1 };
    other.call.done = on_other_end;
    other.call.lazy = true;
    hlk_mux_batch(peer.mux, true);
    cr_assert_eq(hlk_question_send(&other, peer.mux), HLK_OK);
}

static void send_among_many(enum hlk_script script, const char *answer)
{
    send_other();
    q.script = script;
    q.call.done = on_end;
    q.call.lazy = true;
    cr_assert_eq(hlk_question_send(&q, peer.mux), HLK_OK);
    hlk_mux_batch(peer.mux, false);
    cr_assert_not_null(strstr(peer_hears(&peer), hlk_script_table[HLK_SCRIPT_LOCK_MANY].sha1));
    peer_answers(&peer, answer);
}

static enum hlk_question_step ends(void)
{
    struct hlk_error error;
    return hlk_question_end(&q, peer.mux, false, &error);
}

#define ACQUIRES_ALONE "2|n|hasplock_queue:{n}|30000|hlk-t-1-a:7"

Test(call, asks_again_by_itself_what_many_did_not_answer)
{
    q.lease_ms = 30000;
    send_among_many(HLK_SCRIPT_LOCK_ACQUIRE, "*2\r\n:1\r\n:-2\r\n");
    cr_assert_eq(q.call.part, HLK_PART_ACQUIRE);
    cr_assert_eq(ends(), HLK_STEP_AGAIN);
    cr_assert(q.alone);
    cr_assert_not(q.doubt);
    cr_assert_str_eq(says(HLK_SCRIPT_LOCK_ACQUIRE), ACQUIRES_ALONE);
    cr_assert_eq(q.call.part, 0);
    cr_assert_eq(q.copies, 2u);
}

Test(call, an_error_for_many_says_nothing_of_one)
{
    static const char *const errors[] = { "-NOSCRIPT No matching script.\r\n", "-READONLY You can't write\r\n",
                                          "-ERR unknown\r\n" };
    q.lease_ms = 30000;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        q.alone = false;
        peer.mux->alone = 0;
        peer.mux->combine_whole = false;
        send_among_many(HLK_SCRIPT_LOCK_ACQUIRE, errors[i]);
        cr_assert_eq(ends(), HLK_STEP_AGAIN);
        cr_assert_not(q.doubt || q.whole);
        cr_assert_str_eq(says(HLK_SCRIPT_LOCK_ACQUIRE), ACQUIRES_ALONE);
        cr_assert_eq(q.call.part, 0);
    }
}

Test(call, asks_by_itself_until_it_has_a_reply)
{
    send_among_many(HLK_SCRIPT_LOCK_END, "*2\r\n:1\r\n:-2\r\n");
    cr_assert_eq(ends(), HLK_STEP_AGAIN);
    cr_assert_eq(hlk_question_send(&q, peer.mux), HLK_OK);
    peer_breaks(&peer);
    cr_assert_eq(ends(), HLK_STEP_AGAIN);
    cr_assert(q.doubt);
    peer_up(&peer);
    cr_assert_eq(hlk_question_send(&q, peer.mux), HLK_OK);
    cr_assert_eq(q.call.part, 0);
    peer_answers(&peer, "-NOSCRIPT No matching script.\r\n");
    cr_assert_eq(ends(), HLK_STEP_AGAIN);
    cr_assert(q.whole);
    cr_assert_eq(hlk_question_send(&q, peer.mux), HLK_OK);
    cr_assert_eq(q.call.part, 0);
    peer_answers(&peer, ":1\r\n");
    cr_assert_eq(ends(), HLK_STEP_ANSWER);
    cr_assert_not(q.alone);
    hlk_question_drop_reply(&q);
}

Test(call, many_that_break_leave_doubt_about_each)
{
    send_among_many(HLK_SCRIPT_LOCK_END, "");
    peer_breaks(&peer);
    cr_assert_eq(ends(), HLK_STEP_AGAIN);
    cr_assert(q.doubt);
    cr_assert_not(q.alone);
}

Test(call, a_caller_asks_again_by_itself)
{
    struct hlk_error error;
    struct hlk_limits limits = { .at_ms = INT64_MAX, .up_by_ms = INT64_MAX, .once = true };
    bool left = false;
    send_other();
    other_says = ":1\r\n"; /* to the copy that is alone */
    q.script = HLK_SCRIPT_LOCK_END;
    peer_says(&peer, "*2\r\n:0\r\n:-2\r\n");
    cr_assert_eq(hlk_question_ask(&q, peer.mux, hlk_self_get(), &limits, &left, &error), HLK_OK);
    cr_assert_eq(q.call.reply->integer, 1);
    cr_assert_eq(q.copies, 2u);
    cr_assert_eq(peer.mux->counts.commands, 2u);
    cr_assert_not(left || q.doubt);
    hlk_question_drop_reply(&q);
}
