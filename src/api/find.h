/* find.h - hlk_lock_find on one server. */
#ifndef HLK_API_FIND_H
#define HLK_API_FIND_H

#include "handle/handle.h"

/* at, max_ms, error: as of hlk_lock_query_at (inspect.h). */
enum hlk_status hlk_lock_find_at(hlk_lock *handle, hlk_pipeline *at, int64_t max_ms, struct hlk_lock_found *out,
                                 struct hlk_error *error);

#endif
