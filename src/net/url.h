/* url.h - where a client's Redis is:
 *
 *   redis://[user[:pass]@]host[:port][/db]         one server; with TLS: rediss://
 *   redis+sentinel://[user[:pass]@]host[:port],.../service[/db]
 *                                                  the master that these sentinels name; rediss+sentinel://
 *   redis+cluster://[user[:pass]@]host[:port],...  the cluster that these nodes belong to; rediss+cluster://
 *   unix:/path.sock, local:
 *
 * User and password are those of the Redis servers. A sentinel's port defaults to 26379.
 * Percent-escapes are decoded in user, password and unix path; host may be an IPv6 address in brackets; the port
 * defaults to 6379 and the db to 0. "redis://:secret@host" is a password without user (AUTH secret),
 * "redis://bob@host" a user whose password is empty (AUTH bob ""). unix: takes "unix:/path.sock", "unix:///path.sock"
 * and "?db=N". "local:" takes nothing after it, or "local:NAME" (a second private server of this user, NAME of 1 to 32
 * [A-Za-z0-9_-]). A bad URL is HLK_E_INVALID with a text that names the part and never shows the password. */
#ifndef HLK_NET_URL_H
#define HLK_NET_URL_H

#include "base/error.h"

#include <stdbool.h>

#define HLK_URL_HOSTS_MAX 32

enum hlk_url_kind { HLK_URL_TCP, HLK_URL_UNIX, HLK_URL_LOCAL, HLK_URL_SENTINEL, HLK_URL_CLUSTER };

struct hlk_host {
    char *name;                         /* or address, without brackets */
    int port;
};

struct hlk_url {
    enum hlk_url_kind kind;
    bool tls;
    struct hlk_host *hosts;             /* TCP: one. SENTINEL, CLUSTER: up to HLK_URL_HOSTS_MAX. owned, like the next */
    unsigned host_count;
    char *service;                      /* SENTINEL: the master's name */
    char *path;                         /* UNIX: socket path */
    char *name;                         /* LOCAL: server's name, "default" if none was given */
    char *username, *password;          /* NULL: none */
    int db;
    char shown[256];                    /* for people: the URL without credentials, cut if longer */
};

/* HLK_OK, HLK_E_INVALID, HLK_E_NOMEM. fini is safe after a fault, and needless. */
enum hlk_status hlk_url_parse(struct hlk_url *url, const char *text, struct hlk_error *error);
void hlk_url_fini(struct hlk_url *url);     /* wipes the password before it frees it */

#endif
