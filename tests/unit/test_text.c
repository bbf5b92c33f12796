/* Texts in a buffer of fixed size. */
#include "base/text.h"

#include <criterion/criterion.h>
#include <string.h>

static char buf[16];
static struct hlk_text text;

static void init(void)
{
    memset(buf, '?', sizeof buf);
    hlk_text_init(&text, buf, sizeof buf);
}

TestSuite(text, .init = init);

Test(text, begins_empty)
{
    cr_assert_str_eq(buf, "");
}

Test(text, adds_up)
{
    hlk_text_add(&text, "a=%d", 1);
    hlk_text_add(&text, " b=%s", "two");
    cr_assert_str_eq(buf, "a=1 b=two");
    cr_assert_eq(text.len, 9u);
}

Test(text, is_cut_and_ended)
{
    hlk_text_add(&text, "%s", "0123456789abcdefXYZ");
    cr_assert_str_eq(buf, "0123456789abcde");
    cr_assert_eq(text.len, 15u);
}

Test(text, full_stays_full)
{
    hlk_text_add(&text, "%s", "0123456789abcde");
    hlk_text_add(&text, "more");
    hlk_text_add_quoted(&text, "more", 4, 4);
    cr_assert_str_eq(buf, "0123456789abcde");
}

Test(text, of_one_byte_is_the_nul)
{
    hlk_text_init(&text, buf, 1);
    hlk_text_add(&text, "x");
    cr_assert_eq(buf[0], '\0');
    cr_assert_eq(buf[1], '?');
}

Test(text, never_writes_behind_its_size)
{
    hlk_text_init(&text, buf, 8);
    for (int i = 0; i < 5; i++)
        hlk_text_add_quoted(&text, "\x01\x02", 2, 9);
    cr_assert_eq(strlen(buf), 7u);
    for (size_t i = 8; i < sizeof buf; i++)
        cr_assert_eq(buf[i], '?');
}

Test(text, quotes_a_name)
{
    hlk_text_add_quoted(&text, "invoice:42", 10, 64);
    cr_assert_str_eq(buf, "\"invoice:42\"");
}

Test(text, quotes_nothing)
{
    hlk_text_add_quoted(&text, NULL, 0, 64);
    cr_assert_str_eq(buf, "\"\"");
}

Test(text, quotes_unprintable_bytes_as_hex)
{
    hlk_text_add_quoted(&text, "a\0\x1b\xff", 4, 64);
    cr_assert_str_eq(buf, "\"a\\x00\\x1b\\xff\"");
}

/* --- text that is safe to show --- */

static const char *shown(const char *bytes, size_t len)
{
    static char wide[256];
    hlk_text_init(&text, wide, sizeof wide);
    hlk_text_add_shown(&text, bytes, len);
    return wide;
}

#define SHOWN(bytes) shown(bytes, sizeof(bytes) - 1)

Test(text, shows_readable_text_as_it_is)
{
    cr_assert_str_eq(SHOWN("a \"quote\" \\ ~"), "a \"quote\" \\ ~");
    cr_assert_str_eq(SHOWN("Z\xc3\xbcrich \xe6\x9d\xb1\xe4\xba\xac \xf0\x9f\x94\x92"),
                     "Z\xc3\xbcrich \xe6\x9d\xb1\xe4\xba\xac \xf0\x9f\x94\x92");
    cr_assert_str_eq(SHOWN("\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd\xf4\x8f\xbf\xbd"),
                     "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd\xf4\x8f\xbf\xbd");
}

Test(text, shows_controls_as_hex)
{
    cr_assert_str_eq(SHOWN("a\r\n\t\0\x1b[0m\x7f"), "a\\x0d\\x0a\\x09\\x00\\x1b[0m\\x7f");
}

/* Control sequences of a terminal: CSI, OSC and the like, in both codings. */
Test(text, shows_controls_of_the_upper_half_as_hex)
{
    cr_assert_str_eq(SHOWN("\x9b"
                           "31m\x80\x9f"),
                     "\\x9b31m\\x80\\x9f");
    cr_assert_str_eq(SHOWN("\xc2\x9b"
                           "31m\xc2\x80\xc2\x9f"),
                     "\\xc2\\x9b31m\\xc2\\x80\\xc2\\x9f");
}

Test(text, shows_what_is_no_utf8_as_hex)
{
    cr_assert_str_eq(SHOWN("\xff\xfe\xc0\xaf"), "\\xff\\xfe\\xc0\\xaf"); /* overlong */
    cr_assert_str_eq(SHOWN("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf");          /* the same */
    cr_assert_str_eq(SHOWN("\xed\xa0\x80"), "\\xed\\xa0\\x80");          /* half of a surrogate pair */
    cr_assert_str_eq(SHOWN("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
    cr_assert_str_eq(SHOWN("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf");
    cr_assert_str_eq(SHOWN("a\xc3"), "a\\xc3"); /* cut */
    cr_assert_str_eq(SHOWN("\xe6\x9d"), "\\xe6\\x9d");
    cr_assert_str_eq(SHOWN("\xc3(\xe6\x9d("), "\\xc3(\\xe6\\x9d(");
}

Test(text, shows_what_turns_text_round_or_hides_as_hex)
{
    cr_assert_str_eq(SHOWN("a\xe2\x80\xae"
                           "b"),
                     "a\\xe2\\x80\\xae"
                     "b"); /* U+202E */
    cr_assert_str_eq(SHOWN("\xe2\x81\xa6\xd8\x9c\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\x8b\xef\xbb\xbf"),
                     "\\xe2\\x81\\xa6\\xd8\\x9c\\xe2\\x80\\x8f\\xe2\\x80\\xa8\\xe2\\x80\\x8b\\xef\\xbb\\xbf");
    cr_assert_str_eq(SHOWN("\xf3\xa0\x81\x81"), "\\xf3\\xa0\\x81\\x81"); /* a tag character */
}

Test(text, shows_dots_for_what_has_no_room)
{
    hlk_text_add_shown(&text, "0123456789abcde", 15);
    cr_assert_str_eq(buf, "0123456789abcde");
    init();
    hlk_text_add_shown(&text, "0123456789abcdef", 16);
    cr_assert_str_eq(buf, "0123456789ab...");
}

/* Neither half a character nor a part of \xNN. */
Test(text, shows_no_part_of_a_character)
{
    hlk_text_add_shown(&text,
                       "0123456789a\xc3\xbc"
                       "bcdef",
                       18);
    cr_assert_str_eq(buf, "0123456789a...");
    init();
    hlk_text_add_shown(&text, "0123456789\x1b-", 12);
    cr_assert_str_eq(buf, "0123456789\\x1b-");
    init();
    hlk_text_add_shown(&text, "0123456789\x1b--", 13);
    cr_assert_str_eq(buf, "0123456789...");
}

Test(text, quotes_readable_names_as_they_are)
{
    hlk_text_add_quoted(&text, "Z\xc3\xbcrich", 7, 64);
    cr_assert_str_eq(buf, "\"Z\xc3\xbcrich\"");
    init();
    hlk_text_add_quoted(&text, "Z\xc3\xbcrich", 7, 2);
    cr_assert_str_eq(buf, "\"Z\"...");
}

Test(text, quotes_quotes)
{
    hlk_text_add_quoted(&text, "a\"b\\c", 5, 64);
    cr_assert_str_eq(buf, "\"a\\\"b\\\\c\"");
}

Test(text, quotes_at_most_so_many_bytes_and_says_so)
{
    hlk_text_add_quoted(&text, "abcdef", 6, 4);
    cr_assert_str_eq(buf, "\"abcd\"...");
    hlk_text_init(&text, buf, sizeof buf);
    hlk_text_add_quoted(&text, "abcd", 4, 4);
    cr_assert_str_eq(buf, "\"abcd\"");
}
