/* What is written by others, for people; and lengths of time as people write them. */
#include "text.h"

#include <criterion/criterion.h>
#include <string.h>

static int64_t ms_of(const char *text)
{
    int64_t ms = -1;
    return text_read_duration(text, &ms) ? ms : -1;
}

Test(duration, is_seconds_or_has_units)
{
    static const struct {
        const char *text;
        int64_t ms;
    } of[] = { { "30", 30000 },
               { "0.5", 500 },
               { "0", 0 },
               { ".25", 250 },
               { "5s", 5000 },
               { "1m", 60000 },
               { "2h", 7200000 },
               { "250ms", 250 },
               { "1d", 86400000 },
               { "1.5h", 5400000 },
               { "1m30s", 90000 },
               { "1h0.5m", 3630000 },
               { "0ms", 0 },
               { "0.0004", 0 },
               { "0.0006", 1 },
               { "99999999999999999999", INT64_MAX },
               { "999999999999d", INT64_MAX } };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        cr_assert_eq(ms_of(of[i].text), of[i].ms, "%s: %lld", of[i].text, (long long)ms_of(of[i].text));
}

Test(duration, is_nothing_else)
{
    static const char *const wrong[] = { "",     " 1",    "1 ",  "1 s",  "s",   "ms",   "5x",
                                         "1m30", "30 1m", "1e3", "0x10", "inf", "nan",  "1.2.3",
                                         ".",    "-1",    "+1",  "1,5",  "5S",  "1min", "5sec" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_eq(ms_of(wrong[i]), -1, "%s", wrong[i]);
}

Test(duration, is_shown_in_the_unit_that_is_short)
{
    char buf[32];
    cr_assert_str_eq(text_duration(buf, sizeof buf, 250), "250 ms");
    cr_assert_str_eq(text_duration(buf, sizeof buf, 1500), "1.5 s");
    cr_assert_str_eq(text_duration(buf, sizeof buf, 30000), "30 s");
    cr_assert_str_eq(text_duration(buf, sizeof buf, 90000), "90 s");
    cr_assert_str_eq(text_duration(buf, sizeof buf, 120000), "2 min");
    cr_assert_str_eq(text_duration(buf, sizeof buf, 7200000), "2 h");
}

static const char *shown(const char *bytes)
{
    static char buf[200];
    return text_shown(buf, sizeof buf, bytes);
}

Test(shown, is_utf8_as_it_is)
{
    cr_assert_str_eq(shown("b\xc3\xbcro \xe2\x82\xac \xf0\x9f\x94\x92"), "b\xc3\xbcro \xe2\x82\xac \xf0\x9f\x94\x92");
    cr_assert_str_eq(shown("a \"b\" \\"), "a \\\"b\\\" \\\\");
}

/* A terminal must not obey a name, nor show another one than it is. */
Test(shown, are_controls_and_what_turns_text_round_as_numbers)
{
    cr_assert_str_eq(shown("\033[2J\a\x7f"), "\\x1b[2J\\x07\\x7f");
    cr_assert_str_eq(shown("a\xc2\x9bz"), "a\\xc2\\x9bz", "C1");
    cr_assert_str_eq(shown("a\xe2\x80\xae"
                           "b"),
                     "a\\xe2\\x80\\xaeb", "right to left override");
    cr_assert_str_eq(shown("a\xe2\x81\xa6"
                           "b"),
                     "a\\xe2\\x81\\xa6b");
    cr_assert_str_eq(shown("a\xe2\x80\xa8"
                           "b"),
                     "a\\xe2\\x80\\xa8b", "line separator");
}

Test(shown, are_bytes_that_are_no_utf8_as_numbers)
{
    cr_assert_str_eq(shown("\xff\xc3"
                           "a\xc0\xaf\xed\xa0\x80\xe2\x82"),
                     "\\xff\\xc3a\\xc0\\xaf\\xed\\xa0\\x80\\xe2\\x82");
}

Test(shown, is_cut_between_characters)
{
    char buf[8];
    cr_assert_str_eq(text_shown(buf, sizeof buf, "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc"), "\xc3\xbc\xc3\xbc...");
    cr_assert_str_eq(text_shown(buf, sizeof buf, "abcd"), "abcd");
}
