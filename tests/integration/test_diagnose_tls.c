/* hlk_diagnose over TLS. */
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void start(void)
{
    fixture_begin(SERVER_TCP | SERVER_NOACL | SERVER_TLS);
    unsetenv("SSL_CERT_FILE");
}

TestSuite(diagnose_tls, .init = start, .fini = fixture_end, .timeout = 60);

static struct {
    int level;
    char measured[512];
} tls; /* the finding about it */

static void take(const struct hlk_finding *finding, void *ctx)
{
    (void)ctx;
    if (strcmp(finding->area, "tls") != 0)
        return;
    tls.level = finding->level;
    snprintf(tls.measured, sizeof tls.measured, "%s", finding->measured);
}

static enum hlk_status diagnose(const char *ca)
{
    struct hlk_client_opts client = HLK_CLIENT_OPTS_INIT;
    struct hlk_diagnose_opts opts = HLK_DIAGNOSE_OPTS_INIT;
    client.tls_ca_file = ca;
    opts.client = &client;
    opts.clock_ms = 1;
    return hlk_diagnose(fixture.server->tls_url, &opts, take, NULL);
}

static void diagnose_with_ca(void)
{
    cr_assert_eq(diagnose(certs_file(&fixture.server->certs, "ca.pem")), HLK_OK, "%s", hlk_last_error());
}

Test(diagnose_tls, names_the_version_and_warns_before_a_cert_expires)
{
    const struct certs *certs = &fixture.server->certs;
    diagnose_with_ca();
    cr_assert_eq(tls.level, HLK_FINDING_OK, "%s", tls.measured);
    cr_assert_eq(strncmp(tls.measured, "TLSv1.", 6), 0, "%s", tls.measured);
    cr_assert_not_null(strstr(tls.measured, "certificate is valid for "), "%s", tls.measured);

    char end[32];
    time_t in_2_days = time(NULL) + 2 * 86400;
    cr_assert_gt(strftime(end, sizeof end, "%Y%m%d%H%M%SZ", gmtime(&in_2_days)), 0);
    certs_add(certs, &(struct cert_wish){ .name = "brief", .alt = "DNS:localhost,IP:127.0.0.1", .to = end });
    cr_assert_str_eq(raw(fixture.redis, "CONFIG SET tls-cert-file %s tls-key-file %s", certs_file(certs, "brief.pem"),
                         certs_file(certs, "brief.key")),
                     "OK");
    diagnose_with_ca();
    cr_assert_eq(tls.level, HLK_FINDING_WARNING, "%s", tls.measured);
}

Test(diagnose_tls, says_that_a_certificate_is_refused)
{
    cr_assert_eq(diagnose(NULL), HLK_E_AUTH);
    cr_assert_eq(tls.level, HLK_FINDING_PROBLEM);
    cr_assert_not_null(strstr(tls.measured, "not trusted"), "%s", tls.measured);
}
