/* hasplock doctor: on a good server, and on one that is bad in each of the ways that it looks for. */
#include "../fault/step_clock.h"
#include "fixture.h"
#include "support/port.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server *served;
static redisContext *admin;

static void serve(unsigned flags, const char *const *extra)
{
    served = server_start(SERVER_NOACL | flags, extra);
    admin = raw_open(served);
    raw(admin, "CONFIG SET slowlog-log-slower-than 400000"); /* a busy machine makes anything slow */
    setenv("HASPLOCK_URL", served->url, 1);
}
#define SERVE(flags, ...) serve(flags, (const char *const[]){ __VA_ARGS__, NULL })

static void stop(void)
{
    if (admin)
        redisFree(admin);
    server_finish(served);
}

TestSuite(doctor, .fini = stop, .timeout = 60);

/* Where a line ends depends on the lengths of the numbers in it. */
static void unwrap(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++)
        if (!strchr(" \n", *in))
            *out++ = *in;
        else if (out > text && out[-1] != ' ')
            *out++ = ' ';
    *out = '\0';
}

/* "problem  eviction: maxmemory ..." and what follows it, up to the next finding. "": there is none. */
static const char *finding(const char *text, const char *area)
{
    static char copy[4096];
    char head[64];
    snprintf(head, sizeof head, " %s: ", area);
    const char *at = strstr(text, head);
    if (!at)
        return "";
    while (at > text && at[-1] != '\n')
        at--;
    const char *end = strchr(at, '\n');
    while (end && strncmp(end + 1, "         ", 9) == 0)
        end = strchr(end + 1, '\n');
    snprintf(copy, sizeof copy, "%.*s", end ? (int)(end - at) : (int)strlen(at), at);
    unwrap(copy);
    return copy;
}

static void says(const struct command *c, const char *area, const char *level, const char *words)
{
    const char *text = finding(c->text[OUT], area);
    cr_expect(strncmp(text, level, strlen(level)) == 0, "%s is no %s: %s\n%s", area, level, text, c->text[ERR]);
    cr_expect(strstr(text, words), "%s lacks \"%s\": %s", area, words, text);
}

static void is_within_80_columns(const char *text)
{
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        cr_assert_leq(strcspn(line, "\n"), 80, "%.*s", (int)strcspn(line, "\n"), line);
}

/* --- a good server */

Test(doctor, finds_nothing_wrong_on_a_good_server)
{
    SERVE(SERVER_TCP | SERVER_AOF, NULL);
    struct command *c = COMMAND("doctor");
    cr_assert_eq(command_end(c), 0, "%s", c->text[OUT]);
    cr_assert_str_empty(c->text[ERR]);
    is_within_80_columns(c->text[OUT]);
    says(c, "url", "ok", "redis://127.0.0.1");
    says(c, "round-trip", "ok", "200 PINGs");
    says(c, "role", "ok", "master");
    says(c, "rights", "ok", "all that are needed");
    says(c, "persistence", "ok", "fsync always");
    says(c, "clock-rate", "ok", "gained");
    cr_assert_not_null(strstr(c->text[OUT], " ok, 0 notes, 0 warnings, 0 problems\n"), "%s", c->text[OUT]);
    command_free(c);
    cr_assert_eq(raw_int(admin, "DBSIZE"), 0);
    c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 0);
    cr_assert_str_empty(c->text[OUT]);
    command_free(c);
}

Test(doctor, prints_objects_with_json)
{
    static const char *const script =
        "local n = 0 for line in ARGV[1]:gmatch('[^\\n]+') do local o = cjson.decode(line) "
        "if o.area then if not (o.level and o.measured ~= '' and o.meaning and o.advice) then return line end "
        "n = n + 1 elseif o.code ~= 2 or o.problems ~= 1 or o.ok + o.notes + o.warnings + o.problems ~= n then "
        "return line end end return n";
    SERVE(SERVER_TCP, "--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru");
    struct command *c = COMMAND("doctor", "--json", "app:\"");
    cr_assert_eq(command_end(c), 2, "%s", c->text[ERR]);
    cr_assert_geq(raw_int(admin, "EVAL %s 0 %s", script, c->text[OUT]), 25, "%s", c->text[OUT]);
    cr_assert_not_null(strstr(c->text[OUT], "{\"area\":\"eviction\",\"level\":\"problem\",\"measured\":\"maxmemory "
                                            "10.0 MB, policy allkeys-lru\",\"meaning\":\"When memory is short"),
                       "%s", c->text[OUT]);
    command_free(c);
}

/* --- bad ones */

Test(doctor, finds_eviction)
{
    SERVE(SERVER_TCP, "--maxmemory", "1mb", "--maxmemory-policy", "allkeys-lru");
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 2, "%s", c->text[OUT]);
    is_within_80_columns(c->text[OUT]);
    says(c, "eviction", "problem", "maxmemory 1.0 MB, policy allkeys-lru");
    command_free(c);
}

/* The connection of the test's own would be ended too. */
Test(doctor, finds_no_persistence_and_limits_on_connections)
{
    SERVE(SERVER_TCP, "--timeout", "5", "--tcp-keepalive", "0", "--lua-time-limit", "0", "--client-output-buffer-limit",
          "pubsub 1024 512 1");
    redisFree(admin);
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 1, "%s", c->text[OUT]);
    is_within_80_columns(c->text[OUT]);
    says(c, "persistence", "warning", "loses all locks");
    says(c, "idle-timeout", "warning", "5 s");
    says(c, "keepalive", "warning", "never");
    says(c, "busy-scripts", "warning", "never");
    says(c, "output-buffers", "warning", "pubsub 1024 bytes");
    command_free(c);
    admin = raw_open(served);
}

/* Less than 2 KB more of SLOWLOG GET. */
static void adds_to_the_slow_log(void)
{
    char word[129];
    memset(word, 'x', sizeof word);
    word[128] = '\0';
    raw(admin, "CONFIG SET slowlog-log-slower-than 0");
    for (int i = 0; i < 2; i++)
        raw(admin, "DEL %s0 %s1 %s2 %s3 %s4 %s5", word, word, word, word, word, word);
    raw(admin, "CONFIG SET slowlog-log-slower-than 10000000");
}

/* A server looks at its limits when it begins another block of replies, of 16 KB: in one of the rounds at the answers
 * to SUBSCRIBE, 2 KB with such a prefix. */
Test(doctor, has_no_replies_pending_while_it_is_a_subscriber)
{
    char prefix[401];
    memset(prefix, 'p', sizeof prefix);
    prefix[400] = '\0';
    SERVE(SERVER_TCP, "--client-output-buffer-limit", "pubsub 32768 32768 1");
    for (int i = 0; i < 9; i++) {
        struct command *c = COMMAND("doctor", "-q", prefix);
        cr_assert_eq(command_end(c), 1, "round %d: %s", i, c->text[OUT]);
        says(c, "output-buffers", "warning", "pubsub 32768 bytes");
        command_free(c);
        adds_to_the_slow_log();
    }
}

Test(doctor, finds_a_server_that_is_nearly_full_or_full)
{
    redisContext *others[16];
    SERVE(SERVER_TCP, "--maxclients", "20");
    for (int i = 0; i < 16; i++)
        others[i] = raw_open(served);
    WAIT_FOR(raw_stat(admin, "connected_clients") == 17);
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 1, "%s", c->text[OUT]);
    says(c, "clients", "warning", "18 of 20");
    command_free(c);
    WAIT_FOR(raw_stat(admin, "connected_clients") == 17);
    raw(admin, "CONFIG SET maxclients 17");
    c = COMMAND("doctor");
    cr_assert_eq(command_end(c), 69, "%s", c->text[OUT]);
    says(c, "connection", "problem", "max number of clients");
    command_free(c);
    raw(admin, "CONFIG SET maxclients 20");
    for (int i = 0; i < 16; i++)
        redisFree(others[i]);
}

Test(doctor, finds_a_replica_and_names_its_master)
{
    char port[16], words[64];
    SERVE(SERVER_TCP, NULL);
    snprintf(port, sizeof port, "%d", served->port);
    struct server *replica =
        server_start(SERVER_NOACL | SERVER_TCP, (const char *const[]){ "--replicaof", "127.0.0.1", port, NULL });
    WAIT_FOR(raw_stat(admin, "connected_slaves") == 1);
    struct command *c = COMMAND("doctor", "-u", replica->url);
    cr_assert_eq(command_end(c), 2, "%s", c->text[OUT]);
    snprintf(words, sizeof words, "redis://127.0.0.1:%d", served->port);
    says(c, "role", "problem", words);
    command_free(c);
    c = COMMAND("doctor");
    cr_assert_eq(command_end(c), 1, "%s", c->text[OUT]);
    is_within_80_columns(c->text[OUT]);
    says(c, "replication", "", "1 replica, ");
    command_free(c);
    server_stop(replica);
}

Test(doctor, finds_a_node_of_a_cluster)
{
    char url[128];
    int port, held = port_reserve(&port);
    SERVE(SERVER_TCP | SERVER_AOF, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf");
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 2, "%s", c->text[OUT]);
    says(c, "topology", "problem", "redis+cluster://");
    command_free(c);
    cr_assert_str_eq(raw(admin, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    WAIT_FOR(strstr(raw(admin, "CLUSTER INFO"), "cluster_state:ok"));
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d", port, served->port);
    c = COMMAND("doctor", "-u", url, "app:");
    cr_assert_eq(command_end(c), 1, "%s", c->text[OUT]);
    says(c, "topology", "note", "state ok");
    says(c, "connection", "warning", "1 of the URL's hosts");
    says(c, "rights", "ok", "all that are needed");
    says(c, "rights-cluster", "ok", "all that are needed");
    command_free(c);
    cr_assert_str_eq(raw(admin, "ACL SETUSER bob on >pw allkeys allchannels +@all -asking -cluster -spublish"), "OK");
    snprintf(url, sizeof url, "redis+cluster://bob:pw@127.0.0.1:%d", served->port);
    c = COMMAND("doctor", "-q", "-u", url);
    cr_assert_eq(command_end(c), 2, "%s", c->text[OUT]);
    says(c, "rights-cluster", "problem", "ACL SETUSER bob +asking +cluster|slots +cluster|info +spublish");
    command_free(c);
    close(held);
}

static bool answers(int port)
{
    redisContext *context = redisConnect("127.0.0.1", port);
    redisReply *reply = context && !context->err ? redisCommand(context, "PING") : NULL;
    bool pong = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    redisFree(context);
    return pong;
}

static struct command *start_sentinel(int port, int master)
{
    char path[96];
    snprintf(path, sizeof path, "%s/sentinel.conf", served->dir);
    FILE *conf = fopen(path, "w");
    cr_assert_not_null(conf);
    fprintf(conf, "bind 127.0.0.1\nport %d\ndir %s\nsentinel monitor main 127.0.0.1 %d 1\n", port, served->dir, master);
    fclose(conf);
    struct command *sentinel = command_start((const char *const[]){ "redis-server", path, "--sentinel", NULL });
    WAIT_FOR(answers(port));
    return sentinel;
}

Test(doctor, asks_sentinels_for_the_master)
{
    char url[128];
    int ports[2], held[2] = { port_reserve(&ports[0]), port_reserve(&ports[1]) };
    SERVE(SERVER_TCP | SERVER_AOF, NULL);
    struct command *sentinel = start_sentinel(ports[0], served->port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main", ports[0]);
    struct command *c = COMMAND("doctor", "-u", url);
    cr_assert_eq(command_end(c), 0, "%s%s", c->text[OUT], c->text[ERR]);
    is_within_80_columns(c->text[OUT]);
    says(c, "sentinels", "ok", "1 of 1 name 127.0.0.1:");
    says(c, "role", "ok", "master");
    command_free(c);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/main", ports[1], ports[0]);
    c = COMMAND("doctor", "-q", "-u", url);
    cr_assert_eq(command_end(c), 1, "%s%s", c->text[OUT], c->text[ERR]);
    says(c, "sentinels", "warning", "1 of 2 name 127.0.0.1:");
    command_free(c);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/other", ports[0]);
    c = COMMAND("doctor", "-q", "-u", url);
    cr_assert_eq(command_end(c), 69, "%s%s", c->text[OUT], c->text[ERR]);
    says(c, "sentinels", "problem", "none knows \"other\"");
    command_free(c);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main", ports[1]);
    c = COMMAND("doctor", "-q", "-u", url);
    cr_assert_eq(command_end(c), 69, "%s%s", c->text[OUT], c->text[ERR]);
    says(c, "sentinels", "problem", "none of 1 answers: Connection refused");
    command_free(c);
    /* its own address is no server for locks */
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", ports[0]);
    c = COMMAND("doctor", "-q", "-u", url);
    cr_assert_eq(command_end(c), 2, "%s%s", c->text[OUT], c->text[ERR]);
    says(c, "role", "problem", "sentinel");
    command_free(c);
    command_free(sentinel);
    close(held[0]);
    close(held[1]);
}

/* A Sentinel subscribes to this channel of each server that it monitors. */
Test(doctor, finds_sentinels)
{
    SERVE(SERVER_TCP, NULL);
    redisContext *sentinel = raw_open(served);
    raw(sentinel, "SUBSCRIBE __sentinel__:hello");
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 1, "%s", c->text[OUT]);
    says(c, "topology", "warning", "redis+sentinel://");
    command_free(c);
    redisFree(sentinel);
}

Test(doctor, finds_a_command_that_took_long)
{
    SERVE(SERVER_TCP, "--enable-debug-command", "yes");
    cr_assert_str_eq(raw(admin, "DEBUG SLEEP 0.5"), "OK");
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 1, "%s", c->text[OUT]);
    says(c, "slow-commands", "warning", "ms: DEBUG");
    command_free(c);
}

Test(doctor, finds_a_database_that_is_not_there)
{
    char url[200];
    SERVE(SERVER_TCP, NULL);
    snprintf(url, sizeof url, "%s/99", served->url);
    struct command *c = COMMAND("doctor", "-q", "-u", url);
    cr_assert_eq(command_end(c), 2, "%s", c->text[OUT]);
    says(c, "database", "problem", "database 99");
    command_free(c);
}

/* --- the clock */

static struct step_clock *start_with_a_clock(void)
{
    char path[] = "/tmp/hlk-test-clock-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && ftruncate(fd, sizeof(struct step_clock)) == 0);
    struct step_clock *clock = mmap(NULL, sizeof *clock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(clock != MAP_FAILED);
    close(fd);
    setenv(STEP_CLOCK_FILE, path, 1);
    setenv("LD_PRELOAD", HLK_STEP_CLOCK_PATH, 1);
    SERVE(SERVER_TCP | SERVER_AOF, NULL);
    unsetenv("LD_PRELOAD");
    unlink(path);
    return clock;
}

Test(doctor, finds_a_clock_that_is_off)
{
    struct step_clock *clock = start_with_a_clock();
    clock->ahead_ns = 600 * INT64_C(1000000000);
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 1, "%s", c->text[OUT]);
    says(c, "clock-offset", "warning", "the server's clock is 600.0");
    cr_assert_str_empty(finding(c->text[OUT], "clock-rate"));
    command_free(c);
}

Test(doctor, finds_a_clock_that_runs_fast)
{
    struct step_clock *clock = start_with_a_clock();
    clock->since_ns = test_now_ns(); /* CLOCK_BOOTTIME: the first reading is off, the rate is not */
    clock->faster_ppm = 100000;
    struct command *c = COMMAND("doctor", "-q");
    cr_assert_eq(command_end(c), 2, "%s", c->text[OUT]);
    says(c, "clock-rate", "problem", "leases end early");
    command_free(c);
}

/* The step comes while the clock is watched: after the first answers, before the last. */
Test(doctor, finds_a_clock_that_is_set_meanwhile)
{
    struct step_clock *clock = start_with_a_clock();
    struct command *c = COMMAND("doctor", "-q");
    WAIT_FOR(strstr(raw(admin, "INFO commandstats"), "cmdstat_time:calls=8,"));
    clock->ahead_ns = -3 * INT64_C(1000000000);
    cr_assert_eq(command_end(c), 2, "%s", c->text[OUT]);
    says(c, "clock-rate", "problem", "gained -");
    command_free(c);
}

/* --- rights */

/* The lines of the text that are commands, each given to the server. */
static int run_lines(const char *text)
{
    int n = 0;
    for (const char *at = strstr(text, "ACL SETUSER "); at; at = strstr(at + 1, "ACL SETUSER ")) {
        char line[128], *save = NULL;
        const char *words[64];
        int count = 0;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        for (char *word = strtok_r(line, " ", &save); word && count < 64; word = strtok_r(NULL, " ", &save))
            words[count++] = word;
        cr_assert_str_eq(raw_argv(admin, count, words, NULL), "OK");
        n++;
    }
    return n;
}

Test(doctor, prints_the_lines_that_grant_what_is_missing)
{
    char url[128];
    SERVE(SERVER_TCP | SERVER_AOF, NULL);
    raw(admin, "ACL SETUSER bob on >pw resetkeys resetchannels -@all ~app:* +info");
    snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", served->port);
    struct command *c = COMMAND("doctor", "-u", url, "--fair", "--fenced", "--string", "app:");
    cr_assert_eq(command_end(c), 2, "%s", c->text[ERR]);
    is_within_80_columns(c->text[OUT]);
    says(c, "rights", "problem", "ACL SETUSER bob ");
    says(c, "rights-fair", "problem", "~redisson_lock_timeout:{app:*");
    says(c, "rights-fenced", "problem", "+incrby");
    says(c, "rights-string", "problem", "+getrange");
    says(c, "rights-list", "note", "+scan");
    says(c, "idle-timeout", "note", "this user may not run CONFIG GET");
    cr_assert_gt(run_lines(c->text[OUT]), 6);
    command_free(c);
    c = COMMAND("doctor", "-u", url, "--fair", "--fenced", "--string", "app:");
    cr_assert_eq(command_end(c), 0, "%s", c->text[OUT]);
    says(c, "rights-fair", "ok", "all that are needed");
    command_free(c);
    cr_assert_eq(RUN("run", "-u", url, "-n", "app:1", "--", "true"), 0);
    cr_assert_eq(RUN("run", "-u", url, "-n", "--fair", "app:2", "--", "true"), 0);
    cr_assert_eq(RUN("run", "-u", url, "-n", "--string", "app:3", "--", "true"), 0);
}

Test(doctor, needs_no_pubsub_for_spin_locks)
{
    char url[128];
    SERVE(SERVER_TCP | SERVER_AOF, NULL);
    raw(admin, "ACL SETUSER bob on >pw allkeys allchannels +@all -subscribe -publish");
    snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", served->port);
    cr_assert_eq(RUN("doctor", "-u", url), 2);
    cr_assert_eq(RUN("doctor", "--spin", "-u", url), 0);
}

Test(doctor, that_cannot_log_in_exits_with_77)
{
    char url[128];
    SERVE(SERVER_TCP, NULL);
    raw(admin, "CONFIG SET requirepass secret");
    snprintf(url, sizeof url, "redis://:wrong@127.0.0.1:%d", served->port);
    struct command *c = COMMAND("doctor", "-u", url);
    cr_assert_eq(command_end(c), 77, "%s", c->text[ERR]);
    says(c, "login", "problem", "wrong user or password");
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    cr_assert_null(strstr(c->text[ERR], "wrong@"), "%s", c->text[ERR]);
    command_free(c);
    c = COMMAND("doctor");
    cr_assert_eq(command_end(c), 77, "%s", c->text[ERR]);
    says(c, "login", "problem", "NOAUTH");
    command_free(c);
    raw(admin, "CONFIG SET requirepass %s", "");
}

/* --- no server */

Test(doctor, of_nobody_exits_with_69)
{
    char url[64];
    int port, held = port_reserve(&port);
    SERVE(0, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    struct command *c = COMMAND("doctor", "-u", url);
    cr_assert_eq(command_end(c), 69, "%s", c->text[ERR]);
    says(c, "connection", "problem", "Connection refused");
    cr_assert_not_null(strstr(c->text[ERR], "no server at redis://127.0.0.1"), "%s", c->text[ERR]);
    cr_assert_eq(count_lines(c->text[ERR]), 1, "%s", c->text[ERR]);
    command_free(c);
    close(held);
}

static void *answer_as_a_web_server(void *arg)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    char request[512];
    int fd = accept(*(int *)arg, NULL, NULL);
    if (read(fd, request, sizeof request) > 0)
        (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

Test(doctor, of_another_server_than_redis_exits_with_69)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    pthread_t thread;
    char url[64];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SERVE(0, NULL);
    cr_assert(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    cr_assert_eq(pthread_create(&thread, NULL, answer_as_a_web_server, &listener), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", ntohs(address.sin_port));
    struct command *c = COMMAND("doctor", "-u", url);
    cr_assert_eq(command_end(c), 69, "%s", c->text[OUT]);
    says(c, "connection", "problem", "no reply of a Redis server");
    command_free(c);
    pthread_join(thread, NULL);
    close(listener);
}

Test(doctor, refuses_wrong_words)
{
    char prefix[402];
    SERVE(0, NULL);
    memset(prefix, 'a', 401);
    prefix[401] = '\0';
    cr_assert_eq(RUN("doctor", prefix), 64);
    cr_assert_eq(RUN("doctor", "a", "b"), 64);
    cr_assert_eq(RUN("doctor", "--nonblock"), 64);
    cr_assert_eq(RUN("doctor", "-u", "nonsense"), 64);
}

Test(doctor, says_when_stdout_takes_nothing)
{
    SERVE(0, NULL);
    cr_assert_eq(command_code(command_start((const char *const[]){ "sh", "-c", HASPLOCK " doctor >/dev/full", NULL })),
                 74);
}
