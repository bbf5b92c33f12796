/* kinds.h - every kind of lock, by its number. */
#ifndef HLK_KINDS_KINDS_H
#define HLK_KINDS_KINDS_H

#include "kinds/kind.h"

/* By the number that users know (HLK_LOCK_PLAIN...), or one of hlk_kind_of. NULL: there is none. */
const struct hlk_kind *hlk_kind_get(int number);

/* The number of the kind that is no lock, and has this format. */
int hlk_kind_of(const struct hlk_format *format);

/* For the layers below: the format of each kind. NULL: there is none. */
void hlk_kind_formats(const struct hlk_format *out[HLK_FORMATS_MAX]);

#endif
