/* proxy.c - the proxy's thread, its listeners, and the calls of the tests. The thread holds `mu` except inside poll. A
 * call changes a setting under `mu`, rings the bell and waits until the thread has run one more round. */
#include "support/proxy.h"

#include "support/acl.h"
#include "support/link.h"
#include "support/port.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct proxy {
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t turned;
    uint64_t turns; /* rounds so far */
    int bell;
    bool stop, refuse, cut;

    char dir[64], path[80], upstream[80], url[160];
    int port, port_held, listen_unix, listen_tcp;
    struct in_addr address;

    struct link *links;
    int64_t pumped_ns; /* what was due by then has been sent */
    uint64_t accepted;
    struct harm harm;
};

static void accept_all(struct proxy *proxy, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct link *link = link_create(fd);
        link->next = proxy->links;
        proxy->links = link;
        proxy->accepted++;
    }
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void pump_all(struct proxy *proxy, const struct pollfd *set)
{
    proxy->pumped_ns = test_now_ns();
    for (struct link *link = proxy->links; link; link = link->next)
        link_pump(link, &proxy->harm, set, proxy->pumped_ns);
}

static void sweep(struct proxy *proxy)
{
    for (struct link **at = &proxy->links; *at;) {
        struct link *link = *at;
        if (!link->dead && !proxy->cut) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        link_free(link);
    }
    proxy->cut = false;
}

static void watch(struct pollfd *set, size_t *n, size_t *place, int fd, const struct bytes *unsent)
{
    if (fd < 0)
        return;
    *place = (*n)++;
    set[*place] = (struct pollfd){ fd, (short)(unsent->len ? POLLIN | POLLOUT : POLLIN), 0 };
}

/* Builds the poll set; returns its size. *due_ns: when the next delayed byte is due. */
static size_t build_set(struct proxy *proxy, struct pollfd **set, int64_t *due_ns)
{
    size_t n = 3, links = 0;
    for (struct link *link = proxy->links; link; link = link->next)
        links++;
    *set = realloc(*set, (n + 2 * links) * sizeof **set);
    (*set)[0] = (struct pollfd){ proxy->bell, POLLIN, 0 };
    (*set)[1] = (struct pollfd){ proxy->listen_unix, POLLIN, 0 };
    (*set)[2] = (struct pollfd){ proxy->listen_tcp, POLLIN, 0 };
    for (struct link *link = proxy->links; link; link = link->next) {
        link->poll_client = link->poll_upstream = 0;
        if (link_frozen(link, &proxy->harm))
            continue;
        link_soonest(link, proxy->pumped_ns, due_ns);
        watch(*set, &n, &link->poll_client, link->client, &link->to_client);
        watch(*set, &n, &link->poll_upstream, link->upstream, &link->to_server);
    }
    return n;
}

static int listen_on(int family, const struct sockaddr *address, socklen_t len)
{
    int on = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (family == AF_INET)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, address, len) != 0 || listen(fd, 4096) != 0)
        test_give_up("proxy cannot listen: %s", strerror(errno));
    return fd;
}

static void start_listening(struct proxy *proxy)
{
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    struct sockaddr_in tcp = { .sin_family = AF_INET,
                               .sin_addr = proxy->address,
                               .sin_port = htons((uint16_t)proxy->port) };
    snprintf(local.sun_path, sizeof local.sun_path, "%s", proxy->path);
    unlink(proxy->path);
    proxy->listen_unix = listen_on(AF_UNIX, (struct sockaddr *)&local, sizeof local);
    proxy->listen_tcp = listen_on(AF_INET, (struct sockaddr *)&tcp, sizeof tcp);
}

/* Applies the settings. */
static void obey(struct proxy *proxy)
{
    if (proxy->refuse && proxy->listen_unix >= 0) {
        close_fd(&proxy->listen_unix);
        close_fd(&proxy->listen_tcp);
        unlink(proxy->path);
    } else if (!proxy->refuse && proxy->listen_unix < 0) {
        start_listening(proxy);
    }
    sweep(proxy);
}

static void wait_for_traffic(struct proxy *proxy, struct pollfd **set)
{
    eventfd_t rings;
    int64_t due_ns = INT64_MAX;
    size_t n = build_set(proxy, set, &due_ns);
    int64_t now_ns = test_now_ns(), wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    struct timespec wait = { (time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000) };
    pthread_mutex_unlock(&proxy->mu);
    ppoll(*set, n, &wait, NULL);
    pthread_mutex_lock(&proxy->mu);
    if ((*set)[0].revents)
        eventfd_read(proxy->bell, &rings);
    pump_all(proxy, *set);
    for (struct link *link = proxy->links; link; link = link->next)
        link->poll_client = link->poll_upstream = 0; /* the poll set is no longer valid */
    if ((*set)[1].revents & POLLIN)
        accept_all(proxy, proxy->listen_unix);
    if ((*set)[2].revents & POLLIN)
        accept_all(proxy, proxy->listen_tcp);
}

static void *run(void *arg)
{
    struct proxy *proxy = arg;
    struct pollfd *set = NULL;
    pthread_mutex_lock(&proxy->mu);
    while (!proxy->stop) {
        obey(proxy);
        pump_all(proxy, NULL); /* a setting may have released something */
        sweep(proxy);
        proxy->turns++;
        pthread_cond_broadcast(&proxy->turned);
        wait_for_traffic(proxy, &set);
    }
    proxy->turns++;
    pthread_cond_broadcast(&proxy->turned);
    pthread_mutex_unlock(&proxy->mu);
    free(set);
    return NULL;
}

/* --- calls of the tests */

/* After a change under mu: waits until the thread has run a whole round with it. Unlocks mu. */
static void settle(struct proxy *proxy)
{
    uint64_t turn = proxy->turns;
    eventfd_write(proxy->bell, 1);
    while (proxy->turns == turn && !proxy->stop)
        pthread_cond_wait(&proxy->turned, &proxy->mu);
    pthread_mutex_unlock(&proxy->mu);
}

#define PROXY_SET(proxy, change)                                                                                       \
    do {                                                                                                               \
        pthread_mutex_lock(&(proxy)->mu);                                                                              \
        change;                                                                                                        \
        settle(proxy);                                                                                                 \
    } while (0)

struct proxy *proxy_start(const struct server *server)
{
    return proxy_start_at(server, "127.0.0.1");
}

struct proxy *proxy_start_at(const struct server *server, const char *address)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (inet_pton(AF_INET, address, &proxy->address) != 1)
        test_give_up("%s is no address", address);
    snprintf(proxy->dir, sizeof proxy->dir, "/tmp/hlk-proxy-XXXXXX");
    if (!mkdtemp(proxy->dir))
        test_give_up("mkdtemp: %s", strerror(errno));
    snprintf(proxy->path, sizeof proxy->path, "%s/p", proxy->dir);
    snprintf(proxy->upstream, sizeof proxy->upstream, "%s", server->socket);
    proxy->harm.upstream = proxy->upstream;
    proxy->port_held = port_reserve(&proxy->port);
    start_listening(proxy);
    if (server->acl)
        snprintf(proxy->url, sizeof proxy->url, "redis://%s:%s@%s:%d", ACL_USER, ACL_PASSWORD, address, proxy->port);
    else
        snprintf(proxy->url, sizeof proxy->url, "unix:%s", proxy->path);
    proxy->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&proxy->mu, NULL);
    pthread_cond_init(&proxy->turned, NULL);
    sigset_t all, before; /* signals of the test go to the test's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&proxy->thread, NULL, run, proxy) != 0)
        test_give_up("no thread for the proxy");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return proxy;
}

void proxy_stop(struct proxy *proxy)
{
    if (!proxy)
        return;
    pthread_mutex_lock(&proxy->mu);
    proxy->stop = true;
    eventfd_write(proxy->bell, 1);
    pthread_mutex_unlock(&proxy->mu);
    pthread_join(proxy->thread, NULL);
    proxy->cut = true;
    sweep(proxy);
    close_fd(&proxy->listen_unix);
    close_fd(&proxy->listen_tcp);
    close_fd(&proxy->port_held);
    close_fd(&proxy->bell);
    unlink(proxy->path);
    rmdir(proxy->dir);
    for (size_t i = 0; i < proxy->harm.seen_len; i++)
        free(proxy->harm.seen[i]);
    free(proxy->harm.seen);
    pthread_mutex_destroy(&proxy->mu);
    pthread_cond_destroy(&proxy->turned);
    free(proxy);
}

void proxy_move(struct proxy *proxy, const struct server *server)
{
    PROXY_SET(proxy, (void)snprintf(proxy->upstream, sizeof proxy->upstream, "%s", server->socket));
}

const char *proxy_url(const struct proxy *proxy)
{
    return proxy->url;
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

void proxy_arm(struct proxy *proxy, enum proxy_fault fault, enum proxy_filter filter, uint64_t k)
{
    PROXY_SET(proxy,
              (proxy->harm.fault = fault, proxy->harm.filter = filter, proxy->harm.k = k, proxy->harm.struck = false));
}

void proxy_flood(struct proxy *proxy, enum proxy_filter filter, uint64_t k, bool lasts, const char *head,
                 const char *body, int64_t gap_ms)
{
    pthread_mutex_lock(&proxy->mu);
    struct harm *harm = &proxy->harm;
    harm->flood = (struct flood){ head, body, gap_ms * 1000000, lasts };
    harm->fault = PROXY_FLOOD;
    harm->filter = filter;
    harm->k = k;
    harm->struck = false;
    settle(proxy);
}

#define PROXY_GET(proxy, type, what)                                                                                   \
    pthread_mutex_lock(&(proxy)->mu);                                                                                  \
    type value = (what);                                                                                               \
    pthread_mutex_unlock(&(proxy)->mu);                                                                                \
    return value

bool proxy_struck(struct proxy *proxy)
{
    PROXY_GET(proxy, bool, proxy->harm.struck);
}

void proxy_wait_struck(struct proxy *proxy)
{
    WAIT_FOR(proxy_struck(proxy));
}

static bool delivered(struct proxy *proxy)
{
    bool busy = false;
    pthread_mutex_lock(&proxy->mu);
    for (struct link *link = proxy->links; link; link = link->next)
        busy = busy || link->delivering;
    pthread_mutex_unlock(&proxy->mu);
    return !busy;
}

void proxy_deliver(struct proxy *proxy, bool first_only)
{
    pthread_mutex_lock(&proxy->mu);
    for (struct link *link = proxy->links; link; link = link->next)
        link_deliver(link, first_only);
    settle(proxy);
    WAIT_FOR(delivered(proxy));
}

void proxy_cut_all(struct proxy *proxy)
{
    PROXY_SET(proxy, proxy->cut = true);
}

void proxy_refuse(struct proxy *proxy, bool on)
{
    PROXY_SET(proxy, proxy->refuse = on);
}

void proxy_freeze(struct proxy *proxy, bool on)
{
    PROXY_SET(proxy, proxy->harm.freeze = on);
}

void proxy_freeze_subscribers(struct proxy *proxy, bool on)
{
    PROXY_SET(proxy, proxy->harm.freeze_subscribers = on);
}

void proxy_delay(struct proxy *proxy, int64_t to_server_ms, int64_t to_client_ms)
{
    PROXY_SET(proxy,
              (proxy->harm.to_server_ns = to_server_ms * 1000000, proxy->harm.to_client_ns = to_client_ms * 1000000));
}

void proxy_drop_messages(struct proxy *proxy, bool on)
{
    PROXY_SET(proxy, proxy->harm.drop_messages = on);
}

void proxy_hold_confirmations(struct proxy *proxy, bool on)
{
    PROXY_SET(proxy, proxy->harm.hold_confirmations = on);
}

uint64_t proxy_count(struct proxy *proxy, enum proxy_filter filter)
{
    PROXY_GET(proxy, uint64_t, proxy->harm.counts[filter]);
}

uint64_t proxy_seen(struct proxy *proxy, const char *text)
{
    uint64_t found = 0;
    pthread_mutex_lock(&proxy->mu);
    for (size_t i = 0; i < proxy->harm.seen_len; i++)
        found += strstr(proxy->harm.seen[i], text) != NULL;
    pthread_mutex_unlock(&proxy->mu);
    return found;
}

void proxy_forget(struct proxy *proxy)
{
    PROXY_SET(proxy, proxy->harm.forget = true);
}

uint64_t proxy_messages(struct proxy *proxy)
{
    PROXY_GET(proxy, uint64_t, proxy->harm.messages);
}

uint64_t proxy_accepted(struct proxy *proxy)
{
    PROXY_GET(proxy, uint64_t, proxy->accepted);
}

static int count_open(const struct proxy *proxy)
{
    int open = 0;
    for (struct link *link = proxy->links; link; link = link->next)
        open += link->client >= 0;
    return open;
}

int proxy_open_connections(struct proxy *proxy)
{
    PROXY_GET(proxy, int, count_open(proxy));
}
