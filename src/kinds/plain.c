/* HLK_LOCK_PLAIN: Redisson's RLock. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_plain = { .format = &hlk_format_lock };
