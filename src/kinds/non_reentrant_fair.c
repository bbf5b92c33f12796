/* HLK_LOCK_NON_REENTRANT_FAIR: Redisson's getNonReentrantFairLock. A fair lock that its holder cannot acquire again. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_non_reentrant_fair = { .format = &hlk_format_fair, .non_reentrant = true };
