/* What holds for each kind of lock that a quorum of masters has, by a redlock:// URL. */
#include "every_promise.h"

#include "quorum_fixture.h"

enum { OF_THEM = 3 };

static hlk_client *open_masters(const struct hlk_client_opts *opts)
{
    return quorum_open_url(OF_THEM, PATIENT, opts);
}

static void each_master(void (*fn)(redisContext *redis))
{
    for (int i = 0; i < OF_THEM; i++)
        fn(views[i]);
}

static void allow(const char *glob)
{
    for (int i = 0; i < OF_THEM; i++)
        server_allow(masters[i], glob);
}

static const struct every_place place = { .begin = quorum_begin,
                                          .end = quorum_end,
                                          .open = open_masters,
                                          .close = quorum_close,
                                          .each_server = each_master,
                                          .allow = allow,
                                          .watchdog_ms = 3000 };

__attribute__((constructor)) static void choose(void)
{
    every_place = &place;
}

#define PROMISES(kind) EACH_PROMISE_OF_CALLS(EVERY_TEST, kind) EACH_PROMISE_OF_HOLDS(EVERY_TEST, kind)

EACH_QUORUM_LOCK(EVERY_SUITE)
EACH_QUORUM_LOCK(PROMISES)
