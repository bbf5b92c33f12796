/* rediss+sentinel: TLS to the sentinels and to the master. Each has a CA of its own here. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct server *master, *sentinel;
static char monitor[96], url[128], both_cas[96];
static const char *const conf[] = { monitor, "sentinel down-after-milliseconds tmaster 3600000", NULL };

static void append(const char *path, FILE *to)
{
    FILE *from = fopen(path, "r");
    cr_assert_not_null(from);
    for (int c; (c = fgetc(from)) != EOF;)
        fputc(c, to);
    fclose(from);
}

static void start(void)
{
    master = server_start(SERVER_TLS | SERVER_NOACL, NULL);
    snprintf(monitor, sizeof monitor, "sentinel monitor tmaster 127.0.0.1 %d 1", master->tls_port);
    sentinel = server_start(SERVER_TLS | SERVER_SENTINEL | SERVER_NOACL, conf);
    snprintf(url, sizeof url, "rediss+sentinel://127.0.0.1:%d/tmaster", sentinel->tls_port);
    snprintf(both_cas, sizeof both_cas, "%s/cas.pem", master->dir);
    FILE *cas = fopen(both_cas, "w");
    cr_assert_not_null(cas);
    append(certs_file(&master->certs, "ca.pem"), cas);
    append(certs_file(&sentinel->certs, "ca.pem"), cas);
    fclose(cas);
}

static void stop(void)
{
    fixture_end();
    server_finish(master);
    server_stop(sentinel);
}

TestSuite(sentinel_tls, .init = start, .fini = stop, .timeout = 60);

static const char *refused_with(const char *ca_file)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client;
    opts.tls_ca_file = ca_file;
    opts.reconnect_timeout_ms = 2000;
    cr_assert_eq(hlk_client_open(&client, url, &opts), HLK_E_AUTH, "%s", hlk_last_error());
    return hlk_last_error();
}

Test(sentinel_tls, is_for_sentinels_and_master)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.tls_ca_file = both_cas;
    hlk_client *client = fixture_open_at(url, &opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(sentinel_tls, refuses_a_sentinel_that_is_not_trusted)
{
    const char *error = refused_with(certs_file(&master->certs, "ca.pem"));
    char text[64];
    snprintf(text, sizeof text, "no sentinel of 1 answered (127.0.0.1:%d: ", sentinel->tls_port);
    cr_assert_not_null(strstr(error, text), "%s", error);
}

Test(sentinel_tls, refuses_a_master_that_is_not_trusted)
{
    const char *error = refused_with(certs_file(&sentinel->certs, "ca.pem"));
    char text[64];
    snprintf(text, sizeof text, "the sentinels' master 127.0.0.1:%d: ", master->tls_port);
    cr_assert_not_null(strstr(error, text), "%s", error);
}
