#include "support/certs.h"

#include "support/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void shell(const char *format, ...)
{
    char command[4096], quiet[4200];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(quiet, sizeof quiet, "{ %s; } >/dev/null 2>&1", command);
    if (system(quiet) != 0)
        test_give_up("failed: %s", command);
}

const char *certs_file(const struct certs *certs, const char *name)
{
    static char paths[8][160];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", certs->dir, name);
    return path;
}

/* `openssl ca` is the one command that sets both ends of a validity; it needs a directory of its own. */
static void sign(const struct certs *certs, const struct cert_wish *wish)
{
    const char *ca = !wish->ca ? "ca" : *wish->ca ? wish->ca : wish->name;
    char cert[80];
    snprintf(cert, sizeof cert, "-cert %s.pem", ca);
    const char *from = wish->from ? wish->from : "20260101000000Z", *to = wish->to ? wish->to : "20991231235959Z";
    shell("cd %s && mkdir -p db && touch db/index db/index.attr && { test -e db/serial || echo 01 >db/serial; } &&"
          " printf '[ca]\ndefault_ca=d\n[d]\ndatabase=db/index\nserial=db/serial\nnew_certs_dir=db\ndefault_md=sha256\n"
          "policy=p\nunique_subject=no\ndefault_crl_days=3000\n[p]\ncommonName=supplied\n[x]\nbasicConstraints=CA:%s\n"
          "%s%s\n%s\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n' >%s.cnf &&"
          " openssl ca -batch -notext -config %s.cnf -extensions x -in %s.csr -out %s.pem -startdate %s -enddate %s %s"
          " -keyfile %s.key",
          certs->dir, wish->is_ca ? "TRUE" : "FALSE", wish->alt ? "subjectAltName=" : "", wish->alt ? wish->alt : "",
          wish->more ? wish->more : "", wish->name, wish->name, wish->name, wish->name, from, to,
          strcmp(ca, wish->name) == 0 ? "-selfsign" : cert, ca);
}

void certs_add(const struct certs *certs, const struct cert_wish *wish)
{
    shell("cd %s && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout %s.key"
          " -out %s.csr -subj /CN=%s",
          certs->dir, wish->name, wish->name, wish->name);
    sign(certs, wish);
}

void certs_revoke(const struct certs *certs, const char *revoked, const char *name)
{
    if (revoked)
        shell("cd %s && openssl ca -config server.cnf -keyfile ca.key -cert ca.pem -revoke %s.pem", certs->dir,
              revoked);
    shell("cd %s && openssl ca -config server.cnf -keyfile ca.key -cert ca.pem -gencrl -out %s", certs->dir, name);
}

void certs_add_list(const struct certs *certs, const char *ca, const char *to, const char *name)
{
    shell("cd %s && openssl ca -config server.cnf -keyfile %s.key -cert %s.pem -gencrl -crl_lastupdate 20200101000000Z"
          " -crl_nextupdate %s >>%s",
          certs->dir, ca, ca, to ? to : "20991231235959Z", name);
}

void certs_encrypt_key(const struct certs *certs, const char *name, const char *copy)
{
    shell("cd %s && openssl pkey -in %s.key -aes256 -passout pass:secret -out %s", certs->dir, name, copy);
}

void certs_chain(const struct certs *certs, const char *first, const char *second, const char *name)
{
    shell("cd %s && cat %s.pem %s.pem >%s", certs->dir, first, second, name);
}

/* The CAs of the servers before it too: a test may have several. */
void certs_trust(const struct certs *certs)
{
    shell("cd %s && { cat ca.pem; test ! -e \"$SSL_CERT_FILE\" || cat \"$SSL_CERT_FILE\"; } >trusted.pem", certs->dir);
    setenv("SSL_CERT_FILE", certs_file(certs, "trusted.pem"), 1);
}

void certs_make(struct certs *certs, const char *dir)
{
    snprintf(certs->dir, sizeof certs->dir, "%s", dir);
    certs_add(certs, &(struct cert_wish){ .name = "ca", .ca = "", .is_ca = true });
    certs_add(certs, &(struct cert_wish){ .name = "server", .alt = "DNS:localhost,IP:127.0.0.1,IP:::1" });
}
