#include "acquire/acquire_listen.h"

#include "base/debug.h"
#include "net/subscriber_read.h"
#include "node/topology.h"

#include <string.h>

/* --- wake-ups: only wake --- */

static void listen_on_foreign(struct hlk_listener *listener, unsigned bit)
{
    hlk_waker_wake(HLK_CONTAINER(listener, struct hlk_acquire_op, listener)->waker, bit);
}

static void listen_on_inbox(struct hlk_listener *listener, unsigned bit)
{
    hlk_waker_wake(HLK_CONTAINER(listener, struct hlk_acquire_op, inbox_listener)->waker, bit);
}

static void ignore_message(struct hlk_listener *listener, unsigned bit)
{
    (void)listener, (void)bit;
}

/* The operation waits for messages, and has no thread that reads them. */
static bool waits_unread(const struct hlk_acquire_op *op)
{
    return (!op->waker->thread || op->eintr) && !op->lock->kind->polls;
}

void hlk_acquire_listen_eager(struct hlk_acquire_op *op, bool more)
{
    if (waits_unread(op))
        hlk_subscriber_eager(&op->server->channels.pubsub, more);
}

/* --- the inbox --- */

/* The lock's own inbox with sharded pub/sub, else the client's. Returns the length of its name. */
static size_t listen_inbox(const struct hlk_acquire_op *op, char name[HLK_KEY_MAX + HLK_FIELD_MAX])
{
    HLK_DEBUG_ASSERT(op->cmd.name_len > 0);
    const struct hlk_channels *channels = &op->server->channels;
    if (channels->pubsub.sharded)
        return hlk_key_lock_inbox(name, op->cmd.name, op->cmd.name_len, op->cmd.client_id);
    memcpy(name, channels->inbox, channels->inbox_len);
    return channels->inbox_len;
}

static void retain_inbox(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->inbox_retained);
    char name[HLK_KEY_MAX + HLK_FIELD_MAX];
    struct hlk_channels *channels = &op->server->channels;
    op->retained.on_event = ignore_message;
    if (channels->pubsub.sharded)
        (void)hlk_channel_join(channels, name, listen_inbox(op, name), &op->retained);
    else
        hlk_channel_retain_inbox(channels);
}

static void release_inbox(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->inbox_retained);
    struct hlk_channels *channels = &op->server->channels;
    if (channels->pubsub.sharded)
        hlk_channel_leave(channels, &op->retained);
    else
        hlk_channel_release_inbox(channels);
}

/* How messages of a cluster come is known with the map of its slots: before that nothing is subscribed. */
void hlk_acquire_listen_retain(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(!op->inbox_retained);
    if (!hlk_cluster_known(op->node))
        return;
    op->inbox_retained = true;
    retain_inbox(op);
}

/* --- the slot --- */

static void leave_channels(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    hlk_channel_leave(&op->server->channels, &op->listener);
    hlk_channel_leave(&op->server->channels, &op->inbox_listener);
    if (op->inbox_retained)
        release_inbox(op);
}

void hlk_acquire_listen_end(struct hlk_acquire_op *op)
{
    leave_channels(op);
    op->inbox_retained = false;
}

/* The lock's slot has moved since the last command was prepared. That wakes waits that listen at the old server when
 * the map changes, but not those that join there later: a waiter that has joined looks here. */
static bool has_moved(const struct hlk_acquire_op *op)
{
    return hlk_node_of(op->node, op->cmd.name, op->cmd.name_len) != op->server;
}

/* The inbox is joined at the new server after the next answer. */
void hlk_acquire_listen_follow(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(op->shared);
    if (!has_moved(op))
        return;
    leave_channels(op);
    if (op->waits)
        hlk_acquire_listen_eager(op, false);
    op->server = hlk_node_of(op->node, op->cmd.name, op->cmd.name_len);
    if (op->waits)
        hlk_acquire_listen_eager(op, true);
    if (op->inbox_retained)
        retain_inbox(op);
    op->machine.joined = op->lock->kind->format->holds_nothing;
    op->machine.subscribes = false;
}

/* --- joining --- */

bool hlk_acquire_listen_live(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    struct hlk_channels *channels = &op->server->channels;
    if (op->inbox_listener.channel)
        return hlk_channel_confirmed(channels, &op->inbox_listener);
    char name[HLK_KEY_MAX + HLK_FIELD_MAX];
    size_t len = listen_inbox(op, name);
    op->inbox_listener.on_event = listen_on_inbox;
    op->machine.joined = hlk_channel_join_live(channels, name, len, &op->inbox_listener) == HLK_OK;
    op->shared |= op->machine.joined;
    if (op->machine.joined && has_moved(op)) {
        hlk_channel_leave(channels, &op->inbox_listener);
        op->machine.joined = false;
    }
    return op->machine.joined;
}

static enum hlk_acquire_event join_channel(struct hlk_acquire_op *op, const char *channel, size_t len,
                                           struct hlk_listener *listener)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(listener->on_event && len > 0);
    enum hlk_status status = hlk_channel_join(&op->server->channels, channel, len, listener);
    if (status == HLK_E_NOMEM)
        (void)hlk_error_set(&op->error, status, "no memory for a subscription");
    else if (has_moved(op))
        return HLK_ACQUIRE_ON_MESSAGE;
    return status == HLK_OK     ? HLK_ACQUIRE_ON_SUBSCRIBED
           : status == HLK_BUSY ? HLK_ACQUIRE_ON_JOINED
                                : HLK_ACQUIRE_ON_ABORT;
}

enum hlk_acquire_event hlk_acquire_listen_inbox(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(!op->lock->kind->polls);
    char name[HLK_KEY_MAX + HLK_FIELD_MAX];
    op->inbox_listener.on_event = listen_on_inbox;
    return join_channel(op, name, listen_inbox(op, name), &op->inbox_listener);
}

enum hlk_acquire_event hlk_acquire_listen_foreign(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(!op->lock->kind->polls && op->lock->kind->format->foreign_channel);
    char channel[HLK_KEY_MAX + HLK_FIELD_MAX];
    size_t len = op->lock->kind->format->foreign_channel(channel, &op->cmd);
    op->listener.on_event = listen_on_foreign;
    return join_channel(op, channel, len, &op->listener);
}

void hlk_acquire_listen_failed(struct hlk_acquire_op *op)
{
    hlk_channel_refusal(&op->server->channels, &op->error);
}
