/* hlk_semaphore: Redisson's RSemaphore. */
#include "kinds/kind.h"

const struct hlk_kind hlk_kind_semaphore = { .format = &hlk_format_semaphore, .no_lock = true };
