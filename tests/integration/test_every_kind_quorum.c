/* What holds for each kind of lock that a quorum of masters has, by a redlock:// URL. */
/* Shows: P53 */
#include "every_promise.h"

#include "quorum_fixture.h"

enum { OF_THEM = 3 };

/* A client that closes does not wait for a release that the majority has not needed: without it the key stays for its
 * lease. */
static void end(void)
{
    WAIT_FOR(quorum_keys("t") == 0);
    quorum_end();
}

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

/* The third one answers, which is no majority. */
static void arm(enum proxy_fault fault)
{
    for (int i = 0; i < OF_THEM - 1; i++)
        proxy_arm(proxies[i], fault, PROXY_SCRIPTS, 1);
}

static bool has_struck(void)
{
    bool any = false;
    for (int i = 0; i < OF_THEM - 1; i++)
        any |= proxy_struck(proxies[i]);
    return any;
}

/* While the connection to one of them is down the majority is of the others, and nothing is sent to that one. */
static void wait_struck(void)
{
    WAIT_FOR(has_struck());
    for (int i = 0; i < OF_THEM - 1; i++)
        if (!proxy_struck(proxies[i]))
            proxy_arm(proxies[i], PROXY_NONE, PROXY_SCRIPTS, 1);
}

static void restart(bool keep_data)
{
    quorum_forget_view(0);
    server_restart(masters[0], keep_data);
    views[0] = raw_open(masters[0]);
}

static const struct every_place place = { .begin = quorum_begin,
                                          .end = end,
                                          .open = open_masters,
                                          .close = quorum_close,
                                          .each_server = each_master,
                                          .allow = allow,
                                          .arm = arm,
                                          .wait_struck = wait_struck,
                                          .restart = restart,
                                          .watchdog_ms = 3000 };

__attribute__((constructor)) static void choose(void)
{
    every_place = &place;
}

#define PROMISES(kind)                                                                                                 \
    EACH_PROMISE_OF_CALLS(EVERY_TEST, kind)                                                                            \
    EACH_PROMISE_OF_HOLDS(EVERY_TEST, kind)                                                                            \
    EACH_PROMISE_OF_LOST_ANSWERS(EVERY_TEST, kind)                                                                     \
    EACH_PROMISE_OF_RESTARTS_OF_A_MASTER(EVERY_TEST, kind)                                                             \
    EACH_PROMISE_OF_KILLS(EVERY_TEST, kind)

EACH_QUORUM_LOCK(EVERY_SUITE)
EACH_QUORUM_LOCK(PROMISES)
