/* HLK_LOCK_READ: the readers' half of Redisson's RReadWriteLock. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_read = { .format = &hlk_format_read };
