/* aside.h - starting a `local:` server may take long and must not hold the loop: it runs on a thread of its own. */
#ifndef HLK_NET_ASIDE_H
#define HLK_NET_ASIDE_H

#include "base/error.h"

struct hlk_aside;       /* reference-counted between asker and thread */

struct hlk_aside *hlk_aside_local(const char *name, int64_t patience_ms, struct hlk_error *error);
int hlk_aside_fd(const struct hlk_aside *aside);        /* readable when done */
enum hlk_status hlk_aside_take(struct hlk_aside *aside, char *path, size_t size, struct hlk_error *error);
void hlk_aside_drop(struct hlk_aside *aside);           /* any time; NULL is fine */

#endif
