/* fixture.h - the fixture of the library's tests: a server, clients on it, a record of their events, and actors. An
 * actor is a thread that acquires, holds until actor_end, and releases.
 *
 *     static void start(void) { fixture_begin(0); }
 *     TestSuite(lock, .init = start, .fini = fixture_end);
 *
 *     Test(lock, excludes_another_thread)
 *     {
 *         hlk_client *client = fixture_open(NULL);
 *         hlk_lock *lock = fixture_lock(client, "t", NULL);
 *         struct actor *other = actor_start(lock, NULL);
 *         ...
 *     }
 *
 * A wait in vain (wait.h) prints the clients' counters and the server's keys.
 *
 * fixture_end releases nothing. It destroys the locks and closes the clients. Then it fails the test if a key or a
 * subscription is left (server.h). */
#ifndef HLK_TEST_FIXTURE_H
#define HLK_TEST_FIXTURE_H

#include "hasplock/hasplock.h"
#include "support/pause.h"
#include "support/proxy.h"
#include "support/raw.h"
#include "support/server.h"
#include "support/wait.h"

#include <stdbool.h>

struct fixture {
    struct server *server;
    struct proxy  *proxy;       /* with STAGE_PROXY, else NULL */
    redisContext  *redis;       /* the administrator's connection */
    const char    *url;         /* for clients: the proxy's, if there is one */
};
extern struct fixture fixture;

#define STAGE_PROXY 0x100u      /* beside SERVER_TCP, SERVER_AOF, SERVER_NOACL */

void fixture_begin(unsigned flags);
void fixture_end(void);
/* Destroys the locks and closes the clients, as fixture_end does: no command of theirs is on its way any more. */
void fixture_close_all(void);

/* INIT, with events, warnings and errors recorded (below). Change the result as needed and pass it to fixture_open. */
struct hlk_client_opts fixture_opts(void);
/* A client at fixture.url; NULL: fixture_opts(). A fault fails the test. Closed by fixture_end or fixture_close. Its
 * reconnect_timeout_ms is meant for the calls after it: the first connection may take WAIT_MS. */
hlk_client *fixture_open(const struct hlk_client_opts *opts);
hlk_client *fixture_open_at(const char *url, const struct hlk_client_opts *opts);
void fixture_close(hlk_client *client);
/* A lock; destroyed by fixture_end. */
hlk_lock *fixture_lock(hlk_client *client, const char *name, const struct hlk_lock_opts *opts);
/* Held by a client of its own, which connects to the server and not to the proxy. */
hlk_lock *fixture_held_elsewhere(const char *name, int64_t lease_ms);
hlk_lock *fixture_owned(hlk_client *client, const char *name, hlk_owner *owner);
/* Waits for a lock that another client holds until the client has subscribed to its inbox, then gives up. The inbox
 * stays subscribed for 10 s. */
void fixture_wait_in_vain(hlk_lock *held, hlk_client *client);

/* --- events of the clients */

struct fixture_event {
    int     kind;
    char    lock[96], holder[192], why[192];
    int64_t held_until_at_ms, reported_at_ms;
};
size_t fixture_events(int kind, const char *lock);                    /* so far; kind 0: all, lock NULL: all */
struct fixture_event fixture_wait_event(int kind, const char *lock);  /* the first such event; waits for it */
void fixture_forget_events(void);                                     /* all so far */
void fixture_on_event(const struct hlk_event *event, void *ctx);      /* records the event; for hlk_lock_opts too */
bool fixture_logged(const char *text);                                /* in a line so far */

struct hlk_counters fixture_counters(const hlk_client *client);
/* The server ends and is started again. Returns when this client is connected to it; NULL: at once. */
void fixture_restart(const hlk_client *client, bool keep_data);

/* --- actors */

struct actor;

/* A thread that calls hlk_lock_acquire_with(lock, opts) (NULL: waits for ever). opts are copied. */
struct actor *actor_start(hlk_lock *lock, const struct hlk_acquire_opts *opts);
struct actor *actor_start_wait(hlk_lock *lock, int64_t wait_ms);
/* An actor that releases at once. actor_end only joins it. */
struct actor *actor_start_passing(hlk_lock *lock);
bool actor_answered(struct actor *actor);                   /* the acquire has returned */
enum hlk_status actor_status(struct actor *actor);          /* its status; waits for it */
const char *actor_error(struct actor *actor);               /* its hlk_last_error() then */
int64_t actor_took_ms(struct actor *actor);                 /* duration of the acquire */
int64_t actor_running_ms(struct actor *actor);              /* the same without the machine's pauses (pause.h) */
int64_t actor_answered_at_ms(struct actor *actor);
/* Lets it release if it holds; joins and frees it. Returns the status of the release, or of the acquire if that was not
 * HLK_OK. */
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

/* Acquires NOWAIT in a thread of its own, and releases if that succeeds. Shows whether another holder could acquire. */
enum hlk_status fixture_try(hlk_lock *lock);

/* Waits until `n` threads or async calls of the client wait for a lock. */
#define WAIT_FOR_WAITERS(client, n) WAIT_FOR(fixture_counters(client).waiting == (uint64_t)(n))

#endif
