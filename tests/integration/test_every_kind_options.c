/* What holds for each kind of lock, for clients that listen, never poll before they block, and pass nothing on. */
/* Shows: P53 */
#include "every_promise.h"

static hlk_client *open_unusual(const struct hlk_client_opts *given)
{
    struct hlk_client_opts opts = *given;
    opts.flags |= HLK_OPEN_LISTEN | HLK_OPEN_NO_SPIN;
    opts.local_passes = -1;
    opts.yield_every = -1;
    return fixture_open(&opts);
}

static struct every_place place;

__attribute__((constructor)) static void choose(void)
{
    place = every_one_server;
    place.open = open_unusual;
    every_place = &place;
}

#define CALLS(kind) EACH_PROMISE_OF_CALLS(EVERY_TEST, kind)
#define HOLDS(kind) EACH_PROMISE_OF_HOLDS(EVERY_TEST, kind)

EACH_KIND(EVERY_SUITE)
EACH_KIND(CALLS)
EACH_LOCK(HOLDS)
