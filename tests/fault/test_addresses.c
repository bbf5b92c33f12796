/* A name with several addresses. One that is of no use costs a moment, and not the call. The deadline for a reply is
 * longer than a wait in vain, so that nobody is rescued by it.
 *
 * asks RFC 8305 (Happy Eyeballs): another address is tried after 250 ms. */
/* Shows: P17 */
#include "fixture.h"
#include "net/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PLACES = 3, LONG_MS = 4 * WAIT_MS };

static int ports[PLACES]; /* what name.test means, in this order; 0: no more */
static struct server *other;
static redisContext *redis; /* administrator's connection to it */

/* The addresses at `ports`. */
static int by_table(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)service;
    struct addrinfo **end = out;
    for (int i = 0; i < PLACES && ports[i]; i++) {
        char port[8];
        snprintf(port, sizeof port, "%d", ports[i]);
        int fault = getaddrinfo("127.0.0.1", port, hints, end);
        if (fault)
            return fault;
        end = &(*end)->ai_next;
    }
    return 0;
}

static void start(void)
{
    fault_up(STAGE_PROXY | SERVER_TCP | SERVER_NOACL);
    other = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    server_allow(other, SERVER_TOMBSTONES);
    redis = raw_open(other);
    hlk_resolve_play(by_table);
}

static void stop(void)
{
    fixture_end();
    hlk_resolve_play(NULL);
    redisFree(redis);
    server_finish(other);
}

TestSuite(addresses, .init = start, .fini = stop, .timeout = 60);

static void name_means(int first, int second)
{
    ports[0] = first;
    ports[1] = second;
}

static hlk_client *open_by_name(int64_t reply_timeout_ms)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = reply_timeout_ms;
    opts.reconnect_timeout_ms = WAIT_MS;
    return fixture_open_at("redis://name.test:7", &opts);
}

/* --- places of no use --- */

/* A socket that listens, for `backlog` connections that nobody accepts. */
static int listen_at(int *port, int backlog)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, backlog) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        test_give_up("no socket that listens: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return fd;
}

static int begin_to_connect(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS))
        test_give_up("no connection: %s", strerror(errno));
    return fd;
}

static bool is_connecting(int fd)
{
    struct tcp_info info = { .tcpi_state = 0 };
    socklen_t len = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_state == TCP_SYN_SENT;
}

/* Its backlog is full, so that it does not answer. */
static int black_hole(void)
{
    int port;
    (void)listen_at(&port, 0);
    for (int n = 0; n < 4; n++)
        if (is_connecting(begin_to_connect(port)))
            return port;
    test_give_up("a full backlog takes connections");
}

/* It takes connections, and says nothing. */
static int hung_server(void)
{
    int port;
    (void)listen_at(&port, 64);
    return port;
}

/* --- an address that is silent --- */

static void costs_no_call(int place)
{
    name_means(place, fixture.server->port);
    hlk_lock *lock = fixture_lock(open_by_name(LONG_MS), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(addresses, the_first_of_which_answers_nothing_cost_no_call)
{
    costs_no_call(black_hole());
}

Test(addresses, the_first_of_which_is_a_hung_server_cost_no_call)
{
    costs_no_call(hung_server());
}

Test(addresses, of_which_two_answer_nothing_cost_no_call)
{
    ports[2] = fixture.server->port;
    name_means(black_hole(), hung_server());
    hlk_lock *lock = fixture_lock(open_by_name(LONG_MS), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(addresses, the_first_of_which_answers_nothing_delay_no_grant)
{
    hlk_lock *held = held_by_bystander(bystander(), "t", 0);
    name_means(black_hole(), fixture.server->port);
    struct actor *waiter = actor_start(fixture_lock(open_by_name(LONG_MS), "t", NULL), NULL);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    cr_assert_eq(hlk_lock_release(held), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
}

/* No round but the second has the time that it takes. */
Test(addresses, of_which_the_usable_one_is_slow_get_more_time)
{
    proxy_delay(fixture.proxy, 0, 2 * 250);
    name_means(hung_server(), proxy_port(fixture.proxy));
    hlk_lock *lock = fixture_lock(open_by_name(2000), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    proxy_delay(fixture.proxy, 0, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* --- an address at which nobody is admitted for now --- */

Test(addresses, the_first_of_which_is_a_full_server_cost_no_call)
{
    raw(redis, "CONFIG SET maxclients 1");
    name_means(other->port, fixture.server->port);
    hlk_lock *lock = fixture_lock(open_by_name(LONG_MS), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    raw(redis, "CONFIG SET maxclients 100");
}

/* --- a replica and its master behind one name --- */

static void become_replica(redisContext *server)
{
    raw(server, "REPLICAOF 127.0.0.1 1");
}

Test(addresses, of_a_replica_and_a_master_mean_the_master)
{
    become_replica(redis);
    name_means(other->port, fixture.server->port);
    hlk_lock *lock = fixture_lock(open_by_name(LONG_MS), "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(addresses, of_a_replica_and_a_master_subscribe_at_the_master)
{
    hlk_lock *held = held_by_bystander(bystander(), "t", 0);
    become_replica(redis);
    name_means(other->port, fixture.server->port);
    struct actor *waiter = actor_start(fixture_lock(open_by_name(LONG_MS), "t", NULL), NULL);
    WAIT_FOR(raw_inboxes(fixture.redis) == 1);
    cr_assert_eq(raw_inboxes(redis), 0);
    cr_assert_eq(hlk_lock_release(held), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_end(waiter), HLK_OK, "%s", actor_error(waiter));
}

/* The server that is connected becomes a replica, and the other one its master. */
Test(addresses, that_change_roles_mean_the_new_master)
{
    become_replica(redis);
    name_means(fixture.server->port, other->port);
    hlk_client *client = open_by_name(LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    become_replica(fixture.redis);
    raw(redis, "REPLICAOF NO ONE");
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(redis, "EXISTS t"), 1);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    raw(fixture.redis, "REPLICAOF NO ONE");
}

static bool can_be_asked(hlk_lock *lock)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    return hlk_lock_query(lock, &state) == HLK_OK && !state.held;
}

Test(addresses, of_replicas_only_are_used_as_they_are)
{
    become_replica(redis);
    become_replica(fixture.redis);
    name_means(other->port, fixture.server->port);
    hlk_client *client = open_by_name(LONG_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert(can_be_asked(lock), "%s", hlk_last_error());
    raw(fixture.redis, "REPLICAOF NO ONE");
    cr_assert_eq(hlk_lock_acquire(lock, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* The master is silent, and both rounds have found that. */
Test(addresses, of_a_replica_and_of_silence_mean_the_replica)
{
    become_replica(redis);
    name_means(other->port, hung_server());
    cr_assert(can_be_asked(fixture_lock(open_by_name(600), "t", NULL)), "%s", hlk_last_error());
    raw(redis, "REPLICAOF NO ONE");
}
