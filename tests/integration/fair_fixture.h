/* fair_fixture.h - what the tests of fair locks share. */
#ifndef HLK_TEST_INTEGRATION_FAIR_FIXTURE_H
#define HLK_TEST_INTEGRATION_FAIR_FIXTURE_H

#include "support/history.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUEUE "redisson_lock_queue:{t}"
#define SCORES "redisson_lock_timeout:{t}"
#define JAVA "426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1"

void fair_start(void);
void fair_start_proxied(void);
hlk_lock *fair_lock(hlk_client *client, const char *name, hlk_owner *owner);
int64_t queued(void);

/* Whether the client is subscribed to its inbox. A waiter with a ticket is passed over until it is. */
bool hears_grants(const hlk_client *client);

/* The first in the queue. */
struct waiter {
    char name[192];
};

struct waiter first_waiter(void);
/* Whether a waiter of Redisson's is subscribed to its channel. */
bool listens(const char *waiter);

/* Wakes a waiter of Redisson's as Redisson does. */
void call(const char *waiter);

/* Starts threads of `client` that wait, one behind the other. */
void start_waiters(hlk_client *client, struct actor **waiters, int n);
int64_t script_calls(void);
bool no_queue(void);

#endif
