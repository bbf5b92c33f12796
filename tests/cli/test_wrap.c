/* Paragraphs in 80 columns. */
#include "wrap.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *wrapped(const char *text, int indent)
{
    static char out[4096];
    cr_assert_eq(wrap(out, sizeof out, text, indent), strlen(out));
    return out;
}

Test(wrap, of_nothing_is_nothing)
{
    cr_assert_str_empty(wrapped("", 4));
}

Test(wrap, keeps_what_fits)
{
    cr_assert_str_eq(wrapped("one two", 2), "  one two\n");
    cr_assert_str_eq(wrapped("one\ntwo\n", 2), "  one\n  two\n");
}

Test(wrap, breaks_at_80_columns)
{
    static const char text[] = "aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee fffffffff ggggggggg hhhhhhhhhh iii";
    cr_assert_str_eq(wrapped(text, 0),
                     "aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee fffffffff ggggggggg hhhhhhhhhh\niii\n");
    cr_assert_str_eq(wrapped(text, 1), " aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee fffffffff ggggggggg\n"
                                       " hhhhhhhhhh iii\n");
}

Test(wrap, gives_a_long_word_its_own_line)
{
    char text[200] = "a ", expected[200] = "a\n";
    memset(text + 2, 'b', 90);
    strcat(text, " c");
    memset(expected + 2, 'b', 90);
    strcat(expected, "\nc\n");
    cr_assert_str_eq(wrapped(text, 0), expected);
}

Test(wrap, makes_of_a_command_several)
{
    cr_assert_str_eq(
        wrapped("ACL SETUSER bob +aaaaaaaaaaaaaaaaaaaaaaaaaaa +bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb +ccccccccccccc "
                "+ddd",
                3),
        "   ACL SETUSER bob +aaaaaaaaaaaaaaaaaaaaaaaaaaa +bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n"
        "   ACL SETUSER bob +ccccccccccccc +ddd\n");
}

Test(wrap, stops_where_there_is_no_room)
{
    char out[8];
    cr_assert_eq(wrap(out, sizeof out, "one two three", 2), 7);
    cr_assert_str_eq(out, "  one t");
}
