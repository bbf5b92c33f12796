/* Notes of a semaphore that are needed no more: kept until commands name them. */
#include "semaphore/semaphore_notes.h"

#include <criterion/criterion.h>
#include <string.h>

static struct hlk_notes *notes;

static void init(void)
{
    notes = hlk_notes_make();
    cr_assert(notes);
}

static void fini(void)
{
    hlk_notes_free(notes);
}

TestSuite(notes, .init = init, .fini = fini, .timeout = 20);

Test(notes, each_is_named_once)
{
    char text[HLK_NOTES_TEXT(HLK_NOTES_SENT)];
    (void)hlk_notes_add(notes, 7);
    (void)hlk_notes_add(notes, UINT64_C(9223372036854775807));
    cr_assert_eq(hlk_notes_take(notes, text, HLK_NOTES_SENT), 2u);
    cr_assert_str_eq(text, "9223372036854775807 7 ");
    cr_assert_eq(hlk_notes_take(notes, text, HLK_NOTES_SENT), 0u);
    cr_assert_str_eq(text, "");
}

Test(notes, those_of_a_burst_are_named_by_later_commands)
{
    char text[HLK_NOTES_TEXT(HLK_NOTES_SENT)];
    unsigned named = 0, n;
    for (unsigned i = 0; i < HLK_NOTES_KEPT; i++)
        (void)hlk_notes_add(notes, UINT64_C(9223372036854775807));
    while ((n = hlk_notes_take(notes, text, HLK_NOTES_SENT)) > 0) {
        cr_assert_leq(n, HLK_NOTES_SENT);
        named += n;
    }
    cr_assert_eq(named, HLK_NOTES_KEPT);
}

Test(notes, the_last_command_names_all)
{
    static char text[HLK_NOTES_TEXT(HLK_NOTES_KEPT)];
    for (unsigned i = 0; i < HLK_NOTES_KEPT + 1; i++)
        (void)hlk_notes_add(notes, UINT64_C(9223372036854775807));
    cr_assert_eq(hlk_notes_take(notes, text, HLK_NOTES_KEPT), HLK_NOTES_KEPT, "one was too many");
    cr_assert_eq(strlen(text), 20 * HLK_NOTES_KEPT);
}

Test(notes, those_of_a_handle_that_is_destroyed_need_a_command)
{
    char text[HLK_NOTES_TEXT(HLK_NOTES_SENT)];
    cr_assert_not(hlk_notes_add(notes, 7));
    hlk_notes_close(notes);
    cr_assert(hlk_notes_add(notes, 8));
    cr_assert_eq(hlk_notes_take(notes, text, HLK_NOTES_SENT), 2u);
    cr_assert_str_eq(text, "8 7 ");
}
