/* TLS: what is accepted, what is refused and with which words, files that change, and that locks work over it. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct server *server;

static void start(void)
{
    fixture_begin(SERVER_TCP | SERVER_TLS);
    server = fixture.server;
    server_allow(server, SERVER_TOMBSTONES); /* connections are killed */
    unsetenv("SSL_CERT_FILE");
}

TestSuite(tls, .init = start, .fini = fixture_end, .timeout = 60);

static const char *file(const char *name)
{
    return certs_file(&server->certs, name);
}

static struct hlk_client_opts with_ca(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.tls_ca_file = file("ca.pem");
    opts.reconnect_timeout_ms = 5000; /* reading the system's CAs takes a while under a sanitizer */
    return opts;
}

static char *url_of(const char *host)
{
    static char url[200];
    const char *user = strchr(server->tls_url, '@');
    int len = user ? (int)(user + 1 - server->tls_url) : (int)strlen("rediss://");
    snprintf(url, sizeof url, "%.*s%s:%d", len, server->tls_url, host, server->tls_port);
    return url;
}

static void refused(const char *url, const struct hlk_client_opts *opts, enum hlk_status status, const char *words)
{
    hlk_client *client;
    cr_assert_eq(hlk_client_open(&client, url, opts), status, "%s", hlk_last_error());
    cr_assert_not_null(strstr(hlk_last_error(), words), "\"%s\" is not in: %s", words, hlk_last_error());
}

static void replace_certificate(const char *name)
{
    redisContext *redis = raw_open(server);
    char path[2][160];
    snprintf(path[0], sizeof path[0], "%s.pem", name);
    snprintf(path[1], sizeof path[1], "%s.key", name);
    redisReply *reply =
        redisCommand(redis, "CONFIG SET tls-cert-file %s tls-key-file %s", file(path[0]), file(path[1]));
    cr_assert(reply && reply->type == REDIS_REPLY_STATUS, "%s", reply ? reply->str : "no answer");
    freeReplyObject(reply);
    redisFree(redis);
}

/* --- accepted --- */

static void use(hlk_client *client)
{
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(tls, server_whose_certificate_names_the_host_is_used)
{
    struct hlk_client_opts opts = with_ca();
    use(fixture_open_at(url_of("localhost"), &opts));
}

Test(tls, server_whose_certificate_names_the_address_is_used)
{
    struct hlk_client_opts opts = with_ca();
    use(fixture_open_at(url_of("127.0.0.1"), &opts));
}

Test(tls, trust_is_the_systems_unless_a_file_is_given)
{
    struct hlk_client_opts opts = with_ca();
    opts.tls_ca_file = NULL;
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "the CA of the server's certificate is not trusted");
    setenv("SSL_CERT_FILE", file("ca.pem"), 1);
    use(fixture_open_at(url_of("localhost"), &opts));
}

Test(tls, self_signed_certificate_is_trusted_as_its_own_ca)
{
    certs_add(&server->certs, &(struct cert_wish){ .name = "own", .alt = "DNS:localhost", .ca = "" });
    replace_certificate("own");
    struct hlk_client_opts opts = with_ca();
    opts.tls_ca_file = file("own.pem");
    use(fixture_open_at(url_of("localhost"), &opts));
}

Test(tls, name_may_be_another_one_than_the_urls)
{
    certs_add(&server->certs, &(struct cert_wish){ .name = "other", .alt = "DNS:redis.test" });
    replace_certificate("other");
    struct hlk_client_opts opts = with_ca();
    opts.tls_server_name = "redis.test";
    use(fixture_open_at(url_of("127.0.0.1"), &opts));
}

static void require_certificate(const char *value)
{
    redisContext *redis = raw_open(server);
    freeReplyObject(redisCommand(redis, "CONFIG SET tls-auth-clients %s", value));
    redisFree(redis);
}

Test(tls, clients_certificate_lets_it_in)
{
    require_certificate("yes");
    certs_add(&server->certs, &(struct cert_wish){ .name = "client" });
    struct hlk_client_opts opts = with_ca();
    opts.tls_cert_file = file("client.pem");
    opts.tls_key_file = file("client.key");
    use(fixture_open_at(url_of("localhost"), &opts));
}

/* --- refused --- */

Test(tls, expired_certificate_is_refused)
{
    certs_add(&server->certs,
              &(struct cert_wish){
                  .name = "old", .alt = "DNS:localhost", .from = "20200101000000Z", .to = "20210304050607Z" });
    replace_certificate("old");
    struct hlk_client_opts opts = with_ca();
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "has expired (2021-03-04 05:06:07 UTC)");
}

Test(tls, certificate_of_the_future_is_refused)
{
    certs_add(&server->certs,
              &(struct cert_wish){
                  .name = "young", .alt = "DNS:localhost", .from = "20900101000000Z", .to = "20910101000000Z" });
    replace_certificate("young");
    struct hlk_client_opts opts = with_ca();
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "not valid yet (from 2090-01-01 00:00:00 UTC on)");
}

Test(tls, certificate_of_another_host_is_refused)
{
    certs_add(&server->certs, &(struct cert_wish){ .name = "other", .alt = "DNS:redis.test,IP:10.1.2.3" });
    replace_certificate("other");
    struct hlk_client_opts opts = with_ca();
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "is for redis.test, 10.1.2.3, and not for \"localhost\"");
    refused(url_of("127.0.0.1"), &opts, HLK_E_AUTH, "and not for \"127.0.0.1\"");
}

Test(tls, self_signed_certificate_is_refused)
{
    certs_add(&server->certs, &(struct cert_wish){ .name = "own", .alt = "DNS:localhost", .ca = "" });
    replace_certificate("own");
    struct hlk_client_opts opts = with_ca();
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "self-signed");
}

Test(tls, certificate_of_another_ca_is_refused)
{
    struct certs others;
    char dir[100];
    snprintf(dir, sizeof dir, "mkdir %s/x", server->dir);
    cr_assert_eq(system(dir), 0);
    snprintf(dir, sizeof dir, "%s/x", server->dir);
    certs_make(&others, dir);
    struct hlk_client_opts opts = with_ca();
    opts.tls_ca_file = certs_file(&others, "ca.pem");
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "TLS: the ");
    cr_assert(strstr(hlk_last_error(), "not trusted") || strstr(hlk_last_error(), "signature"), "%s", hlk_last_error());
}

Test(tls, revoked_certificate_is_refused)
{
    struct hlk_client_opts opts = with_ca();
    certs_revoke(&server->certs, NULL, "crl.pem");
    opts.tls_crl_file = file("crl.pem");
    use(fixture_open_at(url_of("localhost"), &opts));
    certs_revoke(&server->certs, "server", "crl2.pem");
    opts.tls_crl_file = file("crl2.pem");
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "is revoked");
}

Test(tls, missing_client_certificate_is_told)
{
    require_certificate("yes");
    struct hlk_client_opts opts = with_ca();
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "may require a client certificate");
}

Test(tls, client_certificate_of_another_ca_is_refused)
{
    require_certificate("yes");
    certs_add(&server->certs, &(struct cert_wish){ .name = "client", .ca = "" });
    struct hlk_client_opts opts = with_ca();
    opts.tls_cert_file = file("client.pem");
    opts.tls_key_file = file("client.key");
    refused(url_of("localhost"), &opts, HLK_E_AUTH, "the server refuses the client's certificate");
}

Test(tls, server_without_tls_is_named)
{
    char url[100];
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d", server->port);
    struct hlk_client_opts opts = with_ca();
    opts.reply_timeout_ms = 200;
    hlk_client *client;
    cr_assert_eq(hlk_client_open(&client, url, &opts), HLK_E_CONNECT);
    cr_assert(strstr(hlk_last_error(), "does not speak TLS") || strstr(hlk_last_error(), "a port without TLS?"), "%s",
              hlk_last_error());
}

Test(tls, port_for_tls_is_named_to_a_plain_client)
{
    char url[100];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server->tls_port);
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 300;
    refused(url, &opts, HLK_E_CONNECT, "a port for TLS?");
}

Test(tls, options_without_tls_are_refused)
{
    struct hlk_client_opts opts = with_ca();
    refused(server->url, &opts, HLK_E_INVALID, "tls_");
    opts.tls_ca_file = NULL;
    opts.tls_key_file = "x";
    refused(server->tls_url, &opts, HLK_E_INVALID, "tls_key_file");
}

Test(tls, files_that_cannot_be_used_are_named)
{
    struct hlk_client_opts opts = with_ca();
    opts.tls_ca_file = "/nowhere/ca.pem";
    refused(server->tls_url, &opts, HLK_E_AUTH, "the CA file \"/nowhere/ca.pem\" cannot be used");
    opts = with_ca();
    opts.tls_cert_file = file("ca.key");
    refused(server->tls_url, &opts, HLK_E_AUTH, "the client's certificate");
    opts.tls_cert_file = file("server.pem");
    opts.tls_key_file = file("ca.key");
    refused(server->tls_url, &opts, HLK_E_AUTH, "the client's key");
    opts = with_ca();
    opts.tls_crl_file = file("ca.key");
    refused(server->tls_url, &opts, HLK_E_AUTH, "the CRL file");
}

/* --- change --- */

Test(tls, files_are_read_again_after_a_change)
{
    struct hlk_client_opts opts = with_ca();
    char trusted[160], command[800];
    snprintf(trusted, sizeof trusted, "%s", file("trusted.pem"));
    snprintf(command, sizeof command, "cp %s %s", file("ca.pem"), trusted);
    cr_assert_eq(system(command), 0);
    opts.tls_ca_file = trusted;
    opts.reconnect_timeout_ms = 10000;
    hlk_client *client = fixture_open_at(url_of("localhost"), &opts);
    use(client);
    certs_add(&server->certs, &(struct cert_wish){ .name = "own", .alt = "DNS:localhost", .ca = "" });
    snprintf(command, sizeof command, "cp %s %s.new && mv %s.new %s", file("own.pem"), trusted, trusted, trusted);
    cr_assert_eq(system(command), 0);
    replace_certificate("own");
    redisContext *redis = raw_open(server);
    freeReplyObject(redisCommand(redis, "CLIENT KILL TYPE normal SKIPME yes"));
    redisFree(redis);
    use(client);
}

/* --- the whole of it --- */

Test(tls, waiters_are_woken_and_holds_are_renewed)
{
    struct hlk_client_opts opts = with_ca();
    opts.watchdog_ms = 1500;
    hlk_client *one = fixture_open_at(server->tls_url, &opts), *two = fixture_open_at(server->tls_url, &opts);
    hlk_lock *held = fixture_lock(one, "t", NULL), *wanted = fixture_lock(two, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(held, HLK_NOWAIT), HLK_OK);
    struct actor *actor = actor_start_wait(wanted, HLK_FOREVER);
    redisContext *redis = raw_open(server);
    WAIT_FOR(fixture_counters(one).renewals >= 2);
    WAIT_FOR(raw_int(redis, "ZCOUNT hasplock_queue:{t} 1 1e15") == 1);
    redisFree(redis);
    cr_assert_not(actor_answered(actor));
    cr_assert_eq(hlk_lock_release(held), HLK_OK);
    cr_assert_eq(actor_status(actor), HLK_OK);
    cr_assert_gt(fixture_counters(two).granted, 0u);
    cr_assert_eq(actor_end(actor), HLK_OK);
}

enum { THREADS = 32, ROUNDS = 50 };

static void *work(void *arg)
{
    char name[16];
    static _Atomic int number;
    hlk_lock *lock;
    snprintf(name, sizeof name, "t%d", number++ % 8);
    lock = hlk_lock_create(arg, name, NULL);
    bool well = lock != NULL;
    for (int i = 0; i < ROUNDS && well; i++)
        well = hlk_lock_acquire(lock, HLK_FOREVER) == HLK_OK && hlk_lock_release(lock) == HLK_OK;
    hlk_lock_destroy(lock);
    return well ? NULL : arg;
}

/* Writers and the leader use the session at once. */
Test(tls, many_threads_share_a_connection)
{
    struct hlk_client_opts opts = with_ca();
    opts.local_passes = -1;
    hlk_client *client = fixture_open_at(server->tls_url, &opts);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, work, client), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        cr_assert_null(failed);
    }
    cr_assert_eq(fixture_counters(client).reconnects, 0u);
}

/* More than a record each way: the list of many waiters, and scripts that are sent whole. */
Test(tls, large_commands_and_answers_are_whole)
{
    enum { MANY = 3000 };
    struct hlk_client_opts opts = with_ca();
    hlk_client *client = fixture_open_at(server->tls_url, &opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    raw(fixture.redis, "EVAL %s 0",
        "for i = 1, 3000 do redis.call('zadd', 'hasplock_queue:{t}', i, "
        "'hlk-x:' .. i .. ' 30000 0 0 ' .. i) end");
    struct hlk_waiter *waiters = calloc(MANY, sizeof *waiters);
    for (int i = 0; i < MANY; i++)
        waiters[i].size = sizeof *waiters;
    raw(fixture.redis, "SCRIPT FLUSH");
    size_t n = 0;
    cr_assert_eq(hlk_lock_waiters(lock, waiters, MANY, &n), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(n, (size_t)MANY);
    free(waiters);
    raw(fixture.redis, "DEL hasplock_queue:{t}");
}

/* --- credentials --- */

static const char *password_file(const char *password)
{
    const char *path = file("password");
    FILE *out = fopen(path, "w");
    fprintf(out, "%s\n", password);
    fclose(out);
    return path;
}

static void require_password(const char *password)
{
    redisContext *redis = raw_open(server);
    freeReplyObject(redisCommand(redis, "ACL SETUSER rotated on resetpass >%s ~* &* +@all", password));
    freeReplyObject(redisCommand(redis, "CLIENT KILL USER rotated"));
    redisFree(redis);
}

Test(tls, password_file_is_read_before_each_connection)
{
    char url[100];
    snprintf(url, sizeof url, "redis://rotated@127.0.0.1:%d", server->port);
    struct hlk_client_opts opts = fixture_opts();
    require_password("first");
    opts.password_file = password_file("first");
    hlk_client *client = fixture_open_at(url, &opts);
    use(client);
    (void)password_file("second");
    require_password("second");
    use(client);
    (void)password_file("wrong");
    refused(url, &opts, HLK_E_AUTH, "WRONGPASS");
    (void)password_file("");
    refused(url, &opts, HLK_E_AUTH, "its first line is empty");
    unlink(opts.password_file);
    refused(url, &opts, HLK_E_AUTH, "the password cannot be read from");
    opts.password = "x";
    refused(url, &opts, HLK_E_INVALID, "password_file");
}

static int give_credentials(struct hlk_credentials *credentials, void *ctx)
{
    const char *const *password = ctx;
    cr_assert_str_eq(credentials->username, "rotated");
    cr_assert_not_null(strstr(credentials->server, "127.0.0.1"));
    if (!*password)
        return -1;
    snprintf(credentials->password, sizeof credentials->password, "%s", *password);
    return 0;
}

Test(tls, credentials_callback_runs_before_each_connection)
{
    char url[100];
    const char *password = "first";
    snprintf(url, sizeof url, "redis://rotated@127.0.0.1:%d", server->port);
    struct hlk_client_opts opts = fixture_opts();
    require_password("first");
    opts.credentials = give_credentials;
    opts.credentials_ctx = &password;
    hlk_client *client = fixture_open_at(url, &opts);
    use(client);
    password = "second";
    require_password("second");
    use(client);
    fixture_close(client);
    password = NULL;
    refused(url, &opts, HLK_E_AUTH, "the credentials callback has none");
}
