/* HLK_LOCK_FENCED: Redisson's RFencedLock. A plain lock, each of whose holds takes a number that only grows. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_fenced = { .format = &hlk_format_lock, .fenced = true };
