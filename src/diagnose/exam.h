/* exam.h - everything that one examination has measured: what the checks judge. Plain data, so that a unit test may
 * write it. */
#ifndef HLK_DIAGNOSE_EXAM_H
#define HLK_DIAGNOSE_EXAM_H

#include "diagnose/answers.h"
#include "diagnose/clocks.h"
#include "net/tls.h"
#include "net/url.h"

struct hlk_exam_sentinels {         /* of a redis+sentinel:// URL */
    unsigned asked, answered, know; /* know: a master of the service */
    bool differ;                    /* not all of these name the same one */
    char host[256];                 /* of the first one that is named */
    int port;
    char why[HLK_VALUE_MAX];        /* one did not answer */
};

struct hlk_exam {
    const struct hlk_url *url;
    const char *user;               /* that has logged in, for people: "default" */
    bool has_password;
    const char *prefix;             /* never NULL */
    const char *id;                 /* a name that no client has: of probes */
    int64_t lease_ms;
    unsigned flags;                 /* HLK_DIAGNOSE_... */
    bool pubsub;                    /* rights to it are needed */

    int64_t lookup_us;              /* -1: no name was looked up */
    unsigned addresses;
    int64_t connect_us;             /* of connecting and logging in */
    unsigned silent_hosts;          /* of the URL, which were tried before */
    bool same_host;                 /* a Unix socket, or a loopback address */
    struct hlk_exam_sentinels sentinels;
    struct hlk_tls_facts tls;       /* version "": plain text */
    struct hlk_round_trips pings;
    struct hlk_clocks clocks;
    struct hlk_answers answers;
};

/* Judges one point. Pure: it looks at nothing but `exam`. */
typedef void hlk_check_fn(const struct hlk_exam *exam, struct hlk_found *found);

/* check_connection.c */
hlk_check_fn hlk_check_url, hlk_check_sentinels, hlk_check_lookup, hlk_check_connection, hlk_check_tls,
    hlk_check_login, hlk_check_round_trip;
/* check_server.c */
hlk_check_fn hlk_check_server, hlk_check_role, hlk_check_topology, hlk_check_replication, hlk_check_database;
/* check_data.c */
hlk_check_fn hlk_check_eviction, hlk_check_persistence;
/* check_time.c */
hlk_check_fn hlk_check_clock_offset, hlk_check_clock_rate, hlk_check_slow_commands, hlk_check_busy_scripts;
/* check_limits.c */
hlk_check_fn hlk_check_clients, hlk_check_output_buffers, hlk_check_idle_timeout, hlk_check_keepalive;
/* check_rights.c */
hlk_check_fn hlk_check_lua, hlk_check_rights, hlk_check_rights_fenced, hlk_check_rights_fair, hlk_check_rights_string,
    hlk_check_rights_list, hlk_check_rights_rwlock, hlk_check_rights_latch, hlk_check_rights_semaphore,
    hlk_check_rights_permits, hlk_check_rights_barrier, hlk_check_rights_condition, hlk_check_rights_note,
    hlk_check_rights_replicas, hlk_check_rights_cluster;

#endif
