/* fair_scripts_fixture.h - what the tests of lua/fair_*.lua share: a server, the scripts as functions, and what is in
 * Redis afterwards. The texts are the embedded ones. EVAL runs them as the user that the library would be. */
#ifndef HLK_TEST_INTEGRATION_FAIR_SCRIPTS_FIXTURE_H
#define HLK_TEST_INTEGRATION_FAIR_SCRIPTS_FIXTURE_H

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
#define QUEUE "redisson_lock_queue:{t}"
#define SCORES "redisson_lock_timeout:{t}"
#define NOTES "hasplock_fair:{t}"
#define PLAIN_QUEUE "hasplock_queue:{t}"
#define CHANNEL "redisson_lock__channel:{t}"
#define A "hlk-a-1-x:1"
#define B "hlk-b-2-y:7"
#define B2 "hlk-b-2-y:8" /* of the same client */
#define C "hlk-c-3-z:8"
#define D "hlk-d-4-z:9"
#define JAVA "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"
#define JAVA2 "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:2"
#define PATIENCE 300000
#define LEAD 150000
#define GRANT 5000

void fair_scripts_start(void);
void fair_scripts_stop(void);

/* --- the scripts as functions, their replies as text */

const char *join_for(const char *hold, int64_t lease_ms, int64_t grant_ms);
const char *join(const char *hold);

/* As a waiter that polls. It also looks for waiters of another kind. */
const char *join_polling(const char *hold);
const char *try_acquire(int64_t lease_ms, const char *hold);

const char *release(const char *hold);
const char *release_in_doubt(const char *hold, int64_t tombstone_ms);
const char *leave(const char *hold);
const char *fair_break(void);
const char *query(const char *most);

/* The reply "busy". */
struct busy {
    long long ms, position, foreign, mixed;
    char holder[64];
};

struct busy busy(const char *reply);

/* --- what is in Redis */

const char *queue(void);
int64_t score(const char *waiter);
int64_t server_ms(void);

/* Whether queue and scores name the same waiters. */
bool in_step(void);
bool between(int64_t low, int64_t value, int64_t high);

/* Whether `ttl` was just set to `ms`. On a slow machine some of it has passed, never all. */
bool about(int64_t ttl, int64_t ms);
bool nothing_is_left(void);
bool is_held_by(const char *hold);

/* --- subscribers and messages */

/* Subscribes to a waiter's channel: its client's inbox, or its own channel if it is Redisson's. */
redisContext *listens(const char *waiter);
bool was_notified(redisContext *listener, const char *what);
bool was_called(redisContext *java);
bool was_not_notified(redisContext *listener);

/* Ends the subscription, and waits until the server has noticed. */
void unsubscribes(redisContext *listener, const char *waiter);

/* A waiter of Redisson's, as its own script would have put it there. */
void java_waits(const char *waiter, int64_t score_ms);

/* The lock's key ends, and no script publishes that. */
void expires(void);

/* The one moment in NOTES until which a waiter is kept, or waited for, is over. */
void its_time_is_over(void);
void fill_server(void);

#define FAIR_SCRIPTS_SUITE(name) TestSuite(name, .init = fair_scripts_start, .fini = fair_scripts_stop, .timeout = 60)

#endif
