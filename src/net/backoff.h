/* backoff.h - pure: the delay before attempt n: base * 2^n, at most the cap, with jitter over [half, whole]. */
#ifndef HLK_NET_BACKOFF_H
#define HLK_NET_BACKOFF_H

#include <stdint.h>

struct hlk_backoff { int64_t base_ms, cap_ms; unsigned attempt; uint64_t seed; };

void hlk_backoff_init(struct hlk_backoff *b, int64_t base_ms, int64_t cap_ms, uint64_t seed);
int64_t hlk_backoff_next(struct hlk_backoff *b);        /* counts the attempt */
void hlk_backoff_reset(struct hlk_backoff *b);          /* after a success */

#endif
