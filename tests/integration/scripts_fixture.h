/* scripts_fixture.h - what the tests of lua/lock_*.lua share: a server, the scripts as functions, what is in Redis
 * afterwards, and what was published. The texts are the embedded ones. EVAL runs them as the user that the library
 * would be.
 *
 * A client is alive when its inbox has a subscriber: subscribe(INBOX(CLIENT_B)) makes B's client alive. */
#ifndef HLK_TEST_INTEGRATION_SCRIPTS_FIXTURE_H
#define HLK_TEST_INTEGRATION_SCRIPTS_FIXTURE_H

#include "support/acl.h"
#include "support/raw.h"
#include "support/script.h"
#include "support/server.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern struct server *server;
extern redisContext *user;  /* runs the scripts */
extern redisContext *admin; /* reads and prepares what is in Redis */

#define LOCK "t"
#define QUEUE "hasplock_queue:{t}"
#define TOKEN "redisson_lock_token:{t}"
#define CHANNEL "redisson_lock__channel:{t}"
#define INBOX(client) "hasplock_inbox:" client
#define CLIENT_A "hlk-a-1-x"
#define CLIENT_B "hlk-b-2-y"
#define CLIENT_C "hlk-c-3-z"
#define A CLIENT_A ":1"
#define B CLIENT_B ":7"
#define C CLIENT_C ":9"
#define FOREIGN "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"

/* A ticket in the queue. A grant sets the lock's ttl to 5 s. */
#define TICKET(hold) hold " 5000 0 0 1700000000000"
/* The ticket of a waiter that takes `tokens` tokens above `floor`. */
#define FENCED(hold, tokens, floor) hold " 5000 " #tokens " " #floor " 1700000000000"

void scripts_start(void);
void scripts_stop(void);

#define SCRIPTS_SUITE(name) TestSuite(name, .init = scripts_start, .fini = scripts_stop, .timeout = 60)

/* --- the scripts as functions, their replies as text */

const char *acquire(int64_t lease_ms, const char *hold);

/* The same, and takes a ticket if the lock is held. */
const char *enqueue(const char *hold, const char *member);
const char *release(const char *hold, int64_t tombstone_ms);

/* Releases a hold that was granted for `ttl_ms` just now. */
const char *release_brief(const char *hold, int64_t ttl_ms);

/* The release of a waiter that gives up, which may have a ticket. */
const char *leave(const char *hold, int64_t tombstone_ms, const char *member);

/* With a yield window. */
const char *release_with_window(const char *hold, int64_t yield_ms);
const char *reacquire(const char *hold, int64_t count, int64_t lease_ms);
const char *renew(int64_t lease_ms, const char *hold);
const char *lock_break(void);
const char *query(void);

/* --- what is in Redis */

/* Every key with its value, as one text, to compare all of it. Ttls and scores are not in it. */
const char *everything(void);

#define HELD_BY_A "t hash [\"" A "\", \"1\"]; "
#define HELD_BY_B "t hash [\"" B "\", \"1\"]; "
#define TOMBSTONE_OF_A QUEUE " zset [\"" A "\"]; "

/* The whole queue in its order: tombstones first, a yield window last. */
const char *in_queue(void);
int64_t score(const char *member);
int64_t server_now_ms(void);
bool between(int64_t low, int64_t value, int64_t high);

/* Whether `ttl` was just set to `ms`. On a slow machine some of it has passed, never all. */
bool about(int64_t ttl, int64_t ms);
void fill_server(void);

/* The reply "busy" as text: "<holder> <position>". answered_ttl gives its ttl. */
const char *answered(const char *answer);
int64_t answered_ttl(const char *answer);

/* Puts n waiters whose client is gone before all others in the queue. */
void put_dead_in_front(int n);

/* --- what was published */

redisContext *subscribe(const char *channel);

/* The messages since the last call, with "; " between them; "": none. A PING on the same connection is answered after
 * all that was published before it. */
char *published_whole(redisContext *listener);

/* The same without the time that a grant's waiter was in the queue ("5000+17"), which depends on the machine. */
const char *published(redisContext *listener);

/* How often this command was called since CONFIG RESETSTAT; "": calls of all commands. */
int64_t calls(const char *command);

extern redisContext *inbox_a, *inbox_b, *inbox_c, *lock_channel;

void all_listen(void);
void nobody_listens(void);

/* The messages since the last call: "<to A>|<to B>|<to C>|<on the channel>". */
const char *said(void);

/* Whether anything was published since the server started, with or without subscribers. */
bool was_published(void);

#endif
