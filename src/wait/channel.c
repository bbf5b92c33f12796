#include "wait/channel.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/park.h"
#include "hasplock/client.h"

#include <string.h>

struct hlk_channel { /* under the mutex */
    struct hlk_map_node node;
    struct hlk_list listeners;
    struct hlk_list link; /* changed, or lingering */
    bool asked;           /* SUBSCRIBE was given to the connection that lives now */
    bool confirmed;
    int64_t stale_at_ms; /* without listener */
    size_t len;
    char name[];
};

static struct hlk_channel *find(struct hlk_channels *channels, const char *name, size_t len)
{
    struct hlk_map_node *node = hlk_map_get(&channels->map, name, len);
    return node ? HLK_CONTAINER(node, struct hlk_channel, node) : NULL;
}

static void tell_all(struct hlk_channel *channel, unsigned bit)
{
    for (struct hlk_list *n = channel->listeners.next; n != &channel->listeners; n = n->next) {
        struct hlk_listener *listener = HLK_CONTAINER(n, struct hlk_listener, link);
        listener->hear(listener, bit);
    }
}

/* --- from the subscriber connection: on_up and on_down by the loop, the rest by whichever thread reads it --- */

static void on_subscribed(void *ctx, const char *name, size_t len)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = find(channels, name, len);
    if (channel && channel->asked) {
        channel->confirmed = true;
        tell_all(channel, HLK_WAKE_HEARING);
    }
    hlk_mutex_unlock(&channels->mu);
}

static void on_refused(void *ctx, const char *name, size_t len, const struct hlk_error *why)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_lock(&channels->mu);
    channels->error = *why;
    struct hlk_channel *channel = find(channels, name, len);
    if (channel) {
        channel->asked = false;
        tell_all(channel, HLK_WAKE_DEAF);
    }
    hlk_mutex_unlock(&channels->mu);
}

static void on_message(void *ctx, const char *name, size_t len, const char *payload, size_t payload_len)
{
    struct hlk_channels *channels = ctx;
    if (len == channels->inbox_len && memcmp(name, channels->inbox, len) == 0) {
        channels->on_letter(channels->letter_ctx, payload, payload_len);
        return;
    }
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = find(channels, name, len);
    /* Whatever was said, it is time to ask. Redisson says 0. */
    struct hlk_list *first = channel ? hlk_list_first(&channel->listeners) : NULL;
    if (first) {
        struct hlk_listener *listener = HLK_CONTAINER(first, struct hlk_listener, link);
        listener->hear(listener, HLK_WAKE_MESSAGE);
    }
    hlk_mutex_unlock(&channels->mu);
}

/* A subscription that broke mostly means that the server is gone: each wait asks, and learns how long it has
 * patience. */
static bool forget(struct hlk_map_node *node, void *ctx)
{
    (void)ctx;
    struct hlk_channel *channel = HLK_CONTAINER(node, struct hlk_channel, node);
    if (channel->confirmed)
        tell_all(channel, HLK_WAKE_MESSAGE);
    channel->asked = channel->confirmed = false;
    return true;
}

static void on_down(void *ctx, const struct hlk_error *why)
{
    struct hlk_channels *channels = ctx;
    hlk_log(&channels->pubsub.log, HLK_LOG_INFO, "subscriber connection: %s", why->text);
    hlk_mutex_lock(&channels->mu);
    hlk_map_each(&channels->map, forget, NULL);
    hlk_mutex_unlock(&channels->mu);
}

static bool mark_changed(struct hlk_map_node *node, void *ctx)
{
    struct hlk_channels *channels = ctx;
    struct hlk_channel *channel = HLK_CONTAINER(node, struct hlk_channel, node);
    if (!channel->asked && !hlk_list_empty(&channel->listeners)) {
        hlk_list_remove(&channel->link);
        hlk_list_push_back(&channels->changed, &channel->link);
    }
    return true;
}

/* Subscribes what is to be subscribed. The connection may break under each subscription; then all come again. */
static void subscribe_changed(struct hlk_channels *channels)
{
    for (;;) {
        hlk_mutex_lock(&channels->mu);
        struct hlk_list *node = hlk_list_pop(&channels->changed);
        struct hlk_channel *channel = node ? HLK_CONTAINER(node, struct hlk_channel, link) : NULL;
        if (channel)
            channel->asked = channels->pubsub.up;
        hlk_mutex_unlock(&channels->mu);
        if (!channel)
            return;
        hlk_pubsub_subscribe(&channels->pubsub, channel->name,
                             channel->len); /* channels are freed on this thread only */
    }
}

static void on_up(void *ctx)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_lock(&channels->mu);
    hlk_map_each(&channels->map, mark_changed, channels);
    hlk_mutex_unlock(&channels->mu);
    subscribe_changed(channels);
}

static void on_post(struct hlk_post *post)
{
    subscribe_changed(HLK_CONTAINER(post, struct hlk_channels, post));
}

/* --- subscriptions nobody needs any more: loop thread --- */

static struct hlk_channel *take_stale(struct hlk_channels *channels, int64_t now_ms)
{
    for (struct hlk_list *n = channels->lingering.next; n != &channels->lingering; n = n->next) {
        struct hlk_channel *channel = HLK_CONTAINER(n, struct hlk_channel, link);
        /* One that is not confirmed yet stays: its confirmation must not be taken for that of a later channel of the
         * same name. */
        if (now_ms < channel->stale_at_ms || (channel->asked && !channel->confirmed))
            continue;
        hlk_list_remove(&channel->link);
        hlk_map_remove(&channels->map, &channel->node);
        atomic_fetch_sub(&channels->known, 1);
        return channel;
    }
    return NULL;
}

static void on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_channels *channels = HLK_CONTAINER(tick, struct hlk_channels, tick);
    for (;;) {
        hlk_mutex_lock(&channels->mu);
        struct hlk_channel *channel = take_stale(channels, now_ms);
        hlk_mutex_unlock(&channels->mu);
        if (!channel)
            return;
        if (channel->asked)
            hlk_pubsub_unsubscribe(&channels->pubsub, channel->name, channel->len);
        hlk_mem_free(channel);
    }
}

static bool tick_idle(struct hlk_tick *tick)
{
    struct hlk_channels *channels = HLK_CONTAINER(tick, struct hlk_channels, tick);
    hlk_mutex_lock(&channels->mu);
    bool idle = hlk_list_empty(&channels->lingering);
    hlk_mutex_unlock(&channels->mu);
    return idle;
}

/* --- waits: any thread --- */

static struct hlk_channel *add(struct hlk_channels *channels, const char *name, size_t len)
{
    struct hlk_channel *channel = hlk_mem_zalloc(sizeof *channel + len + 1);
    if (!channel)
        return NULL;
    memcpy(channel->name, name, len);
    channel->len = len;
    hlk_list_init(&channel->listeners);
    if (!hlk_map_put(&channels->map, &channel->node, channel->name, len)) {
        hlk_mem_free(channel);
        return NULL;
    }
    atomic_fetch_add(&channels->known, 1);
    return channel;
}

static enum hlk_status join(struct hlk_channels *channels, struct hlk_channel *channel, struct hlk_listener *listener)
{
    listener->channel = channel;
    hlk_list_push_back(&channel->listeners, &listener->link);
    hlk_list_remove(&channel->link); /* lingers no more */
    if (!channel->asked)
        hlk_list_push_back(&channels->changed, &channel->link);
    return channel->confirmed ? HLK_OK : HLK_BUSY;
}

static enum hlk_status join_by_name(struct hlk_channels *channels, const char *name, size_t len,
                                    struct hlk_listener *listener)
{
    struct hlk_channel *channel = find(channels, name, len);
    if (!channel)
        channel = add(channels, name, len);
    return channel ? join(channels, channel, listener) : HLK_E_NOMEM;
}

enum hlk_status hlk_channel_join(struct hlk_channels *channels, const char *name, size_t len,
                                 struct hlk_listener *listener)
{
    hlk_mutex_lock(&channels->mu);
    enum hlk_status status = join_by_name(channels, name, len, listener);
    bool post = listener->channel && !listener->channel->asked;
    hlk_mutex_unlock(&channels->mu);
    if (post)
        hlk_loop_post(channels->loop, &channels->post);
    return status;
}

enum hlk_status hlk_channel_join_live(struct hlk_channels *channels, const char *name, size_t len,
                                      struct hlk_listener *listener)
{
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = find(channels, name, len);
    enum hlk_status status = channel && channel->confirmed ? join(channels, channel, listener) : HLK_NOT_HOLDER;
    hlk_mutex_unlock(&channels->mu);
    return status;
}

/* Under the mutex. True: nobody listens there any more, ticks are needed. */
static bool leave(struct hlk_channels *channels, struct hlk_listener *listener)
{
    struct hlk_channel *channel = listener->channel;
    listener->channel = NULL;
    hlk_list_remove(&listener->link);
    bool last = hlk_list_empty(&channel->listeners);
    if (last) {
        bool inbox = channel->len == channels->inbox_len && memcmp(channel->name, channels->inbox, channel->len) == 0;
        channel->stale_at_ms = hlk_clock_ms() + (inbox ? HLK_INBOX_LINGER_MS : HLK_CHANNEL_LINGER_MS);
        hlk_list_remove(&channel->link);
        hlk_list_push_back(&channels->lingering, &channel->link);
    }
    return last;
}

void hlk_channel_leave(struct hlk_channels *channels, struct hlk_listener *listener)
{
    if (!listener->channel)
        return;
    hlk_mutex_lock(&channels->mu);
    bool last = leave(channels, listener);
    hlk_mutex_unlock(&channels->mu);
    if (last)
        hlk_loop_need_ticks(channels->loop);
}

static void hear_nothing(struct hlk_listener *listener, unsigned bit)
{
    (void)listener, (void)bit;
}

void hlk_channel_attend_inbox(struct hlk_channels *channels)
{
    hlk_mutex_lock(&channels->mu);
    bool post = channels->attending++ == 0 &&
                join_by_name(channels, channels->inbox, channels->inbox_len, &channels->attendant) == HLK_BUSY;
    hlk_mutex_unlock(&channels->mu);
    if (post)
        hlk_loop_post(channels->loop, &channels->post);
}

void hlk_channel_leave_inbox(struct hlk_channels *channels)
{
    hlk_mutex_lock(&channels->mu);
    bool last = --channels->attending == 0 && channels->attendant.channel && leave(channels, &channels->attendant);
    hlk_mutex_unlock(&channels->mu);
    if (last)
        hlk_loop_need_ticks(channels->loop);
}

bool hlk_channel_confirmed(struct hlk_channels *channels, const struct hlk_listener *listener)
{
    hlk_mutex_lock(&channels->mu);
    bool confirmed = listener->channel && listener->channel->confirmed;
    hlk_mutex_unlock(&channels->mu);
    return confirmed;
}

void hlk_channel_refusal(struct hlk_channels *channels, struct hlk_error *error)
{
    hlk_mutex_lock(&channels->mu);
    *error = channels->error;
    hlk_mutex_unlock(&channels->mu);
}

enum hlk_status hlk_channels_init(struct hlk_channels *channels, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                  const char *client_id, hlk_letter_fn *on_letter, void *letter_ctx,
                                  struct hlk_error *error)
{
    memset(channels, 0, sizeof *channels);
    channels->inbox_len = hlk_key_inbox(channels->inbox, client_id);
    channels->on_letter = on_letter;
    channels->letter_ctx = letter_ctx;
    channels->loop = loop;
    hlk_mutex_init(&channels->mu, HLK_RANK_CHANNELS);
    hlk_list_init(&channels->changed);
    hlk_list_init(&channels->lingering);
    struct hlk_pubsub_owner owner = { channels, on_up, on_down, on_subscribed, on_refused, on_message };
    enum hlk_status status = hlk_pubsub_init(&channels->pubsub, loop, endpoint, &owner, error);
    channels->pubsub.log = endpoint->log;
    channels->post.run = on_post;
    channels->tick.run = on_tick;
    channels->tick.idle = tick_idle;
    channels->attendant.hear = hear_nothing;
    hlk_loop_add_tick(loop, &channels->tick);
    return status;
}

static bool free_channel(struct hlk_map_node *node, void *ctx)
{
    hlk_map_remove(ctx, node);
    hlk_mem_free(HLK_CONTAINER(node, struct hlk_channel, node));
    return true;
}

void hlk_channels_close(struct hlk_channels *channels)
{
    hlk_pubsub_close(&channels->pubsub);
}

void hlk_channels_fini(struct hlk_channels *channels)
{
    hlk_pubsub_fini(&channels->pubsub);
    hlk_map_each(&channels->map, free_channel, &channels->map);
    hlk_map_fini(&channels->map);
    hlk_mutex_fini(&channels->mu);
}
