/* TLS, and a password in a file: options, their variables, and what COMMAND gets of them. */
#include "fixture.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct server *secure;

static void start(void)
{
    secure = server_start(SERVER_TCP | SERVER_TLS, NULL);
    setenv("HASPLOCK_URL", secure->tls_url, 1);
    unsetenv("SSL_CERT_FILE");
}

static void stop(void)
{
    server_finish(secure);
}

TestSuite(tls, .init = start, .fini = stop);

static const char *file(const char *name)
{
    return certs_file(&secure->certs, name);
}

static void ends(struct command *c, int code, const char *words)
{
    cr_assert_eq(command_end(c), code, "%s%s", c->text[OUT], c->text[ERR]);
    cr_assert(strstr(c->text[OUT], words) || strstr(c->text[ERR], words), "\"%s\" is not in: %s%s", words, c->text[OUT],
              c->text[ERR]);
    command_free(c);
}

Test(tls, trusts_the_ca_of_the_option_or_of_its_variable)
{
    ends(COMMAND("show", "t"), 77, "the CA of the server's certificate is not trusted");
    ends(COMMAND("show", "--cacert", file("ca.pem"), "t"), 1, "free");
    ends(COMMAND("--cacert", file("ca.pem"), "list"), 0, "");
    setenv("HASPLOCK_CACERT", file("ca.pem"), 1);
    ends(COMMAND("show", "t"), 1, "free");
    ends(COMMAND("doctor", "-q"), 1, "");
    ends(COMMAND("show", "--sni", "another.example", "t"), 77, "another.example");
    setenv("HASPLOCK_SNI", "another.example", 1);
    ends(COMMAND("show", "t"), 77, "another.example");
}

Test(tls, client_shows_its_certificate)
{
    redisContext *admin = raw_open(secure);
    const struct cert_wish client = { .name = "client", .alt = "DNS:client" };
    raw(admin, "CONFIG SET tls-auth-clients yes");
    certs_add(&secure->certs, &client);
    setenv("HASPLOCK_CACERT", file("ca.pem"), 1);
    ends(COMMAND("show", "-w", "t"), 64, "");
    struct command *c = COMMAND("show", "t");
    cr_assert_eq(command_end(c), 77, "%s", c->text[ERR]);
    command_free(c);
    ends(COMMAND("show", "--cert", file("client.pem"), "--key", file("client.key"), "t"), 1, "free");
    ends(COMMAND("show", "--key", file("client.key"), "t"), 64, "tls_key_file: not without tls_cert_file");
    redisFree(admin);
}

Test(tls, revoked_server_is_refused)
{
    certs_revoke(&secure->certs, "server", "revoked.pem");
    setenv("HASPLOCK_CACERT", file("ca.pem"), 1);
    ends(COMMAND("show", "--crl", file("revoked.pem"), "t"), 77, "revoked");
}

/* As the library reads it. */
Test(tls, url_may_be_in_capitals)
{
    char url[300];
    snprintf(url, sizeof url, "REDISS%s", strchr(secure->tls_url, ':'));
    certs_revoke(&secure->certs, "server", "revoked.pem");
    setenv("HASPLOCK_CACERT", file("ca.pem"), 1);
    ends(COMMAND("show", "-u", url, "t"), 1, "free");
    ends(COMMAND("show", "-u", url, "--crl", file("revoked.pem"), "t"), 77, "revoked");
    setenv("HASPLOCK_CRL", file("revoked.pem"), 1);
    ends(COMMAND("show", "-u", url, "t"), 77, "revoked");
    ends(COMMAND("show", "-u", url, "--sni", "", "t"), 64, "tls_server_name: 1 to 255 bytes");
}

Test(tls, encrypted_key_is_named)
{
    certs_add(&secure->certs, &(struct cert_wish){ .name = "client" });
    certs_encrypt_key(&secure->certs, "client", "locked.key");
    setenv("HASPLOCK_CACERT", file("ca.pem"), 1);
    ends(COMMAND("run", "-w", "2", "--cert", file("client.pem"), "--key", file("locked.key"), "t", "--", "true"), 77,
         "is encrypted");
}

Test(tls, options_are_refused_for_a_url_without_tls)
{
    setenv("HASPLOCK_URL", secure->url, 1);
    ends(COMMAND("show", "--cacert", file("ca.pem"), "t"), 64, "--cacert: the URL is one without TLS");
    setenv("HASPLOCK_CACERT", "/nonexistent/ca.pem", 1);
    ends(COMMAND("show", "t"), 1, "free");
}

Test(tls, command_gets_what_its_own_hasplock_needs)
{
    cr_assert_eq(chdir(secure->certs.dir), 0);
    static const char inner[] = "cd / && \"$0\" show t && [ -z \"${HASPLOCK_SNI-}\" ] && echo \"$HASPLOCK_CACERT\"";
    ends(COMMAND("run", "--cacert", "ca.pem", "t", "--", "sh", "-c", inner, HASPLOCK), 0, file("ca.pem"));
}

Test(tls, variables_of_another_server_are_left_to_command)
{
    setenv("HASPLOCK_URL", secure->url, 1);
    setenv("HASPLOCK_CACERT", "/nonexistent/ca.pem", 1);
    ends(COMMAND("run", "t", "--", "sh", "-c", "echo $HASPLOCK_CACERT"), 0, "/nonexistent/ca.pem");
}

static void write_password(const char *path, const char *password)
{
    FILE *to = fopen(path, "w");
    cr_assert_not_null(to);
    fputs(password, to);
    fclose(to);
}

Test(tls, password_is_read_from_a_file)
{
    char path[160];
    redisContext *admin = raw_open(secure);
    raw(admin, "ACL SETUSER keeper on >of-the-keeper ~* &* +@all");
    snprintf(path, sizeof path, "%s/password", secure->certs.dir);
    write_password(path, "wrong-one\n");
    char url[200];
    snprintf(url, sizeof url, "redis://keeper@127.0.0.1:%d", secure->port);
    ends(COMMAND("show", "-u", url, "--password-file", path, "t"), 77, "WRONGPASS");
    write_password(path, "of-the-keeper\n");
    ends(COMMAND("show", "-u", url, "--password-file", path, "t"), 1, "free");
    setenv("HASPLOCK_PASSWORD_FILE", path, 1);
    ends(COMMAND("show", "-u", url, "t"), 1, "free");
    redisFree(admin);
}

Test(tls, wait_replicas_releases_what_no_replica_has)
{
    setenv("HASPLOCK_URL", secure->url, 1);
    ends(COMMAND("run", "--wait-replicas", "1", "t", "--", "true"), 75, "replicas");
    ends(COMMAND("run", "--wait-replicas", "0", "t", "--", "echo", "ran"), 0, "ran");
    ends(COMMAND("run", "--wait-replicas", "x", "t", "--", "true"), 64, "--wait-replicas: \"x\"");
}
