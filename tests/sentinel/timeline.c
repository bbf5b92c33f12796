/* timeline.c - a failover as it is seen by the sentinels, the holders and the waiters: "timeline" kills the master by
 * SIGKILL, "timeline planned" asks the sentinels for another one. Prints a line for each thing that happened, and exits
 * with 0 if every waiter was served. */
#include "support/sentinels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCKS = 8, LINES_MAX = 512 };

static struct {
    pthread_mutex_t mu; /* guards: */
    struct line {
        int64_t at_ns;
        char text[256];
    } lines[LINES_MAX];
    int count;
} reported = { .mu = PTHREAD_MUTEX_INITIALIZER };

static atomic_bool over;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&reported.mu);
    if (reported.count < LINES_MAX) {
        struct line *line = &reported.lines[reported.count++];
        line->at_ns = test_now_ns();
        (void)vsnprintf(line->text, sizeof line->text, format, args);
    }
    pthread_mutex_unlock(&reported.mu);
    va_end(args);
}

static bool is_reported(const char *text)
{
    bool found = false;
    pthread_mutex_lock(&reported.mu);
    for (int i = 0; i < reported.count && !found; i++)
        found = strcmp(reported.lines[i].text, text) == 0;
    pthread_mutex_unlock(&reported.mu);
    return found;
}

/* Without the endpoint, which is the same in all lines; the first of many that are alike. */
static void on_log(int level, const char *line, void *who)
{
    char all[sizeof reported.lines[0].text];
    const char *text = strstr(line, "/" SENTINELS_SERVICE "/0: ");
    (void)level;
    (void)snprintf(all, sizeof all, "%s log: %s", (const char *)who, text ? strchr(text, ' ') + 1 : line);
    if (!is_reported(all))
        tell("%s", all);
}

static void on_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    tell("holder of %s: %s: %s", event->lock, event->kind == HLK_EVENT_LOST ? "LOST" : "event", event->why);
}

/* One sentinel's own words. */
static void *follow_sentinel(void *arg)
{
    redisContext *redis = arg;
    while (!atomic_load(&over)) {
        const char *message = raw_next_within(redis, 100);
        const char *kind = message ? strstr(message, "\"*\", \"") : NULL;
        if (kind && (strstr(kind, SENTINELS_SERVICE) || strstr(kind, "+new-epoch")))
            tell("sentinel: %s", kind + strlen("\"*\", "));
    }
    return NULL;
}

struct waiter {
    pthread_t thread;
    hlk_lock *lock;
    int i;
    enum hlk_status status;
};

static void *wait_for_lock(void *arg)
{
    struct waiter *w = arg;
    w->status = hlk_lock_acquire(w->lock, HLK_FOREVER);
    tell("waiter of t%d: %s", w->i, w->status == HLK_OK ? "has the lock" : hlk_last_error());
    if (w->status == HLK_OK)
        w->status = hlk_lock_release(w->lock);
    return NULL;
}

static hlk_client *open_as(const char *who)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 60000;
    opts.log = on_log;
    opts.log_ctx = (void *)(uintptr_t)who;
    opts.on_event = on_event;
    return fixture_open_at(sentinels.url, &opts);
}

static void print(int64_t from_ns)
{
    pthread_mutex_lock(&reported.mu);
    for (int i = 0; i < reported.count; i++)
        printf("%8.1f ms  %s\n", (double)(reported.lines[i].at_ns - from_ns) / 1e6, reported.lines[i].text);
    pthread_mutex_unlock(&reported.mu);
}

static void fail_over(bool planned)
{
    int before = sentinels_master();
    tell("%s", planned ? "SENTINEL FAILOVER" : "kill -9 of the master");
    if (planned) {
        sentinels_fail_over();
    } else {
        sentinels_kill(before);
        (void)sentinels_await_switch(before);
    }
}

/* Half of the locks: what the replica did not get before its master went. */
static int hold_and_wait(hlk_lock **held, struct waiter *waiters)
{
    hlk_client *holders = open_as("holders'"), *others = open_as("waiters'");
    char name[16];
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "t%d", i);
        if (i == LOCKS / 2)
            sentinels_cut_off(1);
        held[i] = fixture_lock(holders, name, NULL);
        if (hlk_lock_acquire(held[i], HLK_NOWAIT) != HLK_OK)
            test_give_up("%s", hlk_last_error());
        if (i < LOCKS / 2)
            sentinels_await_copy(name);
        waiters[i] = (struct waiter){ .i = i, .lock = fixture_lock(others, name, NULL) };
    }
    for (int i = 0; i < LOCKS; i++)
        pthread_create(&waiters[i].thread, NULL, wait_for_lock, &waiters[i]);
    WAIT_FOR_WAITERS(others, LOCKS);
    return sentinels_master();
}

int main(int argc, char **argv)
{
    static struct waiter waiters[LOCKS];
    hlk_lock *held[LOCKS];
    pthread_t follower;
    int failed = 0;
    sentinels_begin(1);
    int before = hold_and_wait(held, waiters);
    redisContext *redis = raw_open(sentinels.sentinels[0]);
    (void)raw(redis, "PSUBSCRIBE *");
    pthread_create(&follower, NULL, follow_sentinel, redis);
    printf("8 holders hold, 8 waiters wait, master %s; t0 to t3 are at the replica %s too\n",
           sentinels_address(sentinels.servers[before]), sentinels_address(sentinels.servers[1 - before]));
    int64_t began = test_now_ns();
    fail_over(argc > 1 && strcmp(argv[1], "planned") == 0);
    tell("all sentinels name the new master");
    for (int i = LOCKS / 2; i < LOCKS; i++)
        pthread_join(waiters[i].thread, NULL);
    tell("the holders release");
    for (int i = 0; i < LOCKS; i++)
        tell("holder of t%d: its release says %s", i, hlk_status_name(hlk_lock_release(held[i])));
    for (int i = 0; i < LOCKS / 2; i++)
        pthread_join(waiters[i].thread, NULL);
    for (int i = 0; i < LOCKS; i++)
        failed += waiters[i].status != HLK_OK;
    atomic_store(&over, true);
    pthread_join(follower, NULL);
    redisFree(redis);
    print(began);
    printf("%d of %d waiters served\n", LOCKS - failed, LOCKS);
    sentinels_end();
    return failed > 0;
}
