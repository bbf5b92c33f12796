/* opts.h - options structs of callers built against an older or a newer header: `size` first, zero means "as
 * before". */
#ifndef HLK_BASE_OPTS_H
#define HLK_BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Copies as much as both know over the defaults in `to`. False: it says no size, or it is larger than ours with
 * something other than zero in the part that we do not know. */
static inline bool hlk_opts_copy(void *to, size_t to_size, const void *from, size_t from_size)
{
    const unsigned char *bytes = from;
    for (size_t i = to_size; i < from_size; i++)
        if (bytes[i])
            return false;
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    return from_size >= sizeof(size_t);
}

#endif
