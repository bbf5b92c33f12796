/* Commands written by hand have the same bytes as those of hiredis' formatter. */
#include "script/wire.h"

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_WORDS = 320, MOST_LEN = 70000 };

static char bytes[MOST_WORDS * HLK_WIRE_HEAD + 4 * MOST_LEN];

static size_t write_all(int argc, const char **argv, const size_t *lens)
{
    char *at = hlk_wire_count(bytes, '*', (size_t)argc);
    for (int i = 0; i < argc; i++)
        at = hlk_wire_word(at, argv[i], lens[i]);
    return (size_t)(at - bytes);
}

static void check(int argc, const char **argv, const size_t *lens)
{
    char *theirs = NULL;
    long long n = redisFormatCommandArgv(&theirs, argc, argv, lens);
    cr_assert_gt(n, 0);
    size_t ours = write_all(argc, argv, lens);
    cr_assert_eq(ours, (size_t)n, "%d words: %zu bytes, theirs %lld", argc, ours, n);
    cr_assert_arr_eq(bytes, theirs, ours);
    redisFreeCommand(theirs);
}

static uint64_t random_state = 7;

static unsigned below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 11) % n);
}

static char noise[MOST_LEN];

static void fill(void)
{
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)below(256);
}

TestSuite(wire, .init = fill);

Test(wire, one_word)
{
    check(1, (const char *[]){ "PING" }, (size_t[]){ 4 });
}

Test(wire, an_empty_word)
{
    check(2, (const char *[]){ "ECHO", "" }, (size_t[]){ 4, 0 });
}

Test(wire, words_with_line_ends_and_nul)
{
    check(3, (const char *[]){ "SET", "a\r\nb\0c", "$3\r\n" }, (size_t[]){ 3, 6, 4 });
}

Test(wire, every_length_around_a_digit_more)
{
    static const size_t around[] = { 9, 99, 999, 9999 };
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        for (size_t len = around[i] - 1; len <= around[i] + 2; len++)
            check(2, (const char *[]){ "ECHO", noise }, (size_t[]){ 4, len });
    check(2, (const char *[]){ "ECHO", noise }, (size_t[]){ 4, MOST_LEN });
}

Test(wire, every_count_of_words)
{
    const char *argv[MOST_WORDS];
    size_t lens[MOST_WORDS];
    for (int argc = 1; argc <= MOST_WORDS; argc++) {
        for (int i = 0; i < argc; i++) {
            lens[i] = below(40);
            argv[i] = noise + below(MOST_LEN - 40);
        }
        check(argc, argv, lens);
    }
}

Test(wire, random_commands)
{
    const char *argv[16];
    size_t lens[16];
    for (int k = 0; k < 3000; k++) {
        int argc = 1 + (int)below(16);
        for (int i = 0; i < argc; i++) {
            lens[i] = below(below(10) ? 64 : 4000);
            argv[i] = noise + below(MOST_LEN - 4000);
        }
        check(argc, argv, lens);
    }
}

/* --- numbers --- */

static void check_number(int64_t n)
{
    char text[32], *theirs = NULL;
    (void)snprintf(text, sizeof text, "%lld", (long long)n);
    const char *argv[] = { text };
    size_t lens[] = { strlen(text) };
    long long len = redisFormatCommandArgv(&theirs, 1, argv, lens);
    char *at = hlk_wire_number(hlk_wire_count(bytes, '*', 1), n);
    cr_assert_eq((long long)(at - bytes), len, "%s", text);
    cr_assert_arr_eq(bytes, theirs, (size_t)len);
    redisFreeCommand(theirs);
}

Test(wire, numbers_of_every_length)
{
    for (int64_t n = 1; n < INT64_MAX / 10; n *= 10)
        for (int64_t k = n - 2; k <= n + 2; k++) {
            check_number(k);
            check_number(-k);
        }
    check_number(0);
    check_number(INT64_MAX);
    check_number(INT64_MIN);
}

Test(wire, random_numbers)
{
    for (int i = 0; i < 20000; i++)
        check_number((int64_t)(((uint64_t)below(UINT32_MAX) << 32 | below(UINT32_MAX)) >> below(64)));
}

Test(wire, a_head_fits_what_is_reckoned_for_it)
{
    char *at = hlk_wire_count(bytes, '$', SIZE_MAX / 2);
    cr_assert_leq(at - bytes + 2, HLK_WIRE_HEAD);
}
