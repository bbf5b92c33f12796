/* Opening a client at a server that answers with an error. Temporary errors are retried, then HLK_E_CONNECT. Missing
 * access is HLK_E_AUTH, and nothing else is. */
#include "support/fixture.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void start(void)
{
    fixture_begin(SERVER_TCP);
}

TestSuite(client_refused, .init = start, .fini = fixture_end, .timeout = 60);
TestSuite(client_refused_played, .timeout = 60);

static enum hlk_status try_open(const char *user, int port, int64_t reconnect_timeout_ms)
{
    char url[96];
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client;
    opts.reconnect_timeout_ms = reconnect_timeout_ms;
    snprintf(url, sizeof url, "redis://%s127.0.0.1:%d", user, port);
    enum hlk_status status = hlk_client_open(&client, url, &opts);
    if (status == HLK_OK)
        hlk_client_close(client);
    return status;
}

enum { RECONNECT_MS = 300 };

/* At the stage's server, as its permitted user. */
static enum hlk_status try_stage(void)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client;
    opts.reconnect_timeout_ms = RECONNECT_MS;
    enum hlk_status status = hlk_client_open(&client, fixture.url, &opts);
    if (status == HLK_OK)
        hlk_client_close(client);
    return status;
}

static void assert_rides_out(const char *word)
{
    int64_t began = test_now_ms();
    cr_assert_eq(try_stage(), HLK_E_CONNECT, "%s", hlk_last_error());
    cr_assert_geq(test_now_ms() - began, RECONNECT_MS, "asked again until reconnect_timeout_ms was over");
    cr_assert_not_null(strstr(hlk_last_error(), word), "%s", hlk_last_error());
}

Test(client_refused, while_a_script_runs_is_waited_for)
{
    redisContext *other = raw_open(fixture.server);
    int done = 0;
    raw(fixture.redis, "CONFIG SET busy-reply-threshold 20");
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    while (!done && redisBufferWrite(other, &done) == REDIS_OK)
        ;
    WAIT_FOR(strstr(raw(fixture.redis, "GET t-nothing"), "BUSY") != NULL);
    assert_rides_out("BUSY "); /* Redis or Valkey runs a long script */
    cr_assert_str_eq(raw(fixture.redis, "SCRIPT KILL"), "OK");
    WAIT_FOR(try_stage() == HLK_OK);
    redisFree(other);
}

Test(client_refused, when_full_is_waited_for_and_no_wrong_password)
{
    raw(fixture.redis, "CONFIG SET maxclients 1");
    assert_rides_out("max number of clients");
    cr_assert_eq(try_open("nobody:pw@", fixture.server->port, RECONNECT_MS), HLK_E_CONNECT, "%s", hlk_last_error());
    raw(fixture.redis, "CONFIG SET maxclients 100");
    WAIT_FOR(try_stage() == HLK_OK);
    cr_assert_eq(try_open("nobody:pw@", fixture.server->port, RECONNECT_MS), HLK_E_AUTH, "%s", hlk_last_error());
}

/* --- each text, from a server that sends nothing else */

static struct played {
    int fd, port;
    const char *text;
    pthread_t thread;
} played;

static void *play(void *arg)
{
    int fd;
    while ((fd = accept(played.fd, NULL, NULL)) >= 0) {
        char heard[64], said[256];
        (void)!read(fd, heard, sizeof heard); /* a command has arrived */
        snprintf(said, sizeof said, "-%s\r\n", played.text);
        (void)!send(fd, said, strlen(said), MSG_NOSIGNAL); /* the client may be gone already */
        shutdown(fd, SHUT_WR);
        while (read(fd, heard, sizeof heard) > 0)
            ;
        close(fd);
    }
    return arg;
}

static void begin(const char *text)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    played.text = text;
    played.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(played.fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(played.fd, 16), 0);
    cr_assert_eq(getsockname(played.fd, (struct sockaddr *)&address, &len), 0);
    played.port = ntohs(address.sin_port);
    cr_assert_eq(pthread_create(&played.thread, NULL, play, NULL), 0);
}

static void end(void)
{
    shutdown(played.fd, SHUT_RDWR);
    pthread_join(played.thread, NULL);
    close(played.fd);
}

/* With a reconnect timeout that allows one reply. Of a reply to AUTH only the error code is shown. */
static enum hlk_status open_played(const char *user, const char *message)
{
    enum hlk_status status;
    int64_t reconnect_timeout_ms = 30;
    do {
        status = try_open(user, played.port, reconnect_timeout_ms);
        reconnect_timeout_ms *= 4;
    } while (status == HLK_E_CONNECT && !strstr(hlk_last_error(), message));
    return status;
}

static void answers(const char *text, enum hlk_status to_auth, enum hlk_status to_others)
{
    char code[32];
    snprintf(code, sizeof code, "AUTH with %.*s", (int)strcspn(text, " "), text);
    begin(text);
    cr_assert_eq(open_played("joe:pw@", code), to_auth, "AUTH: %s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), code), "%s", hlk_last_error());
    cr_assert_null(strstr(hlk_last_error(), text), "%s", hlk_last_error());
    cr_assert_eq(open_played("", text), to_others, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), text), "%s", hlk_last_error());
    end();
}

Test(client_refused_played, for_now_is_connect)
{
    static const char *const texts[] = {
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "ERR max number of clients reached",
        "ERR max number of clients + cluster connections reached",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        answers(texts[i], HLK_E_CONNECT, HLK_E_CONNECT);
}

Test(client_refused_played, as_nobody_it_knows_is_auth)
{
    answers("NOAUTH Authentication required.", HLK_E_AUTH, HLK_E_AUTH);
    answers("WRONGPASS invalid username-password pair or user is disabled.", HLK_E_AUTH, HLK_E_AUTH);
    answers("NOPERM this user has no permissions to run the 'ping' command", HLK_E_AUTH, HLK_E_AUTH);
    answers("ERR invalid username-password pair", HLK_E_AUTH, HLK_E_SERVER);
    answers("ERR invalid password", HLK_E_AUTH, HLK_E_SERVER);
    answers("ERR AUTH <password> called without any password configured for the default user. Are you sure your "
            "configuration is correct?",
            HLK_E_AUTH, HLK_E_SERVER);
    answers("ERR Client sent AUTH, but no password is set", HLK_E_AUTH, HLK_E_SERVER);
}

Test(client_refused_played, for_anything_else_is_the_servers)
{
    answers("DENIED Redis is running in protected mode", HLK_E_SERVER, HLK_E_SERVER);
    answers("ERR wrong number of arguments for 'auth' command", HLK_E_SERVER, HLK_E_SERVER);
}
