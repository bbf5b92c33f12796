/* Questions about many locks in one command: byte for byte what hiredis' formatter writes, and which questions may be
 * in it. */
#include "script/many.h"

#include "base/mem.h"
#include "peer.h"
#include "script/call.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

enum { MOST_WORDS = 4 + 4 * HLK_COMBINE_MOST };

static struct peer peer;
static struct hlk_question q[HLK_COMBINE_MOST];
static char names[HLK_COMBINE_MOST][HLK_NAME_MAX];

static void on_end(struct hlk_call *call)
{
    hlk_question_drop_reply(HLK_CONTAINER(call, struct hlk_question, call));
}

static void init(void)
{
    peer_open(&peer);
    peer.mux->owner.combine = hlk_many_combine;
    peer_up(&peer);
    for (unsigned i = 0; i < HLK_COMBINE_MOST; i++) {
        q[i] = (struct hlk_question){ .client_id = "hlk-t-1-a", .name = names[i], .name_len = 1, .hold = 7 + i };
        q[i].call.done = on_end;
        q[i].call.lazy = true;
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

static void add_field(struct words *w, const struct hlk_question *one)
{
    char field[HLK_FIELD_MAX];
    add_copy(w, field, hlk_field(field, one->client_id, one->hold));
}

static void add_arguments(struct words *w, const struct hlk_question *one, char letter)
{
    char channel[HLK_KEY_MAX];
    if (letter == 'a')
        add_number(w, one->lease_ms);
    add_field(w, one);
    if (letter != 'a')
        add_copy(w, channel, hlk_key_channel(channel, one->name, one->name_len));
}

/* As docs/protocol.md and the head of lua/lock_many.lua have it. */
static void say(struct words *w, const char *letters, bool whole)
{
    const struct hlk_script_text *script = &hlk_script_table[HLK_SCRIPT_LOCK_MANY];
    unsigned n = (unsigned)strlen(letters);
    char queue[HLK_KEY_MAX];
    w->n = 0;
    add(w, whole ? "EVAL" : "EVALSHA", whole ? 4 : 7);
    add(w, whole ? script->text : script->sha1, whole ? script->len : 40);
    add_number(w, 2 * (long long)n);
    for (unsigned i = 0; i < n; i++) {
        add(w, q[i].name, q[i].name_len);
        add_copy(w, queue, hlk_key_queue(queue, q[i].name, q[i].name_len));
    }
    add(w, letters, n);
    for (unsigned i = 0; i < n; i++)
        add_arguments(w, &q[i], letters[i]);
}

/* The questions that these letters stand for, in one write. */
static void ask(const char *letters)
{
    hlk_mux_batch(peer.mux, true);
    for (unsigned i = 0; letters[i]; i++) {
        q[i].script = letters[i] == 'a' ? HLK_SCRIPT_LOCK_ACQUIRE : HLK_SCRIPT_LOCK_END;
        q[i].open_ms = letters[i] == 'o' ? 12345 : 0;
        cr_assert_eq(hlk_question_send(&q[i], peer.mux), HLK_OK);
        cr_assert_eq(q[i].call.part, letters[i]);
    }
    hlk_mux_batch(peer.mux, false);
}

static void answer(size_t n)
{
    char answers[8 * HLK_COMBINE_MOST];
    int at = sprintf(answers, "*%zu\r\n", n);
    while (n-- > 0)
        at += sprintf(answers + at, ":1\r\n");
    peer_answers(&peer, answers);
    cr_assert(hlk_list_empty(&peer.mux->flight));
}

static void check(const char *letters, bool whole)
{
    static struct words w;
    char *theirs = NULL;
    peer.mux->combine_whole = whole;
    ask(letters);
    (void)peer_hears(&peer);
    say(&w, letters, whole);
    long long len = redisFormatCommandArgv(&theirs, w.n, w.word, w.len);
    cr_assert(len > 0 && len < (long long)sizeof peer.heard);
    cr_assert_arr_eq(peer.heard, theirs, (size_t)len, "%s", letters);
    cr_assert_eq(peer.heard[len], '\0');
    redisFreeCommand(theirs);
    answer(strlen(letters));
}

Test(many, two_of_each_kind)
{
    q[0].lease_ms = 30000;
    check("aa", false);
    check("ee", false);
    check("oo", false);
    check("ae", true);
    check("oa", true);
}

/* Written out once, for the reader. */
Test(many, says_what_the_script_reads)
{
    q[0].lease_ms = 30000;
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
    for (unsigned n = 2; n <= HLK_COMBINE_MOST; n++)
        for (int whole = 0; whole < 2; whole++) {
            char letters[HLK_COMBINE_MOST + 1] = "";
            memcpy(letters, kinds + HLK_COMBINE_MOST - n, n);
            check(letters, whole);
        }
}

Test(many, names_of_every_length)
{
    static const size_t lens[] = { 1, 9, 10, 11, 80, 99, 100, 101, 511, 512 };
    enum { LENS = sizeof lens / sizeof *lens };
    for (unsigned k = 0; k < LENS; k++)
        for (int whole = 0; whole < 2; whole++) {
            for (unsigned i = 0; i < HLK_COMBINE_MOST; i++) {
                q[i].name_len = lens[(i * 7 + k) % LENS];
                q[i].hold = UINT64_C(1) << (4 * i % 63);
                q[i].lease_ms = INT64_MAX >> (4 * i % 62);
            }
            check("aeoaoeaaoooeeeao", whole);
        }
}

Test(many, names_of_any_bytes)
{
    for (unsigned i = 0; i < HLK_COMBINE_MOST; i++) {
        for (unsigned k = 0; k < 256; k++)
            names[i][k] = (char)(k * (2 * i + 1) + i);
        memcpy(names[i] + 256, "\r\n$3\r\n{}", 8);
        q[i].name_len = 264;
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
        ok = hlk_many_combine(&mine, bytes, calls, n, whole);
        hlk_mem_fail_after(-1);
        cr_assert(ok || mine.len == 6);
        cr_assert_arr_eq(mine.data, "before", 6);
        hlk_buffer_fini(&mine);
        failures += !ok;
    }
    return hlk_many_combine(to, bytes, calls, n, whole);
}

Test(many, without_memory_nothing_is_appended)
{
    peer.mux->owner.combine = fails_everywhere;
    for (unsigned i = 0; i < HLK_COMBINE_MOST; i++)
        q[i].name_len = HLK_NAME_MAX;
    check("aeoaoeaaoooeeeao", true);
    cr_assert_eq(failures, 3, "%d", failures); /* 4096 << 3 bytes are enough */
}

/* --- who may be in it --- */

static char part_of(enum hlk_script script)
{
    q[0].script = script;
    cr_assert_eq(hlk_question_send(&q[0], peer.mux), HLK_OK);
    char part = q[0].call.part;
    peer_answers(&peer, ":1\r\n");
    return part ? part : '-';
}

static char acquires(void)
{
    return part_of(HLK_SCRIPT_LOCK_ACQUIRE);
}

static char ends(void)
{
    return part_of(HLK_SCRIPT_LOCK_END);
}

Test(many, takes_simple_acquires_and_ends)
{
    cr_assert_eq(acquires(), HLK_PART_ACQUIRE);
    cr_assert_eq(ends(), HLK_PART_END);
    q[0].open_ms = 3;
    cr_assert_eq(acquires(), HLK_PART_ACQUIRE);
    cr_assert_eq(ends(), HLK_PART_OPEN_END);
}

Test(many, takes_none_that_is_fenced)
{
    q[0].fenced = true;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
}

Test(many, takes_none_with_a_place_in_line)
{
    q[0].place.since_ms = 77;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
    q[0].open_ms = 3;
    cr_assert_eq(ends(), '-');
}

Test(many, takes_no_end_with_the_void_set)
{
    q[0].voiding = true;
    cr_assert_eq(ends(), '-');
    q[0].open_ms = 3;
    cr_assert_eq(ends(), '-');
}

Test(many, takes_none_that_carries_its_script)
{
    q[0].whole = true;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
}

Test(many, takes_none_that_asks_alone)
{
    q[0].alone = true;
    cr_assert_eq(acquires(), '-');
    cr_assert_eq(ends(), '-');
    q[0].alone = false;
    cr_assert_eq(acquires(), HLK_PART_ACQUIRE);
}

Test(many, takes_no_other_question)
{
    for (int script = 0; script < HLK_SCRIPT_COUNT; script++)
        if (script != HLK_SCRIPT_LOCK_ACQUIRE && script != HLK_SCRIPT_LOCK_END && script != HLK_SCRIPT_LOCK_RENEW &&
            script != HLK_SCRIPT_LOCK_MANY) {
            cr_assert_eq(acquires(), HLK_PART_ACQUIRE); /* what it was before is forgotten */
            cr_assert_eq(part_of((enum hlk_script)script), '-', "%s", hlk_script_table[script].name);
        }
}

/* Between two that may be, one that may not. */
Test(many, breaks_at_who_may_not_be_in_it)
{
    q[1].fenced = true;
    hlk_mux_batch(peer.mux, true);
    for (int i = 0; i < 3; i++) {
        q[i].script = HLK_SCRIPT_LOCK_END;
        cr_assert_eq(hlk_question_send(&q[i], peer.mux), HLK_OK);
    }
    hlk_mux_batch(peer.mux, false);
    cr_assert_null(strstr(peer_hears(&peer), hlk_script_table[HLK_SCRIPT_LOCK_MANY].sha1));
    cr_assert_eq(peer.mux->counts.commands, 3u);
    peer_answers(&peer, ":1\r\n:1\r\n:1\r\n");
}
