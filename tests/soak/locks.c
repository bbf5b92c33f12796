#include "locks.h"

/* One lock has a large part of all turns: many wait for it at the same time. */
const struct soak_lock soak_locks[LOCKS] = {
    [LOCK_PLAIN] = { "t-plain", HLK_LOCK_PLAIN, 8, 0, true },
    [LOCK_BUSY] = { "t-busy", HLK_LOCK_PLAIN, 28, 0, true },
    [LOCK_FIXED] = { "t-fixed", HLK_LOCK_PLAIN, 8, 70, true },
    [LOCK_FENCED] = { "t-fenced", HLK_LOCK_FENCED, 8, 0, true },
    [LOCK_FENCED_FIXED] = { "t-fenced-fixed", HLK_LOCK_FENCED, 8, 70, true },
    [LOCK_FOREIGN] = { "t{foreign}", HLK_LOCK_PLAIN, 8, 0, true },
    [LOCK_FAIR] = { "t-fair", HLK_LOCK_FAIR, 8, 20, true },
    [LOCK_SPIN] = { "t-spin", HLK_LOCK_SPIN, 6, 20, true },
    [LOCK_STRING] = { "t-string", HLK_LOCK_STRING, 6, 20, false },
    [LOCK_NON_REENTRANT] = { "t-non-reentrant", HLK_LOCK_NON_REENTRANT, 6, 20, false },
    [LOCK_NON_REENTRANT_FAIR] = { "t-non-reentrant-fair", HLK_LOCK_NON_REENTRANT_FAIR, 6, 20, false },
};

const char *soak_lock_name(int lock)
{
    return soak_locks[lock].name;
}

bool soak_lock_is_fenced(int lock)
{
    return soak_locks[lock].kind == HLK_LOCK_FENCED;
}

struct hlk_lock_opts soak_lock_opts(int lock)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = soak_locks[lock].kind;
    return opts;
}
