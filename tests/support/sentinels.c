#include "support/sentinels.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct sentinels sentinels;

static struct {
    char lines[2][96];
    const char *conf[8];
    char master_port[8];
    char new_master_port[8];
    const char *replica_args[8], *restart_args[8];
    bool cut_off[SENTINELS_SERVERS_MAX];
} own;

static const char *const at_once[] = { "--repl-diskless-sync-delay", "0", NULL };

/* --- who is the master */

static int server_at(int port)
{
    for (int i = 0; i < sentinels.server_count; i++)
        if (sentinels.servers[i]->port == port)
            return i;
    return -1;
}

/* As this sentinel says. */
static int named_by(redisContext *view)
{
    int port = 0;
    const char *at = strrchr(raw(view, "SENTINEL GET-MASTER-ADDR-BY-NAME " SENTINELS_SERVICE), ' ');
    return at && sscanf(at, " \"%d\"", &port) == 1 ? server_at(port) : -1;
}

int sentinels_master(void)
{
    int master = -1;
    for (int i = 0; i < SENTINELS; i++) {
        if (!sentinels.sentinel_views[i])
            continue;
        int named = named_by(sentinels.sentinel_views[i]);
        if (named < 0 || (master >= 0 && named != master))
            return -1;
        master = named;
    }
    return master;
}

redisContext *sentinels_at(int server)
{
    redisFree(sentinels.views[server]);
    return sentinels.views[server] = raw_open(sentinels.servers[server]);
}

/* The answer, by a new connection each time: a sentinel that gives a server another role ends all connections to it,
 * also the one that asks. */
static const char *ask(int server, const char *format, ...)
{
    redisReply *reply = NULL;
    int64_t give_up = test_now_ms() + WAIT_MS;
    while (!reply) {
        va_list args;
        va_start(args, format);
        reply = redisvCommand(sentinels_at(server), format, args);
        va_end(args);
        if (!reply && test_now_ms() >= give_up)
            test_give_up("server %d ends each connection: %s", server, sentinels.views[server]->errstr);
    }
    const char *text = raw_show(reply);
    freeReplyObject(reply);
    return text;
}

redisContext *sentinels_view(void)
{
    int master = -1;
    WAIT_FOR((master = sentinels_master()) >= 0 && sentinels.servers[master]->pid > 0);
    return sentinels_at(master);
}

static bool is_master(int server)
{
    return sentinels.servers[server]->pid > 0 && strncmp(ask(server, "ROLE"), "[\"master\"", 9) == 0;
}

static void expect_silence_for(int ms)
{
    for (int i = 0; i < SENTINELS; i++)
        if (sentinels.sentinel_views[i])
            raw(sentinels.sentinel_views[i], "SENTINEL SET " SENTINELS_SERVICE " down-after-milliseconds %d", ms);
}

/* A busy machine is silent for longer than sentinels_kill makes the sentinels wait: only until it is done. */
int sentinels_await_switch(int before)
{
    int now = before;
    WAIT_FOR((now = sentinels_master()) >= 0 && now != before && is_master(now));
    expect_silence_for(SENTINELS_PATIENCE_MS);
    return now;
}

void sentinels_fail_over(void)
{
    int before = sentinels_master();
    WAIT_FOR(strcmp(raw(sentinels.sentinel_views[0], "SENTINEL FAILOVER " SENTINELS_SERVICE), "OK") == 0);
    (void)sentinels_await_switch(before);
}

/* --- replication */

static bool link_is(int replica, const char *state)
{
    char text[64];
    snprintf(text, sizeof text, "master_link_status:%s", state);
    return strstr(ask(replica, "INFO replication"), text) != NULL;
}

void sentinels_await_copy(const char *key)
{
    for (int i = 0; i < sentinels.server_count; i++)
        if (sentinels.servers[i]->pid > 0 && !own.cut_off[i])
            WAIT_FOR(strcmp(ask(i, "EXISTS %s", key), ":1") == 0);
}

/* The master takes no such user. */
void sentinels_cut_off(int replica)
{
    redisContext *view = sentinels_at(replica);
    own.cut_off[replica] = true;
    raw(view, "CONFIG SET masteruser nobody");
    raw(view, "CONFIG SET masterauth wrong");
    raw(view, "CLIENT KILL TYPE master");
    WAIT_FOR(link_is(replica, "down"));
}

void sentinels_attach(int replica)
{
    redisContext *view = sentinels_at(replica);
    own.cut_off[replica] = false;
    raw(view, "CONFIG SET masteruser %s", "");
    raw(view, "CONFIG SET masterauth %s", "");
}

/* As a sentinel sees it: a replica that it may promote. */
static bool is_sane(const char *replicas, const char *name)
{
    const char *at = strstr(replicas, name), *flags = at ? strstr(at, "\"flags\", \"") : NULL;
    const char *status = flags ? strstr(flags, "\"master-link-status\", \"") : NULL;
    return status && strncmp(flags, "\"flags\", \"slave\"", 16) == 0 &&
           strncmp(status, "\"master-link-status\", \"ok\"", 26) == 0;
}

void sentinels_await_replica(int server)
{
    char text[32];
    snprintf(text, sizeof text, "\"%s\"", sentinels_address(sentinels.servers[server]));
    WAIT_FOR(link_is(server, "up"));
    for (int i = 0; i < SENTINELS; i++)
        if (sentinels.sentinel_views[i])
            WAIT_FOR(is_sane(raw(sentinels.sentinel_views[i], "SENTINEL REPLICAS " SENTINELS_SERVICE), text));
}

/* --- processes */

static void forget(redisContext **view)
{
    redisFree(*view);
    *view = NULL;
}

void sentinels_kill(int server)
{
    expect_silence_for(SENTINELS_DOWN_MS);
    forget(&sentinels.views[server]);
    server_kill(sentinels.servers[server]);
}

/* As a replica from its first moment: a sentinel that had seen a master would look again after 10 s only. */
void sentinels_restart(int server)
{
    const struct server *master = sentinels.servers[sentinels_master()];
    snprintf(own.new_master_port, sizeof own.new_master_port, "%d", master->port);
    memcpy(own.restart_args,
           ((const char *[]){ at_once[0], at_once[1], "--replicaof", "127.0.0.1", own.new_master_port, NULL }),
           6 * sizeof(char *));
    sentinels.servers[server]->extra = own.restart_args;
    server_restart(sentinels.servers[server], false);
}

void sentinels_kill_sentinel(int i)
{
    forget(&sentinels.sentinel_views[i]);
    server_kill(sentinels.sentinels[i]);
}

void sentinels_restart_sentinel(int i)
{
    server_restart(sentinels.sentinels[i], false);
    sentinels.sentinel_views[i] = raw_open(sentinels.sentinels[i]);
}

void sentinels_pause_sentinel(int i)
{
    forget(&sentinels.sentinel_views[i]);
    server_pause(sentinels.sentinels[i]);
}

void sentinels_set_user(const char *user, const char *password)
{
    for (int i = 0; i < SENTINELS; i++) {
        redisContext *view = sentinels.sentinel_views[i];
        raw(view, "SENTINEL CONFIG SET sentinel-user %s", user);
        raw(view, "SENTINEL CONFIG SET sentinel-pass %s", password);
        raw(view, "ACL SETUSER %s on >%s ~* &* +@all", user, password);
        raw(view, "AUTH %s %s", user, password);
        raw(view, "ACL SETUSER default off");
    }
}

const char *sentinels_url(int first, int n, const char *service)
{
    static char urls[4][256];
    static unsigned next;
    char *url = urls[next++ % 4];
    size_t len = (size_t)snprintf(url, sizeof urls[0], "redis+sentinel://");
    for (int i = first; i < first + n; i++)
        len += (size_t)snprintf(url + len, sizeof urls[0] - len, "%s127.0.0.1:%d", i > first ? "," : "",
                                sentinels.sentinels[i]->port);
    snprintf(url + len, sizeof urls[0] - len, "/%s", service);
    return url;
}

const char *sentinels_address(const struct server *server)
{
    static char texts[4][32];
    static unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "127.0.0.1:%d", server->port);
    return text;
}

static void start_servers(int replicas)
{
    sentinels.server_count = 1 + replicas;
    for (int i = 0; i <= replicas; i++) {
        sentinels.servers[i] = server_start(SERVER_TCP | SERVER_NOACL, i == 0 ? at_once : own.replica_args);
        if (i > 0)
            continue;
        snprintf(own.master_port, sizeof own.master_port, "%d", sentinels.servers[0]->port);
        memcpy(own.replica_args,
               ((const char *[]){ at_once[0], at_once[1], "--replicaof", "127.0.0.1", own.master_port, NULL }),
               6 * sizeof(char *));
    }
    for (int i = 1; i <= replicas; i++)
        WAIT_FOR(link_is(i, "up"));
}

static bool knows_all(redisContext *view, int replicas)
{
    char slaves[32], others[40];
    const char *known = raw(view, "SENTINEL MASTER " SENTINELS_SERVICE);
    snprintf(slaves, sizeof slaves, "\"num-slaves\", \"%d\"", replicas);
    snprintf(others, sizeof others, "\"num-other-sentinels\", \"%d\"", SENTINELS - 1);
    return strstr(known, slaves) && strstr(known, others);
}

static void start_sentinels(int replicas)
{
    snprintf(own.lines[0], sizeof own.lines[0], "sentinel monitor " SENTINELS_SERVICE " 127.0.0.1 %s 2",
             own.master_port);
    snprintf(own.lines[1], sizeof own.lines[1], "sentinel down-after-milliseconds " SENTINELS_SERVICE " %d",
             SENTINELS_PATIENCE_MS);
    memcpy(
        own.conf,
        ((const char *[]){ own.lines[0], own.lines[1], "sentinel failover-timeout " SENTINELS_SERVICE " 3000", NULL }),
        4 * sizeof(char *));
    for (int i = 0; i < SENTINELS; i++) {
        sentinels.sentinels[i] = server_start(SERVER_SENTINEL | SERVER_NOACL, own.conf);
        sentinels.sentinel_views[i] = raw_open(sentinels.sentinels[i]);
    }
    for (int i = 0; i < SENTINELS; i++)
        WAIT_FOR(knows_all(sentinels.sentinel_views[i], replicas));
}

void sentinels_begin(int replicas)
{
    memset(&own, 0, sizeof own);
    start_servers(replicas);
    start_sentinels(replicas);
    snprintf(sentinels.url, sizeof sentinels.url, "%s", sentinels_url(0, SENTINELS, SENTINELS_SERVICE));
}

void sentinels_end(void)
{
    fixture_end();
    int master = sentinels_master();
    const char *left = NULL;
    if (master >= 0 && sentinels.servers[master]->pid > 0) {
        server_allow(sentinels.servers[master], SERVER_TOMBSTONES); /* of what was in doubt when its master went */
        left = server_leftovers(sentinels.servers[master]);
    }
    for (int i = 0; i < SENTINELS; i++) {
        redisFree(sentinels.sentinel_views[i]);
        server_stop(sentinels.sentinels[i]);
    }
    for (int i = 0; i < sentinels.server_count; i++) {
        redisFree(sentinels.views[i]);
        server_stop(sentinels.servers[i]);
    }
    memset(&sentinels, 0, sizeof sentinels);
    if (left)
        test_give_up("left on the master:%s", left);
}
