/* url.h - where a client's Redis is: redis://[user[:pass]@]host[:port][/db], unix:/path.sock, local:
 *
 * Percent-escapes are decoded in user, password and unix path; host may be an IPv6 address in brackets; the port
 * defaults to 6379 and the db to 0. "redis://:secret@host" is a password without user (AUTH secret),
 * "redis://bob@host" a user whose password is empty (AUTH bob ""). unix: takes "unix:/path.sock", "unix:///path.sock"
 * and "?db=N". "local:" takes nothing after it, or "local:NAME" (a second private server of this user, NAME of 1 to 32
 * [A-Za-z0-9_-]). A bad URL is HLK_E_INVALID with a text that names the part and never shows the password. */
#ifndef HLK_NET_URL_H
#define HLK_NET_URL_H

#include "base/error.h"

enum hlk_url_kind { HLK_URL_TCP, HLK_URL_UNIX, HLK_URL_LOCAL };

struct hlk_url {
    enum hlk_url_kind kind;
    char *host;                         /* TCP: name or address without brackets. owned, like the next ones */
    char *path;                         /* UNIX: socket path */
    char *name;                         /* LOCAL: server's name, "default" if none was given */
    char *username, *password;          /* NULL: none */
    int port, db;
    char shown[256];                    /* for people: the URL without credentials, cut if longer */
};

/* HLK_OK, HLK_E_INVALID, HLK_E_NOMEM. fini is safe after a fault, and needless. */
enum hlk_status hlk_url_parse(struct hlk_url *url, const char *text, struct hlk_error *error);
void hlk_url_fini(struct hlk_url *url);     /* wipes the password before it frees it */

#endif
