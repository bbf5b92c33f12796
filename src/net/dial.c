#include "net/dial.h"

#include "base/mem.h"
#include "net/aside.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

bool hlk_command_add(struct hlk_buffer *buffer, int argc, const char **argv, const size_t *lens)
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
    return hlk_command_add(&dial->out, argc, argv, NULL);
}

static void fini(struct hlk_dial *dial)
{
    struct ev_loop *ev = hlk_loop_ev(dial->loop);
    ev_io_stop(ev, &dial->io);
    ev_timer_stop(ev, &dial->timer);
    hlk_resolve_drop(dial->lookup);
    dial->lookup = NULL;
    hlk_aside_drop(dial->aside);
    dial->aside = NULL;
    if (dial->addresses)
        freeaddrinfo(dial->addresses);
    dial->addresses = dial->next = NULL;
    hlk_buffer_fini(&dial->out);
    dial->active = false;
}

static void fail(struct hlk_dial *dial)
{
    fini(dial);
    hlk_conn_reset(&dial->conn);
    dial->done(dial->ctx, NULL, &dial->error);
}

static void succeed(struct hlk_dial *dial)
{
    fini(dial);
    struct hlk_conn conn = dial->conn;
    hlk_conn_init(&dial->conn);
    dial->done(dial->ctx, &conn, NULL);
}

static void watch(struct hlk_dial *dial, int fd, int events)
{
    struct ev_loop *ev = hlk_loop_ev(dial->loop);
    ev_io_stop(ev, &dial->io);
    ev_io_set(&dial->io, fd, events);
    ev_io_start(ev, &dial->io);
}

static void allow(struct hlk_dial *dial, int64_t ms)
{
    dial->timer.repeat = (double)ms / 1000.0;
    ev_timer_again(hlk_loop_ev(dial->loop), &dial->timer);
}

/* --- greeting --- */

static bool greet(struct hlk_dial *dial)
{
    const struct hlk_url *url = &dial->endpoint->url;
    bool ok = true;
    if (url->username && (url->password || *url->username)) /* never the default user in its place */
        ok = add_words(dial, 3, (const char *[]){ "AUTH", url->username, url->password ? url->password : "" });
    else if (url->password)
        ok = add_words(dial, 2, (const char *[]){ "AUTH", url->password });
    dial->auth_replies = dial->own;
    if (ok && url->db) {
        char db[16];
        (void)snprintf(db, sizeof db, "%d", url->db);
        ok = add_words(dial, 2, (const char *[]){ "SELECT", db });
    }
    if (ok)
        ok = add_words(dial, 2, (const char *[]){ "PING", "hasplock" });
    if (ok)
        ok = add_words(dial, 3, (const char *[]){ "CLIENT", "SETNAME", dial->endpoint->client_name });
    if (ok && dial->greeting)
        ok = hlk_buffer_add(&dial->out, dial->greeting->bytes.data, dial->greeting->bytes.len);
    dial->expected = dial->own + (dial->greeting ? dial->greeting->replies : 0);
    if (!ok)
        (void)hlk_error_set(&dial->error, HLK_E_NOMEM, "no memory");
    return ok;
}

static bool starts(const redisReply *reply, const char *word)
{
    return strncasecmp(reply->str, word, strlen(word)) == 0;
}

/* The server is there and takes nobody in now. */
static bool passes(const redisReply *reply)
{
    static const char *const codes[] = { "LOADING ", "BUSY ", "MASTERDOWN ", "TRYAGAIN ", "CLUSTERDOWN " };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (starts(reply, codes[i]))
            return true;
    return strstr(reply->str, "max number of clients") != NULL;
}

/* Who we say we are is what the server does not accept. Redis before 6.2 has no code for it. */
static bool bars(const redisReply *reply, bool to_auth)
{
    static const char *const texts[] = { "invalid username-password pair", "invalid password",
                                         "without any password configured", "no password is set" };
    if (starts(reply, "NOAUTH") || starts(reply, "WRONGPASS") || starts(reply, "NOPERM"))
        return true;
    for (size_t i = 0; to_auth && i < sizeof texts / sizeof *texts; i++)
        if (strstr(reply->str, texts[i]))
            return true;
    return false;
}

static enum hlk_status check_own(struct hlk_dial *dial, unsigned i, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR || i == dial->own - 1) /* a name for CLIENT LIST is no reason to fail */
        return HLK_OK;
    if (passes(reply))
        return hlk_error_set(&dial->error, HLK_E_CONNECT, "%s", reply->str);
    return hlk_error_set(&dial->error, bars(reply, i < dial->auth_replies) ? HLK_E_AUTH : HLK_E_SERVER, "%s",
                         reply->str);
}

static enum hlk_status check(struct hlk_dial *dial, const redisReply *reply)
{
    unsigned i = dial->seen++;
    if (i >= dial->expected)
        return hlk_error_set(&dial->error, HLK_E_CONNECT, "an answer that nobody asked for");
    if (i < dial->own)
        return check_own(dial, i, reply);
    return dial->greeting->check(i - dial->own, reply, &dial->error);
}

static void on_greeting(struct hlk_dial *dial)
{
    /* A server that is full says so and hangs up, whatever we send: its words are read before the break counts. */
    bool sent = hlk_conn_send(&dial->conn, &dial->out, &dial->error);
    int got = hlk_conn_recv(&dial->conn, &dial->error);
    bool broken = false;
    redisReply *reply;
    while (got > 0 && (reply = hlk_conn_reply(&dial->conn, &broken, &dial->error))) {
        enum hlk_status status = check(dial, reply);
        freeReplyObject(reply);
        if (status != HLK_OK) {
            fail(dial);
            return;
        }
    }
    if (!sent || got < 0 || broken)
        fail(dial);
    else if (dial->seen == dial->expected)
        succeed(dial);
    else
        watch(dial, dial->conn.fd, hlk_buffer_empty(&dial->out) ? EV_READ : EV_READ | EV_WRITE);
}

/* --- address and connect --- */

static void connect_next(struct hlk_dial *dial)
{
    while (dial->next) {
        struct addrinfo *address = dial->next;
        dial->next = address->ai_next;
        if (hlk_conn_start(&dial->conn, address->ai_addr, address->ai_addrlen, &dial->error) == HLK_OK) {
            allow(dial, dial->endpoint->reply_ms);
            watch(dial, dial->conn.fd, EV_WRITE);
            return;
        }
    }
    fail(dial);
}

static void connect_unix(struct hlk_dial *dial, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address.sun_path) {
        (void)hlk_error_set(&dial->error, HLK_E_INVALID, "socket path of %zu bytes is too long", strlen(path));
        fail(dial);
        return;
    }
    strcpy(address.sun_path, path);
    if (hlk_conn_start(&dial->conn, (struct sockaddr *)&address, sizeof address, &dial->error) != HLK_OK) {
        fail(dial);
        return;
    }
    allow(dial, dial->endpoint->reply_ms);
    watch(dial, dial->conn.fd, EV_WRITE);
}

static void on_connected(struct hlk_dial *dial)
{
    if (hlk_conn_connected(&dial->conn, &dial->error) != HLK_OK) {
        hlk_conn_reset(&dial->conn);
        connect_next(dial);
        return;
    }
    if (!greet(dial)) {
        fail(dial);
        return;
    }
    allow(dial, dial->endpoint->reply_ms);
    on_greeting(dial);
}

static void on_looked_up(struct hlk_dial *dial)
{
    enum hlk_status status = hlk_resolve_take(dial->lookup, &dial->addresses, &dial->error);
    if (status == HLK_BUSY)
        return;
    hlk_resolve_drop(dial->lookup);
    dial->lookup = NULL;
    if (status != HLK_OK) {
        fail(dial);
        return;
    }
    dial->next = dial->addresses;
    connect_next(dial);
}

static void on_local_up(struct hlk_dial *dial)
{
    char path[108];
    enum hlk_status status = hlk_aside_take(dial->aside, path, sizeof path, &dial->error);
    hlk_aside_drop(dial->aside);
    dial->aside = NULL;
    if (status != HLK_OK)
        fail(dial);
    else
        connect_unix(dial, path);
}

static void on_io(struct ev_loop *ev, struct ev_io *io, int revents)
{
    (void)revents;
    struct hlk_dial *dial = io->data;
    ev_io_stop(ev, io);
    if (dial->lookup)
        on_looked_up(dial);
    else if (dial->aside)
        on_local_up(dial);
    else if (dial->expected == 0)
        on_connected(dial);
    else
        on_greeting(dial);
}

static void on_timeout(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
    (void)revents;
    struct hlk_dial *dial = timer->data;
    if (dial->lookup)
        (void)hlk_error_set(&dial->error, HLK_E_CONNECT, "no answer to the name lookup of \"%s\"",
                            dial->endpoint->url.host);
    else
        (void)hlk_error_set(&dial->error, HLK_E_CONNECT, "no answer for %lld ms", (long long)dial->endpoint->reply_ms);
    if (!dial->lookup && dial->expected == 0 && dial->next) { /* this address is silent: the next one */
        ev_io_stop(ev, &dial->io);
        hlk_conn_reset(&dial->conn);
        connect_next(dial);
        return;
    }
    fail(dial);
}

void hlk_dial_init(struct hlk_dial *dial, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                   const struct hlk_greeting *greeting, hlk_dialled_fn *done, void *ctx)
{
    memset(dial, 0, sizeof *dial);
    dial->loop = loop;
    dial->endpoint = endpoint;
    dial->greeting = greeting;
    dial->done = done;
    dial->ctx = ctx;
    hlk_conn_init(&dial->conn);
    ev_init(&dial->io, on_io);
    dial->io.data = dial;
    ev_init(&dial->timer, on_timeout);
    dial->timer.data = dial;
}

void hlk_dial_start(struct hlk_dial *dial)
{
    hlk_loop_assert_here(dial->loop);
    const struct hlk_url *url = &dial->endpoint->url;
    dial->active = true;
    dial->own = dial->expected = dial->seen = dial->auth_replies = 0;
    memset(&dial->error, 0, sizeof dial->error);
    switch (url->kind) {
    case HLK_URL_UNIX:
        connect_unix(dial, url->path);
        return;
    case HLK_URL_LOCAL:
        dial->aside = hlk_aside_local(url->name, 10000, &dial->error);
        if (!dial->aside)
            break;
        watch(dial, hlk_aside_fd(dial->aside), EV_READ);
        return;
    case HLK_URL_TCP:
        dial->lookup = hlk_resolve_start(url->host, url->port, &dial->error);
        if (!dial->lookup)
            break;
        allow(dial, dial->endpoint->reply_ms);
        watch(dial, hlk_resolve_fd(dial->lookup), EV_READ);
        return;
    }
    fail(dial);
}

void hlk_dial_stop(struct hlk_dial *dial)
{
    if (!dial->active)
        return;
    fini(dial);
    hlk_conn_reset(&dial->conn);
}
