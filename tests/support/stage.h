/* stage.h - what every test of the library stands on: a server, clients on it, a record of what they told, and actors,
 * which are threads that acquire, hold until told and release.
 *
 *     static void start(void) { stage_up(0); }
 *     TestSuite(lock, .init = start, .fini = stage_down);
 *
 *     Test(lock, excludes_another_thread)
 *     {
 *         hlk_client *client = stage_open(NULL);
 *         hlk_lock *lock = stage_lock(client, "t", NULL);
 *         struct actor *other = actor_start(lock, NULL);
 *         ...
 *     }
 *
 * stage_down releases nothing: it destroys the locks, closes the clients, and then fails the test if a key, or anybody
 * subscribed to anything, is left (server.h).
 */
#ifndef HLK_TEST_STAGE_H
#define HLK_TEST_STAGE_H

#include "hasplock/hasplock.h"
#include "support/proxy.h"
#include "support/raw.h"
#include "support/server.h"
#include "support/wait.h"

#include <stdbool.h>

struct stage {
    struct server *server;
    struct proxy  *proxy;       /* with STAGE_PROXY, else NULL */
    redisContext  *redis;       /* the server's own view */
    const char    *url;         /* for clients: the proxy's if there is one */
};
extern struct stage stage;

#define STAGE_PROXY 0x100u      /* beside SERVER_TCP, SERVER_AOF, SERVER_NOACL */

void stage_up(unsigned flags);
void stage_down(void);

/* INIT, but events, warnings and errors are recorded (below). Take it, change it, give it to stage_open. */
struct hlk_client_opts stage_opts(void);
/* A client at stage.url; NULL: stage_opts(). A fault fails the test. Closed by stage_down or stage_close. */
hlk_client *stage_open(const struct hlk_client_opts *opts);
hlk_client *stage_open_at(const char *url, const struct hlk_client_opts *opts);
void stage_close(hlk_client *client);
/* A lock; destroyed by stage_down. */
hlk_lock *stage_lock(hlk_client *client, const char *name, const struct hlk_lock_opts *opts);
/* Held by a client of its own, that is at the server itself and not behind the proxy. */
hlk_lock *stage_held_elsewhere(const char *name, int64_t lease_ms);
hlk_lock *stage_owned(hlk_client *client, const char *name, hlk_owner *owner);

/* --- what clients told */

struct stage_event {
    int     kind;
    char    lock[96], holder[192], why[192];
    int64_t held_until_at_ms, told_at_ms;
};
size_t stage_events(int kind, const char *lock);                    /* so far; kind 0: all, lock NULL: all */
struct stage_event stage_wait_event(int kind, const char *lock);    /* the first such, waited for */
void stage_on_event(const struct hlk_event *event, void *ctx);      /* records; for hlk_lock_opts too */
bool stage_logged(const char *text);                                /* in some line so far */

struct hlk_counters stage_counters(const hlk_client *client);

/* --- actors */

struct actor;

/* A thread that calls hlk_lock_acquire_with(lock, opts) (NULL: waits for ever). opts are copied. */
struct actor *actor_start(hlk_lock *lock, const struct hlk_acquire_opts *opts);
struct actor *actor_start_wait(hlk_lock *lock, int64_t wait_ms);
/* One that releases at once, for many that take turns by themselves: actor_end only collects the answer. */
struct actor *actor_start_passing(hlk_lock *lock);
bool actor_answered(struct actor *actor);                   /* the acquire has returned */
enum hlk_status actor_status(struct actor *actor);          /* its answer, waited for */
const char *actor_error(struct actor *actor);               /* hlk_last_error() of it then */
int64_t actor_took_ms(struct actor *actor);                 /* how long it took */
int64_t actor_answered_at_ms(struct actor *actor);
/* Lets it release if it holds, ends and frees it. The release's answer; the acquire's if that was not HLK_OK. */
enum hlk_status actor_end(struct actor *actor);
/* Ends the thread without a release. */
void actor_leave(struct actor *actor);
/* The first of `actors` (NULL ones are skipped) whose acquire has returned; -1: none. *answered: how many have. */
int actors_answered(struct actor **actors, int n, int *answered);

/* pthread_cancel and pthread_kill of its thread; after actor_cancel only actor_join_cancelled may follow. */
void actor_cancel(struct actor *actor);
bool actor_join_cancelled(struct actor *actor);             /* true: it ended by the cancellation */
void actor_signal(struct actor *actor, int signal);

/* ThreadSanitizer cannot follow threads that a forked child of a threaded process starts. */
#if defined(__SANITIZE_THREAD__)
#define STAGE_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STAGE_UNDER_TSAN 1
#endif
#endif
#ifndef STAGE_UNDER_TSAN
#define STAGE_UNDER_TSAN 0
#endif

/* AddressSanitizer's malloc, unlike libc's, stays locked in a child that is forked while other threads allocate. */
#if defined(__SANITIZE_ADDRESS__)
#define STAGE_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STAGE_UNDER_ASAN 1
#endif
#endif
#ifndef STAGE_UNDER_ASAN
#define STAGE_UNDER_ASAN 0
#endif

/* Acquires NOWAIT in a thread of its own, and releases it again if it got it. For "is it free to somebody else?" */
enum hlk_status stage_try(hlk_lock *lock);

/* Waits until `n` threads or async calls of the client wait for a lock. */
#define WAIT_FOR_WAITERS(client, n) WAIT_FOR(stage_counters(client).waiting == (uint64_t)(n))

#endif
