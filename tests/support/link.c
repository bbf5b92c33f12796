#include "support/link.h"

#include "support/resp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- bytes and units */

static void bytes_add(struct bytes *bytes, const char *at, size_t len)
{
    if (bytes->len + len > bytes->room) {
        bytes->room = (bytes->len + len) * 2;
        bytes->at = realloc(bytes->at, bytes->room);
    }
    if (len)
        memcpy(bytes->at + bytes->len, at, len);
    bytes->len += len;
}

static void bytes_drop(struct bytes *bytes, size_t len)
{
    memmove(bytes->at, bytes->at + len, bytes->len - len);
    bytes->len -= len;
}

static struct unit *units_add(struct units *units, const char *at, size_t len, int64_t due_ns)
{
    struct unit *unit = calloc(1, sizeof *unit);
    bytes_add(&unit->bytes, at, len);
    unit->due_ns = due_ns;
    if (!units->first)
        units->end = &units->first;
    *units->end = unit;
    units->end = &unit->next;
    return unit;
}

static void units_drop_first(struct units *units)
{
    struct unit *unit = units->first;
    units->first = unit->next;
    if (!units->first)
        units->end = &units->first;
    free(unit->bytes.at);
    free(unit);
}

/* --- links */

static void pending_add(struct link *link, size_t replies, enum proxy_fault fault)
{
    struct pending *pending = calloc(1, sizeof *pending);
    pending->replies = replies;
    pending->fault = fault;
    if (!link->pending)
        link->pending_end = &link->pending;
    *link->pending_end = pending;
    link->pending_end = &pending->next;
}

static void pending_drop_first(struct link *link)
{
    struct pending *pending = link->pending;
    link->pending = pending->next;
    if (!link->pending)
        link->pending_end = &link->pending;
    free(pending);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void link_free(struct link *link)
{
    close_fd(&link->client);
    close_fd(&link->upstream);
    while (link->requests.first)
        units_drop_first(&link->requests);
    while (link->replies.first)
        units_drop_first(&link->replies);
    while (link->pending)
        pending_drop_first(link);
    free(link->from_client.at);
    free(link->from_server.at);
    free(link->to_client.at);
    free(link->to_server.at);
    free(link);
}

struct link *link_create(int client)
{
    struct link *link = calloc(1, sizeof *link);
    link->client = client;
    link->upstream = -1;
    return link;
}

static bool connect_upstream(struct link *link, const struct harm *harm)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (link->upstream_gone)
        return false;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", harm->upstream);
    link->upstream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->upstream < 0 || connect(link->upstream, (struct sockaddr *)&address, sizeof address) != 0)
        return false;
    return fcntl(link->upstream, F_SETFL, O_NONBLOCK) == 0;
}

/* Sends as much as possible. False: the other end has closed. */
static bool flush(int fd, struct bytes *bytes)
{
    while (bytes->len) {
        ssize_t n = send(fd, bytes->at, bytes->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        bytes_drop(bytes, (size_t)n);
    }
    return true;
}

/* Reads as much as possible. False: the other end has closed. */
static bool fill(int fd, struct bytes *bytes)
{
    char buf[16384];
    for (;;) {
        ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
        if (n == 0)
            return false;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        bytes_add(bytes, buf, (size_t)n);
    }
}

/* --- requests */

static bool matches(enum proxy_filter filter, const char *at, size_t len)
{
    switch (filter) {
    case PROXY_SCRIPTS:
        return resp_word_is(at, len, 0, "EVALSHA") || resp_word_is(at, len, 0, "EVAL");
    case PROXY_SUBSCRIBES:
        return resp_word_is(at, len, 0, "SUBSCRIBE") || resp_word_is(at, len, 0, "UNSUBSCRIBE");
    default:
        return true;
    }
}

static void remember(struct harm *harm, const char *at, size_t len)
{
    char *text = malloc(len + 1), *end = text;
    for (size_t i = 0; i < resp_words(at); i++) {
        struct resp_word word = resp_word(at, len, i);
        if (!word.at)
            continue;
        memcpy(end, word.at, word.len);
        end += word.len;
        *end++ = ' ';
    }
    *end = '\0';
    if (harm->seen_len == harm->seen_room) {
        harm->seen_room = harm->seen_room * 2 + 64;
        harm->seen = realloc(harm->seen, harm->seen_room * sizeof *harm->seen);
    }
    harm->seen[harm->seen_len++] = text;
}

static size_t replies_to(const char *at, size_t len)
{
    bool lists = resp_word_is(at, len, 0, "SUBSCRIBE") || resp_word_is(at, len, 0, "UNSUBSCRIBE") ||
                 resp_word_is(at, len, 0, "PSUBSCRIBE") || resp_word_is(at, len, 0, "PUNSUBSCRIBE");
    return lists && resp_words(at) > 1 ? resp_words(at) - 1 : 1;
}

static void take_requests(struct link *link, struct harm *harm, int64_t now)
{
    size_t len;
    while ((len = resp_length(link->from_client.at, link->from_client.len)) > 0) {
        const char *at = link->from_client.at;
        struct unit *unit = units_add(&link->requests, at, len, now + harm->to_server_ns);
        unit->replies = replies_to(at, len);
        link->subscribed = link->subscribed || resp_word_is(at, len, 0, "SUBSCRIBE");
        if (!harm->forget)
            remember(harm, at, len);
        for (enum proxy_filter filter = PROXY_ALL; filter <= PROXY_SUBSCRIBES; filter++)
            if (matches(filter, at, len))
                harm->counts[filter]++;
        if (harm->fault && matches(harm->filter, at, len) && --harm->k == 0) {
            unit->fault = harm->fault;
            harm->k = 1;
            if (unit->fault != PROXY_FLOOD || !harm->flood.lasts)
                harm->fault = PROXY_NONE;
        }
        bytes_drop(&link->from_client, len);
    }
}

static void send_requests(struct link *link, struct harm *harm, int64_t now)
{
    while (link->requests.first && !link->held && !link->dead) {
        struct unit *unit = link->requests.first;
        if (unit->due_ns > now)
            break;
        if (unit->fault == PROXY_HOLD) {
            link->held = harm->struck = true;
            return;
        }
        if (unit->fault == PROXY_FLOOD) {
            harm->struck = true;
            link->flood = &harm->flood;
            bytes_add(&link->to_client, harm->flood.head, strlen(harm->flood.head));
            return;
        }
        if (unit->fault == PROXY_CUT_BEFORE) {
            if (link->upstream >= 0)
                flush(link->upstream, &link->to_server);
            link->dead = harm->struck = true;
            return;
        }
        if (link->upstream < 0 && !connect_upstream(link, harm)) {
            link->dead = true;
            return;
        }
        bytes_add(&link->to_server, unit->bytes.at, unit->bytes.len);
        pending_add(link, unit->replies, unit->fault);
        units_drop_first(&link->requests);
    }
    if (link->upstream >= 0 && !flush(link->upstream, &link->to_server))
        link->dead = true;
}

/* --- replies */

/* Whether the reply is passed to the client; *due_ns: not before. */
static bool passes(struct link *link, struct harm *harm, const char *at, size_t len, bool *confirmation,
                   int64_t *due_ns)
{
    if (resp_word_is(at, len, 0, "message") || resp_word_is(at, len, 0, "pmessage")) {
        harm->messages++;
        return !harm->drop_messages;
    }
    *confirmation = resp_word_is(at, len, 0, "subscribe") || resp_word_is(at, len, 0, "psubscribe");
    if (!link->pending)
        return true;
    enum proxy_fault fault = link->pending->fault;
    if (--link->pending->replies == 0) {
        pending_drop_first(link);
        harm->struck |= fault != PROXY_NONE;
        if (fault == PROXY_HOLD_REPLY)
            *due_ns = INT64_MAX;
        if (fault == PROXY_CUT_AFTER)
            link->dead = true;
        link->silent |= fault == PROXY_SWALLOW;
    }
    return !link->silent && fault != PROXY_CUT_AFTER && fault != PROXY_SKIP;
}

static void take_replies(struct link *link, struct harm *harm, int64_t now)
{
    size_t len; /* drops all after a cut or a swallowed reply: a stream may lose its end, but nothing in between */
    while (!link->dead && (len = resp_length(link->from_server.at, link->from_server.len)) > 0) {
        bool confirmation = false;
        int64_t due_ns = now + harm->to_client_ns;
        if (passes(link, harm, link->from_server.at, len, &confirmation, &due_ns) && link->client >= 0)
            units_add(&link->replies, link->from_server.at, len, due_ns)->confirmation = confirmation;
        bytes_drop(&link->from_server, len);
    }
}

static void send_replies(struct link *link, struct harm *harm, int64_t now)
{
    while (link->replies.first && link->replies.first->due_ns <= now &&
           !(link->replies.first->confirmation && harm->hold_confirmations)) {
        bytes_add(&link->to_client, link->replies.first->bytes.at, link->replies.first->bytes.len);
        units_drop_first(&link->replies);
    }
    if (link->client >= 0 && !flush(link->client, &link->to_client))
        close_fd(&link->client);
}

enum { FLOOD_ROOM = 256 * 1024 };

/* Reads and discards what the client sends. */
static void pour(struct link *link, const struct pollfd *set, int64_t now)
{
    size_t len = strlen(link->flood->body);
    link->from_client.len = 0;
    if (link->poll_client && set[link->poll_client].revents && !fill(link->client, &link->from_client))
        link->dead = true;
    if (link->flood->gap_ns && now >= link->flood_due_ns) {
        bytes_add(&link->to_client, link->flood->body, len);
        link->flood_due_ns = now + link->flood->gap_ns;
    }
    while (!link->flood->gap_ns && len && link->to_client.len < FLOOD_ROOM)
        bytes_add(&link->to_client, link->flood->body, len);
    if (!flush(link->client, &link->to_client))
        link->dead = true;
}

static void read_client(struct link *link, struct harm *harm, const struct pollfd *set, int64_t now)
{
    if (link->poll_client && set[link->poll_client].revents && !fill(link->client, &link->from_client))
        close_fd(&link->client);
    take_requests(link, harm, now);
}

static void read_server(struct link *link, struct harm *harm, const struct pollfd *set, int64_t now)
{
    if (link->poll_upstream && set[link->poll_upstream].revents && !fill(link->upstream, &link->from_server)) {
        close_fd(&link->upstream);
        link->upstream_gone = true;
    }
    take_replies(link, harm, now);
}

void link_pump(struct link *link, struct harm *harm, const struct pollfd *set, int64_t now_ns)
{
    if (link_frozen(link, harm) || link->dead)
        return;
    if (link->flood) {
        pour(link, set, now_ns);
        return;
    }
    read_client(link, harm, set, now_ns);
    read_server(link, harm, set, now_ns);
    send_replies(link, harm, now_ns);
    if (!link->dead)
        send_requests(link, harm, now_ns);
    bool delivered = !link->requests.first && !link->to_server.len && !link->pending;
    bool returned = !link->replies.first && !link->to_client.len;
    if (delivered)
        link->delivering = false;
    if (link->upstream_gone ? returned : link->client < 0 && delivered)
        link->dead = true; /* both sides have got what was sent to them */
}

bool link_frozen(const struct link *link, const struct harm *harm)
{
    return harm->freeze || (harm->freeze_subscribers && link->subscribed);
}

void link_deliver(struct link *link, bool first_only)
{
    for (struct unit *reply = link->replies.first; reply; reply = reply->next)
        reply->due_ns = reply->due_ns == INT64_MAX ? 0 : reply->due_ns;
    if (!link->held)
        return;
    link->held = false;
    link->delivering = true;
    for (struct unit *request = link->requests.first; request; request = request->next)
        if (request->fault == PROXY_HOLD) /* the first one; and one behind it, if the fault was armed again */
            request->fault = PROXY_NONE;
    if (!first_only)
        return;
    close_fd(&link->client);
    link->from_client.len = 0;
    for (struct unit *unit; (unit = link->requests.first->next) != NULL;) {
        link->requests.first->next = unit->next;
        free(unit->bytes.at);
        free(unit);
    }
    link->requests.end = &link->requests.first->next;
}

static void soonest(const struct units *units, int64_t pumped_ns, int64_t *due_ns)
{
    if (units->first && units->first->due_ns > pumped_ns && units->first->due_ns < *due_ns)
        *due_ns = units->first->due_ns;
}

void link_soonest(const struct link *link, int64_t pumped_ns, int64_t *due_ns)
{
    if (link->flood && link->flood->gap_ns && link->flood_due_ns < *due_ns)
        *due_ns = link->flood_due_ns;
    soonest(&link->requests, pumped_ns, due_ns);
    soonest(&link->replies, pumped_ns, due_ns);
}
