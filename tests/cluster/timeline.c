/* timeline - a reshard and a failover as a holder and its waiters see them. A line for each thing that happened; exits
 * with 0 if every waiter was served.
 *
 * One client holds a lock, two others wait for it, a third one comes while the slot moves; who gets it keeps it until
 * the next step. What the clients write to their log is told, and what servers say of them. */
#include "support/cluster.h"
#include "support/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASTERS = 3, WAITERS = 4, LINES_MAX = 512 };

static struct cluster *cluster;

static struct {
    pthread_mutex_t mu; /* guards: */
    struct line {
        int64_t at_ns;
        char text[256];
    } lines[LINES_MAX];
    int count;
} reported = { .mu = PTHREAD_MUTEX_INITIALIZER };

static struct waiter {
    pthread_t thread;
    hlk_lock *lock;
    char who[16];
    enum hlk_status status;
    atomic_bool has, may_release;
} waiters[WAITERS];

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

/* The first of many that are alike. */
static void on_log(int level, const char *line, void *who)
{
    char text[sizeof reported.lines[0].text];
    (void)level;
    (void)snprintf(text, sizeof text, "%s: log: %s", (const char *)who, line);
    if (!is_reported(text))
        tell("%s", text);
}

static void *wait_for_lock(void *arg)
{
    struct waiter *w = arg;
    w->status = hlk_lock_acquire(w->lock, HLK_FOREVER);
    tell("%s: %s", w->who, w->status == HLK_OK ? "has the lock" : hlk_last_error());
    atomic_store(&w->has, true);
    WAIT_FOR(atomic_load(&w->may_release));
    if (w->status == HLK_OK)
        w->status = hlk_lock_release(w->lock);
    tell("%s: its release says %s", w->who, hlk_status_name(w->status));
    return NULL;
}

static void start(int i, const char *name)
{
    struct waiter *w = &waiters[i];
    (void)snprintf(w->who, sizeof w->who, "client %d", i);
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = WAIT_MS;
    opts.reply_timeout_ms = WAIT_MS;
    opts.log = on_log;
    opts.log_ctx = w->who;
    w->lock = fixture_lock(fixture_open_at(cluster->url, &opts), name, NULL);
    pthread_create(&w->thread, NULL, wait_for_lock, w);
}

static long long in_queue(int server, const char *name)
{
    return raw_int(cluster->redis[server], "ZCARD hasplock_queue:{%s}", name);
}

/* So many inboxes of the lock are subscribed at that server. */
static int inboxes(int server, const char *name)
{
    int n = 0;
    const char *at = raw(cluster->redis[server], "PUBSUB SHARDCHANNELS hasplock_inbox:{%s}:*", name);
    while ((at = strstr(at, "hasplock_inbox")))
        at++, n++;
    return n;
}

static void release_one(int i)
{
    tell("client %d releases", i);
    atomic_store(&waiters[i].may_release, true);
    pthread_join(waiters[i].thread, NULL);
    if (i + 1 < WAITERS)
        WAIT_FOR(atomic_load(&waiters[i + 1].has));
}

static void tell_refusals(int server)
{
    static const char *const words[] = { "ASK", "TRYAGAIN", "MOVED" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (raw_errors(cluster->redis[server], words[i]) > 0)
            tell("server %d has said %s %d times", server, words[i], (int)raw_errors(cluster->redis[server], words[i]));
}

static void move_slot(const char *name, unsigned slot)
{
    tell("slot %u: server 1 IMPORTING, server 0 MIGRATING", slot);
    cluster_move_begin(cluster, slot, 1);
    tell("MIGRATE of the lock's keys");
    cluster_move_keys(cluster, slot, 1);
    tell("the keys are at server 1; client 3 comes");
    start(3, name);
    WAIT_FOR((int)raw_errors(cluster->redis[0], "ASK") + (int)raw_errors(cluster->redis[0], "TRYAGAIN") +
                 (int)raw_errors(cluster->redis[1], "TRYAGAIN") >
             0);
    cluster_move_end(cluster, slot, 1);
    tell("SETSLOT NODE: all servers name server 1");
    WAIT_FOR(inboxes(1, name) >= 3);
    tell("the waiters' inboxes are subscribed at server 1");
    tell_refusals(0);
    tell_refusals(1);
}

static int fail_over(const char *name, unsigned slot)
{
    raw(cluster->redis[MASTERS + 1], "READONLY");
    WAIT_FOR(in_queue(MASTERS + 1, name) == in_queue(1, name));
    tell("kill -9 of server 1");
    cluster_kill(cluster, 1);
    WAIT_FOR(cluster_master_of(cluster, slot) >= MASTERS);
    int server = cluster_master_of(cluster, slot);
    tell("server %d says that it is the slot's master", server);
    WAIT_FOR(inboxes(server, name) >= 2);
    tell("the waiters' inboxes are subscribed at server %d", server);
    return server;
}

static void print(int64_t from_ns)
{
    pthread_mutex_lock(&reported.mu);
    for (int i = 0; i < reported.count; i++)
        printf("%8.1f ms  %s\n", (double)(reported.lines[i].at_ns - from_ns) / 1e6, reported.lines[i].text);
    pthread_mutex_unlock(&reported.mu);
}

int main(void)
{
    char name[64];
    int served = 0;
    cluster = cluster_start(MASTERS, MASTERS);
    for (int i = 0; i < cluster->n; i++)
        server_allow(cluster->servers[i], SERVER_TOMBSTONES); /* what was in doubt when the master died */
    cluster_name(cluster, 0, 0, name, sizeof name);
    unsigned slot = cluster_slot(cluster, name);
    for (int i = 0; i + 1 < WAITERS; i++) {
        start(i, name);
        WAIT_FOR(i == 0 ? atomic_load(&waiters[0].has) : inboxes(0, name) >= i);
    }
    for (int i = 0; i < cluster->n; i++)
        printf("server %d: 127.0.0.1:%d, %s\n", i, cluster->servers[i]->port,
               i < MASTERS ? "a master" : "replica of the one three before");
    printf("lock %s in slot %u at server 0; client 0 holds it, clients 1 and 2 wait\n", name, slot);
    int64_t began = test_now_ns();
    move_slot(name, slot);
    release_one(0);
    (void)fail_over(name, slot);
    for (int i = 1; i < WAITERS; i++)
        release_one(i);
    for (int i = 0; i < WAITERS; i++)
        served += waiters[i].status == HLK_OK;
    print(began);
    printf("%d of %d clients had the lock and released it\n", served, WAITERS);
    fixture_end();
    cluster_finish(cluster);
    return served == WAITERS ? 0 : 1;
}
