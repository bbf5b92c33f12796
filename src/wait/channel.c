#include "wait/channel.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/park.h"
#include "hasplock/client.h"
#include "script/command.h"

#include <string.h>

struct hlk_channel { /* under the mutex */
    struct hlk_map_node node;
    struct hlk_list listeners;
    struct hlk_list link; /* in changed or lingering */
    bool subscribe_sent;  /* SUBSCRIBE was sent on the current connection */
    bool again;           /* the server has refused it for now */
    bool confirmed;
    int64_t stale_at_ms; /* when lingering ends */
    size_t len;
    char name[];
};

static struct hlk_channel *channel_find(struct hlk_channels *channels, const char *name, size_t len)
{
    hlk_mutex_assert_held(&channels->mu);
    struct hlk_map_node *node = hlk_map_get(&channels->map, name, len);
    return node ? HLK_CONTAINER(node, struct hlk_channel, node) : NULL;
}

static void notify_all(struct hlk_channel *channel, unsigned bit)
{
    for (struct hlk_list *n = channel->listeners.next; n != &channel->listeners; n = n->next) {
        struct hlk_listener *listener = HLK_CONTAINER(n, struct hlk_listener, link);
        listener->on_event(listener, bit);
    }
}

/* --- from the subscriber connection: on_up and on_down by the loop, the rest by whichever thread reads it --- */

static bool is_inbox(const char *name, size_t len)
{
    return len >= sizeof HLK_INBOX_PREFIX && memcmp(name, HLK_INBOX_PREFIX, sizeof HLK_INBOX_PREFIX - 1) == 0;
}

static void on_subscribed(void *ctx, const char *name, size_t len)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_assert_none();
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = channel_find(channels, name, len);
    bool confirmed = channel && channel->subscribe_sent;
    if (confirmed) {
        channel->confirmed = true;
        notify_all(channel, HLK_WAKE_SUBSCRIBED);
    }
    hlk_mutex_unlock(&channels->mu);
    if (confirmed && channels->on_inbox && is_inbox(name, len))
        channels->on_inbox(channels->inbox_ctx);
}

static void on_refused(void *ctx, const char *name, size_t len, const struct hlk_error *why)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_assert_none();
    hlk_mutex_lock(&channels->mu);
    channels->error = *why;
    struct hlk_channel *channel = channel_find(channels, name, len);
    if (channel) {
        channel->subscribe_sent = false;
        notify_all(channel, HLK_WAKE_SUBSCRIBE_FAILED);
    }
    hlk_mutex_unlock(&channels->mu);
}

static struct hlk_channel *channel_add(struct hlk_channels *channels, const char *name, size_t len);
static void linger(struct hlk_channels *channels, struct hlk_channel *channel, int64_t ms);

/* Repeated after a pause, if it is still needed then. After a refused UNSUBSCRIBE the channel was forgotten already, so
 * it is made again to linger. Without memory for that the server keeps the subscription. */
static void on_later(void *ctx, const char *name, size_t len, bool subscribe)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_assert_none();
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = channel_find(channels, name, len);
    if (subscribe && channel) {
        channel->subscribe_sent = false;
        channel->again = true;
        channels->again_at_ms = hlk_clock_ms() + HLK_PAUSE_MS;
    } else if (!subscribe && !channel && (channel = channel_add(channels, name, len))) {
        channel->subscribe_sent = channel->confirmed = true;
        linger(channels, channel, HLK_PAUSE_MS);
    }
    hlk_mutex_unlock(&channels->mu);
    hlk_loop_need_ticks(channels->loop);
}

/* Each wait sends acquire, is answered MOVED, and joins the channel at the other server. False: the loop has taken the
 * channel to unsubscribe it, or an answer to its subscription is due. */
static bool on_moved(void *ctx, const char *name, size_t len, const char *words)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_assert_none();
    if (channels->on_moved)
        channels->on_moved(channels->inbox_ctx, words);
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = channel_find(channels, name, len);
    bool subscribed = channel && channel->confirmed;
    if (channel) {
        channel->subscribe_sent = channel->confirmed = false;
        channel->again = true; /* a waiter that stays has a reason */
        channels->again_at_ms = hlk_clock_ms() + HLK_PAUSE_MS;
        notify_all(channel, HLK_WAKE_MESSAGE);
    }
    hlk_mutex_unlock(&channels->mu);
    hlk_loop_need_ticks(channels->loop);
    return subscribed;
}

static uint64_t number_of(const char *payload, size_t len)
{
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++) {
        if (payload[i] < '0' || payload[i] > '9')
            return 0;
        number = 10 * number + (uint64_t)(payload[i] - '0');
    }
    return number;
}

static void say_to_all(struct hlk_channel *channel, uint64_t number)
{
    for (struct hlk_list *n = channel->listeners.next; n != &channel->listeners; n = n->next) {
        struct hlk_listener *listener = HLK_CONTAINER(n, struct hlk_listener, link);
        atomic_store(&listener->number, number);
        atomic_store(&listener->said, true);
    }
    notify_all(channel, HLK_WAKE_MESSAGE);
}

static void on_message(void *ctx, const char *name, size_t len, const char *payload, size_t payload_len)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_assert_none();
    if (is_inbox(name, len)) {
        channels->on_inbox_message(channels->inbox_ctx, payload, payload_len);
        return;
    }
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = channel_find(channels, name, len);
    /* Any message means: send again. Redisson publishes 0. */
    struct hlk_list *first = channel ? hlk_list_first(&channel->listeners) : NULL;
    if (first) {
        struct hlk_listener *listener = HLK_CONTAINER(first, struct hlk_listener, link);
        if (listener->for_all)
            say_to_all(channel, number_of(payload, payload_len));
        else
            listener->on_event(listener, HLK_WAKE_MESSAGE);
    }
    hlk_mutex_unlock(&channels->mu);
}

/* When a subscription breaks, the server is usually gone. Each wait sends, and its reconnect timeout begins. */
static bool forget(struct hlk_map_node *node, void *ctx)
{
    (void)ctx;
    struct hlk_channel *channel = HLK_CONTAINER(node, struct hlk_channel, node);
    if (channel->confirmed)
        notify_all(channel, HLK_WAKE_MESSAGE);
    channel->subscribe_sent = channel->confirmed = false;
    return true;
}

static void channel_on_down(void *ctx, const struct hlk_error *why)
{
    struct hlk_channels *channels = ctx;
    hlk_loop_assert_here(channels->loop);
    hlk_mutex_assert_none();
    hlk_log(&channels->pubsub.log, HLK_LOG_INFO, "subscriber connection: %s", why->text);
    hlk_mutex_lock(&channels->mu);
    hlk_map_each(&channels->map, forget, NULL);
    hlk_mutex_unlock(&channels->mu);
}

static bool mark_changed(struct hlk_map_node *node, void *ctx)
{
    struct hlk_channels *channels = ctx;
    hlk_mutex_assert_held(&channels->mu);
    struct hlk_channel *channel = HLK_CONTAINER(node, struct hlk_channel, node);
    channel->again = false;
    if (!channel->subscribe_sent && !hlk_list_empty(&channel->listeners)) {
        hlk_list_remove(&channel->link);
        hlk_list_push_back(&channels->changed, &channel->link);
    }
    return true;
}

static bool mark_again(struct hlk_map_node *node, void *ctx)
{
    return !HLK_CONTAINER(node, struct hlk_channel, node)->again || mark_changed(node, ctx);
}

/* Sends the pending subscriptions. If the connection breaks meanwhile, on_down makes all of them pending again. */
static void subscribe_changed(struct hlk_channels *channels)
{
    hlk_loop_assert_here(channels->loop);
    for (;;) {
        hlk_mutex_lock(&channels->mu);
        struct hlk_list *node = hlk_list_pop(&channels->changed);
        struct hlk_channel *channel = node ? HLK_CONTAINER(node, struct hlk_channel, link) : NULL;
        if (channel)
            channel->subscribe_sent = channels->pubsub.up;
        hlk_mutex_unlock(&channels->mu);
        if (!channel)
            return;
        hlk_subscriber_subscribe(&channels->pubsub, channel->name,
                                 channel->len); /* channels are freed on this thread only */
    }
}

static void channel_on_up(void *ctx)
{
    struct hlk_channels *channels = ctx;
    hlk_loop_assert_here(channels->loop);
    hlk_mutex_assert_none();
    hlk_mutex_lock(&channels->mu);
    hlk_map_each(&channels->map, mark_changed, channels);
    hlk_mutex_unlock(&channels->mu);
    subscribe_changed(channels);
}

static void channel_on_post(struct hlk_post *post)
{
    subscribe_changed(HLK_CONTAINER(post, struct hlk_channels, post));
}

/* --- subscriptions without a listener: loop thread --- */

static struct hlk_channel *take_stale(struct hlk_channels *channels, int64_t now_ms)
{
    hlk_mutex_assert_held(&channels->mu);
    hlk_loop_assert_here(channels->loop);
    for (struct hlk_list *n = channels->lingering.next; n != &channels->lingering; n = n->next) {
        struct hlk_channel *channel = HLK_CONTAINER(n, struct hlk_channel, link);
        /* An unconfirmed one stays. Else its confirmation could be taken for that of a later channel of the same
         * name. */
        if (now_ms < channel->stale_at_ms || (channel->subscribe_sent && !channel->confirmed))
            continue;
        hlk_list_remove(&channel->link);
        hlk_map_remove(&channels->map, &channel->node);
        atomic_fetch_sub(&channels->known, 1);
        return channel;
    }
    return NULL;
}

static void channel_resend(struct hlk_channels *channels, int64_t now_ms)
{
    hlk_loop_assert_here(channels->loop);
    hlk_mutex_lock(&channels->mu);
    bool due = channels->again_at_ms && now_ms >= channels->again_at_ms;
    if (due) {
        channels->again_at_ms = 0;
        hlk_map_each(&channels->map, mark_again, channels);
    }
    hlk_mutex_unlock(&channels->mu);
    if (due)
        subscribe_changed(channels);
}

static void channel_on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_channels *channels = HLK_CONTAINER(tick, struct hlk_channels, tick);
    hlk_loop_assert_here(channels->loop);
    channel_resend(channels, now_ms);
    for (;;) {
        hlk_mutex_lock(&channels->mu);
        struct hlk_channel *channel = take_stale(channels, now_ms);
        hlk_mutex_unlock(&channels->mu);
        if (!channel)
            return;
        if (channel->subscribe_sent)
            hlk_subscriber_unsubscribe(&channels->pubsub, channel->name, channel->len);
        hlk_mem_free(channel);
    }
}

static int64_t channel_tick_due_ms(struct hlk_tick *tick)
{
    struct hlk_channels *channels = HLK_CONTAINER(tick, struct hlk_channels, tick);
    hlk_loop_assert_here(channels->loop);
    int64_t due_ms = INT64_MAX;
    hlk_mutex_lock(&channels->mu);
    for (struct hlk_list *n = channels->lingering.next; n != &channels->lingering; n = n->next) {
        const struct hlk_channel *channel = HLK_CONTAINER(n, struct hlk_channel, link);
        due_ms = channel->stale_at_ms < due_ms ? channel->stale_at_ms : due_ms;
    }
    if (channels->again_at_ms && channels->again_at_ms < due_ms)
        due_ms = channels->again_at_ms;
    hlk_mutex_unlock(&channels->mu);
    return due_ms;
}

/* --- waits: any thread --- */

static struct hlk_channel *channel_add(struct hlk_channels *channels, const char *name, size_t len)
{
    hlk_mutex_assert_held(&channels->mu);
    HLK_DEBUG_ASSERT(len > 0);
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

static enum hlk_status channel_join(struct hlk_channels *channels, struct hlk_channel *channel,
                                    struct hlk_listener *listener)
{
    hlk_mutex_assert_held(&channels->mu);
    HLK_DEBUG_ASSERT(!listener->channel && listener->on_event);
    listener->channel = channel;
    hlk_list_push_back(&channel->listeners, &listener->link);
    hlk_list_remove(&channel->link); /* no longer in lingering */
    if (!channel->subscribe_sent)
        hlk_list_push_back(&channels->changed, &channel->link);
    return channel->confirmed ? HLK_OK : HLK_BUSY;
}

static enum hlk_status join_by_name(struct hlk_channels *channels, const char *name, size_t len,
                                    struct hlk_listener *listener)
{
    hlk_mutex_assert_held(&channels->mu);
    struct hlk_channel *channel = channel_find(channels, name, len);
    if (!channel)
        channel = channel_add(channels, name, len);
    return channel ? channel_join(channels, channel, listener) : HLK_E_NOMEM;
}

enum hlk_status hlk_channel_join(struct hlk_channels *channels, const char *name, size_t len,
                                 struct hlk_listener *listener)
{
    hlk_mutex_lock(&channels->mu);
    enum hlk_status status = join_by_name(channels, name, len, listener);
    bool post = listener->channel && !listener->channel->subscribe_sent;
    hlk_mutex_unlock(&channels->mu);
    if (post)
        hlk_loop_post(channels->loop, &channels->post);
    return status;
}

enum hlk_status hlk_channel_join_live(struct hlk_channels *channels, const char *name, size_t len,
                                      struct hlk_listener *listener)
{
    hlk_mutex_lock(&channels->mu);
    struct hlk_channel *channel = channel_find(channels, name, len);
    enum hlk_status status = channel && channel->confirmed ? channel_join(channels, channel, listener) : HLK_NOT_HOLDER;
    hlk_mutex_unlock(&channels->mu);
    return status;
}

static void linger(struct hlk_channels *channels, struct hlk_channel *channel, int64_t ms)
{
    hlk_mutex_assert_held(&channels->mu);
    HLK_DEBUG_ASSERT(hlk_list_empty(&channel->listeners));
    channel->stale_at_ms = hlk_clock_ms() + ms;
    hlk_list_remove(&channel->link);
    hlk_list_push_back(&channels->lingering, &channel->link);
}

/* Returns when the loop must end the subscription, if this was its last listener; else INT64_MAX. */
static int64_t leave_channel(struct hlk_channels *channels, struct hlk_listener *listener)
{
    hlk_mutex_assert_held(&channels->mu);
    HLK_DEBUG_ASSERT(listener->channel);
    struct hlk_channel *channel = listener->channel;
    listener->channel = NULL;
    hlk_list_remove(&listener->link);
    if (!hlk_list_empty(&channel->listeners))
        return INT64_MAX;
    bool inbox = is_inbox(channel->name, channel->len);
    linger(channels, channel, inbox ? HLK_INBOX_LINGER_MS : HLK_CHANNEL_LINGER_MS);
    return channel->stale_at_ms;
}

void hlk_channel_leave(struct hlk_channels *channels, struct hlk_listener *listener)
{
    if (!listener->channel)
        return;
    hlk_mutex_lock(&channels->mu);
    int64_t stale_at_ms = leave_channel(channels, listener);
    hlk_mutex_unlock(&channels->mu);
    if (stale_at_ms != INT64_MAX)
        hlk_loop_wake_by(channels->loop, stale_at_ms);
}

static void ignore_event(struct hlk_listener *listener, unsigned bit)
{
    (void)listener, (void)bit;
}

void hlk_channel_retain_inbox(struct hlk_channels *channels)
{
    hlk_mutex_lock(&channels->mu);
    bool post = channels->inbox_users++ == 0 &&
                join_by_name(channels, channels->inbox, channels->inbox_len, &channels->inbox_user) == HLK_BUSY;
    hlk_mutex_unlock(&channels->mu);
    if (post)
        hlk_loop_post(channels->loop, &channels->post);
}

void hlk_channel_release_inbox(struct hlk_channels *channels)
{
    int64_t stale_at_ms = INT64_MAX;
    hlk_mutex_lock(&channels->mu);
    HLK_DEBUG_ASSERT(channels->inbox_users > 0);
    if (--channels->inbox_users == 0 && channels->inbox_user.channel)
        stale_at_ms = leave_channel(channels, &channels->inbox_user);
    hlk_mutex_unlock(&channels->mu);
    if (stale_at_ms != INT64_MAX)
        hlk_loop_wake_by(channels->loop, stale_at_ms);
}

struct waking {
    const struct hlk_channels *channels;
    bool (*concerns)(const char *name, size_t len, void *ctx);
    void *ctx;
};

/* The one inbox of all locks is of waits for any. */
static bool wake_concerned(struct hlk_map_node *node, void *ctx)
{
    const struct waking *waking = ctx;
    hlk_mutex_assert_held(&waking->channels->mu);
    struct hlk_channel *channel = HLK_CONTAINER(node, struct hlk_channel, node);
    bool any = !waking->channels->pubsub.sharded && is_inbox(channel->name, channel->len);
    if (any || waking->concerns(channel->name, channel->len, waking->ctx))
        notify_all(channel, HLK_WAKE_MESSAGE);
    return true;
}

void hlk_channels_wake(struct hlk_channels *channels, bool (*concerns)(const char *name, size_t len, void *ctx),
                       void *ctx)
{
    HLK_DEBUG_ASSERT(concerns);
    struct waking waking = { channels, concerns, ctx };
    hlk_mutex_lock(&channels->mu);
    hlk_map_each(&channels->map, wake_concerned, &waking);
    hlk_mutex_unlock(&channels->mu);
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
                                  const char *client_id, hlk_inbox_fn *on_inbox_message, void *inbox_ctx,
                                  struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(client_id && on_inbox_message);
    memset(channels, 0, sizeof *channels);
    channels->inbox_len = hlk_key_inbox(channels->inbox, client_id);
    channels->on_inbox_message = on_inbox_message;
    channels->inbox_ctx = inbox_ctx;
    channels->loop = loop;
    hlk_mutex_init(&channels->mu, HLK_RANK_CHANNELS);
    hlk_list_init(&channels->changed);
    hlk_list_init(&channels->lingering);
    struct hlk_subscriber_owner owner = { channels,   channel_on_up, channel_on_down, on_subscribed,
                                          on_refused, on_message,    on_later,        on_moved };
    enum hlk_status status = hlk_subscriber_init(&channels->pubsub, loop, endpoint, &owner, error);
    channels->pubsub.log = endpoint->log;
    channels->post.run = channel_on_post;
    channels->tick.run = channel_on_tick;
    channels->tick.due_ms = channel_tick_due_ms;
    channels->inbox_user.on_event = ignore_event;
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
    hlk_loop_assert_here(channels->loop);
    hlk_subscriber_close(&channels->pubsub);
}

void hlk_channels_fini(struct hlk_channels *channels)
{
    hlk_loop_assert_here(channels->loop);
    hlk_subscriber_fini(&channels->pubsub);
    hlk_loop_remove_tick(channels->loop, &channels->tick);
    hlk_map_each(&channels->map, free_channel, &channels->map);
    hlk_map_fini(&channels->map);
    hlk_mutex_fini(&channels->mu);
}
