/* Notes of a semaphore that are needed no more: kept until commands name them. */
#include "api/settled.h"

#include <criterion/criterion.h>
#include <string.h>

static struct hlk_settled *settled;

static void init(void)
{
    settled = hlk_settled_make();
    cr_assert(settled);
}

static void fini(void)
{
    hlk_settled_free(settled);
}

TestSuite(settled, .init = init, .fini = fini, .timeout = 20);

Test(settled, each_is_named_once)
{
    char text[HLK_SETTLED_TEXT(HLK_SETTLED_SENT)];
    hlk_settled_note(settled, 7);
    hlk_settled_note(settled, UINT64_C(9223372036854775807));
    cr_assert_eq(hlk_settled_take(settled, text, HLK_SETTLED_SENT), 2u);
    cr_assert_str_eq(text, "9223372036854775807 7 ");
    cr_assert_eq(hlk_settled_take(settled, text, HLK_SETTLED_SENT), 0u);
    cr_assert_str_eq(text, "");
}

Test(settled, those_of_a_burst_are_named_by_later_commands)
{
    char text[HLK_SETTLED_TEXT(HLK_SETTLED_SENT)];
    unsigned named = 0, n;
    for (unsigned i = 0; i < HLK_SETTLED_KEPT; i++)
        hlk_settled_note(settled, UINT64_C(9223372036854775807));
    while ((n = hlk_settled_take(settled, text, HLK_SETTLED_SENT)) > 0) {
        cr_assert_leq(n, HLK_SETTLED_SENT);
        named += n;
    }
    cr_assert_eq(named, HLK_SETTLED_KEPT);
}

Test(settled, the_last_command_names_all)
{
    static char text[HLK_SETTLED_TEXT(HLK_SETTLED_KEPT)];
    for (unsigned i = 0; i < HLK_SETTLED_KEPT + 1; i++)
        hlk_settled_note(settled, UINT64_C(9223372036854775807));
    cr_assert_eq(hlk_settled_take(settled, text, HLK_SETTLED_KEPT), HLK_SETTLED_KEPT, "one was too many");
    cr_assert_eq(strlen(text), 20 * HLK_SETTLED_KEPT);
}
