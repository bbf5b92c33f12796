/* credentials.h - as which user a connection logs in: by the URL or the options, by a file that is read each time, or
 * by a callback. */
#ifndef HLK_NET_CREDENTIALS_H
#define HLK_NET_CREDENTIALS_H

#include "base/error.h"
#include "hasplock/client.h"
#include "net/url.h"

struct hlk_credentials_source {
    const char *password_file;          /* NULL: the URL's password */
    hlk_credentials_fn *callback;       /* NULL: none */
    void *ctx;
};

/* HLK_OK: *out has them; wipe it after use. *user, *password: they are to be sent. HLK_E_AUTH: see error. */
enum hlk_status hlk_credentials_read(const struct hlk_credentials_source *source, const struct hlk_url *url,
                                     struct hlk_credentials *out, bool *user, bool *password, struct hlk_error *error);
void hlk_credentials_wipe(struct hlk_credentials *credentials);

#endif
