/* TLS with a chain of three, root, intermediate and server: what is wrong with which link, and what is answered. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct server *server;

static void start(void)
{
    fixture_begin(SERVER_TCP | SERVER_TLS);
    server = fixture.server;
    unsetenv("SSL_CERT_FILE");
}

TestSuite(tls_chain, .init = start, .fini = fixture_end, .timeout = 120);

static const char *file(const char *name)
{
    return certs_file(&server->certs, name);
}

static const char *url(void)
{
    static char text[200];
    const char *user = strchr(server->tls_url, '@');
    int len = user ? (int)(user + 1 - server->tls_url) : (int)strlen("rediss://");
    snprintf(text, sizeof text, "%.*slocalhost:%d", len, server->tls_url, server->tls_port);
    return text;
}

#define PAST "20210304050607Z"
#define FUTURE "20900101000000Z"

enum { ROOT = 1, MID = 2, OLD_MID = 4 }; /* whose list of revoked certificates there is */

struct chain {
    const char *what;
    struct cert_wish mid, leaf; /* name, ca and alt are filled in */
    const char *revoked;
    unsigned lists;        /* 0: no CRL file */
    bool without_mid;      /* the server sends its own certificate alone */
    const char *must_name; /* tls_server_name */
    const char *words;     /* of the error; NULL: it is used */
};

static const struct chain chains[] = {
    { .what = "all is well", .must_name = NULL },
    { .what = "all is well, with lists", .lists = ROOT | MID },
    { .what = "absolute name", .must_name = "localhost." },
    { .what = "server revoked",
      .revoked = "leaf",
      .lists = ROOT | MID,
      .words = "the server's certificate is revoked" },
    { .what = "intermediate revoked",
      .revoked = "mid",
      .lists = ROOT | MID,
      .words = "the CA \"mid\", on which the server's depends, is revoked" },
    { .what = "no list of the root", .lists = MID, .words = "the CRL file has no list" },
    { .what = "no list of the intermediate", .lists = ROOT, .words = "whether the server's certificate is revoked" },
    { .what = "expired list", .lists = ROOT | OLD_MID, .words = "the list of the CA that signed it has expired" },
    { .what = "server expired",
      .leaf = { .from = "20200101000000Z", .to = PAST },
      .words = "the server's certificate has expired (2021-03-04 05:06:07 UTC)" },
    { .what = "intermediate expired",
      .mid = { .from = "20200101000000Z", .to = PAST },
      .words = "the CA \"mid\", on which the server's depends, has expired (2021-03-04 05:06:07 UTC)" },
    { .what = "server not yet valid",
      .leaf = { .from = FUTURE },
      .words = "the server's certificate is not valid yet" },
    { .what = "intermediate not yet valid",
      .mid = { .from = FUTURE },
      .words = "the CA \"mid\", on which the server's depends, is not valid yet (from 2090-01-01" },
    { .what = "intermediate for other names",
      .mid = { .more = "nameConstraints=critical,permitted;DNS:example.test" },
      .words = "permitted subtree violation" },
    { .what = "intermediate that is no CA", .mid = { .is_ca = false, .alt = "DNS:no.ca" }, .words = "CA" },
    { .what = "server's for another purpose", .leaf = { .more = "extendedKeyUsage=clientAuth" }, .words = "purpose" },
    { .what = "intermediate not sent", .without_mid = true, .words = "is not trusted" },
    { .what = "another name", .must_name = "redis.test", .words = "is for localhost, and not for \"redis.test\"" },
};

static void make(const struct chain *chain)
{
    struct cert_wish mid = chain->mid, leaf = chain->leaf;
    mid.name = "mid";
    mid.is_ca = !mid.alt;
    leaf.name = "leaf";
    leaf.ca = "mid";
    leaf.alt = "DNS:localhost";
    certs_add(&server->certs, &mid);
    certs_add(&server->certs, &leaf);
    certs_chain(&server->certs, "leaf", chain->without_mid ? "leaf" : "mid", "chain.pem");
    if (chain->revoked)
        certs_revoke(&server->certs, chain->revoked, "unused.pem");
    unlink(file("lists.pem"));
    if (chain->lists & ROOT)
        certs_add_list(&server->certs, "ca", NULL, "lists.pem");
    if (chain->lists & (MID | OLD_MID))
        certs_add_list(&server->certs, "mid", chain->lists & OLD_MID ? PAST : NULL, "lists.pem");
    raw(fixture.redis, "CONFIG SET tls-cert-file %s tls-key-file %s", file("chain.pem"), file("leaf.key"));
}

static void is_answered(const struct chain *chain)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client = NULL;
    opts.tls_ca_file = file("ca.pem");
    opts.tls_crl_file = chain->lists ? file("lists.pem") : NULL;
    opts.tls_server_name = chain->must_name;
    opts.reconnect_timeout_ms = 5000;
    enum hlk_status status = hlk_client_open(&client, url(), &opts);
    if (!chain->words)
        cr_expect_eq(status, HLK_OK, "%s: %s", chain->what, hlk_last_error());
    else
        cr_expect(status == HLK_E_AUTH && strstr(hlk_last_error(), chain->words), "%s: %d, %s", chain->what,
                  (int)status, hlk_last_error());
    if (status == HLK_OK)
        hlk_client_close(client);
}

Test(tls_chain, each_link_is_checked)
{
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        make(&chains[i]);
        is_answered(&chains[i]);
    }
}

/* --- the client's own certificate */

static enum hlk_status opens_with_key(const char *key)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client = NULL;
    opts.tls_ca_file = file("ca.pem");
    opts.tls_cert_file = file("client.pem");
    opts.tls_key_file = file(key);
    enum hlk_status status = hlk_client_open(&client, url(), &opts);
    if (status == HLK_OK)
        hlk_client_close(client);
    return status;
}

/* There is no terminal: a session of its own. OpenSSL reads standard input then. */
Test(tls_chain, nobody_is_asked_for_the_passphrase_of_a_key)
{
    int ends[2];
    char left[16] = "";
    certs_add(&server->certs, &(struct cert_wish){ .name = "client" });
    certs_encrypt_key(&server->certs, "client", "locked.key");
    (void)setsid();
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], "secret\nb\n", 9), 9);
    close(ends[1]);
    cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    cr_assert_eq(opens_with_key("locked.key"), HLK_E_AUTH);
    cr_assert_not_null(strstr(hlk_last_error(), "locked.key\" is encrypted"), "%s", hlk_last_error());
    cr_assert_eq(read(ends[0], left, sizeof left), 9);
    cr_assert_str_eq(left, "secret\nb\n");
    cr_assert_eq(opens_with_key("client.key"), HLK_OK, "%s", hlk_last_error());
}

Test(tls_chain, name_of_the_server_has_bounds)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client = NULL;
    char name[257];
    memset(name, 'a', sizeof name);
    name[256] = '\0';
    opts.tls_server_name = "";
    cr_assert_eq(hlk_client_open(&client, url(), &opts), HLK_E_INVALID);
    cr_assert_not_null(strstr(hlk_last_error(), "tls_server_name: 1 to 255 bytes"), "%s", hlk_last_error());
    opts.tls_server_name = name;
    cr_assert_eq(hlk_client_open(&client, url(), &opts), HLK_E_INVALID);
    cr_assert_null(client);
}
