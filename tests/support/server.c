#include "support/server.h"

#include "script/table.h"
#include "support/acl.h"
#include "support/port.h"
#include "support/raw.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 160 };

static void show_log(const struct server *server)
{
    char path[96], line[512];
    snprintf(path, sizeof path, "%s/log", server->dir);
    FILE *log = fopen(path, "r");
    if (!log)
        return;
    while (fgets(line, sizeof line, log))
        fprintf(stderr, "redis-server: %s", line);
    fclose(log);
}

static _Noreturn void become_server(const struct server *server, char *const *argv, pid_t parent)
{
    char path[96];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* the test died before prctl */
    snprintf(path, sizeof path, "%s/log", server->dir);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600), null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    for (int fd = 3; fd < 256; fd++) /* the server must not keep the runner's pipes open */
        close(fd);
    execvp(argv[0], argv);
    _exit(127);
}

static bool takes_extra(const struct server *server) /* on its command line */
{
    return server->extra && !(server->flags & SERVER_SENTINEL);
}

/* The server's command line. Its texts live as long as the caller's buffers. */
static void build_args(const struct server *server, char *port, size_t port_size, char *rules, size_t rules_size,
                       const char **argv)
{
    static char tls_port[16];
    size_t n = 0;
    const char *program = getenv("HLK_TEST_SERVER");
    argv[n++] = program && *program ? program : "redis-server";
    if (server->flags & SERVER_SENTINEL) {
        argv[n++] = server->conf;
        argv[n++] = "--sentinel";
    }
    const char *fixed[] = { "--unixsocket",
                            server->socket,
                            "--unixsocketperm",
                            "700",
                            "--save",
                            "",
                            "--dir",
                            server->dir,
                            "--bind",
                            "127.0.0.1",
                            "--port",
                            port,
                            "--appendonly",
                            server->flags & SERVER_AOF ? "yes" : "no",
                            "--appendfsync",
                            "always",
                            "--loglevel",
                            "notice",
                            "--io-threads",
                            "1" };
    snprintf(port, port_size, "%d", server->port);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        argv[n++] = fixed[i];
    if (server->acl) {
        argv[n++] = "--requirepass";
        argv[n++] = SERVER_ADMIN_PASSWORD;
        argv[n++] = "--user";
        argv[n++] = ACL_USER;
        argv[n++] = "on";
        argv[n++] = ">" ACL_PASSWORD;
        snprintf(rules, rules_size, "%s", ACL_RULES);
        char *save = NULL;
        for (char *word = strtok_r(rules, " ", &save); word && n < MAX_ARGS - 1; word = strtok_r(NULL, " ", &save))
            argv[n++] = word;
    }
    if (server->tls_port) {
        const char *const tls[] = { "--tls-port",         tls_port,
                                    "--tls-cert-file",    certs_file(&server->certs, "server.pem"),
                                    "--tls-key-file",     certs_file(&server->certs, "server.key"),
                                    "--tls-ca-cert-file", certs_file(&server->certs, "ca.pem"),
                                    "--tls-auth-clients", "optional" };
        snprintf(tls_port, sizeof tls_port, "%d", server->tls_port);
        for (size_t i = 0; i < sizeof tls / sizeof *tls; i++)
            argv[n++] = tls[i];
    }
    for (const char *const *more = server->extra; takes_extra(server) && *more && n < MAX_ARGS - 1; more++)
        argv[n++] = *more;
    argv[n] = NULL;
}

/* The file is the sentinel's from then on: it writes what it learns. */
static void write_conf(struct server *server)
{
    snprintf(server->conf, sizeof server->conf, "%s/conf", server->dir);
    FILE *file = fopen(server->conf, "w");
    for (const char *const *line = server->extra; file && line && *line; line++)
        fprintf(file, "%s\n", *line);
    if (!file || fclose(file) != 0)
        test_give_up("%s: %s", server->conf, strerror(errno));
}

static bool still_runs(struct server *server)
{
    if (server->pid > 0 && waitpid(server->pid, NULL, WNOHANG) == server->pid)
        server->pid = 0;
    return server->pid > 0;
}

static bool is_in_cluster(const struct server *server)
{
    for (const char *const *word = server->extra; word && *word; word++)
        if (strcmp(*word, "--cluster-enabled") == 0)
            return true;
    return false;
}

/* As other clients of before would have left it, and without a record of how long that took. */
static void teach_scripts(const struct server *server, redisContext *redis)
{
    const struct hlk_script_text *table = is_in_cluster(server) ? hlk_script_sharded_table : hlk_script_table;
    redisReply *reply;
    if (server->acl || server->flags & (SERVER_SENTINEL | SERVER_COLD) || getenv("HLK_TEST_COLD"))
        return;
    for (int i = 0; i < HLK_SCRIPT_COUNT; i++)
        redisAppendCommand(redis, "SCRIPT LOAD %b", table[i].text, table[i].len);
    redisAppendCommand(redis, "SLOWLOG RESET");
    for (int i = 0; i <= HLK_SCRIPT_COUNT && redisGetReply(redis, (void **)&reply) == REDIS_OK; i++)
        freeReplyObject(reply);
}

static bool answers_ping(const struct server *server)
{
    redisContext *redis = redisConnectUnix(server->socket);
    bool pong = false;
    if (redis && !redis->err) {
        struct timeval limit = { 1, 0 };
        redisSetTimeout(redis, limit);
        if (server->acl)
            freeReplyObject(redisCommand(redis, "AUTH %s", SERVER_ADMIN_PASSWORD));
        redisReply *reply = redisCommand(redis, "PING");
        pong = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (pong)
            teach_scripts(server, redis);
    }
    redisFree(redis);
    return pong;
}

static void start(struct server *server)
{
    const char *argv[MAX_ARGS];
    char port[16], rules[2048];
    build_args(server, port, sizeof port, rules, sizeof rules, argv);
    unlink(server->socket);
    fflush(NULL);
    pid_t parent = getpid();
    server->pid = fork();
    if (server->pid < 0)
        test_give_up("fork: %s", strerror(errno));
    if (server->pid == 0)
        become_server(server, (char *const *)(uintptr_t)argv, parent);
    int64_t give_up = test_now_ms() + WAIT_MS;
    while (still_runs(server) && test_now_ms() < give_up) {
        if (answers_ping(server))
            return;
        test_sleep_ms(2);
    }
    server_kill(server);
    show_log(server);
    test_give_up("redis-server in %s does not come up", server->dir);
}

static void set_up_tls(struct server *server)
{
    bool user = server->acl;
    certs_make(&server->certs, server->dir);
    server->tls_port_held = port_reserve(&server->tls_port);
    snprintf(server->tls_url, sizeof server->tls_url, "rediss://%s%s%s%s127.0.0.1:%d", user ? ACL_USER : "",
             user ? ":" : "", user ? ACL_PASSWORD : "", user ? "@" : "", server->tls_port);
}

struct server *server_start(unsigned flags, const char *const *extra)
{
    const char *over_tls = getenv("HLK_TEST_TLS");
    bool all_tls = over_tls && strcmp(over_tls, "1") == 0;
    struct server *server = calloc(1, sizeof *server);
    const char *acl = getenv("HLK_TEST_ACL"), *tmp = getenv("TMPDIR");
    server->acl = acl && strcmp(acl, "1") == 0 && !(flags & SERVER_NOACL);
    server->flags = flags;
    server->extra = extra;
    int len = snprintf(server->dir, sizeof server->dir, "%s/hlk-test-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (len < 0 || !mkdtemp(server->dir))
        test_give_up("mkdtemp: %s", strerror(errno));
    snprintf(server->socket, sizeof server->socket, "%s/s", server->dir);
    if (flags & SERVER_SENTINEL)
        write_conf(server);
    server->port_held = flags & (SERVER_TCP | SERVER_SENTINEL) || server->acl ? port_reserve(&server->port) : -1;
    server->tls_port_held = -1;
    if (flags & SERVER_TLS || all_tls)
        set_up_tls(server);
    start(server);
    snprintf(server->unix_url, sizeof server->unix_url, "unix:%s", server->socket);
    if (server->acl)
        snprintf(server->url, sizeof server->url, "redis://%s:%s@127.0.0.1:%d", ACL_USER, ACL_PASSWORD, server->port);
    else if (flags & SERVER_TCP)
        snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d", server->port);
    else
        snprintf(server->url, sizeof server->url, "%s", server->unix_url);
    if (all_tls) {
        snprintf(server->url, sizeof server->url, "%s", server->tls_url);
        certs_trust(&server->certs);
    }
    return server;
}

const char *hlk_test_url(const struct server *server)
{
    return server->url;
}

void server_kill(struct server *server)
{
    if (!still_runs(server))
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

void server_pause(struct server *server)
{
    int status;
    if (server->pid <= 0) /* 0 and -1 would mean many processes */
        test_give_up("there is no redis-server to stand still");
    kill(server->pid, SIGSTOP);
    while (waitpid(server->pid, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
    if (!WIFSTOPPED(status))
        test_give_up("redis-server ended when it was to stand still");
}

void server_resume(struct server *server)
{
    if (server->pid > 0)
        kill(server->pid, SIGCONT);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

void server_restart(struct server *server, bool keep_data)
{
    static const char *const kept[] = { "appendonlydir", "appendonly.aof" }; /* the second is for Redis 6.2 */
    char aof[96];
    server_kill(server);
    for (size_t i = 0; !keep_data && i < sizeof kept / sizeof *kept; i++) {
        snprintf(aof, sizeof aof, "%s/%s", server->dir, kept[i]);
        nftw(aof, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
    start(server);
}

void server_allow(struct server *server, const char *glob)
{
    size_t len = strlen(server->allowed);
    snprintf(server->allowed + len, sizeof server->allowed - len, "%s ", glob);
}

static bool is_allowed(const struct server *server, const char *key)
{
    char globs[sizeof server->allowed], *save = NULL;
    memcpy(globs, server->allowed, sizeof globs);
    for (char *glob = strtok_r(globs, " ", &save); glob; glob = strtok_r(NULL, " ", &save))
        if (fnmatch(glob, key, 0) == 0)
            return true;
    return false;
}

/* For the patterns a queue without waiters is "tombstones:<key>". */
static bool is_allowed_void(const struct server *server, redisContext *redis, const char *key)
{
    char as[700];
    redisReply *waiters = redisCommand(redis, "ZCOUNT %s 1 1e15", key);
    bool none = waiters && waiters->type == REDIS_REPLY_INTEGER && waiters->integer == 0;
    freeReplyObject(waiters);
    snprintf(as, sizeof as, "tombstones:%s", key);
    return none && is_allowed(server, as);
}

/* "": nothing is left. */
static void look(const struct server *server, redisContext *redis, char *text, size_t size)
{
    redisReply *keys = redisCommand(redis, "KEYS *"), *channels = redisCommand(redis, "PUBSUB CHANNELS");
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; keys && i < keys->elements && len < size; i++)
        if (!is_allowed(server, keys->element[i]->str) && !is_allowed_void(server, redis, keys->element[i]->str))
            len += (size_t)snprintf(text + len, size - len, " key %s", keys->element[i]->str);
    for (size_t i = 0; channels && i < channels->elements && len < size; i++)
        if (strcmp(channels->element[i]->str, "__sentinel__:hello") != 0) /* a sentinel's, not ours */
            len += (size_t)snprintf(text + len, size - len, " channel %s", channels->element[i]->str);
    if (!keys || !channels)
        snprintf(text, size, " no answer from the server");
    freeReplyObject(keys);
    freeReplyObject(channels);
}

const char *server_leftovers(struct server *server)
{
    static _Thread_local char text[512];
    redisContext *redis = raw_open(server);
    int64_t give_up = test_now_ms() + WAIT_MS;
    freeReplyObject(redisCommand(redis, "READONLY")); /* a replica in a cluster answers then; elsewhere an error */
    look(server, redis, text, sizeof text);
    while (text[0] && test_now_ms() < give_up) {
        test_sleep_ms(2);
        look(server, redis, text, sizeof text);
    }
    redisFree(redis);
    return text[0] ? text : NULL;
}

void server_stop(struct server *server)
{
    if (!server)
        return;
    server_kill(server);
    if (server->port_held >= 0)
        close(server->port_held);
    if (server->tls_port_held >= 0)
        close(server->tls_port_held);
    nftw(server->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(server);
}

void server_finish(struct server *server)
{
    char text[512] = "";
    if (server && still_runs(server)) {
        const char *left = server_leftovers(server);
        snprintf(text, sizeof text, "%s", left ? left : "");
    }
    server_stop(server);
    if (text[0])
        test_give_up("left on the server:%s", text);
}
