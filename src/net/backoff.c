/* backoff.c - see backoff.h. */
#include "net/backoff.h"

#include "base/debug.h"

void hlk_backoff_init(struct hlk_backoff *b, int64_t base_ms, int64_t cap_ms, uint64_t seed)
{
    HLK_DEBUG_ASSERT(base_ms > 0 && cap_ms > 0);
    *b = (struct hlk_backoff){ .base_ms = base_ms, .cap_ms = cap_ms, .seed = seed };
}

/* splitmix64: works with any seed, also 0. */
static uint64_t next_random(uint64_t *seed)
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* base * 2^attempt, at most the cap. */
static int64_t whole_ms(const struct hlk_backoff *b)
{
    int64_t ms = b->base_ms;
    for (unsigned i = 0; i < b->attempt && ms < b->cap_ms; i++)
        ms = ms > b->cap_ms / 2 ? b->cap_ms : ms * 2;
    return ms < b->cap_ms ? ms : b->cap_ms;
}

int64_t hlk_backoff_next(struct hlk_backoff *b)
{
    int64_t whole = whole_ms(b);
    int64_t half = whole / 2;
    if (b->attempt < UINT32_MAX)
        b->attempt++;
    return half + (int64_t)(next_random(&b->seed) % (uint64_t)(whole - half + 1));
}

void hlk_backoff_reset(struct hlk_backoff *b)
{
    b->attempt = 0;
}
