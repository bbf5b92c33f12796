/* opts.h - options structs of callers that were built against an older or a newer header. `size` comes first; a zero
 * field means the default. */
#ifndef HLK_BASE_OPTS_H
#define HLK_BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The options of no version are as large as this. A larger size is an error, and nothing is read. */
#define HLK_OPTS_MOST 1024

/* Copies the part that both versions know over the defaults in `to`. False: the size is invalid, or the part that this
 * version does not know is not all zero. */
static inline bool hlk_opts_copy(void *to, size_t to_size, const void *from, size_t from_size)
{
    const unsigned char *bytes = from;
    if (from_size < sizeof(size_t) || from_size > HLK_OPTS_MOST)
        return false;
    for (size_t i = to_size; i < from_size; i++)
        if (bytes[i])
            return false;
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    return true;
}

/* A wait as a caller gives it. One whose deadline has passed is HLK_NOWAIT. */
static inline int64_t hlk_opts_wait_ms(int64_t wait_ms)
{
    return wait_ms < 0 ? 0 : wait_ms;
}

/* No padding at the end: a later version's field there would be read from programs that never set it. */
#define HLK_OPTS_NO_TAIL(type, last)                                                                                   \
    _Static_assert(sizeof(void *) != 8 || sizeof(type) == offsetof(type, last) + sizeof(((type *)0)->last),            \
                   "its end is no field")

#endif
