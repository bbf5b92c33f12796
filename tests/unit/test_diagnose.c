/* What each check of hlk_diagnose makes of good and bad answers: the way to the server, its kind, its data. */
#include "exam_fixture.h"

#include "diagnose/sentinels.h"

#include <criterion/criterion.h>
#include <string.h>

#define OK HLK_FINDING_OK
#define NOTE HLK_FINDING_NOTE
#define WARNING HLK_FINDING_WARNING
#define PROBLEM HLK_FINDING_PROBLEM

TestSuite(check, .init = exam_start, .fini = exam_stop);

/* --- the way */

Test(check, url_is_shown_without_credentials)
{
    exam_judge(hlk_check_url, OK, "redis://10.0.0.7:6379/0", "this server", NULL);
    cr_assert_null(strstr(found.measured.buf, "secret"));
    exam_url("local:");
    exam_judge(hlk_check_url, OK, "local:", "no other host", NULL);
}

Test(check, lookup_that_is_slow_is_a_warning)
{
    exam_judge(hlk_check_lookup, OK, "1 address in 1.0 ms", "for each new connection", NULL);
    exam.lookup_us = 2500000;
    exam.addresses = 2;
    exam_judge(hlk_check_lookup, WARNING, "2 addresses in 2500.0 ms", "no lock is renewed", "DNS");
}

Test(check, lookup_that_was_not_needed_is_not_reported)
{
    exam.lookup_us = -1;
    hlk_found_init(&found);
    hlk_check_lookup(&exam, &found);
    cr_assert_not(found.applies);
}

Test(check, connection_that_takes_long_is_a_warning)
{
    exam_judge(hlk_check_connection, OK, "within 2.0 ms", "30 s is renewed each 10 s", NULL);
    exam.connect_us = 1500000;
    exam_judge(hlk_check_connection, WARNING, "within 1500.0 ms", "new connection", "network");
}

Test(check, plain_text_over_a_network_is_a_warning)
{
    exam_judge(hlk_check_tls, WARNING, "plain text, over a network", "can read the password", "rediss://");
    exam.same_host = true;
    exam_judge(hlk_check_tls, OK, "within this host", "Nothing leaves", NULL);
}

Test(check, certificate_that_ends_soon_is_a_warning)
{
    exam.tls = (struct hlk_tls_facts){ .version = "TLSv1.3", .expires_s = INT64_MAX };
    exam_judge(hlk_check_tls, OK, "TLSv1.3", "forges", NULL);
    exam.tls.expires_s = 30 * 86400;
    exam_judge(hlk_check_tls, OK, "TLSv1.3, the server's certificate is valid for 30 days", "forges", NULL);
    exam.tls.expires_s = 13 * 86400;
    exam_judge(hlk_check_tls, WARNING, "13 days", "forges", "Renew");
}

Test(check, login_over_a_network_without_password_is_a_warning)
{
    exam_judge(hlk_check_login, OK, "user bob, with a password", "rights", NULL);
    exam.has_password = false;
    exam_judge(hlk_check_login, WARNING, "without a password", "Every host that reaches", "docs/acl.md");
    exam.same_host = true;
    exam_judge(hlk_check_login, OK, "without a password", "rights", NULL);
}

Test(check, round_trip_is_compared_with_the_lease)
{
    exam_judge(hlk_check_round_trip, OK, "p50 0.300 ms, p99 0.900 ms", "0.600 ms. A renewal has 20 s", NULL);
    exam.pings.p99_us = 301000;
    exam_judge(hlk_check_round_trip, WARNING, "p99 301.000 ms", "A renewal", "nearer");
    exam.lease_ms = 3000;
    exam_judge(hlk_check_round_trip, PROBLEM, "p99 301.000 ms", "has 2 s", "longer lease");
}

Test(check, silent_hosts_of_a_cluster_are_a_warning)
{
    exam.silent_hosts = 2;
    exam_judge(hlk_check_connection, WARNING, "2.0 ms; 2 of the URL's hosts did not answer", "renewed", "network");
}

/* --- Sentinels */

static void sentinel_answers(const char *resp)
{
    exam.sentinels.asked++;
    if (!resp)
        return;
    exam_answer(HLK_ASK_ROLE, resp); /* where it is does not matter */
    hlk_exam_take_sentinel(&exam.sentinels, exam.answers.reply[HLK_ASK_ROLE]);
}

#define ADDRESS(host) "*2\n$8\n" host "\n$4\n6380\n"

Test(check, sentinels_that_agree_are_well)
{
    exam_url("redis+sentinel://a,b,c/main");
    for (int i = 0; i < 3; i++)
        sentinel_answers(ADDRESS("10.0.0.9"));
    exam_judge(hlk_check_sentinels, OK, "3 of 3 name 10.0.0.9:6380", "name the master", NULL);
}

Test(check, silent_sentinels_are_a_warning_or_if_all_a_problem)
{
    exam_url("redis+sentinel://a,b/main");
    sentinel_answers("-NOAUTH Authentication required.\n");
    exam_judge(hlk_check_sentinels, PROBLEM, "none of 1 answers: NOAUTH", "No client", "password of their own");
    sentinel_answers(ADDRESS("10.0.0.9"));
    exam_judge(hlk_check_sentinels, WARNING, "1 of 2 name 10.0.0.9:6380; NOAUTH", "One that answers", "majority");
}

Test(check, sentinels_not_knowing_the_service_are_a_problem)
{
    exam_url("redis+sentinel://a,b/main");
    sentinel_answers("*-1\n");
    sentinel_answers(NULL);
    exam_judge(hlk_check_sentinels, PROBLEM, "1 of 2 answer, and none knows \"main\"", "No client", "service");
}

Test(check, sentinels_that_differ_are_a_warning)
{
    exam_url("redis+sentinel://a,b/main");
    sentinel_answers(ADDRESS("10.0.0.9"));
    sentinel_answers(ADDRESS("10.0.0.8"));
    exam_judge(hlk_check_sentinels, WARNING, "different masters, 10.0.0.9:6380 among them", "two may hold", "again");
}

/* --- the server */

Test(check, server_is_one_that_was_tested_or_a_warning)
{
    exam_judge(hlk_check_server, OK, "Redis 7.0.15", "Tested with", NULL);
    exam_info("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:9.1.2\n");
    exam_judge(hlk_check_server, OK, "Valkey 9.1.2", "Tested with", NULL);
    exam_info("redis_version:6.0.16\n");
    exam_judge(hlk_check_server, WARNING, "Redis 6.0.16", "Tested with", "Use one of these");
    exam_info("redis_version:7.4.0\ndragonfly_version:df-v1.27.1\n");
    exam_judge(hlk_check_server, WARNING, "Dragonfly df-v1.27.1", "Tested with", "Use one of these");
}

Test(check, what_may_not_be_asked_is_not_known)
{
    exam_refuse(HLK_ASK_INFO);
    exam_refuse(HLK_ASK_POLICY);
    exam_refuse(HLK_ASK_APPENDONLY);
    exam_judge(hlk_check_server, NOTE, "not known: this user may not run INFO", "Tested with", "+info");
    exam_judge(hlk_check_topology, NOTE, "may not run INFO", "slots", "+info");
    exam_judge(hlk_check_replication, NOTE, "may not run INFO", "failover", "+info");
    exam_judge(hlk_check_clients, NOTE, "may not run INFO", "two connections", "+info");
    exam_judge(hlk_check_eviction, NOTE, "not known: this user may not run CONFIG GET", "delete a lock", "+config|get");
    exam_judge(hlk_check_persistence, NOTE, "may not run CONFIG GET", "restart", "+config|get");
}

Test(check, what_info_does_not_say_config_or_role_may)
{
    exam_refuse(HLK_ASK_INFO);
    exam_config(HLK_ASK_MAXMEMORY, "1048576");
    exam_config(HLK_ASK_POLICY, "allkeys-lru");
    exam_judge(hlk_check_eviction, PROBLEM, "maxmemory 1.0 MB, policy allkeys-lru", "any key", "noeviction");
    exam_judge(hlk_check_persistence, OK, "fsync always", "loses no lock", NULL);
    exam_judge(hlk_check_role, OK, "master", "accepts writes", NULL);
    exam_answer(HLK_ASK_ROLE, "*5\n$5\nslave\n$9\n127.0.0.1\n:6379\n$9\nconnected\n:1\n");
    exam_judge(hlk_check_role, PROBLEM, "replica of another server", "refuses writes", "master's URL");
    exam_refuse(HLK_ASK_ROLE);
    exam_judge(hlk_check_role, NOTE, "may not run ROLE", "in the master", "+role");
}

Test(check, replica_is_a_problem_and_its_master_is_named)
{
    exam_judge(hlk_check_role, OK, "master", "accepts writes", NULL);
    exam_info("role:slave\nmaster_host:10.0.0.9\nmaster_port:6380\nmaster_link_status:up\n");
    exam_judge(hlk_check_role, PROBLEM, "replica of 10.0.0.9:6380, link up", "no lock can be acquired",
               "redis://10.0.0.9:6380");
}

Test(check, sentinel_is_a_problem)
{
    exam_refuse(HLK_ASK_INFO);
    exam_answer(HLK_ASK_ROLE, "*2\n$8\nsentinel\n*0\n");
    exam_judge(hlk_check_role, PROBLEM, "sentinel", "no data", "redis+sentinel://");
}

Test(check, node_of_a_cluster_needs_a_url_that_says_so)
{
    exam_judge(hlk_check_topology, OK, "one server", "All locks", NULL);
    exam_info("cluster_enabled:1\n");
    exam_judge(hlk_check_topology, PROBLEM, "a node of a cluster", "MOVED", "redis+cluster://");
    exam_url("redis+cluster://10.0.0.7");
    exam_judge(hlk_check_topology, NOTE, "state not known", "MOVED", "for each master");
    exam_string(HLK_ASK_CLUSTER, "cluster_state:ok\ncluster_slots_assigned:16384\n");
    exam_judge(hlk_check_topology, NOTE, "state ok", "MOVED", "for each master");
    exam_string(HLK_ASK_CLUSTER, "cluster_state:fail\n");
    exam_judge(hlk_check_topology, PROBLEM, "state fail", "CLUSTERDOWN", "CLUSTER NODES");
    exam_info("");
    exam_judge(hlk_check_topology, PROBLEM, "no cluster", "no slots", "redis://");
}

Test(check, master_with_sentinels_needs_a_url_that_says_so)
{
    exam_answer(HLK_ASK_SENTINELS, "*2\n$18\n__sentinel__:hello\n:3\n");
    exam_judge(hlk_check_topology, WARNING, "monitored by 3 Sentinels", "make a replica the master",
               "redis+sentinel://");
    exam_url("redis+sentinel://10.0.0.7/main");
    exam_judge(hlk_check_topology, OK, "a master that Sentinels monitor", "All locks", NULL);
}

Test(check, replicas_are_a_note_and_those_behind_a_warning)
{
    exam_judge(hlk_check_replication, OK, "no replica", "No failover", NULL);
    exam_info("connected_slaves:2\nslave0:ip=10.0.0.8,port=6379,state=online,offset=9,lag=0\n"
              "slave1:ip=10.0.0.9,port=6379,state=online,offset=9,lag=1\n");
    exam_judge(hlk_check_replication, NOTE, "2 replicas, 2 online, slowest 1 s behind", "asynchronous", "fencing");
    exam_info("connected_slaves:1\nslave0:ip=10.0.0.8,port=6379,state=online,offset=9,lag=11\n");
    exam_judge(hlk_check_replication, WARNING, "1 replica, 1 online, slowest 11 s behind", "asynchronous", "behind");
    exam_info("connected_slaves:1\nslave0:ip=10.0.0.8,port=6379,state=wait_bgsave,offset=9,lag=0\n");
    exam_judge(hlk_check_replication, WARNING, "1 replica, 0 online", "asynchronous", "behind");
}

Test(check, too_few_replicas_are_a_problem)
{
    exam_config(HLK_ASK_MIN_REPLICAS, "1");
    exam_judge(hlk_check_replication, PROBLEM, "0 of at least 1", "NOREPLICAS", "min-replicas-to-write");
    exam_info("connected_slaves:1\nslave0:ip=10.0.0.8,port=6379,state=online,offset=9,lag=0\n");
    exam_judge(hlk_check_replication, NOTE, "min-replicas-to-write 1", "asynchronous", "fencing");
}

Test(check, database_that_is_not_there_is_a_problem)
{
    exam_judge(hlk_check_database, OK, "database 0", "another lock", NULL);
    exam_url("redis://10.0.0.7/99");
    exam_answer(HLK_ASK_SELECT, "-ERR DB index is out of range\n");
    exam_judge(hlk_check_database, PROBLEM, "database 99: the server does not have it", "No client", "databases");
    exam_refuse(HLK_ASK_SELECT);
    exam_judge(hlk_check_database, PROBLEM, "may not run SELECT", "No client", "database 0");
    exam_url("redis://10.0.0.7");
    exam_judge(hlk_check_database, OK, "database 0", "another lock", NULL);
}

/* --- its data */

Test(check, eviction_is_a_problem_where_it_may_happen)
{
    exam_judge(hlk_check_eviction, OK, "no maxmemory", "No lock is evicted", NULL);
    exam_info("maxmemory:1048576\nused_memory:900000\nmaxmemory_policy:allkeys-lfu\n");
    exam_judge(hlk_check_eviction, PROBLEM, "1.0 MB, policy allkeys-lfu", "deletes any key", "noeviction");
    exam_info("maxmemory:1048576\nused_memory:900000\nmaxmemory_policy:volatile-ttl\n");
    exam_judge(hlk_check_eviction, PROBLEM, "policy volatile-ttl", "keys that have a ttl", "noeviction");
    exam_info("maxmemory:0\nmaxmemory_policy:allkeys-lru\n");
    exam_judge(hlk_check_eviction, OK, "no maxmemory, policy allkeys-lru", "No lock is evicted", NULL);
    exam_info("maxmemory:1048576\nused_memory:900000\n");
    exam_judge(hlk_check_eviction, OK, "policy noeviction", "refuses to acquire", NULL);
    exam_info("maxmemory:1048576\nused_memory:1000000\n");
    exam_judge(hlk_check_eviction, WARNING, "1.0 MB, 1.0 MB in use", "refuses to acquire", "Raise maxmemory");
}

Test(check, persistence_says_what_a_restart_loses)
{
    exam_judge(hlk_check_persistence, OK, "append-only file, fsync always", "loses no lock", NULL);
    exam_config(HLK_ASK_APPENDFSYNC, "everysec");
    exam_judge(hlk_check_persistence, NOTE, "fsync everysec", "last second or two", "appendfsync always");
    exam_config(HLK_ASK_APPENDFSYNC, "no");
    exam_judge(hlk_check_persistence, WARNING, "fsync no", "half minute", "appendfsync always");
    exam_info("aof_enabled:0\n");
    exam_judge(hlk_check_persistence, WARNING, "no append-only file, no snapshots", "loses all locks", "appendonly");
    exam_config(HLK_ASK_SAVE, "3600 1");
    exam_judge(hlk_check_persistence, WARNING, "snapshots at times", "released since then return", "appendonly");
    exam_url("local:");
    exam_judge(hlk_check_persistence, NOTE, "no append-only file", "return", NULL);
}

Test(check, writes_that_fail_are_a_problem)
{
    exam_info("aof_last_write_status:err\n");
    exam_judge(hlk_check_persistence, PROBLEM, "write to the append-only file failed", "MISCONF", "disk");
    exam_info("rdb_last_bgsave_status:err\n");
    exam_judge(hlk_check_persistence, PROBLEM, "snapshot failed", "MISCONF", "disk");
    exam_config(HLK_ASK_STOP_WRITES, "no");
    exam_judge(hlk_check_persistence, WARNING, "snapshot failed", "since the last snapshot", "disk");
}

/* Values of the server's stand in terminals and logs. */
Test(check, shows_no_control_bytes)
{
    exam_info("redis_version:7.0\033[2J\n");
    exam_judge(hlk_check_server, OK, "Redis 7.0\\x1b[2J", "Tested", NULL);
}
