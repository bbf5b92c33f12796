/* What holds for each kind of lock, on one server. */
/* Shows: P53 */
#include "every_promise.h"

#include "kinds/kind.h"
#include "kinds/kinds.h"

__attribute__((constructor)) static void choose(void)
{
    every_place = &every_one_server;
}

#define CALLS(kind)                                                                                                    \
    EACH_PROMISE_OF_CALLS(EVERY_TEST, kind)                                                                            \
    EACH_PROMISE_OF_LOST_ANSWERS(EVERY_TEST, kind)                                                                     \
    EACH_PROMISE_OF_RESTARTS(EVERY_TEST, kind)
#define HOLDS(kind) EACH_PROMISE_OF_HOLDS(EVERY_TEST, kind) EACH_PROMISE_OF_KILLS(EVERY_TEST, kind)

EACH_KIND(EVERY_SUITE)
EACH_KIND(CALLS)
EACH_LOCK(HOLDS)

/* --- the table --- */

static const struct every_kind *row_of(int number)
{
    for (int i = 0; i < EVERY_KINDS; i++)
        if (every_kinds[i].kind == number)
            return &every_kinds[i];
    return NULL;
}

/* Nobody holds a latch or a barrier: such a type has tests of its own. */
Test(every_kind, has_a_row_for_each_kind)
{
    for (int number = 0; number < HLK_FORMATS_MAX; number++) {
        const struct hlk_kind *kind = hlk_kind_get(number);
        const struct every_kind *row = row_of(number);
        if (kind && kind->format->holds_nothing)
            continue;
        cr_assert_eq(kind != NULL, row != NULL, "kind %d", number);
        if (!kind || kind->no_lock)
            continue;
        cr_assert_eq(row->nests, !kind->non_reentrant, "%s", row->name);
        cr_assert_eq(row->fenced, kind->fenced, "%s", row->name);
        cr_assert_eq(row->has_number, kind->has_number, "%s", row->name);
    }
}
