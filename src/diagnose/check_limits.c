/* Limits by which the server ends connections, or admits none. */
#include "diagnose/exam.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- clients */

#define PER_CLIENT 2 /* connections of a client: commands, messages */
#define USED_PERCENT 80

void hlk_check_clients(const struct hlk_exam *exam, struct hlk_found *found)
{
    int64_t connected = hlk_answers_info_number(&exam->answers, "connected_clients", -1);
    int64_t max = hlk_answers_info_number(&exam->answers, "maxclients", -1);
    if (max < 0)
        max = hlk_answers_config_number(&exam->answers, HLK_ASK_MAXCLIENTS, -1);
    hlk_found_meaning(found, "A process needs two connections. A server that is full admits none: locks of processes "
                             "that reconnect then are lost.");
    if (connected < 0 || max < 0) {
        hlk_found_unknown(found, &exam->answers, connected < 0 ? HLK_ASK_INFO : HLK_ASK_MAXCLIENTS);
        return;
    }
    enum hlk_finding_level level = max - connected < PER_CLIENT           ? HLK_FINDING_PROBLEM
                                   : connected * 100 > max * USED_PERCENT ? HLK_FINDING_WARNING
                                                                          : HLK_FINDING_OK;
    hlk_found_set(found, level, "%" PRId64 " of %" PRId64 " connections in use", connected, max);
    if (level != HLK_FINDING_OK)
        hlk_found_advice(found, "Raise maxclients, and the server's limit of descriptors; or find out who connects.");
}

/* --- output-buffer: of a subscriber, which receives the grants */

#define HARD_LEAST (1024 * 1024) /* some 3,500 grants that a process has not read */
#define SOFT_LEAST (256 * 1024)

struct buffer_limit {
    int64_t hard, soft, seconds; /* 0: none */
};

static bool read_limit(const char *value, const char *class, struct buffer_limit *limit)
{
    const char *at = strstr(value, class);
    return at && sscanf(at + strlen(class), " %" SCNd64 " %" SCNd64 " %" SCNd64, &limit->hard, &limit->soft,
                        &limit->seconds) == 3;
}

static bool is_small(const struct buffer_limit *limit)
{
    return (limit->hard > 0 && limit->hard < HARD_LEAST) || (limit->soft > 0 && limit->soft < SOFT_LEAST);
}

void hlk_check_output_buffers(const struct hlk_exam *exam, struct hlk_found *found)
{
    char value[HLK_VALUE_MAX];
    struct buffer_limit pubsub, normal;
    hlk_found_meaning(found, "The server ends a connection when this much is waiting to be read. A subscriber that is "
                             "ended misses its grants, and each of them costs the others 5 s.");
    if (!hlk_answers_config(&exam->answers, HLK_ASK_BUFFERS, value) || !read_limit(value, "pubsub", &pubsub) ||
        !read_limit(value, "normal", &normal)) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_BUFFERS);
        return;
    }
    bool small = is_small(&pubsub) || is_small(&normal);
    hlk_found_set(found, small ? HLK_FINDING_WARNING : HLK_FINDING_OK,
                  "pubsub %" PRId64 " bytes, or %" PRId64 " for %" PRId64 " s; normal %" PRId64 " bytes", pubsub.hard,
                  pubsub.soft, pubsub.seconds, normal.hard);
    if (small)
        hlk_found_advice(found, "CONFIG SET client-output-buffer-limit \"%s\" (the default).",
                         is_small(&pubsub) ? "pubsub 33554432 8388608 60" : "normal 0 0 0");
}

/* --- idle-timeout: a client that only holds locks sends nothing between two renewals */

void hlk_check_idle_timeout(const struct hlk_exam *exam, struct hlk_found *found)
{
    int64_t timeout_s = hlk_answers_config_number(&exam->answers, HLK_ASK_TIMEOUT, -1);
    if (timeout_s < 0) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_TIMEOUT);
        hlk_found_meaning(found, "A timeout ends the connections of clients that send nothing for so long.");
        return;
    }
    bool brief = timeout_s > 0 && timeout_s * 1000 <= exam->lease_ms / 3;
    if (timeout_s == 0) {
        hlk_found_set(found, HLK_FINDING_OK, "none");
        hlk_found_meaning(found, "The server ends no idle connection.");
        return;
    }
    hlk_found_set(found, brief ? HLK_FINDING_WARNING : HLK_FINDING_OK, "%" PRId64 " s", timeout_s);
    hlk_found_meaning(found,
                      "The server ends connections that send nothing for so long. A client that only holds "
                      "locks sends a renewal each %.3g s%s.",
                      (double)exam->lease_ms / 3000, brief ? ": each one needs a new connection" : "");
    if (brief)
        hlk_found_advice(found, "CONFIG SET timeout 0, or more than the time between two renewals.");
}

/* --- keepalive */

#define KEEPALIVE_MOST_S 600

void hlk_check_keepalive(const struct hlk_exam *exam, struct hlk_found *found)
{
    int64_t seconds = hlk_answers_config_number(&exam->answers, HLK_ASK_KEEPALIVE, -1);
    hlk_found_meaning(found, "After about this time without a sign of life the server ends the connections of a host "
                             "that is gone. Until then its waiters keep their positions, and each grant to one of "
                             "them costs the others 5 s.");
    if (seconds < 0) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_KEEPALIVE);
        return;
    }
    bool late = seconds == 0 || seconds > KEEPALIVE_MOST_S;
    hlk_found_set(found, late ? HLK_FINDING_WARNING : HLK_FINDING_OK, "%" PRId64 " s%s", seconds,
                  seconds == 0 ? ": never" : "");
    if (late)
        hlk_found_advice(found, "CONFIG SET tcp-keepalive 300 (the default).");
}
