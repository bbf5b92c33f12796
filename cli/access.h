/* access.h - the files, beside the URL, that a connection needs: of TLS, and of the password. Each is an option or a
 * variable of the environment. */
#ifndef HLK_CLI_ACCESS_H
#define HLK_CLI_ACCESS_H

#include <hasplock/client.h>

#include <stdbool.h>
#include <stddef.h>

enum access_word {
    ACCESS_CACERT,
    ACCESS_CACERTDIR,
    ACCESS_CERT,
    ACCESS_KEY,
    ACCESS_CRL,
    ACCESS_SNI,
    ACCESS_PASSWORD_FILE,
    ACCESS_WORDS
};

struct access {
    const char *words[ACCESS_WORDS];    /* NULL: not given */
};

/* Fills what no option gave from the environment. Variables for TLS have no effect on a URL without TLS; an option is
 * then a mistake: false, and why. */
bool access_find(struct access *access, const char *url, char *why, size_t why_size);

void access_fill(const struct access *access, struct hlk_client_opts *opts);

/* The variable that means the same, "HASPLOCK_CACERT". */
const char *access_variable(enum access_word word);
/* Its value for a process that may have another directory; NULL: none, or no memory. Free it. */
char *access_value(const struct access *access, enum access_word word);

#endif
