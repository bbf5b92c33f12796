/* url.h - where Redis is: --url, --url-file, HASPLOCK_URL or HASPLOCK_URL_FILE. */
#ifndef HLK_CLI_URL_H
#define HLK_CLI_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options (NULL: not given) before the environment; two of one kind are one too many. On success *url is the URL
 * and *file where it was read from, or NULL; both live as long as the process. False: `why` says what is wrong. */
bool url_find(const char **url, const char **file, char *why, size_t why_size);

/* True when a URL has a password in it, so that COMMAND must not inherit it. Rather once too often. */
bool url_has_password(const char *url);

/* What a URL begins with decides; in any case, as for the library. With TLS? Several masters, redlock? */
bool url_has_tls(const char *url);
bool url_has_masters(const char *url);

/* The URL of one of several masters, from 0, as that of a server. Returns buf. NULL: there is none, or it is too
 * long. */
const char *url_of_master(const char *url, unsigned master, char *buf, size_t size);

/* The lease that the URL of several masters gives (ttl_ms); 0: none, or not one that can be read. */
int64_t url_lease_ms(const char *url);

#endif
