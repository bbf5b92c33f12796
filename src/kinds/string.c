/* HLK_LOCK_STRING: SET NX PX with a token, as redis-py's Lock and bsm/redislock. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_string = { .format = &hlk_format_string, .non_reentrant = true };
