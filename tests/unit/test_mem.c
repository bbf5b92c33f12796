/* Memory, and how tests make it fail. */
#include "base/mem.h"

#include <criterion/criterion.h>
#include <string.h>

static void disarm(void)
{
    hlk_mem_fail_after(-1);
}

TestSuite(mem, .fini = disarm);

static int fails(void)
{
    void *mem = hlk_mem_zalloc(1);
    hlk_mem_free(mem);
    return mem == NULL;
}

Test(mem, zalloc_gives_zeros)
{
    char *mem = hlk_mem_zalloc(100);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(mem[i], 0);
    hlk_mem_free(mem);
}

Test(mem, zalloc_of_nothing_is_not_null)
{
    void *mem = hlk_mem_zalloc(0);
    cr_assert_not_null(mem);
    hlk_mem_free(mem);
}

Test(mem, memdup_adds_a_nul)
{
    char *copy = hlk_mem_memdup("a\0b?", 3);
    cr_assert_arr_eq(copy, "a\0b\0", 4);
    hlk_mem_free(copy);
    copy = hlk_mem_memdup(NULL, 0);
    cr_assert_str_eq(copy, "");
    hlk_mem_free(copy);
}

Test(mem, strdup_copies)
{
    char *copy = hlk_mem_strdup("text");
    cr_assert_str_eq(copy, "text");
    hlk_mem_free(copy);
    cr_assert_null(hlk_mem_strdup(NULL));
}

Test(mem, realloc_that_fails_leaves_the_old)
{
    char *old = hlk_mem_strdup("old");
    hlk_mem_fail_once(1);
    cr_assert_null(hlk_mem_realloc(old, 1000));
    cr_assert_str_eq(old, "old");
    old = hlk_mem_realloc(old, 1000);
    cr_assert_str_eq(old, "old");
    hlk_mem_free(old);
}

Test(mem, fail_after_fails_the_nth_and_all_later_ones)
{
    hlk_mem_fail_after(3);
    cr_assert_not(fails());
    cr_assert_not(fails());
    for (int i = 0; i < 5; i++)
        cr_assert(fails());
    hlk_mem_fail_after(-1);
    cr_assert_not(fails());
}

Test(mem, fail_once_fails_the_nth_only)
{
    hlk_mem_fail_once(2);
    cr_assert_not(fails());
    cr_assert(fails());
    for (int i = 0; i < 5; i++)
        cr_assert_not(fails());
}

Test(mem, every_way_to_get_memory_can_fail)
{
    hlk_mem_fail_after(1);
    cr_assert_null(hlk_mem_zalloc(8));
    cr_assert_null(hlk_mem_realloc(NULL, 8));
    cr_assert_null(hlk_mem_strdup("x"));
    cr_assert_null(hlk_mem_memdup("x", 1));
}
