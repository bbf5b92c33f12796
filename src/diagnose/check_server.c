/* Which server it is, and what stands behind it. */
#include "diagnose/exam.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAG_MOST_S 10 /* of a replica; a healthy one reports each second */

static bool is_error(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ERROR;
}

/* --- kind and version */

static bool is_tested(const char *name, const char *version)
{
    int major = 0, minor = 0;
    (void)sscanf(version, "%d.%d", &major, &minor);
    if (strcmp(name, "Valkey") == 0)
        return major >= 8;
    return strcmp(name, "Redis") == 0 && (major > 6 || (major == 6 && minor >= 2));
}

/* Compatible servers report the version of Redis that they stand in for, and a field of their own. */
static const char *read_version(const struct hlk_answers *answers, char version[HLK_VALUE_MAX])
{
    static const struct {
        const char *field, *name;
    } of[] = { { "valkey_version", "Valkey" },
               { "dragonfly_version", "Dragonfly" },
               { "garnet_version", "Garnet" },
               { "kvrocks_version", "Kvrocks" },
               { "redis_version", "Redis" } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (hlk_answers_info(answers, of[i].field, version))
            return of[i].name;
    return NULL;
}

void hlk_check_server(const struct hlk_exam *exam, struct hlk_found *found)
{
    char version[HLK_VALUE_MAX];
    const char *name = read_version(&exam->answers, version);
    hlk_found_meaning(found, "Tested with Redis 6.2 and later and with Valkey 8 and later.");
    if (!name) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_INFO);
        return;
    }
    bool tested = is_tested(name, version);
    hlk_found_set(found, tested ? HLK_FINDING_OK : HLK_FINDING_WARNING, "%s %s", name, version);
    if (!tested)
        hlk_found_advice(found, "Use one of these servers, or try all kinds of locks that you need here first.");
}

/* --- role */

/* ROLE: "master" or "slave", host, port, ... It is asked for where INFO is refused. */
static const char *read_role(const struct hlk_answers *answers, char role[HLK_VALUE_MAX])
{
    const redisReply *reply = answers->reply[HLK_ASK_ROLE];
    if (hlk_answers_info(answers, "role", role))
        return role;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 || !reply->element[0]->str)
        return NULL;
    (void)snprintf(role, HLK_VALUE_MAX, "%s", reply->element[0]->str);
    return role;
}

static void judge_replica(const struct hlk_answers *answers, struct hlk_found *found)
{
    char host[HLK_VALUE_MAX], link[HLK_VALUE_MAX];
    bool known = hlk_answers_info(answers, "master_host", host);
    int64_t port = hlk_answers_info_number(answers, "master_port", 0);
    (void)hlk_answers_info(answers, "master_link_status", link);
    hlk_found_set(found, HLK_FINDING_PROBLEM, "replica of %s:%" PRId64 "%s%s", known ? host : "another server", port,
                  *link ? ", link " : "", link);
    hlk_found_meaning(found, "A replica refuses writes: no lock can be acquired here.");
    if (known)
        hlk_found_advice(found, "Use the master's URL, redis://%s:%" PRId64 ", or name the Sentinels.", host, port);
    else
        hlk_found_advice(found, "Use the master's URL, or name the Sentinels.");
}

void hlk_check_role(const struct hlk_exam *exam, struct hlk_found *found)
{
    char role_text[HLK_VALUE_MAX];
    const char *role = read_role(&exam->answers, role_text);
    if (!role) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_ROLE);
        hlk_found_meaning(found, "A replica refuses writes: locks are in the master.");
    } else if (strcmp(role, "master") == 0) {
        hlk_found_set(found, HLK_FINDING_OK, "master");
        hlk_found_meaning(found, "It accepts writes: locks can be acquired here.");
    } else if (strcmp(role, "sentinel") == 0) {
        hlk_found_set(found, HLK_FINDING_PROBLEM, "sentinel");
        hlk_found_meaning(found, "A Sentinel keeps no data: no lock can be acquired here.");
        hlk_found_advice(found, "Use the master's URL, or redis+sentinel://HOST:PORT/SERVICE.");
    } else {
        judge_replica(&exam->answers, found);
    }
}

/* --- topology */

/* How many Sentinels have subscribed; -1: not known. */
static int64_t count_sentinels(const struct hlk_answers *answers)
{
    const redisReply *reply = answers->reply[HLK_ASK_SENTINELS];
    bool known = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                 reply->element[1]->type == REDIS_REPLY_INTEGER;
    return known ? (int64_t)reply->element[1]->integer : -1;
}

static void judge_cluster(const struct hlk_exam *exam, struct hlk_found *found)
{
    char state[HLK_VALUE_MAX];
    bool known = hlk_answers_field(&exam->answers, HLK_ASK_CLUSTER, "cluster_state", state);
    bool failed = known && strcmp(state, "ok") != 0, asked_for = exam->url->kind == HLK_URL_CLUSTER;
    hlk_found_set(found, failed || !asked_for ? HLK_FINDING_PROBLEM : HLK_FINDING_NOTE, "a node of a cluster, state %s",
                  known ? state : "not known");
    hlk_found_meaning(found, failed ? "It refuses all commands (CLUSTERDOWN): no lock can be acquired or renewed here."
                                    : "Each node keeps the locks of some slots, and refuses the others (MOVED).");
    if (!asked_for)
        hlk_found_advice(found, "Use redis+cluster:// with one or more of its nodes.");
    else if (failed)
        hlk_found_advice(found, "Look at CLUSTER NODES: a slot has no master, or this node is cut off.");
    else
        hlk_found_advice(found, "Only this node was examined: run this for each master.");
}

void hlk_check_topology(const struct hlk_exam *exam, struct hlk_found *found)
{
    char cluster[HLK_VALUE_MAX];
    int64_t sentinels = count_sentinels(&exam->answers);
    bool known = hlk_answers_info(&exam->answers, "cluster_enabled", cluster);
    if (known && strcmp(cluster, "1") == 0) {
        judge_cluster(exam, found);
    } else if (sentinels > 0 && exam->url->kind != HLK_URL_SENTINEL) {
        hlk_found_set(found, HLK_FINDING_WARNING, "monitored by %" PRId64 " Sentinel%s", sentinels,
                      sentinels == 1 ? "" : "s");
        hlk_found_meaning(found, "They may make a replica the master. This URL names one server: unless the name in it "
                                 "moves too, no lock can be acquired after that.");
        hlk_found_advice(found, "Use redis+sentinel://HOST:PORT,.../SERVICE.");
    } else if (exam->url->kind == HLK_URL_CLUSTER && known) {
        hlk_found_set(found, HLK_FINDING_PROBLEM, "one server, no cluster");
        hlk_found_meaning(found, "The URL names a cluster, and this server has no slots.");
        hlk_found_advice(found, "Use redis:// for one server.");
    } else if (known) {
        hlk_found_set(found, HLK_FINDING_OK, "%s", sentinels > 0 ? "a master that Sentinels monitor" : "one server");
        hlk_found_meaning(found, "All locks are in this server.");
    } else {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_INFO);
        hlk_found_meaning(found, "A node of a cluster refuses the locks of other slots.");
    }
}

/* --- replication */

struct replicas {
    int64_t count, online, lag_s; /* lag: of the slowest one */
};

/* slave0:ip=10.0.0.8,port=6379,state=online,offset=1,lag=0 */
static struct replicas read_replicas(const struct hlk_answers *answers)
{
    struct replicas replicas = { .count = hlk_answers_info_number(answers, "connected_slaves", -1) };
    for (int64_t i = 0; i < replicas.count; i++) {
        char field[32], value[HLK_VALUE_MAX];
        (void)snprintf(field, sizeof field, "slave%" PRId64, i);
        if (!hlk_answers_info(answers, field, value))
            break;
        const char *lag = strstr(value, "lag=");
        int64_t lag_s = lag ? strtoll(lag + 4, NULL, 10) : 0;
        replicas.online += strstr(value, "state=online") != NULL;
        replicas.lag_s = lag_s > replicas.lag_s ? lag_s : replicas.lag_s;
    }
    return replicas;
}

static void judge_replicas(const struct replicas *replicas, int64_t wanted, struct hlk_found *found)
{
    bool behind = replicas->lag_s > LAG_MOST_S || replicas->online < replicas->count;
    hlk_found_set(
        found, behind ? HLK_FINDING_WARNING : HLK_FINDING_NOTE,
        "%" PRId64 " replica%s, %" PRId64 " online, slowest %" PRId64 " s behind, min-replicas-to-write %" PRId64,
        replicas->count, replicas->count == 1 ? "" : "s", replicas->online, replicas->lag_s, wanted > 0 ? wanted : 0);
    hlk_found_meaning(found, "Replication is asynchronous. A failover loses the locks that had not arrived at the "
                             "replica: then two may hold until the first one's next renewal.");
    if (behind)
        hlk_found_advice(found, "Look at the replicas that are behind, and at the network to them.");
    else
        hlk_found_advice(found, "Where two holders would do damage, use fencing tokens (docs/safety.md).");
}

void hlk_check_replication(const struct hlk_exam *exam, struct hlk_found *found)
{
    struct replicas replicas = read_replicas(&exam->answers);
    int64_t wanted = hlk_answers_config_number(&exam->answers, HLK_ASK_MIN_REPLICAS, -1);
    if (replicas.count < 0) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_INFO);
        hlk_found_meaning(found, "A failover loses the locks that had not arrived at the replica.");
    } else if (wanted > 0 && replicas.online < wanted) {
        hlk_found_set(found, HLK_FINDING_PROBLEM,
                      "%" PRId64 " of at least %" PRId64 " replicas (min-replicas-to-write)", replicas.online, wanted);
        hlk_found_meaning(found, "The server refuses writes (NOREPLICAS): no lock can be acquired or renewed.");
        hlk_found_advice(found, "Start the replicas that are missing, or lower min-replicas-to-write.");
    } else if (replicas.count > 0) {
        judge_replicas(&replicas, wanted, found);
    } else {
        hlk_found_set(found, HLK_FINDING_OK, "no replica");
        hlk_found_meaning(found, "No failover can lose a lock. While this server is down, no lock can be acquired.");
    }
}

/* --- database */

void hlk_check_database(const struct hlk_exam *exam, struct hlk_found *found)
{
    const redisReply *reply = exam->answers.reply[HLK_ASK_SELECT];
    bool right = hlk_answers_refused(&exam->answers, HLK_ASK_SELECT);
    hlk_found_set(found, HLK_FINDING_OK, "database %d", exam->url->db);
    hlk_found_meaning(found, "The same name in another database is another lock.");
    if (!is_error(reply) || (right && exam->url->db == 0))
        return;
    hlk_found_set(found, HLK_FINDING_PROBLEM, "database %d: %s", exam->url->db,
                  right ? "this user may not run SELECT" : "the server does not have it");
    hlk_found_meaning(found, "No client can be opened with this URL.");
    hlk_found_advice(found, right ? "Grant the right (see rights), or use database 0."
                                  : "Use a smaller number, or raise `databases` in the server's configuration. A "
                                    "cluster has database 0 only.");
}
