/* kinds.h - every kind of lock, by its number. */
#ifndef HLK_KINDS_KINDS_H
#define HLK_KINDS_KINDS_H

#include "kinds/kind.h"

/* By the number that users know (HLK_LOCK_PLAIN...), or one of these. NULL: there is none. */
const struct hlk_kind *hlk_kind_get(int number);

/* For the layers below: the format of each kind. NULL: there is none. */
void hlk_kind_formats(const struct hlk_format *out[HLK_FORMATS_MAX]);

#endif
