/* local_start.h - starts a `local:` server on a thread of its own, because it may take long and must not block the
 * loop. */
#ifndef HLK_NET_LOCAL_START_H
#define HLK_NET_LOCAL_START_H

#include "base/error.h"

struct hlk_local_start;       /* reference-counted between its user and the thread */

struct hlk_local_start *hlk_local_start_begin(const char *name, int64_t reconnect_timeout_ms, struct hlk_error *error);
int hlk_local_start_fd(const struct hlk_local_start *local_start);        /* readable when done */
enum hlk_status hlk_local_start_take(struct hlk_local_start *local_start, char *path, size_t size,
                                     struct hlk_error *error);
void hlk_local_start_drop(struct hlk_local_start *local_start);           /* any time; NULL is fine */

#endif
