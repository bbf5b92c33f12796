#include "locks.h"

/* One lock has a large part of all turns: many wait for it at the same time. */
const struct soak_lock soak_locks[TURNS] = {
    [LOCK_PLAIN] = { "t-plain", HLK_LOCK_PLAIN, 8, 0, true, 0 },
    [LOCK_BUSY] = { "t-busy", HLK_LOCK_PLAIN, 28, 0, true, 0 },
    [LOCK_FIXED] = { "t-fixed", HLK_LOCK_PLAIN, 8, 70, true, 0 },
    [LOCK_FENCED] = { "t-fenced", HLK_LOCK_FENCED, 8, 0, true, 0 },
    [LOCK_FENCED_FIXED] = { "t-fenced-fixed", HLK_LOCK_FENCED, 8, 70, true, 0 },
    [LOCK_FOREIGN] = { "t{foreign}", HLK_LOCK_PLAIN, 8, 0, true, 0 },
    [LOCK_FAIR] = { "t-fair", HLK_LOCK_FAIR, 8, 20, true, 0 },
    [LOCK_SPIN] = { "t-spin", HLK_LOCK_SPIN, 6, 20, true, 0 },
    [LOCK_STRING] = { "t-string", HLK_LOCK_STRING, 6, 20, false, 0 },
    [LOCK_NON_REENTRANT] = { "t-non-reentrant", HLK_LOCK_NON_REENTRANT, 6, 20, false, 0 },
    [LOCK_NON_REENTRANT_FAIR] = { "t-non-reentrant-fair", HLK_LOCK_NON_REENTRANT_FAIR, 6, 20, false, 0 },
    [LOCK_READ] = { "t-rw", HLK_LOCK_READ, 10, 20, true, 0 },
    [LOCK_WRITE] = { "t-rw", HLK_LOCK_WRITE, 6, 20, true, 0 },
    [LOCK_PERMITS] = { "t-permits", HLK_LOCK_PERMIT, 10, 20, false, 2 },
    [LOCK_CONDITION] = { "t-condition", HLK_LOCK_PLAIN, 10, 20, true, 0 },
    [LOCK_MULTI] = { "multilock", 0, 6, 20, false, 0 },
    [TURN_SEMAPHORE] = { "semaphore", 0, 12, 0, false, 4 },
    [TURN_LATCH] = { "latch", 0, 8, 0, false, 0 },
    [TURN_BARRIER] = { "barrier", 0, 8, 0, false, 0 },
};

const char *soak_lock_name(int lock)
{
    return soak_locks[lock].name;
}

const char *soak_turn_name(int turn)
{
    return turn == LOCK_READ ? "t-rw, to read" : turn == LOCK_WRITE ? "t-rw, to write" : soak_locks[turn].name;
}

bool soak_lock_is_fenced(int lock)
{
    return soak_locks[lock].kind == HLK_LOCK_FENCED;
}

int soak_lock_key(int lock)
{
    return lock == LOCK_WRITE ? LOCK_READ : lock;
}

bool soak_locks_share(int one, int other)
{
    return one == LOCK_READ && other == LOCK_READ;
}

struct hlk_lock_opts soak_lock_opts(int lock)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = soak_locks[lock].kind;
    opts.permits = soak_locks[lock].at_most;
    return opts;
}
