/* HLK_LOCK_PERMIT: one of the permits of Redisson's RPermitExpirableSemaphore. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_permit = { .format = &hlk_format_permit, .non_reentrant = true, .has_number = true };
