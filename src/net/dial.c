#include "net/dial.h"

#include "base/debug.h"
#include "base/mem.h"
#include "net/dial_answer.h"
#include "net/local_start.h"
#include "net/tls.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

bool hlk_buffer_add_command(struct hlk_buffer *buffer, int argc, const char **argv, const size_t *lens)
{
    char *text = NULL;
    long long len = redisFormatCommandArgv(&text, argc, argv, lens);
    if (len < 0)
        return false;
    bool added = hlk_buffer_add(buffer, text, (size_t)len);
    redisFreeCommand(text);
    return added;
}

static bool add_words(struct hlk_dial *dial, int argc, const char **argv)
{
    dial->own++;
    return hlk_buffer_add_command(&dial->out, argc, argv, NULL);
}

static void fini(struct hlk_dial *dial)
{
    hlk_loop_assert_here(dial->loop);
    hlk_loop_unwatch(dial->loop, &dial->io);
    ev_timer_stop(hlk_loop_ev(dial->loop), &dial->timer);
    hlk_conn_reset(&dial->spare);
    hlk_list_remove(&dial->search.link);
    hlk_resolve_drop(dial->lookup);
    dial->lookup = NULL;
    hlk_local_start_drop(dial->local_start);
    dial->local_start = NULL;
    if (dial->addresses)
        freeaddrinfo(dial->addresses);
    dial->addresses = dial->next = NULL;
    hlk_buffer_fini(&dial->out);
    dial->active = false;
}

/* The URL names sentinels only, so the text names the server. */
static void name_master(struct hlk_dial *dial)
{
    char why[HLK_ERROR_TEXT];
    (void)snprintf(why, sizeof why, "%s", dial->error.text);
    (void)hlk_error_set(&dial->error, dial->error.status, "the sentinels' master %s:%d%s%s", dial->host, dial->port,
                        dial->is_replica ? " " : ": ", why);
}

static void dial_fail(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->active);
    fini(dial);
    if (dial->endpoint->locator && *dial->host)
        name_master(dial);
    hlk_conn_reset(&dial->conn);
    dial->done(dial->ctx, NULL, &dial->error);
}

static void succeed(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->active && dial->conn.fd >= 0);
    fini(dial);
    struct hlk_conn conn = dial->conn;
    hlk_conn_init(&dial->conn);
    dial->done(dial->ctx, &conn, NULL);
}

/* No address is of more use than that one. */
static void succeed_with_spare(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->spare.fd >= 0);
    dial->conn = dial->spare;
    hlk_conn_init(&dial->spare);
    dial->server = dial->spare_server;
    dial->uptime_ms = dial->spare_uptime_ms;
    succeed(dial);
}

static void dial_watch(struct hlk_dial *dial, int fd, unsigned events)
{
    HLK_DEBUG_ASSERT(dial->active);
    if (hlk_loop_watch(dial->loop, &dial->io, fd, events, &dial->error) != HLK_OK)
        dial_fail(dial);
}

static void allow(struct hlk_dial *dial, int64_t ms)
{
    HLK_DEBUG_ASSERT(dial->active);
    dial->timer.repeat = (double)ms / 1000.0;
    ev_timer_again(hlk_loop_ev(dial->loop), &dial->timer);
}

/* --- addresses --- */

/* There are others to try if this one is silent. */
static bool is_brief(const struct hlk_dial *dial)
{
    return !dial->again && (dial->next || dial->silent) && dial->endpoint->reply_timeout_ms > HLK_DIAL_BRIEF_MS;
}

/* An address has reply_timeout_ms in all. */
static int64_t limit_ms(const struct hlk_dial *dial)
{
    int64_t timeout = dial->endpoint->reply_timeout_ms;
    return is_brief(dial) ? HLK_DIAL_BRIEF_MS : dial->again ? timeout - HLK_DIAL_BRIEF_MS : timeout;
}

/* After the last one all of them, once more, if one was silent in the first round. NULL: none is left. */
static struct addrinfo *take_address(struct hlk_dial *dial)
{
    if (!dial->next && dial->silent && !dial->again) {
        dial->again = true;
        dial->next = dial->addresses;
    }
    struct addrinfo *address = dial->next;
    if (address)
        dial->next = address->ai_next;
    return address;
}

static void connect_next(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->active && dial->conn.fd < 0);
    struct addrinfo *address;
    while ((address = take_address(dial))) {
        if (hlk_conn_start(&dial->conn, address->ai_addr, address->ai_addrlen, &dial->error) == HLK_OK) {
            allow(dial, limit_ms(dial));
            dial_watch(dial, dial->conn.fd, EPOLLOUT);
            return;
        }
    }
    if (dial->spare.fd >= 0)
        succeed_with_spare(dial);
    else
        dial_fail(dial);
}

static void forget_server(struct hlk_dial *dial)
{
    hlk_loop_assert_here(dial->loop);
    hlk_loop_unwatch(dial->loop, &dial->io);
    hlk_conn_reset(&dial->conn);
    hlk_buffer_clear(&dial->out);
    dial->handshaking = false;
    dial->own = dial->expected = dial->seen = dial->auth_replies = 0;
    dial->server = 0;
    dial->uptime_ms = -1;
    dial->is_replica = dial->second_best = false;
}

/* Another address may be of more use: this one is kept for the case that none is. */
static void leave_for_better(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->second_best && dial->conn.fd >= 0);
    hlk_conn_reset(&dial->spare);
    dial->spare = dial->conn;
    dial->spare_server = dial->server;
    dial->spare_uptime_ms = dial->uptime_ms;
    hlk_conn_init(&dial->conn);
    forget_server(dial);
    connect_next(dial);
}

/* dial->error says why this address is no use. If it may be of use later, the next one is tried now. */
static void leave_address(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->active);
    bool others = dial->next || (dial->silent && !dial->again);
    if (dial->error.status == HLK_E_CONNECT && (others || dial->spare.fd >= 0)) {
        forget_server(dial);
        connect_next(dial);
    } else {
        dial_fail(dial);
    }
}

/* --- greeting --- */

static bool log_in(struct hlk_dial *dial)
{
    const struct hlk_endpoint *endpoint = dial->endpoint;
    struct hlk_credentials as;
    bool user, password, ok = true;
    if (hlk_credentials_read(&endpoint->credentials, &endpoint->url, &as, &user, &password, &dial->error) != HLK_OK)
        return false;
    if (user)
        ok = add_words(dial, 3, (const char *[]){ "AUTH", as.username, as.password });
    else if (password)
        ok = add_words(dial, 2, (const char *[]){ "AUTH", as.password });
    hlk_credentials_wipe(&as);
    if (!ok)
        (void)hlk_error_set(&dial->error, HLK_E_NOMEM, "no memory");
    return ok;
}

static bool has_several(const struct hlk_dial *dial)
{
    return dial->addresses && dial->addresses->ai_next;
}

static bool greet(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->own == 0);
    const struct hlk_url *url = &dial->endpoint->url;
    bool ok = true;
    if (!log_in(dial))
        return false;
    dial->auth_replies = dial->own;
    if (ok && url->db) {
        char db[16];
        (void)snprintf(db, sizeof db, "%d", url->db);
        ok = add_words(dial, 2, (const char *[]){ "SELECT", db });
    }
    dial->role_reply = dial->own;
    dial->asks_role = dial->endpoint->locator || (has_several(dial) && !dial->endpoint->is_sentinel);
    if (ok && dial->asks_role)
        ok = dial->endpoint->locator ? add_words(dial, 1, (const char *[]){ "ROLE" })
                                     : add_words(dial, 2, (const char *[]){ "INFO", "replication" });
    if (ok) /* a sentinel of Redis 6.2 takes no argument */
        ok = add_words(dial, dial->endpoint->is_sentinel ? 1 : 2, (const char *[]){ "PING", "hasplock" });
    if (ok)
        ok = add_words(dial, 3, (const char *[]){ "CLIENT", "SETNAME", dial->endpoint->client_name });
    if (ok && dial->greeting && dial->greeting->replies)
        ok = hlk_buffer_add(&dial->out, dial->greeting->bytes.data, dial->greeting->bytes.len);
    dial->expected = dial->own + (dial->greeting ? dial->greeting->replies : 0);
    if (!ok)
        (void)hlk_error_set(&dial->error, HLK_E_NOMEM, "no memory");
    return ok;
}

static enum hlk_status send_late(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->greeting);
    const struct hlk_buffer *late = &dial->greeting->late;
    dial->expected++;
    return hlk_buffer_add(&dial->out, late->data, late->len) ? HLK_OK
                                                             : hlk_error_set(&dial->error, HLK_E_NOMEM, "no memory");
}

static enum hlk_status check(struct hlk_dial *dial, const redisReply *reply)
{
    const struct hlk_greeting *greeting = dial->greeting;
    unsigned i = dial->seen++;
    if (i >= dial->expected)
        return hlk_error_set(&dial->error, HLK_E_CONNECT, "a reply came without a command");
    if (i < dial->own)
        return hlk_dial_check_answer(dial, i, reply);
    i = i - dial->own < greeting->replies ? i - dial->own : HLK_GREETING_LATE;
    uint64_t server = greeting->server(i, reply);
    if (server)
        dial->server = server;
    int64_t uptime = greeting->uptime_ms ? greeting->uptime_ms(i, reply) : -1;
    if (uptime >= 0)
        dial->uptime_ms = uptime;
    enum hlk_status status = greeting->check(i, reply, &dial->error);
    return status == HLK_BUSY ? send_late(dial) : status;
}

/* A server that expects TLS takes plain commands for nonsense, and answers nothing. */
static void hung_up(struct hlk_dial *dial)
{
    char why[HLK_ERROR_TEXT];
    if (dial->seen == 0 && dial->endpoint->url.host_count && !dial->endpoint->url.tls) {
        (void)snprintf(why, sizeof why, "%s", dial->error.text);
        (void)hlk_error_set(&dial->error, HLK_E_CONNECT,
                            "%s, before the server said anything (a port for TLS? Its URL begins with rediss)", why);
    }
    leave_address(dial);
}

static void on_greeting(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->conn.fd >= 0 && dial->expected > 0);
    /* A server that is full says so and hangs up, whatever we send: its words are read before the break counts. */
    bool sent = hlk_conn_send(&dial->conn, &dial->out, &dial->error);
    int got = hlk_conn_recv(&dial->conn, &dial->error);
    bool broken = false, silent = dial->seen == 0;
    redisReply *reply;
    while (got > 0 && (reply = hlk_conn_reply(&dial->conn, &broken, &dial->error))) {
        enum hlk_status status = check(dial, reply);
        freeReplyObject(reply);
        if (status != HLK_OK) {
            leave_address(dial);
            return;
        }
    }
    if (silent && dial->seen && is_brief(dial))
        allow(dial, dial->endpoint->reply_timeout_ms); /* this server lives */
    if (!sent || got < 0 || broken)
        hung_up(dial);
    else if (dial->seen < dial->expected)
        dial_watch(dial, dial->conn.fd, hlk_buffer_empty(&dial->out) ? EPOLLIN : EPOLLIN | EPOLLOUT);
    else if (dial->second_best)
        leave_for_better(dial);
    else
        succeed(dial);
}

static void start_greeting(struct hlk_dial *dial)
{
    if (greet(dial))
        on_greeting(dial);
    else
        dial_fail(dial);
}

/* --- TLS --- */

static void on_handshake(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->conn.tls);
    bool blocked;
    int done = hlk_conn_handshake(&dial->conn, &blocked, &dial->error);
    dial->handshaking = done == 0;
    if (done < 0)
        leave_address(dial);
    else if (done == 0)
        dial_watch(dial, dial->conn.fd, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
    else
        start_greeting(dial);
}

static void start_tls(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->endpoint->tls && !dial->conn.tls);
    const struct hlk_endpoint *endpoint = dial->endpoint;
    dial->conn.tls = hlk_tls_create(endpoint->tls, dial->host, &dial->error);
    if (dial->conn.tls)
        on_handshake(dial);
    else
        dial_fail(dial);
}

/* --- connect --- */

static void connect_unix(struct hlk_dial *dial, const char *path)
{
    HLK_DEBUG_ASSERT(dial->conn.fd < 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address.sun_path) {
        (void)hlk_error_set(&dial->error, HLK_E_INVALID, "socket path of %zu bytes is too long", strlen(path));
        dial_fail(dial);
        return;
    }
    strcpy(address.sun_path, path);
    if (hlk_conn_start(&dial->conn, (struct sockaddr *)&address, sizeof address, &dial->error) != HLK_OK) {
        dial_fail(dial);
        return;
    }
    allow(dial, dial->endpoint->reply_timeout_ms);
    dial_watch(dial, dial->conn.fd, EPOLLOUT);
}

static void dial_on_connected(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->conn.fd >= 0);
    if (hlk_conn_connected(&dial->conn, &dial->error) != HLK_OK) {
        forget_server(dial);
        connect_next(dial);
        return;
    }
    allow(dial, limit_ms(dial));
    if (dial->endpoint->url.tls)
        start_tls(dial);
    else
        start_greeting(dial);
}

static void look_up_host(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(!dial->lookup);
    dial->lookup = hlk_resolve_start(dial->host, dial->port, &dial->error);
    if (!dial->lookup) {
        dial_fail(dial);
        return;
    }
    allow(dial, dial->endpoint->reply_timeout_ms);
    dial_watch(dial, hlk_resolve_fd(dial->lookup), EPOLLIN);
}

static void set_host(struct hlk_dial *dial, const char *host, int port)
{
    (void)snprintf(dial->host, sizeof dial->host, "%s", host);
    dial->port = port;
}

static void on_found(struct hlk_search *search, const char *host, int port, const struct hlk_error *error)
{
    struct hlk_dial *dial = HLK_CONTAINER(search, struct hlk_dial, search);
    if (!host) {
        dial->error = *error;
        dial_fail(dial);
        return;
    }
    set_host(dial, host, port);
    look_up_host(dial);
}

static void on_looked_up(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->lookup);
    enum hlk_status status = hlk_resolve_take(dial->lookup, &dial->addresses, &dial->error);
    if (status == HLK_BUSY)
        return;
    hlk_resolve_drop(dial->lookup);
    dial->lookup = NULL;
    if (status != HLK_OK) {
        dial_fail(dial);
        return;
    }
    dial->next = dial->addresses;
    connect_next(dial);
}

static void on_local_up(struct hlk_dial *dial)
{
    HLK_DEBUG_ASSERT(dial->local_start);
    char path[108];
    enum hlk_status status = hlk_local_start_take(dial->local_start, path, sizeof path, &dial->error);
    hlk_local_start_drop(dial->local_start);
    dial->local_start = NULL;
    if (status != HLK_OK)
        dial_fail(dial);
    else
        connect_unix(dial, path);
}

static void dial_on_io(struct hlk_watch *io, unsigned events)
{
    (void)events;
    struct hlk_dial *dial = HLK_CONTAINER(io, struct hlk_dial, io);
    hlk_loop_assert_here(dial->loop);
    HLK_DEBUG_ASSERT(dial->active);
    hlk_loop_unwatch(dial->loop, io);
    if (dial->lookup)
        on_looked_up(dial);
    else if (dial->local_start)
        on_local_up(dial);
    else if (dial->handshaking)
        on_handshake(dial);
    else if (dial->expected == 0)
        dial_on_connected(dial);
    else
        on_greeting(dial);
}

static void on_timeout(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)ev, (void)revents;
    struct hlk_dial *dial = timer->data;
    hlk_loop_assert_here(dial->loop);
    HLK_DEBUG_ASSERT(dial->active);
    if (dial->lookup)
        (void)hlk_error_set(&dial->error, HLK_E_CONNECT, "no answer to the name lookup of \"%s\"", dial->host);
    else
        (void)hlk_error_set(&dial->error, HLK_E_CONNECT, "no answer for %lld ms%s",
                            (long long)dial->endpoint->reply_timeout_ms,
                            dial->handshaking ? " to the TLS handshake (a port without TLS?)" : "");
    dial->silent |= is_brief(dial) && dial->seen == 0;
    leave_address(dial);
}

void hlk_dial_init(struct hlk_dial *dial, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                   const struct hlk_greeting *greeting, hlk_dialled_fn *done, void *ctx)
{
    HLK_DEBUG_ASSERT(loop && endpoint && done);
    memset(dial, 0, sizeof *dial);
    dial->loop = loop;
    dial->endpoint = endpoint;
    dial->greeting = greeting;
    dial->done = done;
    dial->ctx = ctx;
    hlk_conn_init(&dial->conn);
    hlk_conn_init(&dial->spare);
    dial->io.ready = dial_on_io;
    ev_init(&dial->timer, on_timeout);
    dial->timer.data = dial;
    dial->search.found = on_found;
}

void hlk_dial_start(struct hlk_dial *dial)
{
    hlk_loop_assert_here(dial->loop);
    HLK_DEBUG_ASSERT(!dial->active);
    const struct hlk_url *url = &dial->endpoint->url;
    dial->active = true;
    dial->silent = dial->again = false;
    forget_server(dial);
    *dial->host = '\0';
    memset(&dial->error, 0, sizeof dial->error);
    switch (url->kind) {
    case HLK_URL_UNIX:
        connect_unix(dial, url->path);
        return;
    case HLK_URL_LOCAL:
        dial->local_start = hlk_local_start_begin(url->name, 10000, &dial->error);
        if (!dial->local_start)
            break;
        dial_watch(dial, hlk_local_start_fd(dial->local_start), EPOLLIN);
        return;
    case HLK_URL_SENTINEL:
        dial->endpoint->locator->find(dial->endpoint->locator->ctx, &dial->search);
        return;
    case HLK_URL_TCP:
    case HLK_URL_CLUSTER:
        set_host(dial, url->hosts[0].name, url->hosts[0].port);
        look_up_host(dial);
        return;
    }
    dial_fail(dial);
}

void hlk_dial_stop(struct hlk_dial *dial)
{
    if (!dial->active)
        return;
    fini(dial);
    hlk_conn_reset(&dial->conn);
}
