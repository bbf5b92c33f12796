/* url.h - the URL of several independent masters:
 *
 *     redlock://[user[:password]@]host[:port][/db],...[?option=value&...]       redlocks:// by TLS
 *
 * A master may also be unix:/path. Options are those of struct hlk_quorum_opts that have a number, by the same names;
 * a 0 means 0. Texts of faults quote nothing, because a mistyped URL may have its password anywhere. */
#ifndef HLK_QUORUM_URL_H
#define HLK_QUORUM_URL_H

#include "base/error.h"
#include "hasplock/quorum.h"

#include <stdbool.h>

struct hlk_quorum_url {
    char *text;                         /* the masters' URLs, each with its NUL */
    size_t size;
    const char *urls[HLK_QUORUM_MAX];   /* in text */
    unsigned count;
    struct hlk_quorum_opts opts;        /* those that the URL does not name are 0 */
};

bool hlk_quorum_url_is(const char *text);           /* false for NULL */
/* HLK_OK, HLK_E_INVALID, HLK_E_NOMEM. The masters' own URLs are not parsed. fini is safe after a fault, and
 * needless. */
enum hlk_status hlk_quorum_url_parse(struct hlk_quorum_url *url, const char *text, struct hlk_error *error);
void hlk_quorum_url_fini(struct hlk_quorum_url *url);  /* wipes passwords */

#endif
