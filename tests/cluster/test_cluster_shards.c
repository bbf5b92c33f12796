/* Sharded pub/sub: messages about a lock stay on the server that keeps it, and Redisson's clients get theirs. */
/* Shows: P30 */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cluster_shards, .init = cluster_begin, .fini = cluster_end, .timeout = 60);

static int64_t of_info(int server, const char *field)
{
    const char *at = strstr(raw(cluster->redis[server], "CLUSTER INFO"), field);
    return at ? strtoll(at + strlen(field) + 1, NULL, 10) : 0;
}

static int64_t messages_on_the_bus(void)
{
    int64_t n = 0;
    for (int i = 0; i < MASTERS; i++)
        n += of_info(i, "cluster_stats_messages_publish_sent") + of_info(i, "cluster_stats_messages_publishshard_sent");
    return n;
}

Test(cluster_shards, a_grant_costs_no_message_on_the_bus)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, 1, 0, NULL), *wanted = lock_at(two, 1, 0, NULL);
    for (int i = 0; i < 10; i++) {
        acquire(held);
        struct actor *waiter = actor_start(wanted, NULL);
        WAIT_FOR(raw_int(cluster->redis[1], "EXISTS hasplock_queue:{%s}", hlk_lock_name(held)) == 1);
        release(held);
        cr_assert_eq(actor_end(waiter), HLK_OK, "%s", actor_error(waiter));
    }
    cr_assert_geq(fixture_counters(two).granted, 5);
    cr_assert_eq(messages_on_the_bus(), 0, "%s", raw(cluster->redis[1], "CLUSTER INFO"));
}

static void channel_of(const hlk_lock *lock, char *channel, size_t size)
{
    snprintf(channel, size, "redisson_lock__channel:{%s}", hlk_lock_name(lock));
}

Test(cluster_shards, redisson_s_waiters_are_woken_where_they_listen)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 2, 0, NULL);
    char channel[96];
    channel_of(lock, channel, sizeof channel);
    redisContext *java = raw_open(cluster->servers[2]);
    raw(java, "SSUBSCRIBE %s", channel);
    acquire(lock);
    release(lock);
    const char *message = raw_next(java);
    cr_assert_not_null(message);
    cr_assert(strstr(message, "smessage") && strstr(message, "\"0\""), "%s", message);
    redisFree(java);
}

Test(cluster_shards, waiters_behind_redisson_listen_where_it_publishes)
{
    hlk_client *client = open_cluster();
    hlk_lock *lock = lock_at(client, 0, 0, NULL);
    redisContext *java = cluster->redis[0];
    char channel[96];
    channel_of(lock, channel, sizeof channel);
    raw(java, "HSET %s 426394b7-bea6-4e7e-920a-0b4fc0c2fb03:1 1", hlk_lock_name(lock));
    raw(java, "PEXPIRE %s 30000", hlk_lock_name(lock));
    struct actor *waiter = actor_start(lock, NULL);
    WAIT_FOR(strstr(raw(java, "PUBSUB SHARDNUMSUB %s", channel), ":1") != NULL);
    raw(java, "DEL %s", hlk_lock_name(lock));
    raw(java, "SPUBLISH %s 0", channel);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* A name with a tag of its own: the inbox is in the slot of the tag. */
Test(cluster_shards, locks_with_a_tag_are_granted_too)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = fixture_lock(one, "a{t}b", NULL), *wanted = fixture_lock(two, "a{t}b", NULL);
    int server = cluster_owner(cluster, "a{t}b");
    acquire(held);
    struct actor *waiter = actor_start(wanted, NULL);
    WAIT_FOR(raw_int(cluster->redis[server], "EXISTS hasplock_queue::a{t}b") == 1);
    release(held);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(fixture_counters(two).woken_by_ttl, 0);
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* Three threads of a process wait in its local queue, behind another process. */
Test(cluster_shards, threads_of_a_process_are_served_in_turn)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, 1, 0, NULL), *wanted = lock_at(two, 1, 0, NULL);
    struct actor *waiters[3];
    acquire(held);
    for (int i = 0; i < 3; i++) {
        waiters[i] = actor_start_passing(wanted);
        WAIT_FOR_WAITERS(two, i + 1);
    }
    WAIT_FOR(raw_int(cluster->redis[1], "EXISTS hasplock_queue:{%s}", hlk_lock_name(held)) == 1);
    release(held);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
    cr_assert_eq(fixture_counters(two).woken_by_ttl, 0);
}

static void stop_masters(int signal)
{
    for (int i = 0; i < MASTERS; i++)
        kill(cluster->servers[i]->pid, signal);
}

/* A client that is opened lazily learns with the map whether pub/sub is sharded. */
Test(cluster_shards, waits_from_before_the_map_leave_no_subscription)
{
    struct hlk_client_opts opts = patient_opts();
    struct actor *waiters[4];
    opts.flags |= HLK_OPEN_LAZY;
    hlk_client *client = fixture_open_at(cluster->url, &opts);
    hlk_lock *lock = lock_at(client, 1, 0, NULL);
    stop_masters(SIGSTOP);
    for (int i = 0; i < 4; i++) {
        waiters[i] = actor_start_passing(lock);
        WAIT_FOR_WAITERS(client, i + 1);
    }
    stop_masters(SIGCONT);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(actor_end(waiters[i]), HLK_OK);
    for (int i = 0; i < MASTERS; i++)
        WAIT_FOR(strcmp(raw(cluster->redis[i], "CLIENT LIST TYPE pubsub"), "\"\"") == 0);
}

Test(cluster_shards, a_break_reaches_a_holder_whose_inbox_is_subscribed)
{
    hlk_client *one = open_cluster(), *two = open_cluster();
    hlk_lock *held = lock_at(one, 1, 0, NULL), *other = lock_at(two, 1, 0, NULL);
    acquire(held);
    struct actor *behind = actor_start(held, NULL); /* of the holder's process: its inbox is subscribed */
    WAIT_FOR(strstr(raw(cluster->redis[1], "PUBSUB SHARDCHANNELS *"), hlk_client_id(one)) != NULL);
    cr_assert_eq(hlk_lock_break(other), HLK_OK, "%s", hlk_last_error());
    (void)fixture_wait_event(HLK_EVENT_LOST, hlk_lock_name(held));
    cr_assert_eq(hlk_lock_release(held), HLK_LOST);
    cr_assert_eq(actor_end(behind), HLK_OK);
}
