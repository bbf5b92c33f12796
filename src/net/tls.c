#include "net/tls.h"

#include "base/debug.h"
#include "base/mem.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_MAX 16384 /* plain bytes in one record */
#define FILES 5

struct stamp { /* a file as it was when it was read */
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct hlk_tls_context {
    char *files[FILES]; /* CA_FILE... */
    char *server_name;
    struct stamp stamps[FILES];
    SSL_CTX *ssl; /* NULL: not read yet, or not since a file has changed */
};

enum { CA_FILE, CA_DIR, CERT_FILE, KEY_FILE, CRL_FILE };

struct hlk_tls {
    pthread_mutex_t mu; /* a leaf; held for computing only. Guards ssl and its two BIOs */
    SSL *ssl;
    BIO *in, *out; /* ssl's: from the wire, to the wire */
    char *sending; /* the writer's: taken from `out`, sent up to `sent` */
    size_t len, size, sent;
    char name[256]; /* that the certificate must have */
    X509 *refused;  /* the certificate that verification stopped at, NULL: not known; and its place in the chain */
    int refused_depth;
};

/* --- errors --- */

static enum hlk_status no_memory_for(struct hlk_error *error)
{
    ERR_clear_error();
    return hlk_error_set(error, HLK_E_NOMEM, "TLS: no memory");
}

static void read_names(const X509 *cert, char *to, size_t size)
{
    struct hlk_text text;
    hlk_text_init(&text, to, size);
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char address[INET6_ADDRSTRLEN] = "";
        const char *is = "";
        int len = 0;
        if (name->type == GEN_DNS) {
            is = (const char *)ASN1_STRING_get0_data(name->d.dNSName);
            len = ASN1_STRING_length(name->d.dNSName);
        } else if (name->type == GEN_IPADD) {
            int bytes = ASN1_STRING_length(name->d.iPAddress);
            (void)inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), address,
                            sizeof address);
            is = address;
            len = (int)strlen(address);
        }
        if (len > 0)
            hlk_text_add(&text, "%s", text.len ? ", " : "");
        if (len > 0)
            hlk_text_add_shown(&text, is, (size_t)len);
    }
    GENERAL_NAMES_free(names);
    if (text.len == 0)
        hlk_text_add(&text, "no host at all");
}

static void read_asn1_time(const ASN1_TIME *time, char *to, size_t size)
{
    struct tm tm;
    if (!time || ASN1_TIME_to_tm(time, &tm) != 1 || strftime(to, size, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        (void)snprintf(to, size, "an unknown time");
}

/* Which certificate of the chain it is that was refused. */
static void name_link(const struct hlk_tls *tls, char *to, size_t size)
{
    char name[96] = "";
    if (!tls->refused || tls->refused_depth == 0) {
        (void)snprintf(to, size, "the server's certificate");
        return;
    }
    (void)X509_NAME_get_text_by_NID(X509_get_subject_name(tls->refused), NID_commonName, name, sizeof name);
    struct hlk_text text;
    hlk_text_init(&text, to, size);
    hlk_text_add(&text, "the certificate of the CA \"");
    hlk_text_add_shown(&text, name, strlen(name));
    hlk_text_add(&text, "\", on which the server's depends,");
}

/* The certificate is of the wrong time, revoked, or that is not known. False: it is something else. */
static bool refuse_link(const struct hlk_tls *tls, long code, struct hlk_error *error)
{
    char link[320], time[64];
    const X509 *cert = tls->refused;
    name_link(tls, link, sizeof link);
    switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        read_asn1_time(cert ? X509_get0_notAfter(cert) : NULL, time, sizeof time);
        (void)hlk_error_set(error, HLK_E_AUTH, "TLS: %s has expired (%s)", link, time);
        return true;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        read_asn1_time(cert ? X509_get0_notBefore(cert) : NULL, time, sizeof time);
        (void)hlk_error_set(error, HLK_E_AUTH, "TLS: %s is not valid yet (from %s on)", link, time);
        return true;
    case X509_V_ERR_CERT_REVOKED:
        (void)hlk_error_set(error, HLK_E_AUTH, "TLS: %s is revoked", link);
        return true;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
        (void)hlk_error_set(
            error, HLK_E_AUTH,
            "TLS: whether %s is revoked is not known: the CRL file has no list of the CA that signed it", link);
        return true;
    case X509_V_ERR_CRL_HAS_EXPIRED:
        (void)hlk_error_set(error, HLK_E_AUTH,
                            "TLS: whether %s is revoked is not known: the list of the CA that signed it has expired",
                            link);
        return true;
    default:
        return false;
    }
}

/* The server's certificate was refused: why, and what to do. */
static enum hlk_status refuse_certificate(const struct hlk_tls *tls, long code, struct hlk_error *error)
{
    char names[192] = "no host at all", link[320];
    if (refuse_link(tls, code, error))
        return error->status;
    switch (code) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        if (tls->refused)
            read_names(tls->refused, names, sizeof names);
        return hlk_error_set(error, HLK_E_AUTH, "TLS: the server's certificate is for %s, and not for \"%s\"", names,
                             tls->name);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return hlk_error_set(error, HLK_E_AUTH,
                             "TLS: the server's certificate is self-signed, and is not among the trusted ones: give it "
                             "as the CA file");
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return hlk_error_set(error, HLK_E_AUTH,
                             "TLS: the CA of the server's certificate is not trusted: give its certificate as the CA "
                             "file");
    default:
        name_link(tls, link, sizeof link);
        return hlk_error_set(error, HLK_E_AUTH, "TLS: %s is refused: %s", link, X509_verify_cert_error_string(code));
    }
}

/* Called for each certificate of the chain; the session is application data of the SSL object. */
static int tls_on_verify(int well, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct hlk_tls *tls = SSL_get_app_data(ssl);
    X509 *cert = X509_STORE_CTX_get_current_cert(store);
    if (!well && !tls->refused && cert && X509_up_ref(cert) == 1) {
        tls->refused = cert;
        tls->refused_depth = X509_STORE_CTX_get_error_depth(store);
    }
    return well;
}

/* The session failed for the first error of OpenSSL's queue, or without one. */
static enum hlk_status refuse_session(struct hlk_error *error)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    ERR_clear_error();
    if (ERR_GET_LIB(code) != ERR_LIB_SSL)
        return hlk_error_set(error, HLK_E_CONNECT, "TLS: %s", code ? ERR_reason_error_string(code) : "it ended");
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
        return hlk_error_set(error, HLK_E_CONNECT,
                             "the server does not speak TLS on this port: use its TLS port, or "
                             "a URL without TLS");
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return hlk_error_set(error, HLK_E_AUTH,
                             "TLS: the server refuses the handshake (%s); it may require a client "
                             "certificate",
                             ERR_reason_error_string(code));
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return hlk_error_set(error, HLK_E_AUTH, "TLS: the server refuses the client's certificate (%s)",
                             ERR_reason_error_string(code));
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
        return hlk_error_set(error, HLK_E_AUTH, "TLS: the server has no TLS version from 1.2 on");
    default:
        return hlk_error_set(error, HLK_E_CONNECT, "TLS: %s", ERR_reason_error_string(code));
    }
}

/* --- context --- */

struct hlk_tls_context *hlk_tls_context_create(const struct hlk_tls_opts *opts)
{
    struct hlk_tls_context *context = hlk_mem_zalloc(sizeof *context);
    if (!context)
        return NULL;
    const char *const files[FILES] = { opts->ca_file, opts->ca_dir, opts->cert_file, opts->key_file, opts->crl_file };
    bool whole = !opts->server_name || (context->server_name = hlk_mem_strdup(opts->server_name));
    for (int i = 0; i < FILES; i++)
        whole = whole && (!files[i] || (context->files[i] = hlk_mem_strdup(files[i])));
    if (whole)
        return context;
    hlk_tls_context_destroy(context);
    return NULL;
}

void hlk_tls_context_destroy(struct hlk_tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    for (int i = 0; i < FILES; i++)
        hlk_mem_free(context->files[i]);
    hlk_mem_free(context->server_name);
    hlk_mem_free(context);
}

struct hlk_tls_opts hlk_tls_context_opts(const struct hlk_tls_context *context)
{
    return (struct hlk_tls_opts){ context->files[CA_FILE],  context->files[CA_DIR],   context->files[CERT_FILE],
                                  context->files[KEY_FILE], context->files[CRL_FILE], context->server_name };
}

/* True: it is not the file that was read. */
static bool file_has_changed(const char *path, struct stamp *stamp)
{
    struct stat st;
    struct stamp now = { 0 };
    if (path && stat(path, &st) == 0)
        now = (struct stamp){ st.st_dev, st.st_ino, st.st_size, st.st_mtim };
    bool same = now.dev == stamp->dev && now.ino == stamp->ino && now.size == stamp->size &&
                now.changed.tv_sec == stamp->changed.tv_sec && now.changed.tv_nsec == stamp->changed.tv_nsec;
    *stamp = now;
    return !same;
}

static enum hlk_status bad_certificate_file(const char *what, const char *path, struct hlk_error *error)
{
    const char *why = ERR_reason_error_string(ERR_peek_error());
    (void)hlk_error_set(error, HLK_E_AUTH, "TLS: %s \"%.200s\" cannot be used: %s", what, path,
                        why ? why : "it has none");
    ERR_clear_error();
    return HLK_E_AUTH;
}

static enum hlk_status load_trust(SSL_CTX *ssl, char *const *files, struct hlk_error *error)
{
    if (files[CA_FILE] && SSL_CTX_load_verify_file(ssl, files[CA_FILE]) != 1)
        return bad_certificate_file("the CA file", files[CA_FILE], error);
    if (files[CA_DIR] && SSL_CTX_load_verify_dir(ssl, files[CA_DIR]) != 1)
        return bad_certificate_file("the CA directory", files[CA_DIR], error);
    if (!files[CA_FILE] && !files[CA_DIR])
        (void)SSL_CTX_set_default_verify_paths(ssl);
    if (!files[CRL_FILE])
        return HLK_OK;
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    if (!lookup || X509_load_crl_file(lookup, files[CRL_FILE], X509_FILETYPE_PEM) <= 0)
        return bad_certificate_file("the CRL file", files[CRL_FILE], error);
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL); /* ALL alone checks nothing */
    return HLK_OK;
}

/* Instead of OpenSSL's own, which asks on the terminal or reads standard input. */
static int tls_on_passphrase(char *to, int size, int writing, void *is_asked)
{
    (void)to, (void)size, (void)writing;
    *(bool *)is_asked = true;
    return -1;
}

static enum hlk_status load_own(SSL_CTX *ssl, char *const *files, struct hlk_error *error)
{
    const char *key = files[KEY_FILE] ? files[KEY_FILE] : files[CERT_FILE];
    bool is_encrypted = false;
    if (!files[CERT_FILE])
        return HLK_OK;
    SSL_CTX_set_default_passwd_cb(ssl, tls_on_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, &is_encrypted); /* nothing asks later */
    if (SSL_CTX_use_certificate_chain_file(ssl, files[CERT_FILE]) != 1)
        return bad_certificate_file("the client's certificate", files[CERT_FILE], error);
    bool taken = SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) == 1;
    if (is_encrypted) {
        ERR_clear_error();
        return hlk_error_set(error, HLK_E_AUTH,
                             "TLS: the client's key \"%.200s\" is encrypted: give a key without a passphrase", key);
    }
    if (!taken || SSL_CTX_check_private_key(ssl) != 1)
        return bad_certificate_file("the client's key", key, error);
    return HLK_OK;
}

static enum hlk_status load(struct hlk_tls_context *context, struct hlk_error *error)
{
    bool changed = !context->ssl;
    for (int i = 0; i < FILES; i++)
        changed |= file_has_changed(context->files[i], &context->stamps[i]);
    if (!changed)
        return HLK_OK;
    SSL_CTX_free(context->ssl);
    context->ssl = NULL;
    SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
    if (!ssl)
        return no_memory_for(error);
    (void)SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, tls_on_verify);
    enum hlk_status status = load_trust(ssl, context->files, error);
    if (status == HLK_OK)
        status = load_own(ssl, context->files, error);
    if (status == HLK_OK)
        context->ssl = ssl;
    else
        SSL_CTX_free(ssl);
    ERR_clear_error();
    return status;
}

/* --- session --- */

static bool is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* The name to check, and for SNI; an address has no SNI. The dot of an absolute name is in no certificate. */
static bool set_name(struct hlk_tls *tls, const char *host)
{
    HLK_DEBUG_ASSERT(tls->ssl);
    (void)snprintf(tls->name, sizeof tls->name, "%s", host);
    size_t len = strlen(tls->name);
    if (len > 1 && tls->name[len - 1] == '.')
        tls->name[len - 1] = '\0';
    char *zone = strchr(tls->name, ':') ? strchr(tls->name, '%') : NULL;
    if (zone)
        *zone = '\0';
    if (is_address(tls->name))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), tls->name) == 1;
    SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(tls->ssl, tls->name) == 1 && SSL_set_tlsext_host_name(tls->ssl, tls->name) == 1;
}

struct hlk_tls *hlk_tls_create(struct hlk_tls_context *context, const char *host, struct hlk_error *error)
{
    if (load(context, error) != HLK_OK)
        return NULL;
    struct hlk_tls *tls = hlk_mem_zalloc(sizeof *tls);
    if (!tls) {
        (void)no_memory_for(error);
        return NULL;
    }
    pthread_mutex_init(&tls->mu, NULL);
    tls->ssl = SSL_new(context->ssl);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->in && tls->out && tls->ssl) {
        SSL_set_bio(tls->ssl, tls->in, tls->out);
        SSL_set_connect_state(tls->ssl);
        SSL_set_app_data(tls->ssl, tls);
        if (set_name(tls, context->server_name ? context->server_name : host))
            return tls;
    } else {
        BIO_free(tls->in);
        BIO_free(tls->out);
    }
    hlk_tls_destroy(tls);
    (void)no_memory_for(error);
    return NULL;
}

void hlk_tls_destroy(struct hlk_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    X509_free(tls->refused);
    pthread_mutex_destroy(&tls->mu);
    hlk_mem_free(tls->sending);
    hlk_mem_free(tls);
}

/* What SSL_get_error says of a call that returned `got`. 0: more must be fed; -1: see error. */
static int session_result(struct hlk_tls *tls, int got, struct hlk_error *error)
{
    long verify = SSL_get_verify_result(tls->ssl);
    switch (SSL_get_error(tls->ssl, got)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        (void)hlk_error_set(error, HLK_E_CONNECT, "connection lost: closed by the server");
        return -1;
    default:
        if (!SSL_is_init_finished(tls->ssl) && verify != X509_V_OK)
            (void)refuse_certificate(tls, verify, error);
        else
            (void)refuse_session(error);
        ERR_clear_error();
        return -1;
    }
}

int hlk_tls_handshake(struct hlk_tls *tls, struct hlk_error *error)
{
    pthread_mutex_lock(&tls->mu);
    ERR_clear_error();
    int got = SSL_do_handshake(tls->ssl);
    int result = got == 1 ? 1 : session_result(tls, got, error);
    pthread_mutex_unlock(&tls->mu);
    return result;
}

bool hlk_tls_feed(struct hlk_tls *tls, const void *bytes, size_t len)
{
    HLK_DEBUG_ASSERT(len > 0);
    pthread_mutex_lock(&tls->mu);
    bool fed = BIO_write(tls->in, bytes, (int)len) == (int)len;
    pthread_mutex_unlock(&tls->mu);
    return fed;
}

int hlk_tls_read(struct hlk_tls *tls, void *to, size_t size, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(size > 0);
    pthread_mutex_lock(&tls->mu);
    ERR_clear_error();
    int got = SSL_read(tls->ssl, to, (int)size);
    int result = got > 0 ? got : session_result(tls, got, error);
    pthread_mutex_unlock(&tls->mu);
    return result;
}

size_t hlk_tls_write(struct hlk_tls *tls, const void *bytes, size_t len, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(len > 0);
    pthread_mutex_lock(&tls->mu);
    ERR_clear_error();
    int wrote = SSL_write(tls->ssl, bytes, len < RECORD_MAX ? (int)len : RECORD_MAX);
    if (wrote <= 0 && session_result(tls, wrote, error) == 0)
        (void)hlk_error_set(error, HLK_E_CONNECT, "TLS: the server asked for a new handshake");
    pthread_mutex_unlock(&tls->mu);
    return wrote > 0 ? (size_t)wrote : 0;
}

static bool make_buffer_room(struct hlk_tls *tls, size_t size)
{
    if (size <= tls->size)
        return true;
    char *bytes = hlk_mem_realloc(tls->sending, size);
    if (!bytes)
        return false;
    tls->sending = bytes;
    tls->size = size;
    return true;
}

bool hlk_tls_output(struct hlk_tls *tls, const char **bytes, size_t *len)
{
    HLK_DEBUG_ASSERT(tls->sent <= tls->len && tls->len <= tls->size);
    bool room = true;
    if (tls->sent == tls->len) {
        tls->sent = tls->len = 0;
        pthread_mutex_lock(&tls->mu);
        size_t pending = BIO_ctrl_pending(tls->out);
        room = make_buffer_room(tls, pending);
        if (room && pending && BIO_read(tls->out, tls->sending, (int)pending) > 0)
            tls->len = pending;
        pthread_mutex_unlock(&tls->mu);
    }
    *bytes = tls->sending + tls->sent;
    *len = tls->len - tls->sent;
    return room;
}

void hlk_tls_sent(struct hlk_tls *tls, size_t len)
{
    HLK_DEBUG_ASSERT(len <= tls->len - tls->sent);
    tls->sent += len;
}

void hlk_tls_facts(struct hlk_tls *tls, struct hlk_tls_facts *facts)
{
    int days, seconds;
    pthread_mutex_lock(&tls->mu);
    X509 *cert = SSL_get1_peer_certificate(tls->ssl);
    (void)snprintf(facts->version, sizeof facts->version, "%s", SSL_get_version(tls->ssl));
    bool known = cert && ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)) == 1;
    facts->expires_s = known ? (int64_t)days * 86400 + seconds : INT64_MAX;
    X509_free(cert);
    ERR_clear_error();
    pthread_mutex_unlock(&tls->mu);
}
