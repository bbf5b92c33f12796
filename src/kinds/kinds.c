#include "kinds/kind.h"

#include <hasplock/lock.h>

/* Every kind: the number that users know, and struct hlk_kind of the file that has its name. */
/* clang-format off */
#define EACH_KIND(is)                                                                                                  \
    is(HLK_LOCK_PLAIN, hlk_kind_plain)                                                                                 \
    is(HLK_LOCK_FENCED, hlk_kind_fenced)                                                                               \
    is(HLK_LOCK_FAIR, hlk_kind_fair)                                                                                   \
    is(HLK_LOCK_SPIN, hlk_kind_spin)                                                                                   \
    is(HLK_LOCK_NON_REENTRANT, hlk_kind_non_reentrant)                                                                 \
    is(HLK_LOCK_NON_REENTRANT_FAIR, hlk_kind_non_reentrant_fair)                                                       \
    is(HLK_LOCK_STRING, hlk_kind_string)                                                                               \
    is(HLK_LOCK_READ, hlk_kind_read)                                                                                   \
    is(HLK_LOCK_WRITE, hlk_kind_write)                                                                                 \
    is(HLK_LOCK_PERMIT, hlk_kind_permit)                                                                               \
    is(HLK_KIND_LATCH, hlk_kind_latch)                                                                                 \
    is(HLK_KIND_SEMAPHORE, hlk_kind_semaphore)                                                                         \
    is(HLK_KIND_BARRIER, hlk_kind_barrier)                                                                             \
    /* the end */
/* clang-format on */

#define DECLARE(number, name) extern const struct hlk_kind name;
#define ROW(number, name) [number] = &name,

EACH_KIND(DECLARE)

static const struct hlk_kind *const kinds[] = { EACH_KIND(ROW) };

#define KINDS (sizeof kinds / sizeof *kinds)
_Static_assert(KINDS <= HLK_FORMATS_MAX, "a kind's number fits into an entry");

const struct hlk_kind *hlk_kind_get(int number)
{
    return number >= 0 && (size_t)number < KINDS ? kinds[number] : NULL;
}

void hlk_kind_formats(const struct hlk_format *out[HLK_FORMATS_MAX])
{
    for (size_t i = 0; i < HLK_FORMATS_MAX; i++)
        out[i] = i < KINDS && kinds[i] ? kinds[i]->format : NULL;
}
