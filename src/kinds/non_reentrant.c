/* HLK_LOCK_NON_REENTRANT: Redisson's getNonReentrantLock. A plain lock that its holder cannot acquire again. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_non_reentrant = { .format = &hlk_format_lock, .non_reentrant = true };
