#include "support/fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLIENTS = 64, MOST_EVENTS = 4096, LOG_SIZE = 1 << 16 };

struct fixture fixture;

static struct {
    hlk_client *clients[MOST_CLIENTS];
    hlk_lock **locks;
    size_t lock_count, lock_room;

    pthread_mutex_t mu; /* guards the events, which the clients report on their own threads */
    struct fixture_event events[MOST_EVENTS];
    size_t event_count;
    char log[LOG_SIZE];
    size_t log_len;
} own = { .mu = PTHREAD_MUTEX_INITIALIZER };

/* --- what a wait in vain may have been for */

#define ALL_KEYS                                                                                                       \
    "local all = {} "                                                                                                  \
    "for _, key in ipairs(redis.call('KEYS', '*')) do "                                                                \
    "    local kind, value = redis.call('TYPE', key).ok, '' "                                                          \
    "    if kind == 'string' then value = redis.call('GET', key) "                                                     \
    "    elseif kind == 'hash' then value = redis.call('HGETALL', key) "                                               \
    "    elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') "                           \
    "    elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1) end "                                     \
    "    all[#all + 1] = { key, kind, redis.call('PTTL', key), value } "                                               \
    "end "                                                                                                             \
    "return all"

static void show_counters(const hlk_client *client)
{
    struct hlk_counters now = fixture_counters(client);
    const struct {
        const char *name;
        uint64_t value;
    } shown[] = {
        { "held", now.held },
        { "waiting", now.waiting },
        { "acquired", now.acquired },
        { "busy", now.busy },
        { "timeouts", now.timeouts },
        { "lost", now.lost },
        { "released", now.released },
        { "release_unsure", now.release_unsure },
        { "woken", now.woken },
        { "woken_by_ttl", now.woken_by_ttl },
        { "commands", now.commands },
        { "writes", now.writes },
        { "reconnects", now.reconnects },
        { "granted", now.granted },
        { "passed", now.passed },
        { "handed_back", now.handed_back },
    };
    fputs("[----] client:", stderr);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        fprintf(stderr, " %s %llu", shown[i].name, (unsigned long long)shown[i].value);
    fputc('\n', stderr);
}

static void show_losses(void)
{
    pthread_mutex_lock(&own.mu);
    for (size_t i = 0; i < own.event_count; i++)
        if (own.events[i].kind == HLK_EVENT_LOST)
            fprintf(stderr, "[----] lost, %lld ms ago: %s: %s\n",
                    (long long)(test_now_ms() - own.events[i].reported_at_ms), own.events[i].lock, own.events[i].why);
    pthread_mutex_unlock(&own.mu);
}

/* Any thread may wait in vain, so it has a connection of its own. */
static void show_state(void)
{
    for (size_t i = 0; i < MOST_CLIENTS; i++)
        if (own.clients[i])
            show_counters(own.clients[i]);
    show_losses();
    redisContext *redis = raw_open(fixture.server);
    fprintf(stderr, "[----] keys: %s\n", raw(redis, "EVAL %s 0", ALL_KEYS));
    redisFree(redis);
}

void fixture_begin(unsigned flags)
{
    pause_watch();
    test_on_vain_wait = show_state;
    fixture.server = server_start(flags & ~STAGE_PROXY, NULL);
    fixture.proxy = flags & STAGE_PROXY ? proxy_start(fixture.server) : NULL;
    fixture.redis = raw_open(fixture.server);
    fixture.url = fixture.proxy ? proxy_url(fixture.proxy) : hlk_test_url(fixture.server);
}

void fixture_close_all(void)
{
    for (size_t i = 0; i < own.lock_count; i++)
        hlk_lock_destroy(own.locks[i]);
    free(own.locks);
    own.locks = NULL;
    own.lock_count = own.lock_room = 0;
    for (size_t i = 0; i < MOST_CLIENTS; i++)
        fixture_close(own.clients[i]);
}

void fixture_end(void)
{
    fixture_close_all();
    test_on_vain_wait = NULL;
    redisFree(fixture.redis);
    proxy_stop(fixture.proxy);
    server_finish(fixture.server);
}

/* --- clients and locks */

static void on_log(int level, const char *line, void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&own.mu);
    size_t left = sizeof own.log - own.log_len;
    int len = snprintf(own.log + own.log_len, left, "%d %s\n", level, line);
    own.log_len += len > 0 && (size_t)len < left ? (size_t)len : 0;
    pthread_mutex_unlock(&own.mu);
}

void fixture_on_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&own.mu);
    if (own.event_count < MOST_EVENTS) {
        struct fixture_event *copy = &own.events[own.event_count++];
        copy->kind = event->kind;
        copy->held_until_at_ms = event->held_until_at_ms;
        copy->reported_at_ms = test_now_ms();
        snprintf(copy->lock, sizeof copy->lock, "%s", event->lock);
        snprintf(copy->holder, sizeof copy->holder, "%s", event->holder);
        snprintf(copy->why, sizeof copy->why, "%s", event->why);
    }
    pthread_mutex_unlock(&own.mu);
}

struct hlk_client_opts fixture_opts(void)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.on_event = fixture_on_event;
    opts.log = on_log;
    opts.log_level = HLK_LOG_INFO;
    return opts;
}

hlk_client *fixture_open_at(const char *url, const struct hlk_client_opts *opts)
{
    struct hlk_client_opts own_opts = fixture_opts();
    size_t place = 0;
    while (place < MOST_CLIENTS && own.clients[place])
        place++;
    if (place == MOST_CLIENTS)
        test_give_up("too many clients in one test");
    enum hlk_status status;
    int64_t began = test_now_ms();
    do
        status = hlk_client_open(&own.clients[place], url, opts ? opts : &own_opts);
    while (status == HLK_E_CONNECT && test_now_ms() - began < WAIT_MS);
    if (status != HLK_OK)
        test_give_up("hlk_client_open(%s): %s", url, hlk_last_error());
    return own.clients[place];
}

hlk_client *fixture_open(const struct hlk_client_opts *opts)
{
    return fixture_open_at(fixture.url, opts);
}

void fixture_close(hlk_client *client)
{
    for (size_t i = 0; client && i < MOST_CLIENTS; i++)
        if (own.clients[i] == client)
            own.clients[i] = NULL;
    hlk_client_close(client);
}

hlk_lock *fixture_lock(hlk_client *client, const char *name, const struct hlk_lock_opts *opts)
{
    hlk_lock *lock = hlk_lock_create(client, name, opts);
    if (!lock)
        test_give_up("hlk_lock_create(%s): %s", name, hlk_last_error());
    if (own.lock_count == own.lock_room) {
        own.lock_room = own.lock_room * 2 + 16;
        own.locks = realloc(own.locks, own.lock_room * sizeof(hlk_lock *));
    }
    return own.locks[own.lock_count++] = lock;
}

hlk_lock *fixture_held_elsewhere(const char *name, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = lease_ms;
    hlk_lock *lock = fixture_lock(fixture_open_at(hlk_test_url(fixture.server), NULL), name, &opts);
    if (hlk_lock_acquire(lock, HLK_NOWAIT) != HLK_OK)
        test_give_up("a free lock was not to be had: %s", hlk_last_error());
    return lock;
}

void fixture_wait_in_vain(hlk_lock *held, hlk_client *client)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    int64_t before = raw_inboxes(fixture.redis);
    opts.cancel = hlk_cancel_create(client);
    opts.wait_ms = HLK_FOREVER;
    struct actor *waiter = actor_start(held, &opts);
    WAIT_FOR(raw_inboxes(fixture.redis) > before);
    hlk_cancel_trigger(opts.cancel);
    if (actor_end(waiter) != HLK_INTERRUPTED)
        test_give_up("a wait that was cancelled ended otherwise: %s", hlk_last_error());
    hlk_cancel_destroy(opts.cancel);
}

hlk_lock *fixture_owned(hlk_client *client, const char *name, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    return fixture_lock(client, name, &opts);
}

/* --- events of the clients */

static bool event_is(const struct fixture_event *event, int kind, const char *lock)
{
    return (kind == 0 || event->kind == kind) && (!lock || strcmp(event->lock, lock) == 0);
}

size_t fixture_events(int kind, const char *lock)
{
    size_t found = 0;
    pthread_mutex_lock(&own.mu);
    for (size_t i = 0; i < own.event_count; i++)
        found += event_is(&own.events[i], kind, lock);
    pthread_mutex_unlock(&own.mu);
    return found;
}

struct fixture_event fixture_wait_event(int kind, const char *lock)
{
    struct fixture_event found = { .kind = 0 };
    WAIT_FOR(fixture_events(kind, lock) > 0);
    pthread_mutex_lock(&own.mu);
    for (size_t i = own.event_count; i > 0; i--)
        if (event_is(&own.events[i - 1], kind, lock))
            found = own.events[i - 1];
    pthread_mutex_unlock(&own.mu);
    return found;
}

void fixture_forget_events(void)
{
    pthread_mutex_lock(&own.mu);
    own.event_count = 0;
    pthread_mutex_unlock(&own.mu);
}

bool fixture_logged(const char *text)
{
    pthread_mutex_lock(&own.mu);
    own.log[own.log_len] = '\0';
    bool found = strstr(own.log, text) != NULL;
    pthread_mutex_unlock(&own.mu);
    return found;
}

struct hlk_counters fixture_counters(const hlk_client *client)
{
    struct hlk_counters counters = { .size = sizeof counters };
    if (hlk_client_counters(client, &counters) != HLK_OK)
        test_give_up("hlk_client_counters: %s", hlk_last_error());
    return counters;
}

void fixture_restart(const hlk_client *client, bool keep_data)
{
    uint64_t before = client ? fixture_counters(client).reconnects : 0;
    redisFree(fixture.redis);
    server_restart(fixture.server, keep_data);
    fixture.redis = raw_open(fixture.server);
    WAIT_FOR(!client || fixture_counters(client).reconnects > before);
}

/* --- actors */

struct actor {
    pthread_t thread;
    hlk_lock *lock;
    struct hlk_acquire_opts opts;

    pthread_mutex_t mu; /* guards: */
    pthread_cond_t changed;
    bool passing, answered, go_on, release;
    enum hlk_status acquired, released;
    int64_t started_at_ms, answered_at_ms;
    char error[512];
};

static void tell(struct actor *actor, enum hlk_status status)
{
    pthread_mutex_lock(&actor->mu);
    actor->acquired = status;
    actor->answered_at_ms = test_now_ms();
    snprintf(actor->error, sizeof actor->error, "%s", status == HLK_OK ? "" : hlk_last_error());
    actor->answered = true;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mu);
}

static bool may_release(struct actor *actor)
{
    pthread_mutex_lock(&actor->mu);
    while (!actor->go_on)
        pthread_cond_wait(&actor->changed, &actor->mu);
    bool release = actor->release;
    pthread_mutex_unlock(&actor->mu);
    return release;
}

static void *play(void *arg)
{
    struct actor *actor = arg;
    enum hlk_status status = hlk_lock_acquire_with(actor->lock, &actor->opts);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); /* only the acquire may be cancelled */
    tell(actor, status);
    if (actor->passing || may_release(actor))
        status = status == HLK_OK ? hlk_lock_release(actor->lock) : status;
    if (status != HLK_OK && (actor->passing || actor->acquired == HLK_OK)) /* unexpected; tests also see the status */
        fprintf(stderr, "an actor: %s\n", hlk_last_error());
    actor->released = status;
    return NULL;
}

static struct actor *start(hlk_lock *lock, const struct hlk_acquire_opts *opts, bool passing)
{
    struct hlk_acquire_opts init = HLK_ACQUIRE_OPTS_INIT;
    struct actor *actor = calloc(1, sizeof *actor);
    actor->lock = lock;
    actor->opts = opts ? *opts : init;
    actor->passing = passing;
    actor->started_at_ms = test_now_ms();
    pthread_mutex_init(&actor->mu, NULL);
    pthread_cond_init(&actor->changed, NULL);
    if (pthread_create(&actor->thread, NULL, play, actor) != 0)
        test_give_up("no thread for an actor");
    return actor;
}

struct actor *actor_start(hlk_lock *lock, const struct hlk_acquire_opts *opts)
{
    return start(lock, opts, false);
}

struct actor *actor_start_passing(hlk_lock *lock)
{
    return start(lock, NULL, true);
}

struct actor *actor_start_wait(hlk_lock *lock, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return actor_start(lock, &opts);
}

bool actor_answered(struct actor *actor)
{
    pthread_mutex_lock(&actor->mu);
    bool answered = actor->answered;
    pthread_mutex_unlock(&actor->mu);
    return answered;
}

enum hlk_status actor_status(struct actor *actor)
{
    WAIT_FOR(actor_answered(actor));
    return actor->acquired;
}

const char *actor_error(struct actor *actor)
{
    WAIT_FOR(actor_answered(actor));
    return actor->error;
}

int64_t actor_answered_at_ms(struct actor *actor)
{
    WAIT_FOR(actor_answered(actor));
    return actor->answered_at_ms;
}

int64_t actor_took_ms(struct actor *actor)
{
    return actor_answered_at_ms(actor) - actor->started_at_ms;
}

int64_t actor_running_ms(struct actor *actor)
{
    return running_between_ms(actor->started_at_ms, actor_answered_at_ms(actor));
}

static void actor_free(struct actor *actor)
{
    pthread_mutex_destroy(&actor->mu);
    pthread_cond_destroy(&actor->changed);
    free(actor);
}

static enum hlk_status finish(struct actor *actor, bool release)
{
    WAIT_FOR(actor_answered(actor));
    pthread_mutex_lock(&actor->mu);
    actor->release = release;
    actor->go_on = true;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mu);
    pthread_join(actor->thread, NULL);
    enum hlk_status status = actor->released;
    actor_free(actor);
    return status;
}

enum hlk_status actor_end(struct actor *actor)
{
    return finish(actor, true);
}

void actor_leave(struct actor *actor)
{
    finish(actor, false);
}

int actors_answered(struct actor **actors, int n, int *answered)
{
    int first = -1;
    *answered = 0;
    for (int i = n - 1; i >= 0; i--)
        if (actors[i] && actor_answered(actors[i])) {
            first = i;
            ++*answered;
        }
    return first;
}

void actor_cancel(struct actor *actor)
{
    pthread_cancel(actor->thread);
}

bool actor_join_cancelled(struct actor *actor)
{
    void *result;
    pthread_mutex_lock(&actor->mu);
    actor->release = actor->go_on = true; /* in case it has acquired */
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mu);
    pthread_join(actor->thread, &result);
    actor_free(actor);
    return result == PTHREAD_CANCELED;
}

void actor_signal(struct actor *actor, int signal)
{
    pthread_kill(actor->thread, signal);
}

enum hlk_status fixture_try(hlk_lock *lock)
{
    struct actor *actor = actor_start_wait(lock, HLK_NOWAIT);
    enum hlk_status status = actor_status(actor);
    actor_end(actor);
    return status;
}
