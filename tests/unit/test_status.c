/* Codes, names and sentences. The numbers never change. */
#include <criterion/criterion.h>
#include <hasplock/hasplock.h>
#include <stdio.h>

static const struct {
    enum hlk_status status;
    int number;
    const char *name;
} all[] = {
    { HLK_OK, 0, "HLK_OK" },
    { HLK_BUSY, 1, "HLK_BUSY" },
    { HLK_TIMEOUT, 2, "HLK_TIMEOUT" },
    { HLK_INTERRUPTED, 3, "HLK_INTERRUPTED" },
    { HLK_NOT_HOLDER, 4, "HLK_NOT_HOLDER" },
    { HLK_LOST, 5, "HLK_LOST" },
    { HLK_DEADLOCK, 6, "HLK_DEADLOCK" },
    { HLK_NOT_REPLICATED, 7, "HLK_NOT_REPLICATED" },
    { HLK_E_INVALID, -100, "HLK_E_INVALID" },
    { HLK_E_NOMEM, -101, "HLK_E_NOMEM" },
    { HLK_E_OS, -102, "HLK_E_OS" },
    { HLK_E_CONNECT, -103, "HLK_E_CONNECT" },
    { HLK_E_AUTH, -104, "HLK_E_AUTH" },
    { HLK_E_SERVER, -105, "HLK_E_SERVER" },
    { HLK_E_UNSURE, -106, "HLK_E_UNSURE" },
    { HLK_E_FORKED, -107, "HLK_E_FORKED" },
    { HLK_E_CLOSED, -108, "HLK_E_CLOSED" },
};

#define COUNT (sizeof all / sizeof all[0])

Test(status, numbers_never_change)
{
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq((int)all[i].status, all[i].number, "%s", all[i].name);
}

Test(status, every_code_has_its_name)
{
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_str_eq(hlk_status_name(all[i].status), all[i].name);
}

Test(status, every_code_has_a_sentence_of_its_own)
{
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_str_not_empty(hlk_status_text(all[i].status));
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(hlk_status_text(all[i].status), hlk_status_text(all[k].status));
    }
}

Test(status, an_unknown_number_has_name_and_text_too)
{
    cr_assert_str_eq(hlk_status_name((enum hlk_status)77), "HLK_UNKNOWN");
    cr_assert_str_not_empty(hlk_status_text((enum hlk_status) - 1));
}

Test(status, version_is_that_of_the_header)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", HLK_VERSION_MAJOR, HLK_VERSION_MINOR, HLK_VERSION_PATCH);
    cr_assert_str_eq(hlk_version(), expected);
}
