/* The words of each command to the server. Unneeded words are not sent. */
#include "script/engine.h"

#include "kinds/kind.h"
#include "kinds/kinds.h"
#include "net/pipeline_lead.h"
#include "peer.h"
#include "script/batch.h"
#include "script/shared_commands.h"

#include <stdio.h>
#include <stdlib.h>

static struct peer peer;
static struct hlk_command cmd;
static struct hlk_error error;

static void init(void)
{
    peer_open(&peer);
    peer_up(&peer);
    cmd = (struct hlk_command){ .pipeline = peer.pipeline,
                                .limits = { .at_ms = INT64_MAX, .reconnect_timeout_ms = -1 },
                                .client_id = "hlk-t-1-a",
                                .name = "n",
                                .name_len = 1,
                                .hold = 7 };
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
static const char *says(const struct hlk_command_type *type)
{
    static char words[1024];
    char *at = words;
    cmd.type = type;
    cmd.call.done = on_end;
    cmd.call.lazy = true;
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    const char *text = peer_hears(&peer);
    cr_assert_eq(text[0], '*');
    int count = atoi(text + 1);
    for (int i = 0; i < count; i++) {
        text = strchr(text, '\n') + 1;
        cr_assert_eq(text[0], '$');
        int len = atoi(text + 1);
        text = strchr(text, '\n') + 1;
        if (i == 1)
            cr_assert_arr_eq(text, hlk_script_table[type->script].sha1, 40);
        if (i > 1)
            at += sprintf(at, "%s%.*s", i > 2 ? "|" : "", len, text);
        text += len;
    }
    cr_assert_str_eq(text, "\r\n");
    peer_answers(&peer, ":0\r\n");
    hlk_command_drop_reply(&cmd);
    return words;
}

static void sends(const struct hlk_command_type *type, const char *bytes, const char *answer)
{
    cmd.type = type;
    cmd.call.done = on_end;
    cmd.call.lazy = true;
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    cr_assert_str_eq(peer_hears(&peer), bytes);
    peer_answers(&peer, answer);
    hlk_command_drop_reply(&cmd);
}

#define NOTE_OF_7 "$29\r\nhasplock_note:{n}:hlk-t-1-a:7\r\n"

/* No scripts: src/script/shared_commands.h. */
Test(call, write_and_remove_a_note)
{
    cmd.note = "import";
    cmd.lease_ms = 30000;
    sends(&hlk_command_write_note, "*5\r\n$3\r\nSET\r\n" NOTE_OF_7 "$6\r\nimport\r\n$2\r\nPX\r\n$5\r\n30000\r\n",
          "+OK\r\n");
    sends(&hlk_command_remove_note, "*2\r\n$3\r\nDEL\r\n" NOTE_OF_7, ":1\r\n");
}

Test(call, read_a_note)
{
    cmd.only = "hlk-b-2-y:7";
    cr_assert_str_eq(says(&hlk_command_read_note), "1|hasplock_note:{n}:hlk-b-2-y:7");
}

static void in_queue(void)
{
    cmd.member = (struct hlk_member){ .ttl_ms = 5000, .tokens = 65, .floor = 17, .since_ms = 77 };
}

Test(call, acquire_without_waiting)
{
    cmd.lease_ms = 30000;
    cr_assert_str_eq(says(&hlk_format_lock.acquire), "2|n|hasplock_queue:{n}|30000|hlk-t-1-a:7");
}

Test(call, acquire_with_a_ticket)
{
    cmd.lease_ms = 30000;
    in_queue();
    cr_assert_str_eq(says(&hlk_format_lock.acquire),
                     "2|n|hasplock_queue:{n}|30000|hlk-t-1-a:7|hlk-t-1-a:7 5000 65 17 77");
}

Test(call, acquire_fenced)
{
    cmd.lease_ms = 30000;
    cmd.fenced = true;
    in_queue();
    cr_assert_str_eq(says(&hlk_format_lock.acquire), "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|30000|hlk-t-1-a:7|"
                                                     "hlk-t-1-a:7 5000 65 17 77|65|17");
    cmd.member.since_ms = 0; /* one try, which takes its tokens too */
    cr_assert_str_eq(says(&hlk_format_lock.acquire),
                     "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|30000|hlk-t-1-a:7||65|17");
}

Test(call, end)
{
    cr_assert_str_eq(says(&hlk_format_lock.release), "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}");
    cmd.tombstone = true;
    cr_assert_str_eq(says(&hlk_format_lock.release),
                     "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|0|0|600000");
}

Test(call, end_of_a_brief_hold)
{
    cmd.short_hold_ms = 5000;
    cr_assert_str_eq(says(&hlk_format_lock.release),
                     "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|5000");
    cmd.yield_ms = 3;
    cr_assert_str_eq(says(&hlk_format_lock.release),
                     "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|5000|3");
}

Test(call, end_with_an_yield_window)
{
    cmd.yield_ms = 3;
    cr_assert_str_eq(says(&hlk_format_lock.release),
                     "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|0|3");
}

Test(call, end_of_a_ticket)
{
    in_queue();
    cr_assert_str_eq(says(&hlk_format_lock.release),
                     "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|0|0|0|"
                     "hlk-t-1-a:7 5000 65 17 77");
    cmd.yield_ms = 3;
    cr_assert_str_eq(says(&hlk_format_lock.release),
                     "2|n|hasplock_queue:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}|0|3|0|"
                     "hlk-t-1-a:7 5000 65 17 77");
}

Test(call, end_of_a_fenced_hold)
{
    cmd.fenced = true;
    cr_assert_str_eq(says(&hlk_format_lock.release),
                     "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|hlk-t-1-a:7|redisson_lock__channel:{n}");
}

Test(call, reacquire_query_and_break)
{
    cmd.lease_ms = 30000;
    cmd.count = 2;
    cr_assert_str_eq(says(&hlk_command_reacquire), "1|n|hlk-t-1-a:7|2|30000");
    cr_assert_str_eq(says(&hlk_format_lock.query), "2|n|hasplock_queue:{n}|redisson_lock__channel:{n}|2");
    cr_assert_str_eq(says(&hlk_format_lock.break_it),
                     "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|redisson_lock__channel:{n}");
    cmd.only = "hlk-u-1-b:9";
    cr_assert_str_eq(says(&hlk_format_lock.break_it),
                     "3|n|hasplock_queue:{n}|redisson_lock_token:{n}|redisson_lock__channel:{n}|hlk-u-1-b:9");
}

/* The computed room is enough for the longest command (AddressSanitizer would show an overrun). */
Test(call, the_longest_command_fits)
{
    char name[HLK_NAME_MAX], client[HLK_FIELD_MAX - 21];
    memset(name, 'n', sizeof name);
    memset(client, 'c', sizeof client);
    client[sizeof client - 1] = '\0';
    cmd.name = name;
    cmd.name_len = sizeof name;
    cmd.client_id = client;
    cmd.hold = INT64_MAX;
    cmd.lease_ms = cmd.yield_ms = cmd.short_hold_ms = INT64_MAX;
    cmd.fenced = cmd.tombstone = true;
    cmd.member = (struct hlk_member){ INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    cmd.call.done = on_end;
    cmd.call.lazy = true;
    for (int i = 0; i < 4; i++) {
        cmd.type = i % 2 ? &hlk_format_lock.release : &hlk_format_lock.acquire;
        cmd.whole = i > 1;
        cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
        (void)peer_hears(&peer);
        peer_answers(&peer, ":0\r\n");
        hlk_command_drop_reply(&cmd);
    }
}

#define FAIR_NAMES "n|redisson_lock_queue:{n}|redisson_lock_timeout:{n}|hasplock_fair:{n}|"
#define FAIR_KEYS "4|" FAIR_NAMES
#define FAIR_END_KEYS "5|" FAIR_NAMES "hasplock_queue:{n}|"

Test(call, fair_acquire)
{
    cmd.lease_ms = 30000;
    cr_assert_str_eq(says(&hlk_format_fair.acquire), FAIR_KEYS "30000|hlk-t-1-a:7|redisson_lock__channel:{n}");
    cmd.member = (struct hlk_member){ .ttl_ms = 5000, .since_ms = 1 };
    cr_assert_str_eq(says(&hlk_format_fair.acquire), FAIR_KEYS "30000|hlk-t-1-a:7|redisson_lock__channel:{n}|5000");
    cmd.checks_other_kinds = true;
    cr_assert_str_eq(says(&hlk_format_fair.acquire), FAIR_END_KEYS "30000|hlk-t-1-a:7|redisson_lock__channel:{n}|5000");
}

Test(call, fair_release)
{
    cr_assert_str_eq(says(&hlk_format_fair.release), FAIR_END_KEYS "hlk-t-1-a:7|redisson_lock__channel:{n}");
    cmd.tombstone = true;
    cr_assert_str_eq(says(&hlk_format_fair.release), FAIR_END_KEYS "hlk-t-1-a:7|redisson_lock__channel:{n}|600000");
    cmd.member.since_ms = 1;
    cr_assert_str_eq(says(&hlk_format_fair.release), FAIR_END_KEYS "hlk-t-1-a:7|redisson_lock__channel:{n}|600000|1");
    cmd.tombstone = false;
    cr_assert_str_eq(says(&hlk_format_fair.release), FAIR_END_KEYS "hlk-t-1-a:7|redisson_lock__channel:{n}|0|1");
}

Test(call, fair_break_and_query)
{
    cr_assert_str_eq(says(&hlk_format_fair.break_it), FAIR_KEYS "redisson_lock__channel:{n}");
    cmd.only = "hlk-u-1-b:9";
    cr_assert_str_eq(says(&hlk_format_fair.break_it), FAIR_KEYS "redisson_lock__channel:{n}|hlk-u-1-b:9");
    cmd.count = 9;
    cr_assert_str_eq(says(&hlk_format_fair.query), "2|n|redisson_lock_queue:{n}|9");
}

/* --- batched (script/batch.h), without a reply of its own --- */

static struct hlk_command other;
static const char *other_says; /* the server's reply to the other one */

static void on_other_end(struct hlk_call *call)
{
    (void)call;
    hlk_command_drop_reply(&other);
    if (other_says)
        peer_says(&peer, other_says);
}

/* The other one waits for the next write, and both are sent in it. */
static void send_other(void)
{
    peer.pipeline->owner.build_batch = hlk_batch_build;
    other = (struct hlk_command){ .pipeline = peer.pipeline,
                                  .type = &hlk_format_lock.release,
                                  .client_id = "hlk-t-1-a",
                                  .name = "m",
                                  .name_len = 1 };
    other.call.done = on_other_end;
    other.call.lazy = true;
    hlk_pipeline_hold_back(peer.pipeline, true);
    cr_assert_eq(hlk_command_send(&other, &error), HLK_COMMAND_IN_FLIGHT);
}

static void send_among_many(const struct hlk_command_type *type, const char *answer)
{
    send_other();
    cmd.type = type;
    cmd.call.done = on_end;
    cmd.call.lazy = true;
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    hlk_pipeline_hold_back(peer.pipeline, false);
    cr_assert_not_null(strstr(peer_hears(&peer), hlk_script_table[HLK_SCRIPT_LOCK_BATCH].sha1));
    peer_answers(&peer, answer);
}

static enum hlk_progress ends(void)
{
    return hlk_command_end(&cmd, &error);
}

#define ACQUIRES_ALONE "2|n|hasplock_queue:{n}|30000|hlk-t-1-a:7"

Test(call, asks_again_by_itself_what_many_did_not_answer)
{
    cmd.lease_ms = 30000;
    send_among_many(&hlk_format_lock.acquire, "*2\r\n:1\r\n:-2\r\n");
    cr_assert_eq(cmd.call.batch_letter, HLK_BATCH_ACQUIRE);
    cr_assert_eq(ends(), HLK_COMMAND_RESEND);
    cr_assert(cmd.unbatched);
    cr_assert_not(cmd.doubt);
    cr_assert_str_eq(says(&hlk_format_lock.acquire), ACQUIRES_ALONE);
    cr_assert_eq(cmd.call.batch_letter, 0);
    cr_assert_eq(cmd.attempts, 2u);
}

Test(call, an_error_for_many_says_nothing_of_one)
{
    static const char *const errors[] = { "-NOSCRIPT No matching script.\r\n", "-READONLY You can't write\r\n",
                                          "-ERR unknown\r\n" };
    cmd.lease_ms = 30000;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        cmd.unbatched = false;
        peer.pipeline->unbatched_left = 0;
        peer.pipeline->batch_script_lost = false;
        send_among_many(&hlk_format_lock.acquire, errors[i]);
        cr_assert_eq(ends(), HLK_COMMAND_RESEND);
        cr_assert_not(cmd.doubt || cmd.whole);
        cr_assert_str_eq(says(&hlk_format_lock.acquire), ACQUIRES_ALONE);
        cr_assert_eq(cmd.call.batch_letter, 0);
    }
}

Test(call, asks_by_itself_until_it_has_a_reply)
{
    send_among_many(&hlk_format_lock.release, "*2\r\n:1\r\n:-2\r\n");
    cr_assert_eq(ends(), HLK_COMMAND_RESEND);
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    peer_breaks(&peer);
    cr_assert_eq(ends(), HLK_COMMAND_RESEND);
    cr_assert(cmd.doubt);
    peer_up(&peer);
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    cr_assert_eq(cmd.call.batch_letter, 0);
    peer_answers(&peer, "-NOSCRIPT No matching script.\r\n");
    cr_assert_eq(ends(), HLK_COMMAND_RESEND);
    cr_assert(cmd.whole);
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    cr_assert_eq(cmd.call.batch_letter, 0);
    peer_answers(&peer, ":1\r\n");
    cr_assert_eq(ends(), HLK_COMMAND_ANSWERED);
    cr_assert_not(cmd.unbatched);
    hlk_command_drop_reply(&cmd);
}

Test(call, many_that_break_leave_doubt_about_each)
{
    send_among_many(&hlk_format_lock.release, "");
    peer_breaks(&peer);
    cr_assert_eq(ends(), HLK_COMMAND_RESEND);
    cr_assert(cmd.doubt);
    cr_assert_not(cmd.unbatched);
}

Test(call, a_caller_asks_again_by_itself)
{
    bool left = false;
    cmd.limits.once = true;
    send_other();
    other_says = ":1\r\n"; /* to the unbatched attempt */
    cmd.type = &hlk_format_lock.release;
    peer_says(&peer, "*2\r\n:0\r\n:-2\r\n");
    cr_assert_eq(hlk_command_run(&cmd, hlk_thread_get(), 0, &left, &error), HLK_OK);
    cr_assert_eq(cmd.call.reply->integer, 1);
    cr_assert_eq(cmd.attempts, 2u);
    cr_assert_eq(peer.pipeline->counts.commands, 2u);
    cr_assert_not(left || cmd.doubt);
    hlk_command_drop_reply(&cmd);
}

/* --- refused for now --- */

/* Replies to the attempt. */
static enum hlk_progress answered_by(const char *reply)
{
    cmd.type = &hlk_format_lock.acquire;
    cmd.call.done = on_end;
    cmd.call.lazy = true;
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    (void)peer_hears(&peer);
    peer_answers(&peer, reply);
    return ends();
}

static const char loading[] = "-LOADING Redis is loading the dataset in memory\r\n";
static const char full[] = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

Test(call, refused_for_now_is_sent_again_after_a_pause)
{
    cr_assert_eq(answered_by(loading), HLK_COMMAND_PAUSED);
    cr_assert(cmd.resends && !cmd.doubt);
    cr_assert_eq(cmd.until_ms, hlk_clock_ms() + HLK_PAUSE_MS);
    cr_assert_eq(error.status, HLK_E_SERVER);
    cr_assert_eq(answered_by(":1\r\n"), HLK_COMMAND_ANSWERED);
    cr_assert_eq(cmd.limits.refused_ms, 0);
    hlk_command_drop_reply(&cmd);
}

/* The refusal is a better answer than "sent, may have run". */
Test(call, is_not_sent_again_too_late_to_see_the_answer)
{
    cmd.limits.at_ms = hlk_clock_ms() + 2 * HLK_PAUSE_MS;
    cr_assert_eq(answered_by(loading), HLK_COMMAND_PAUSED);
    cr_assert_not(cmd.resends);
    cr_assert_eq(cmd.until_ms, cmd.limits.at_ms);
}

Test(call, waits_until_there_is_memory_only_if_it_may)
{
    cr_assert_eq(answered_by(full), HLK_COMMAND_FAILED);
    cmd.limits.waits_out_writes = true;
    cr_assert_eq(answered_by(full), HLK_COMMAND_PAUSED);
}

static const char unknown[] = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

static void send_lazily(struct hlk_command *command)
{
    command->type = &hlk_format_fair.acquire;
    command->call.done = on_end;
    command->call.lazy = true;
    cr_assert_eq(hlk_command_send(command, &error), HLK_COMMAND_IN_FLIGHT);
    (void)peer_hears(&peer);
}

/* Who asked before the text was sent counts on it; who asked after it does not: the server has forgotten it again. */
Test(call, whose_script_is_unknown_sends_its_text_once)
{
    struct hlk_command second = cmd;
    send_lazily(&cmd);
    send_lazily(&second);
    peer_answers(&peer, unknown);
    peer_answers(&peer, unknown);
    cr_assert_eq(ends(), HLK_COMMAND_RESEND);
    cr_assert(cmd.whole);
    send_lazily(&cmd);
    cr_assert_eq(hlk_command_end(&second, &error), HLK_COMMAND_RESEND);
    cr_assert_not(second.whole);
    send_lazily(&second);
    peer_answers(&peer, ":1\r\n");
    cr_assert_eq(ends(), HLK_COMMAND_ANSWERED);
    hlk_command_drop_reply(&cmd);
    peer_answers(&peer, unknown);
    cr_assert_eq(hlk_command_end(&second, &error), HLK_COMMAND_RESEND);
    cr_assert(second.whole);
}

Test(call, reconnect_timeout_starts_at_call_or_first_refusal)
{
    int64_t began = hlk_clock_ms();
    cmd.limits.reconnect_timeout_ms = 1000;
    cmd.limits.began_ms = began;
    peer_passes(&peer, 5000);
    cr_assert_eq(answered_by(loading), HLK_COMMAND_PAUSED);
    cr_assert_eq(cmd.limits.refused_ms, began + 5000, "it begins now");
    peer_passes(&peer, 950);
    cr_assert_eq(answered_by(loading), HLK_COMMAND_PAUSED);
    cr_assert_not(cmd.resends);
    cr_assert_eq(cmd.until_ms, began + 6000);
    cmd.limits.began_ms = hlk_clock_ms(); /* a call that began after it */
    cr_assert_eq(answered_by(loading), HLK_COMMAND_PAUSED);
    cr_assert(cmd.resends);
}

Test(call, without_connection_waits_for_the_reconnect_timeout)
{
    cmd.type = &hlk_format_lock.acquire;
    cmd.limits.began_ms = hlk_clock_ms() + 500;
    cmd.limits.reconnect_timeout_ms = 1000;
    peer_breaks(&peer);
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_UNCONNECTED);
    cr_assert_eq(cmd.until_ms, cmd.limits.began_ms + 1000);
    cr_assert_eq(cmd.attempts, 0u);
    cmd.limits.at_ms = hlk_clock_ms() + 3;
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_UNCONNECTED);
    cr_assert_eq(cmd.until_ms, cmd.limits.at_ms);
}

Test(call, that_must_not_be_repeated_is_in_doubt_when_broken)
{
    cmd.type = &hlk_format_lock.break_it;
    cmd.limits.once = true;
    cmd.call.done = on_end;
    cmd.call.lazy = true;
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    (void)peer_hears(&peer); /* so it may have run */
    peer_breaks(&peer);
    cr_assert_eq(ends(), HLK_COMMAND_FAILED);
    cr_assert_eq(error.status, HLK_E_UNSURE);
}

/* It tells the messages of one format from those of another. */
Test(command, no_two_formats_have_one_letter)
{
    const struct hlk_format *formats[HLK_FORMATS_MAX];
    hlk_kind_formats(formats);
    for (int i = 0; i < HLK_FORMATS_MAX; i++)
        for (int j = 0; j < i; j++)
            if (formats[i] && formats[j] && formats[i] != formats[j])
                cr_expect_neq(formats[i]->letter, formats[j]->letter, "%d and %d: %c", i, j, formats[i]->letter);
}
