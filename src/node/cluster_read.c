#include "node/cluster_read.h"

#include "base/clock.h"
#include "base/debug.h"
#include "hasplock/client.h"
#include "net/pipeline_up.h"
#include "net/reply.h"
#include "node/cluster_servers.h"

#include <stdlib.h>
#include <string.h>

#define READ_FIRST_MS 50
#define READ_MOST_MS 500

enum { PROBE, INFO, SLOTS };

static const char *const commands[] = { "*2\r\n$6\r\nPUBSUB\r\n$11\r\nSHARDNUMSUB\r\n",
                                        "*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n",
                                        "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n" };

void hlk_cluster_refresh(struct hlk_cluster *cluster)
{
    hlk_loop_post(cluster->loop, &cluster->post);
}

static void wake_opener(struct hlk_cluster *cluster)
{
    struct hlk_thread *opener = atomic_load(&cluster->opener);
    if (opener)
        hlk_park_wake(&opener->park, HLK_WAKE_UP);
}

/* --- slots that moved --- */

static bool concerns_channel(const char *name, size_t len, void *cluster)
{
    return hlk_cluster_moved(cluster, name, len);
}

/* Waits of these slots send acquire, and go to the new server by that; holds are verified there. */
static void settle_moves(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    hlk_mutex_assert_none();
    static const uint64_t none[HLK_SLOTS / 64];
    hlk_mutex_lock(&cluster->mu);
    memcpy(cluster->settling, cluster->moved, sizeof cluster->moved);
    memset(cluster->moved, 0, sizeof cluster->moved);
    hlk_mutex_unlock(&cluster->mu);
    if (memcmp(cluster->settling, none, sizeof none) == 0)
        return;
    unsigned count = atomic_load(&cluster->count);
    for (unsigned i = 0; i < count; i++) {
        hlk_pipeline_reroute(cluster->servers[i]->pipeline);
        hlk_channels_wake(&cluster->servers[i]->channels, concerns_channel, cluster);
    }
    cluster->owner.verify_moved(cluster->home);
    hlk_releases_on_up(&cluster->home->releases);
}

/* --- reading --- */

static void schedule(struct hlk_cluster *cluster);

static struct hlk_node *pick(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    struct hlk_error error;
    unsigned count = atomic_load(&cluster->count);
    for (unsigned i = 0; i < count; i++) {
        cluster->asked_at = cluster->turn++ % count;
        struct hlk_node *node = cluster->servers[cluster->asked_at];
        if (hlk_pipeline_health(node->pipeline, &error) == HLK_OK)
            return node;
    }
    return NULL;
}

static bool send_calls(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    HLK_DEBUG_ASSERT(cluster->asked && atomic_load(&cluster->answers_due) == 0);
    hlk_pipeline *pipeline = cluster->asked->pipeline;
    for (int i = PROBE; i <= SLOTS; i++) {
        atomic_fetch_add(&cluster->answers_due, 1);
        if (hlk_pipeline_send(pipeline, &cluster->calls[i].call, commands[i], strlen(commands[i])) != HLK_OK) {
            atomic_fetch_sub(&cluster->answers_due, 1);
            return false;
        }
    }
    return true;
}

static void start(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    HLK_DEBUG_ASSERT(cluster->wanted && !cluster->reading);
    cluster->next_ms = hlk_clock_ms() + hlk_backoff_next(&cluster->backoff);
    settle_moves(cluster);
    cluster->asked = pick(cluster);
    if (!cluster->asked) { /* the next one that is connected is asked */
        unsigned count = atomic_load(&cluster->count);
        for (unsigned i = 0; i < count; i++)
            hlk_pipeline_link_dial(cluster->servers[i]->pipeline);
        return;
    }
    cluster->wanted = false;
    cluster->reading = true;
    if (send_calls(cluster))
        return;
    cluster->reading = false; /* the connection broke this moment, or there is no memory */
    cluster->wanted = true;
    schedule(cluster);
}

static void schedule(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    if (cluster->reading || cluster->armed || !cluster->wanted)
        return;
    int64_t now = hlk_clock_ms();
    bool cut_short = atomic_load(&cluster->answers_due) > 0; /* the calls of a round that was not sent whole */
    if (now >= cluster->next_ms && cut_short)
        cluster->next_ms = now + hlk_backoff_next(&cluster->backoff);
    if (now >= cluster->next_ms) {
        start(cluster);
        return;
    }
    cluster->armed = true;
    hlk_loop_arm(cluster->loop, &cluster->alarm, cluster->next_ms);
}

static void read_on_alarm(struct hlk_alarm *alarm)
{
    struct hlk_cluster *cluster = HLK_CONTAINER(alarm, struct hlk_cluster, alarm);
    hlk_loop_assert_here(cluster->loop);
    cluster->armed = false;
    schedule(cluster);
}

/* --- answers --- */

static redisReply *take_reply(struct hlk_call *call)
{
    redisReply *reply = atomic_load(&call->end) == HLK_CALL_ANSWERED ? call->reply : NULL;
    call->reply = NULL;
    return reply;
}

static struct hlk_cluster *cluster_of(struct hlk_call *call)
{
    return HLK_CONTAINER(call, struct hlk_cluster_call, call)->cluster;
}

/* Redisson's rule: sharded pub/sub if the first server that it asks knows it, and for as long as the client lives. */
static void on_probe(struct hlk_call *call)
{
    struct hlk_cluster *cluster = cluster_of(call);
    redisReply *reply = take_reply(call);
    if (reply && !atomic_load(&cluster->known))
        cluster->read_sharded = reply->type == REDIS_REPLY_ARRAY;
    if (reply)
        freeReplyObject(reply);
    atomic_fetch_sub(&cluster->answers_due, 1);
}

static void on_info(struct hlk_call *call)
{
    struct hlk_cluster *cluster = cluster_of(call);
    redisReply *reply = take_reply(call);
    cluster->read_usable = true;
    cluster->read_epoch = reply ? hlk_slots_epoch(reply, &cluster->read_usable) : 0;
    if (reply)
        freeReplyObject(reply);
    atomic_fetch_sub(&cluster->answers_due, 1);
}

/* On whichever thread leads. The rest is the loop's. */
static void on_slots(struct hlk_call *call)
{
    struct hlk_cluster *cluster = cluster_of(call);
    atomic_fetch_sub(&cluster->answers_due, 1);
    hlk_loop_post(cluster->loop, &cluster->read);
}

struct range_reader {
    struct hlk_cluster *cluster;
    unsigned slots, moved;
};

static void take_range(void *ctx, unsigned first, unsigned last, const struct hlk_address *master)
{
    HLK_DEBUG_ASSERT(first <= last && last < HLK_SLOTS);
    struct range_reader *reader = ctx;
    unsigned server = hlk_cluster_server(reader->cluster, reader->cluster->asked, master);
    for (unsigned slot = first; server < HLK_SERVERS_MAX && slot <= last; slot++) {
        reader->moved += hlk_cluster_set(reader->cluster, slot, server);
        reader->slots++;
    }
}

/* A server that was cut off from the others knows an old map. */
static bool is_old(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    HLK_DEBUG_ASSERT(cluster->asked_at < atomic_load(&cluster->count));
    bool up[HLK_SERVERS_MAX];
    struct hlk_error error;
    unsigned count = atomic_load(&cluster->count);
    for (unsigned i = 0; i < count; i++)
        up[i] = hlk_pipeline_health(cluster->servers[i]->pipeline, &error) == HLK_OK;
    return !hlk_epochs_follow(&cluster->epochs, cluster->asked_at, cluster->read_epoch, up, count);
}

/* Why the map was not read, or NULL. */
static const char *useless(struct hlk_cluster *cluster, const redisReply *reply, struct hlk_error *error)
{
    if (hlk_reply_read(reply, error) != HLK_REPLY_ANSWER)
        return error->text;
    (void)hlk_error_set(error, HLK_E_CONNECT, "no map of the slots");
    return !cluster->read_usable                                      ? "the cluster is down (cluster_state:fail)"
           : reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ? "no slot has a server"
           : is_old(cluster) ? "an old map, or one that most servers do not have"
                             : NULL;
}

static void refuse_map(struct hlk_cluster *cluster, enum hlk_status status, const char *why)
{
    hlk_loop_assert_here(cluster->loop);
    HLK_DEBUG_ASSERT(cluster->asked);
    hlk_log(&cluster->home->endpoint.log, HLK_LOG_INFO, "%s: the map of the slots is not read from %s: %s",
            cluster->home->endpoint.url.shown, cluster->asked->endpoint.url.shown, why);
    hlk_mutex_lock(&cluster->mu);
    (void)hlk_error_set(&cluster->refusal, status, "%s", why);
    hlk_mutex_unlock(&cluster->mu);
    cluster->wanted = true;
}

/* Nothing was sent or subscribed before. */
static void begin_routing(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    HLK_DEBUG_ASSERT(!atomic_load(&cluster->known));
    unsigned count = atomic_load(&cluster->count);
    atomic_store(&cluster->router.sharded, cluster->read_sharded);
    for (unsigned i = 0; i < count; i++)
        cluster->servers[i]->channels.pubsub.sharded = cluster->read_sharded;
    atomic_store(&cluster->known, true);
}

/* A server that keeps no slot may be gone for good. Each attempt to connect to it that fails has the map read again. */
static void rest_others(const struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    bool keeps[HLK_SERVERS_MAX] = { false };
    unsigned count = atomic_load(&cluster->count);
    for (unsigned slot = 0; slot < HLK_SLOTS; slot++)
        keeps[atomic_load(&cluster->keepers[slot])] = true;
    for (unsigned i = 0; i < count; i++)
        hlk_pipeline_rest(cluster->servers[i]->pipeline, !keeps[i]);
}

static void read_map(struct hlk_cluster *cluster, const redisReply *reply)
{
    hlk_loop_assert_here(cluster->loop);
    struct hlk_error error;
    uint64_t before = cluster->epochs.map;
    const char *why = useless(cluster, reply, &error);
    struct range_reader reader = { .cluster = cluster };
    if (!why && (!hlk_slots_read(reply, take_range, &reader) || reader.slots == 0))
        why = "the answer to CLUSTER SLOTS is no map";
    if (why) {
        char text[HLK_ERROR_TEXT];
        strncpy(text, why, sizeof text - 1);
        text[sizeof text - 1] = '\0';
        refuse_map(cluster, error.status, text);
        return;
    }
    if (reader.moved > 0)
        hlk_backoff_reset(&cluster->backoff);
    if (reader.moved > 0 && atomic_load(&cluster->known))
        hlk_log(&cluster->home->endpoint.log, HLK_LOG_INFO, "%s: %u slots have moved",
                cluster->home->endpoint.url.shown, reader.moved);
    if (!atomic_load(&cluster->known))
        begin_routing(cluster);
    rest_others(cluster);
    settle_moves(cluster);
    if (cluster->epochs.map < before)
        hlk_log(&cluster->home->endpoint.log, HLK_LOG_WARN,
                "%s: epoch %llu of the cluster is followed by epoch %llu: it was made anew, say most of its servers",
                cluster->home->endpoint.url.shown, (unsigned long long)before, (unsigned long long)cluster->epochs.map);
}

static void read_on_answer(struct hlk_post *post)
{
    struct hlk_cluster *cluster = HLK_CONTAINER(post, struct hlk_cluster, read);
    hlk_loop_assert_here(cluster->loop);
    redisReply *reply = take_reply(&cluster->calls[SLOTS].call);
    cluster->reading = false;
    if (reply)
        read_map(cluster, reply);
    else
        cluster->wanted = true;
    if (reply)
        freeReplyObject(reply);
    wake_opener(cluster);
    schedule(cluster);
}

/* A caller was told of a server that is no node yet, or wants the map read. */
static void read_on_post(struct hlk_post *post)
{
    struct hlk_cluster *cluster = HLK_CONTAINER(post, struct hlk_cluster, post);
    hlk_loop_assert_here(cluster->loop);
    hlk_mutex_lock(&cluster->mu);
    struct hlk_address unknown = cluster->unknown;
    cluster->unknown.port = 0;
    hlk_mutex_unlock(&cluster->mu);
    if (unknown.port)
        (void)hlk_cluster_server(cluster, cluster->home, &unknown);
    cluster->wanted = true;
    wake_opener(cluster);
    schedule(cluster);
}

void hlk_cluster_read_init(struct hlk_cluster *cluster)
{
    hlk_loop_assert_here(cluster->loop);
    static void (*const dones[])(struct hlk_call * call) = { on_probe, on_info, on_slots };
    for (int i = PROBE; i <= SLOTS; i++) {
        cluster->calls[i].cluster = cluster;
        cluster->calls[i].call.done = dones[i];
        cluster->calls[i].call.lazy = true;
    }
    cluster->calls[SLOTS].call.map = true;
    cluster->post.run = read_on_post;
    cluster->read.run = read_on_answer;
    cluster->alarm.fire = read_on_alarm;
    hlk_backoff_init(&cluster->backoff, READ_FIRST_MS, READ_MOST_MS, (uint64_t)hlk_clock_ns());
}
