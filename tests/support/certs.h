/* certs.h - certificates for a test's servers and clients, made by the openssl command, in a directory of the test's.
 *
 * ca.pem and ca.key are a CA of the test's own. A certificate NAME is NAME.pem and NAME.key. */
#ifndef HLK_TEST_CERTS_H
#define HLK_TEST_CERTS_H

#include <stdbool.h>

struct certs {
    char dir[80];
};

/* Makes dir/ca.pem, a CA, and dir/server.pem, for localhost, 127.0.0.1 and ::1. dir exists. */
void certs_make(struct certs *certs, const char *dir);

/* From now on the clients of this process that name no CA trust this one, and those of earlier calls. */
void certs_trust(const struct certs *certs);

struct cert_wish {
    const char *name;           /* of the files */
    const char *alt;            /* subjectAltName, "DNS:localhost,IP:127.0.0.1" */
    const char *ca;             /* that signs it; NULL: "ca"; "": self-signed */
    const char *from, *to;      /* validity, "20200101000000Z"; NULL: today and tomorrow */
    const char *more;           /* a further extension, "extendedKeyUsage=clientAuth"; NULL: none */
    bool is_ca;
};
void certs_add(const struct certs *certs, const struct cert_wish *wish);
/* dir/NAME: the CA's list of revoked certificates, with `revoked` in it (NULL: none). */
void certs_revoke(const struct certs *certs, const char *revoked, const char *name);
/* Appends to dir/NAME the list of revoked certificates of the CA `ca`, valid until `to`; NULL: for years. */
void certs_add_list(const struct certs *certs, const char *ca, const char *to, const char *name);
/* A copy of NAME.key that is encrypted: dir/COPY. */
void certs_encrypt_key(const struct certs *certs, const char *name, const char *copy);
/* dir/NAME: the certificates FIRST, SECOND, as a server sends its chain. */
void certs_chain(const struct certs *certs, const char *first, const char *second, const char *name);
/* The path of a file there. Static memory, the last eight calls'. */
const char *certs_file(const struct certs *certs, const char *name);

#endif
