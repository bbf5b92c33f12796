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
