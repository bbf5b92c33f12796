#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OWNED = 16 };

struct fixture fixture;
static hlk_client *clients[MAX_OWNED];
static hlk_lock *locks[MAX_OWNED];
static size_t clients_len, locks_len;

void fixture_open_without_c(void)
{
    fixture.server = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    server_allow(fixture.server, "redisson_unlock_latch:*"); /* Java's alone; Redisson 3.52 lets it run out, in 20 s */
    fixture.redis = raw_open(fixture.server);
    fixture.java = peer_open();
    snprintf(fixture.java_url, sizeof fixture.java_url, "redis://127.0.0.1:%d", fixture.server->port);
    peer_ask(fixture.java, "- open A %s %d", fixture.java_url, WATCHDOG_MS);
}

void fixture_open(void)
{
    fixture_open_without_c();
    fixture.client = fixture_client(NULL);
}

void fixture_close(void)
{
    for (size_t i = 0; i < locks_len; i++)
        hlk_lock_destroy(locks[i]);
    for (size_t i = 0; i < clients_len; i++)
        hlk_client_close(clients[i]);
    redisFree(fixture.redis);
    server_finish(fixture.server); /* Java is still connected: what it left behind would show */
    peer_close(fixture.java);
}

hlk_client *fixture_client(const struct hlk_client_opts *opts)
{
    struct hlk_client_opts defaults = HLK_CLIENT_OPTS_INIT;
    defaults.watchdog_ms = WATCHDOG_MS;
    cr_assert_lt(clients_len, MAX_OWNED);
    hlk_client *client = NULL;
    enum hlk_status status = hlk_client_open(&client, fixture.server->unix_url, opts ? opts : &defaults);
    cr_assert_eq(status, HLK_OK, "%s: %s", hlk_status_name(status), hlk_last_error());
    clients[clients_len++] = client;
    return client;
}

hlk_lock *fixture_lock(const char *name)
{
    cr_assert_lt(locks_len, MAX_OWNED);
    hlk_lock *lock = hlk_lock_create(fixture.client, name, NULL);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    locks[locks_len++] = lock;
    return lock;
}

static void *wait_and_hold(void *arg)
{
    struct c_waiter *waiter = arg;
    char byte;
    waiter->asked_us = peer_now_us();
    waiter->acquired = hlk_lock_acquire(waiter->lock, waiter->wait_ms);
    waiter->answered_us = peer_now_us();
    waiter->answered = 1;
    if (waiter->acquired == HLK_OK) {
        while (read(waiter->let_go[0], &byte, 1) < 0)
            ;
        waiter->released = hlk_lock_release(waiter->lock);
    }
    return NULL;
}

void c_waiter_start(struct c_waiter *waiter, hlk_lock *lock, int64_t wait_ms)
{
    memset(waiter, 0, sizeof *waiter);
    waiter->lock = lock;
    waiter->wait_ms = wait_ms;
    cr_assert_eq(pipe(waiter->let_go), 0);
    cr_assert_eq(pthread_create(&waiter->thread, NULL, wait_and_hold, waiter), 0);
}

enum hlk_status c_waiter_answer(struct c_waiter *waiter)
{
    WAIT_FOR(waiter->answered);
    return waiter->acquired;
}

enum hlk_status c_waiter_end(struct c_waiter *waiter)
{
    close(waiter->let_go[1]);
    pthread_join(waiter->thread, NULL);
    close(waiter->let_go[0]);
    return waiter->released;
}

void await_parked(struct watch *watch, char side, const char *lock)
{
    watch_for(watch, "%c> subscribe redisson_lock__channel:*", side);
    watch_for(watch, "%c. pttl %s", side, lock); /* the last thing a failing acquire of either side asks */
}

void expect_held(const char *lock, const char *prefix, int64_t count, int64_t low, int64_t high)
{
    const char *holder = raw_holder(fixture.redis, lock);
    int64_t ttl = raw_pttl(fixture.redis, lock);
    cr_assert_str_eq(raw(fixture.redis, "TYPE %s", lock), "hash");
    cr_assert(strncmp(holder, prefix, strlen(prefix)) == 0, "held by \"%s\", not by %s...", holder, prefix);
    cr_assert_eq(raw_int(fixture.redis, "HGET %s %s", lock, holder), count);
    cr_assert(low <= ttl && ttl <= high, "ttl %lld, not in %lld..%lld", (long long)ttl, (long long)low,
              (long long)high);
}

void expect_free(const char *lock)
{
    cr_assert_eq(raw_int(fixture.redis, "EXISTS %s", lock), 0, "held by %s", raw_holder(fixture.redis, lock));
}

void await_no_listeners(const char *lock)
{
    WAIT_FOR(raw_listeners(fixture.redis, lock) == 0);
}
