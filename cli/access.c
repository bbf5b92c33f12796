#include "access.h"

#include "url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words of redis-cli(1). */
static const char *const options[ACCESS_WORDS] = {
    [ACCESS_CACERT] = "--cacert",
    [ACCESS_CACERTDIR] = "--cacertdir",
    [ACCESS_CERT] = "--cert",
    [ACCESS_KEY] = "--key",
    [ACCESS_CRL] = "--crl",
    [ACCESS_SNI] = "--sni",
    [ACCESS_PASSWORD_FILE] = "--password-file",
};

static const char *const variables[ACCESS_WORDS] = {
    [ACCESS_CACERT] = "HASPLOCK_CACERT",
    [ACCESS_CACERTDIR] = "HASPLOCK_CACERTDIR",
    [ACCESS_CERT] = "HASPLOCK_CERT",
    [ACCESS_KEY] = "HASPLOCK_KEY",
    [ACCESS_CRL] = "HASPLOCK_CRL",
    [ACCESS_SNI] = "HASPLOCK_SNI",
    [ACCESS_PASSWORD_FILE] = "HASPLOCK_PASSWORD_FILE",
};

bool access_find(struct access *access, const char *url, char *why, size_t why_size)
{
    bool tls = url_has_tls(url);
    for (int i = 0; i < ACCESS_WORDS; i++) {
        bool of_tls = i != ACCESS_PASSWORD_FILE;
        const char *value = getenv(variables[i]);
        if (access->words[i] && of_tls && !tls) {
            snprintf(why, why_size, "%s: the URL is one without TLS; with TLS it begins with rediss or redlocks",
                     options[i]);
            return false;
        }
        if (!access->words[i] && value && *value && (tls || !of_tls))
            access->words[i] = value;
    }
    return true;
}

void access_fill(const struct access *access, struct hlk_client_opts *opts)
{
    opts->tls_ca_file = access->words[ACCESS_CACERT];
    opts->tls_ca_dir = access->words[ACCESS_CACERTDIR];
    opts->tls_cert_file = access->words[ACCESS_CERT];
    opts->tls_key_file = access->words[ACCESS_KEY];
    opts->tls_crl_file = access->words[ACCESS_CRL];
    opts->tls_server_name = access->words[ACCESS_SNI];
    opts->password_file = access->words[ACCESS_PASSWORD_FILE];
}

const char *access_variable(enum access_word word)
{
    return variables[word];
}

char *access_value(const struct access *access, enum access_word word)
{
    const char *value = access->words[word];
    if (!value)
        return NULL;
    return word == ACCESS_SNI ? strdup(value) : realpath(value, NULL);
}
