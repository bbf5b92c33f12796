/* HLK_LOCK_SPIN: Redisson's RSpinLock. A plain lock whose waits poll, and need no right to pub/sub. Its release is that
 * of a plain lock, which tells waiters of other kinds where this user may publish; each such call of the script may be
 * refused. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_spin = { .format = &hlk_format_lock, .polls = true };
