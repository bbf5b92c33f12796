/* tls.h - TLS 1.2 and later over a connected socket: what is checked, and one session's bytes.
 *
 * A session never touches the socket. It turns plain bytes into bytes for the wire and back, in memory, under a mutex
 * of its own, so that one thread may read while another one writes; sending and receiving stay with net/conn and run
 * without any mutex (docs/decisions/tls.md). */
#ifndef HLK_NET_TLS_H
#define HLK_NET_TLS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hlk_tls_opts {           /* NULL: not given */
    const char *ca_file, *ca_dir;       /* neither: the system's store */
    const char *cert_file, *key_file;   /* the client's certificate, with its chain, and its key */
    const char *crl_file;               /* certificates that are revoked */
    const char *server_name;            /* what the certificate must name, instead of the URL's host */
};

/* What every session of an endpoint has in common: read from the files, and again after one of them has changed. */
struct hlk_tls_context;
/* opts is copied. NULL: no memory. */
struct hlk_tls_context *hlk_tls_context_create(const struct hlk_tls_opts *opts);
void hlk_tls_context_destroy(struct hlk_tls_context *context);
/* What it was made with; the context's. */
struct hlk_tls_opts hlk_tls_context_opts(const struct hlk_tls_context *context);

struct hlk_tls;                 /* one session */

/* A session with `host`, a name or an address, which its certificate must name. NULL: see error; HLK_E_AUTH names the
 * file that cannot be used. One thread at a time per context. */
struct hlk_tls *hlk_tls_create(struct hlk_tls_context *context, const char *host, struct hlk_error *error);
void hlk_tls_destroy(struct hlk_tls *tls);      /* NULL is fine */

/* One step of the handshake, with what was fed. 1: done; 0: more must be fed; -1: refused, see error. Whatever it
 * returns, hlk_tls_output may have bytes to send. */
int hlk_tls_handshake(struct hlk_tls *tls, struct hlk_error *error);

/* Bytes from the wire. False: no memory. */
bool hlk_tls_feed(struct hlk_tls *tls, const void *bytes, size_t len);
/* The next plain bytes of what was fed. > 0: so many; 0: there are no more; -1: the session is over, see error. */
int hlk_tls_read(struct hlk_tls *tls, void *to, size_t size, struct hlk_error *error);

/* Plain bytes into the output. At most `len`, at least one; 0: see error. The writer's, one thread at a time, like the
 * next two. */
size_t hlk_tls_write(struct hlk_tls *tls, const void *bytes, size_t len, struct hlk_error *error);
/* What is to be sent next; *len 0: nothing. False: no memory. And how much of it was sent. */
bool hlk_tls_output(struct hlk_tls *tls, const char **bytes, size_t *len);
void hlk_tls_sent(struct hlk_tls *tls, size_t len);

struct hlk_tls_facts {          /* for people */
    char version[16];                   /* "TLSv1.3" */
    int64_t expires_s;                  /* from now until the server's certificate expires; INT64_MAX: not known */
};
void hlk_tls_facts(struct hlk_tls *tls, struct hlk_tls_facts *facts);      /* after the handshake */

#endif
