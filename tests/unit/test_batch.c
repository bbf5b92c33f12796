/* Many commands about locks in one command: the bytes are those of hiredis' formatter. And which commands are
 * batchable. */
#include "script/batch.h"

#include "base/mem.h"
#include "kinds/kind.h"
#include "net/pipeline_lead.h"
#include "peer.h"
#include "script/engine.h"
#include "script/shared_commands.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

enum { MOST_WORDS = 4 + 4 * HLK_BATCH_MAX };

static struct peer peer;
static struct hlk_error error;
static struct hlk_command cmd[HLK_BATCH_MAX];
static char names[HLK_BATCH_MAX][HLK_NAME_MAX];

static void on_end(struct hlk_call *call)
{
    hlk_command_drop_reply(HLK_CONTAINER(call, struct hlk_command, call));
}

static void init(void)
{
    peer_open(&peer);
    peer.pipeline->owner.build_batch = hlk_batch_build;
    peer_up(&peer);
    for (unsigned i = 0; i < HLK_BATCH_MAX; i++) {
        cmd[i] = (struct hlk_command){
            .pipeline = peer.pipeline, .client_id = "hlk-t-1-a", .name = names[i], .name_len = 1, .hold = 7 + i
        };
        cmd[i].call.done = on_end;
        cmd[i].call.lazy = true;
        memset(names[i], 'a' + (int)i, sizeof names[i]);
    }
}

static void fini(void)
{
    peer_close(&peer);
    peer_free(&peer);
}

TestSuite(many, .init = init, .fini = fini, .timeout = 20);

/* --- the words --- */

struct words {
    int n;
    const char *word[MOST_WORDS];
    size_t len[MOST_WORDS];
    char room[MOST_WORDS][HLK_KEY_MAX];
};

static void add(struct words *w, const char *word, size_t len)
{
    w->word[w->n] = word;
    w->len[w->n++] = len;
}

static void add_copy(struct words *w, const char *word, size_t len)
{
    memcpy(w->room[w->n], word, len);
    add(w, w->room[w->n], len);
}

static void add_number(struct words *w, long long n)
{
    char digits[24];
    add_copy(w, digits, (size_t)sprintf(digits, "%lld", n));
}

static void add_field(struct words *w, const struct hlk_command *one)
{
    char field[HLK_FIELD_MAX];
    add_copy(w, field, hlk_field(field, one->client_id, one->hold));
}

static void add_arguments(struct words *w, const struct hlk_command *one, char inbox_message)
{
    char channel[HLK_KEY_MAX];
    if (inbox_message == 'a')
        add_number(w, one->lease_ms);
    add_field(w, one);
    if (inbox_message != 'a')
        add_copy(w, channel, hlk_key_channel(channel, one->name, one->name_len));
}

/* As at the head of lua/lock_batch.lua. */
static void say(struct words *w, const char *letters, bool whole)
{
    const struct hlk_script_text *script = &hlk_script_table[HLK_SCRIPT_LOCK_BATCH];
    unsigned n = (unsigned)strlen(letters);
    char queue[HLK_KEY_MAX];
    w->n = 0;
    add(w, whole ? "EVAL" : "EVALSHA", whole ? 4 : 7);
    add(w, whole ? script->text : script->sha1, whole ? script->len : 40);
    add_number(w, 2 * (long long)n);
    for (unsigned i = 0; i < n; i++) {
        add(w, cmd[i].name, cmd[i].name_len);
        add_copy(w, queue, hlk_key_queue(queue, cmd[i].name, cmd[i].name_len));
    }
    add(w, letters, n);
    for (unsigned i = 0; i < n; i++)
        add_arguments(w, &cmd[i], letters[i]);
}

/* Sends the commands that these letters stand for, in one write. */
static void ask(const char *letters)
{
    hlk_pipeline_hold_back(peer.pipeline, true);
    for (unsigned i = 0; letters[i]; i++) {
        cmd[i].type = letters[i] == 'a' ? &hlk_format_lock.acquire : &hlk_format_lock.release;
        cmd[i].yield_ms = letters[i] == 'o' ? 12345 : 0;
        cr_assert_eq(hlk_command_send(&cmd[i], &error), HLK_COMMAND_IN_FLIGHT);
        cr_assert_eq(cmd[i].call.batch_letter, letters[i]);
    }
    hlk_pipeline_hold_back(peer.pipeline, false);
}

static void answer(size_t n)
{
    char answers[8 * HLK_BATCH_MAX];
    int at = sprintf(answers, "*%zu\r\n", n);
    while (n-- > 0)
        at += sprintf(answers + at, ":1\r\n");
    peer_answers(&peer, answers);
    cr_assert(hlk_list_empty(&peer.pipeline->flight));
}

static void check(const char *letters, bool whole)
{
    static struct words w;
    char *theirs = NULL;
    peer.pipeline->batch_script_lost = whole;
    ask(letters);
    (void)peer_hears(&peer);
    say(&w, letters, whole);
    long long len = redisFormatCommandArgv(&theirs, w.n, w.word, w.len);
    cr_assert(len > 0 && len < (long long)sizeof peer.message_pending);
    cr_assert_arr_eq(peer.message_pending, theirs, (size_t)len, "%s", letters);
    cr_assert_eq(peer.message_pending[len], '\0');
    redisFreeCommand(theirs);
    answer(strlen(letters));
}

Test(many, two_of_each_kind)
{
    cmd[0].lease_ms = 30000;
    check("aa", false);
    check("ee", false);
    check("oo", false);
    check("ae", true);
    check("oa", true);
}

/* Written out in full, as documentation. */
Test(many, says_what_the_script_reads)
{
    cmd[0].lease_ms = 30000;
    ask("ao");
    const char *text = strstr(peer_hears(&peer), "$1\r\n4\r\n");
    cr_assert_not_null(text);
    cr_assert_str_eq(text, "$1\r\n4\r\n"
                           "$1\r\na\r\n$18\r\nhasplock_queue:{a}\r\n"
                           "$1\r\nb\r\n$18\r\nhasplock_queue:{b}\r\n"
                           "$2\r\nao\r\n"
                           "$5\r\n30000\r\n$11\r\nhlk-t-1-a:7\r\n"
                           "$11\r\nhlk-t-1-a:8\r\n$26\r\nredisson_lock__channel:{b}\r\n");
    answer(2);
}

Test(many, every_number_of_them)
{
    const char kinds[] = "aeoaoeaaoooeeeao";
    for (unsigned n = 2; n <= HLK_BATCH_MAX; n++)
        for (int whole = 0; whole < 2; whole++) {
            char letters[HLK_BATCH_MAX + 1] = "";
            memcpy(letters, kinds + HLK_BATCH_MAX - n, n);
            check(letters, whole);
        }
}

Test(many, names_of_every_length)
{
    static const size_t lens[] = { 1, 9, 10, 11, 80, 99, 100, 101, 511, 512 };
    enum { LENS = sizeof lens / sizeof *lens };
    for (unsigned k = 0; k < LENS; k++)
        for (int whole = 0; whole < 2; whole++) {
            for (unsigned i = 0; i < HLK_BATCH_MAX; i++) {
                cmd[i].name_len = lens[(i * 7 + k) % LENS];
                cmd[i].hold = UINT64_C(1) << (4 * i % 63);
                cmd[i].lease_ms = INT64_MAX >> (4 * i % 62);
            }
            check("aeoaoeaaoooeeeao", whole);
        }
}

Test(many, names_of_any_bytes)
{
    for (unsigned i = 0; i < HLK_BATCH_MAX; i++) {
        for (unsigned k = 0; k < 256; k++)
            names[i][k] = (char)(k * (2 * i + 1) + i);
        memcpy(names[i] + 256, "\r\n$3\r\n{}", 8);
        cmd[i].name_len = 264;
    }
    check("eeeeaaaaooooaeao", false);
}

/* --- no memory: nothing is appended, wherever it fails --- */

static int failures;

static bool fails_everywhere(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n,
                             bool whole)
{
    for (bool ok = false; !ok;) {
        struct hlk_buffer mine = { .data = NULL };
        cr_assert(hlk_buffer_add(&mine, "before", 6));
        hlk_mem_fail_once(failures + 1);
        ok = hlk_batch_build(&mine, bytes, calls, n, whole);
        hlk_mem_fail_after(-1);
        cr_assert(ok || mine.len == 6);
        cr_assert_arr_eq(mine.data, "before", 6);
        hlk_buffer_fini(&mine);
        failures += !ok;
    }
    return hlk_batch_build(to, bytes, calls, n, whole);
}

Test(many, without_memory_nothing_is_appended)
{
    peer.pipeline->owner.build_batch = fails_everywhere;
    for (unsigned i = 0; i < HLK_BATCH_MAX; i++)
        cmd[i].name_len = HLK_NAME_MAX;
    check("aeoaoeaaoooeeeao", true);
    cr_assert_eq(failures, 3, "%d", failures); /* 4096 << 3 bytes are enough */
}

/* --- which commands are batchable --- */

static char letter_of(const struct hlk_command_type *type)
{
    cmd[0].type = type;
    cr_assert_eq(hlk_command_send(&cmd[0], &error), HLK_COMMAND_IN_FLIGHT);
    char part = cmd[0].call.batch_letter;
    peer_answers(&peer, ":1\r\n");
    return part ? part : '-';
}

static char acquires(void)
{
    return letter_of(&hlk_format_lock.acquire);
}

static char ends(void)
{
    return letter_of(&hlk_format_lock.release);
}

Test(many, takes_simple_acquires_and_ends)
{
    cr_assert_eq(acquires(), HLK_BATCH_ACQUIRE);
    cr_assert_eq(ends(), HLK_BATCH_RELEASE);
    cmd[0].yield_ms = 3;
    cr_assert_eq(acquires(), HLK_BATCH_ACQUIRE);
    cr_assert_eq(ends(), HLK_BATCH_YIELD_RELEASE);
}

Test(many, takes_none_that_is_fenced)
{
    cmd[0].fenced = true;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
}

Test(many, takes_none_with_a_ticket_in_queue)
{
    cmd[0].member.since_ms = 77;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
    cmd[0].yield_ms = 3;
    cr_assert_eq(ends(), '-');
}

Test(many, takes_no_end_with_the_void_set)
{
    cmd[0].tombstone = true;
    cr_assert_eq(ends(), '-');
    cmd[0].yield_ms = 3;
    cr_assert_eq(ends(), '-');
}

Test(many, takes_none_that_carries_its_script)
{
    cmd[0].whole = true;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
}

Test(many, takes_none_that_asks_alone)
{
    cmd[0].unbatched = true;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
    cmd[0].unbatched = false;
    cr_assert_eq(acquires(), HLK_BATCH_ACQUIRE);
}

Test(many, takes_no_other_command)
{
    cmd[0].prefix = "";
    const struct hlk_command_type *const others[] = {
        &hlk_format_lock.break_it, &hlk_format_lock.query, &hlk_format_fair.acquire, &hlk_format_fair.release,
        &hlk_format_fair.break_it, &hlk_format_fair.query, &hlk_command_reacquire,   &hlk_command_list,
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cr_assert_eq(acquires(), HLK_BATCH_ACQUIRE); /* no state is left from earlier attempts */
        cr_assert_eq(letter_of(others[i]), '-', "%s", hlk_script_table[others[i]->script].name);
    }
}

/* An unbatchable command between two batchable ones. */
Test(many, breaks_at_who_may_not_be_in_it)
{
    cmd[1].fenced = true;
    hlk_pipeline_hold_back(peer.pipeline, true);
    for (int i = 0; i < 3; i++) {
        cmd[i].type = &hlk_format_lock.release;
        cr_assert_eq(hlk_command_send(&cmd[i], &error), HLK_COMMAND_IN_FLIGHT);
    }
    hlk_pipeline_hold_back(peer.pipeline, false);
    cr_assert_null(strstr(peer_hears(&peer), hlk_script_table[HLK_SCRIPT_LOCK_BATCH].sha1));
    cr_assert_eq(peer.pipeline->counts.commands, 3u);
    peer_answers(&peer, ":1\r\n:1\r\n:1\r\n");
}
