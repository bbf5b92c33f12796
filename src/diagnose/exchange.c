#include "diagnose/exchange.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/mutex.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static bool replace_string(char **old, const char *now)
{
    char *copy = now ? hlk_mem_strdup(now) : NULL;
    if (!now || !copy)
        return !now;
    hlk_mem_free(*old);
    *old = copy;
    return true;
}

bool hlk_exchange_set_user(struct hlk_url *url, const char *username, const char *password)
{
    return replace_string(&url->username, username) && replace_string(&url->password, password);
}

enum hlk_status hlk_exchange_init(struct hlk_exchange *exchange, const char *url,
                                  const struct hlk_exchange_login *login)
{
    struct hlk_endpoint *endpoint = &exchange->endpoint;
    *exchange = (struct hlk_exchange){ .endpoint.reply_timeout_ms = login->reply_timeout_ms,
                                       .endpoint.credentials = login->credentials,
                                       .endpoint.is_sentinel = login->is_sentinel };
    hlk_conn_init(&exchange->conn);
    (void)snprintf(endpoint->client_name, sizeof endpoint->client_name, "hasplock:doctor");
    enum hlk_status status = hlk_url_parse(&endpoint->url, url, &exchange->error);
    if (status != HLK_OK)
        return status;
    bool made = hlk_exchange_set_user(&endpoint->url, login->username, login->password);
    if (made && endpoint->url.tls)
        made = (endpoint->tls = hlk_tls_context_create(&login->tls)) != NULL;
    return made ? HLK_OK : hlk_error_set(&exchange->error, HLK_E_NOMEM, "no memory");
}

/* --- open: the dial's loop is run by this thread, without a thread of its own */

struct opening {
    struct hlk_exchange *exchange;
    bool done;
};

static void on_dialled(void *ctx, struct hlk_conn *conn, const struct hlk_error *error)
{
    struct opening *opening = ctx;
    opening->done = true;
    if (conn)
        opening->exchange->conn = *conn;
    else
        opening->exchange->error = *error;
}

static enum hlk_status accept_reply(unsigned i, const redisReply *reply, struct hlk_error *error)
{
    (void)i, (void)reply, (void)error;
    return HLK_OK;
}

static uint64_t no_server(unsigned i, const redisReply *reply)
{
    (void)i, (void)reply;
    return 0;
}

enum hlk_status hlk_exchange_open(struct hlk_exchange *exchange)
{
    hlk_mutex_assert_none();
    static const struct hlk_greeting greeting = { .check = accept_reply, .server = no_server, .bears_refusals = true };
    struct opening opening = { .exchange = exchange };
    struct hlk_dial dial;
    hlk_loop *loop;
    enum hlk_status status = hlk_loop_create(&loop, &exchange->error);
    if (status != HLK_OK)
        return status;
    hlk_dial_init(&dial, loop, &exchange->endpoint, &greeting, on_dialled, &opening);
    hlk_dial_start(&dial);
    while (!opening.done)
        (void)ev_run(hlk_loop_ev(loop), EVRUN_ONCE);
    hlk_loop_destroy(loop);
    return exchange->error.status;
}

void hlk_exchange_close(struct hlk_exchange *exchange)
{
    hlk_conn_reset(&exchange->conn);
    hlk_buffer_fini(&exchange->out);
    hlk_tls_context_destroy(exchange->endpoint.tls);
    hlk_url_fini(&exchange->endpoint.url);
}

/* --- lookup */

static unsigned count(const struct addrinfo *addresses)
{
    unsigned n = 0;
    for (; addresses; addresses = addresses->ai_next)
        n++;
    return n;
}

static enum hlk_status wait_for_socket(int fd, short events, int64_t at_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = events };
    int n;
    do
        n = poll(&poll_fd, 1, hlk_clock_poll_ms(at_ms));
    while (n < 0 && errno == EINTR);
    return n > 0 ? HLK_OK : n == 0 ? HLK_TIMEOUT : HLK_E_OS;
}

enum hlk_status hlk_exchange_look_up(struct hlk_exchange *exchange, unsigned *addresses)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(exchange->endpoint.url.host_count > 0);
    const struct hlk_host *host = &exchange->endpoint.url.hosts[0];
    int64_t at_ms = hlk_clock_after(hlk_clock_ms(), exchange->endpoint.reply_timeout_ms);
    struct addrinfo *found = NULL;
    struct hlk_resolve *lookup = hlk_resolve_start(host->name, host->port, &exchange->error);
    if (!lookup)
        return exchange->error.status;
    enum hlk_status status = wait_for_socket(hlk_resolve_fd(lookup), POLLIN, at_ms);
    if (status == HLK_OK)
        status = hlk_resolve_take(lookup, &found, &exchange->error);
    else
        status = hlk_error_set(&exchange->error, HLK_E_CONNECT, "no answer to the name lookup of \"%s\"", host->name);
    hlk_resolve_drop(lookup);
    *addresses = count(found);
    if (found)
        freeaddrinfo(found);
    return status;
}

/* --- ask */

bool hlk_exchange_add(struct hlk_exchange *exchange, int argc, const char **argv)
{
    HLK_DEBUG_ASSERT(argc > 0);
    if (!hlk_buffer_add_command(&exchange->out, argc, argv, NULL))
        return false;
    exchange->due++;
    return true;
}

static enum hlk_status read_some(struct hlk_exchange *exchange, redisReply **replies, unsigned *n, unsigned due)
{
    bool broken = false;
    int got = hlk_conn_recv(&exchange->conn, &exchange->error);
    while (got > 0 && *n < due && (replies[*n] = hlk_conn_reply(&exchange->conn, &broken, &exchange->error)))
        ++*n;
    return got < 0 || broken ? exchange->error.status : HLK_OK;
}

enum hlk_status hlk_exchange_ask(struct hlk_exchange *exchange, redisReply **replies)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(exchange->due > 0);
    unsigned n = 0, due = exchange->due;
    int64_t since_ns = hlk_clock_ns(), timeout_ms = exchange->endpoint.reply_timeout_ms;
    exchange->due = 0;
    memset(replies, 0, due * sizeof(redisReply *));
    while (n < due) {
        if (!hlk_conn_send(&exchange->conn, &exchange->out, &exchange->error))
            return exchange->error.status;
        short events = hlk_buffer_empty(&exchange->out) ? POLLIN : POLLIN | POLLOUT;
        int64_t dead_ms = hlk_conn_dead_ns(&exchange->conn, since_ns, timeout_ms) / 1000000 + 1;
        enum hlk_status status = wait_for_socket(exchange->conn.fd, events, dead_ms);
        if (status == HLK_TIMEOUT)
            return hlk_error_set(&exchange->error, HLK_E_CONNECT, "no answer for %lld ms", (long long)timeout_ms);
        if (status == HLK_OK)
            status = read_some(exchange, replies, &n, due);
        if (status != HLK_OK)
            return status;
    }
    return HLK_OK;
}

/* --- where it is */

bool hlk_exchange_is_local(const struct hlk_exchange *exchange)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    if (getpeername(exchange->conn.fd, (struct sockaddr *)&peer, &len) != 0)
        return false;
    if (peer.ss_family == AF_UNIX)
        return true;
    if (peer.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&peer;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)&peer)->sin6_addr;
    return peer.ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127));
}
