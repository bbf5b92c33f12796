/* fixture.h - what an interop test begins with: a server of its own, real Redisson beside it, a client of ours, and the
 * server's own view of both.
 *
 *     TestSuite(suite, .init = scene_open, .fini = scene_close, .timeout = SCENE_SECONDS);
 *
 * Java speaks TCP and hasplock the Unix socket, so that a transcript tells them apart (watch.h). The Redisson client
 * "A" is there from the start.
 *
 * WATCHDOG_MS, the lease of both sides where a test does not say otherwise, is chosen against WAIT_MS (wait.h): a
 * waiter is told of at least two thirds of it, 40 s, and would sleep that long if no message woke it. So a wait that is
 * over within WAIT_MS, 20 s, after a release was not ended by the ttl.
 */
#ifndef HLK_INTEROP_FIXTURE_H
#define HLK_INTEROP_FIXTURE_H

#include "interop/peer.h"
#include "interop/watch.h"
#include "support/raw.h"
#include "support/server.h"
#include "support/wait.h"

#include <hasplock/hasplock.h>
#include <pthread.h>

enum { WATCHDOG_MS = 60000, FIXTURE_SECONDS = 120 };

struct fixture {
    struct server *server;
    redisContext  *redis;               /* the test's own questions */
    struct peer   *java;
    char           java_url[64];
    hlk_client    *client;
};
extern struct fixture fixture;

void fixture_open(void);
void fixture_open_without_c(void);    /* scene.client is NULL */
void fixture_close(void);             /* also: no key and no subscription is left */

/* Another client of ours; closed by scene_close. `opts` NULL: WATCHDOG_MS. */
hlk_client *fixture_client(const struct hlk_client_opts *opts);
hlk_lock *fixture_lock(const char *name);     /* of scene.client; destroyed by scene_close */

/* A C thread that waits for a lock, then holds it until it is told to let go. */
struct c_waiter {
    pthread_t       thread;
    hlk_lock       *lock;
    int64_t         wait_ms;
    int             let_go[2];          /* a pipe: closed by c_waiter_end */
    _Atomic int     answered;
    enum hlk_status acquired, released;     /* released: only if acquired is HLK_OK */
    int64_t         asked_us, answered_us;  /* peer_now_us */
};
void c_waiter_start(struct c_waiter *waiter, hlk_lock *lock, int64_t wait_ms);
enum hlk_status c_waiter_answer(struct c_waiter *waiter);   /* waits for the acquire's answer */
enum hlk_status c_waiter_end(struct c_waiter *waiter);      /* lets go if it holds; the release's answer */

/* Waits until a waiter of that side sleeps: it has subscribed, and has then asked once more in vain. The watch must
 * have been started before the waiter. `lock` may be a pattern (watch.h). */
void await_parked(struct watch *watch, char side, const char *lock);

/* Asserts that `lock` is held by a field that begins with `prefix`, `count` times, with a ttl of low .. high ms. */
void expect_held(const char *lock, const char *prefix, int64_t count, int64_t low, int64_t high);
void expect_free(const char *lock);

/* Waits until nobody listens for the release of `lock`. */
void await_no_listeners(const char *lock);

#endif
