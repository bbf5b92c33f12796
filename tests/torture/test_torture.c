/* Every script of lua/ in every state of torture/table.c, and beside it what a server may meet: refused writes, waiters
 * that died, other people's data at its keys, huge numbers, a clock that was set. It ends after a bounded number of
 * commands, answers what its head lists, changes nothing when it answers an error, and leaves ttls. */
/* Shows: P2 */
#include "support/wait.h"
#include "torture/torture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SUITE(name) TestSuite(name, .init = torture_start, .fini = torture_stop, .timeout = 120)

/* A test for each family. */
#define FOR_EACH_FAMILY(suite, run)                                                                                    \
    SUITE(suite);                                                                                                      \
    Test(suite, plain)                                                                                                 \
    {                                                                                                                  \
        run(&torture_plain);                                                                                           \
    }                                                                                                                  \
    Test(suite, fair)                                                                                                  \
    {                                                                                                                  \
        run(&torture_fair);                                                                                            \
    }                                                                                                                  \
    Test(suite, string)                                                                                                \
    {                                                                                                                  \
        run(&torture_string);                                                                                          \
    }                                                                                                                  \
    Test(suite, rw)                                                                                                    \
    {                                                                                                                  \
        run(&torture_rw);                                                                                              \
    }                                                                                                                  \
    Test(suite, semaphore)                                                                                             \
    {                                                                                                                  \
        run(&torture_semaphore);                                                                                       \
    }                                                                                                                  \
    Test(suite, permit)                                                                                                \
    {                                                                                                                  \
        run(&torture_permit);                                                                                          \
    }                                                                                                                  \
    Test(suite, latch)                                                                                                 \
    {                                                                                                                  \
        run(&torture_latch);                                                                                           \
    }                                                                                                                  \
    Test(suite, condition)                                                                                             \
    {                                                                                                                  \
        run(&torture_condition);                                                                                       \
    }                                                                                                                  \
    Test(suite, quorum)                                                                                                \
    {                                                                                                                  \
        run(&torture_quorum);                                                                                          \
    }

/* --- the table */

Test(torture_table, has_each_script)
{
    bool found[HLK_SCRIPT_COUNT] = { false };
    for (const struct torture_family *const *family = torture_families; *family; family++)
        for (const struct torture_row *row = (*family)->rows; row->what; row++)
            found[row->script] = true;
    for (int i = 0; i < HLK_SCRIPT_COUNT; i++)
        cr_expect(found[i], "%s has no row in tests/torture/table.c", hlk_script_table[i].name);
}

/* A line of code, without what is behind "--", has this word. */
static bool has_word(const char *line, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= len && strncmp(line + i, "--", 2) != 0; i++)
        if (strncmp(line + i, word, n) == 0 && (i == 0 || line[i - 1] == ' ') && (i + n == len || line[i + n] == ' '))
            return true;
    return false;
}

/* Its bound is in the loop's first line: `while` and `repeat` have none. */
Test(torture_table, every_loop_has_a_bound)
{
    for (int i = 0; i < HLK_SCRIPT_COUNT; i++) {
        const char *code = hlk_script_table[i].text;
        for (size_t len; code && *code; code += len + (code[len] == '\n')) {
            len = strcspn(code, "\n");
            cr_expect(!has_word(code, len, "while") && !has_word(code, len, "repeat"), "%s: %.*s",
                      hlk_script_table[i].name, (int)len, code);
        }
    }
}

/* --- nothing is wrong */

static void expect_all(const struct torture_case *at, struct torture_run *run, const char *errors)
{
    torture_build(at, 0);
    torture_run(at, run);
    torture_expect_answer(at, run, errors);
    torture_expect_bounded(at, run);
    torture_expect_ttls(at, run);
    torture_expect_sound(at, run);
}

static void without_fault(const struct torture_case *at)
{
    struct torture_run run;
    expect_all(at, &run, "(never)");
    torture_expect_no_ticket(at, &run);
    torture_free(&run);
}

static void answers(const struct torture_family *family)
{
    torture_for_all(family, "without Redisson's subscribers", without_fault);
    torture_subscribe_java(true);
    torture_for_all(family, "with Redisson's subscribers", without_fault);
}

FOR_EACH_FAMILY(torture_answers, answers)

/* --- after each other script of the family: a repeat, a late attempt, a second caller of the same hold */

static void after_each(const struct torture_case *at)
{
    char how[128];
    for (const struct torture_row *first = at->family->rows; first->what; first++) {
        struct torture_case before = { at->family, at->state, first, "before another script" }, here = *at;
        struct torture_run run;
        snprintf(how, sizeof how, "after %s (%s)", hlk_script_table[first->script].name, first->what);
        here.how = how;
        torture_build(at, 0);
        torture_run(&before, &run);
        torture_free(&run);
        torture_run(&here, &run);
        torture_expect_answer(&here, &run, "(never)");
        torture_expect_bounded(&here, &run);
        torture_expect_ttls(&here, &run);
        torture_expect_sound(&here, &run);
        torture_free(&run);
    }
}

static void repeats(const struct torture_family *family)
{
    torture_subscribe_java(true);
    torture_for_all(family, "", after_each);
}

FOR_EACH_FAMILY(torture_late, repeats)

/* --- the server's clock was set by 10 minutes after the state was built */

/* A wait that names no holder is short. */
static void expect_short(const struct torture_case *at, const struct torture_run *run)
{
    long long ms = 0;
    bool short_by_nature = at->row->script == HLK_SCRIPT_PERMIT_ACQUIRE;
    if (sscanf(run->answer, "[:%lld, \"", &ms) == 1 && (short_by_nature || strstr(run->answer, ", \"\", ")))
        torture_expect(ms <= 10000, at, run, "a long wait without a holder");
}

static int64_t ahead_ms;

static void with_clock(const struct torture_case *at)
{
    struct torture_run run;
    torture_build(at, ahead_ms);
    torture_run(at, &run);
    torture_expect_answer(at, &run, "(never)");
    torture_expect_bounded(at, &run);
    torture_expect_ttls(at, &run);
    torture_expect_sound(at, &run);
    expect_short(at, &run);
    torture_free(&run);
}

static void keeps_time(const struct torture_family *family)
{
    torture_subscribe_java(true);
    ahead_ms = 600000;
    torture_for_all(family, "the clock was set back", with_clock);
    ahead_ms = -600000;
    torture_for_all(family, "the clock was set forward", with_clock);
}

FOR_EACH_FAMILY(torture_clock, keeps_time)

/* --- huge numbers */

static void with_numbers(const struct torture_case *at)
{
    static const char *const numbers[] = { "2147483647",          "-2147483648",       "4294967296",
                                           "9007199254740992",    "-9007199254740992", "9223372036854775807",
                                           "-9223372036854775808" };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char commands[1024];
        struct torture_run run;
        struct torture_state state = { at->state->name, commands };
        struct torture_case here = { at->family, &state, at->row, numbers[i] };
        snprintf(commands, sizeof commands, at->state->commands, numbers[i]);
        expect_all(&here, &run, "HASPLOCK");
        torture_free(&run);
    }
}

static void counts(const struct torture_family *family)
{
    torture_for_states(family, family->numbers, "", with_numbers);
    torture_subscribe_java(true);
    torture_for_states(family, family->numbers, "", with_numbers);
}

FOR_EACH_FAMILY(torture_numbers, counts)

/* --- the server refuses writes */

static const struct refusal {
    const char *word, *begin, *end;
} refusals[] = {
    { "NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0" },
    { "READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE" },
    { "OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0" },
    { "MISCONF", "CONFIG SET stop-writes-on-bgsave-error yes", "CONFIG SET stop-writes-on-bgsave-error no" },
};

static const struct refusal *refusal;

/* A snapshot that cannot be renamed has failed. */
static void let_a_snapshot_fail(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/dump.rdb", torture_server->dir);
    cr_assert_eq(mkdir(path, 0700), 0);
    raw(torture_admin, "CONFIG SET stop-writes-on-bgsave-error no");
    raw(torture_admin, "CONFIG SET save %s", "3600 1000000");
    raw(torture_admin, "BGSAVE");
    WAIT_FOR(strstr(raw(torture_admin, "INFO persistence"), "rdb_last_bgsave_status:err"));
}

/* Answers that are true although the script would have written: it holds already; the batch has done nothing; the lock
 * is free, and this try is not the first in the queue. */
#define CLAIMS_NOTHING "^\"" ME "\"$|^\\[:-2(, :-2)*\\]$|^\\[:0, \"\", :-1(, :0)?\\]$"

/* No write was possible, and the answer is no error: so without the refusal the script changes nothing. */
static void expect_nothing_to_write(const struct torture_case *at, const char *answer)
{
    struct torture_case here = *at;
    struct torture_run run;
    char how[128];
    snprintf(how, sizeof how, "after %s, which was answered by %.60s", refusal->word, answer);
    here.how = how;
    torture_build(at, 0);
    torture_run(at, &run);
    torture_expect_unchanged(&here, &run);
    torture_free(&run);
}

static void refused(const struct torture_case *at)
{
    struct torture_run run;
    torture_build(at, 0);
    raw(torture_admin, refusal->begin);
    torture_run(at, &run);
    raw(torture_admin, refusal->end);
    torture_expect_answer(at, &run, refusal->word);
    torture_expect_bounded(at, &run);
    torture_expect_ttls(at, &run);
    bool none = strcmp(refusal->word, "OOM") != 0; /* a full server allows some writes */
    if (none && run.answer[0] != '-' && !torture_matches(run.answer, CLAIMS_NOTHING))
        expect_nothing_to_write(at, run.answer);
    torture_free(&run);
}

static void refuses(const struct torture_family *family)
{
    let_a_snapshot_fail();
    torture_subscribe_java(true);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        refusal = &refusals[i];
        torture_for_all(family, refusal->word, refused);
    }
}

FOR_EACH_FAMILY(torture_refused, refuses)

/* --- other people's data */

static const struct torture_state others[] = { { "a list", "RPUSH|%s|a|b;" },
                                               { "a set", "SADD|%s|a|b;" },
                                               { "a stream", "XADD|%s|*|a|b;" },
                                               { "a text", "SET|%s|some text;" },
                                               { "a float", "SET|%s|1.5;" },
                                               { "a text like a holder of no client", "SET|%s|cart:1;" },
                                               { "a hash", "HSET|%s|name|jan|city|ulm;" },
                                               { "a hash with a number", "HSET|%s|apples|2;" },
                                               { "a hash with a number and a colon", "HSET|%s|sku:77|2;" },
                                               { "a hash with numbers", "HSET|%s|apples|2|pears|20000000000;" },
                                               { "a hash with a mode", "HSET|%s|mode|dark|size|3;" },
                                               { "a sorted set", "ZADD|%s|3|ann|5|bob;" },
                                               { "a plain lock", "HSET|%s|" JAVA "|1;" },
                                               { "a read lock", "HSET|%s|mode|read|" JAVA "|1;" },
                                               { NULL, NULL } };

static bool is_no_string(const struct torture_family *family, const struct torture_state *other)
{
    bool text = strncmp(other->commands, "SET|", 4) == 0;
    return !text || (family != &torture_string && family != &torture_quorum);
}

/* The leases are a sorted set: another one is not told from them. And a lock of the family's own form is no other. */
static bool is_told(const struct torture_family *family, const char *key, const struct torture_state *other)
{
    const char *own = family == &torture_rw ? "a read lock" : "a plain lock";
    bool hash = family == &torture_rw || family == &torture_plain || family == &torture_fair;
    if (hash && strcmp(other->name, own) == 0)
        return false;
    return strcmp(key, LEASES) != 0 || strncmp(other->commands, "ZADD|", 5) != 0;
}

static void with_other_data(const struct torture_case *at, const char *key, const struct torture_state *other, bool ttl)
{
    char commands[256], how[128];
    struct torture_run run;
    snprintf(commands, sizeof commands, other->commands, key);
    if (ttl)
        snprintf(commands + strlen(commands), sizeof commands - strlen(commands), "PEXPIRE|%s|60000;", key);
    snprintf(how, sizeof how, "%s is %s%s", key, other->name, ttl ? " with a ttl" : "");
    struct torture_case here = *at;
    here.how = how;
    torture_build(at, 0);
    raw(torture_admin, "DEL %s", key);
    torture_commands(at->family, commands, 0);
    torture_run(&here, &run);
    torture_expect_answer(&here, &run, "WRONGTYPE|HASPLOCK");
    torture_expect_bounded(&here, &run);
    torture_expect(torture_kept(&run, key), &here, &run, "it is changed");
    torture_free(&run);
}

/* The library's own keys may be of a wrong type, but what is in one of the right type is the library's. */
static void with_wrong_types(const struct torture_case *at)
{
    char keys[256], *save = NULL;
    snprintf(keys, sizeof keys, "%s", at->family->own_keys);
    for (const char *key = strtok_r(keys, "|", &save); key; key = strtok_r(NULL, "|", &save))
        for (const struct torture_state *other = others; other->name; other++) {
            const char *right = strcmp(key, FAIR_QUEUE) == 0 ? "RPUSH|" : "ZADD|";
            if (strncmp(other->commands, right, strlen(right)) != 0)
                with_other_data(at, key, other, false);
        }
}

static void with_all_other_data(const struct torture_case *at)
{
    char keys[256], *save = NULL;
    snprintf(keys, sizeof keys, "%s", at->family->shared_keys);
    for (const char *key = strtok_r(keys, "|", &save); key; key = strtok_r(NULL, "|", &save))
        for (const struct torture_state *other = others; other->name; other++)
            for (int ttl = 0; ttl < 2 && is_no_string(at->family, other) && is_told(at->family, key, other); ttl++)
                with_other_data(at, key, other, ttl);
}

static void respects(const struct torture_family *family)
{
    torture_subscribe_java(true);
    torture_for_all(family, "", with_all_other_data);
}

FOR_EACH_FAMILY(torture_others, respects)

static void refuses_types(const struct torture_family *family)
{
    torture_for_all(family, "", with_wrong_types);
}

FOR_EACH_FAMILY(torture_types, refuses_types)
