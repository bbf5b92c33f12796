/* HLK_LOCK_FAIR: Redisson's RFairLock. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_fair = { .format = &hlk_format_fair };
