/* HLK_LOCK_WRITE: the writers' half of Redisson's RReadWriteLock. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_write = { .format = &hlk_format_write };
