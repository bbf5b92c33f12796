/* server.h - a private redis-server for one test.
 *
 * It listens on a Unix socket in a directory of its own and, with SERVER_TCP, on a free loopback port. It dies with the
 * thread that started it (parent-death signal). So start it in the test's main thread: in .init or in the test itself.
 *
 *     static struct server *server;
 *     static void start(void) { server = server_start(0, NULL); }
 *     static void stop(void) { server_finish(server); }
 *     TestSuite(lock, .init = start, .fini = stop);
 *
 * With HLK_TEST_ACL=1 in the environment, hlk_test_url names a user with exactly the rights of acl.h, and only raw_open
 * (raw.h) knows the default user's password. Therefore the names of locks in tests begin with "t".
 *
 * With HLK_TEST_TLS=1 in the environment hlk_test_url is one with TLS, and SSL_CERT_FILE names the CAs.
 *
 * With HLK_TEST_COLD in the environment no server knows the scripts before a client sends them: a test that counts
 * commands fails then.
 *
 * With HLK_TEST_SERVER in the environment it is that program, a redis-server or a valkey-server; else the redis-server
 * in PATH.
 *
 * If the server itself fails (no program, does not start), the test ends at once with a line on stderr. */
#ifndef HLK_TEST_SERVER_H
#define HLK_TEST_SERVER_H

#include "support/certs.h"

#include <stdbool.h>
#include <sys/types.h>

#define SERVER_TCP   0x1u       /* also on 127.0.0.1 */
#define SERVER_AOF   0x2u       /* every write is on disk: server_restart can bring the data back */
#define SERVER_TLS   0x8u       /* also a TLS port, with certs of its own; server->url is still the plain one */
#define SERVER_NOACL 0x4u       /* rights as a server of its own makes them, also with HLK_TEST_ACL=1 */
#define SERVER_COLD  0x20u      /* it does not know the scripts; else it does, unless it has users (HLK_TEST_ACL) */
#define SERVER_SENTINEL 0x10u   /* a sentinel, by TCP too; `extra` are lines of its configuration file */

#define SERVER_ADMIN_PASSWORD "admin-of-the-test"   /* the default user's, when server->acl */

struct server {
    pid_t    pid;           /* 0: not running */
    unsigned flags;
    bool     acl;
    int      port;          /* 0: no TCP */
    int      port_held;     /* port.h; -1: no TCP */
    char     dir[64];       /* removed by server_stop */
    char     socket[80], conf[80];
    char     url[160], unix_url[96];
    char     allowed[512];  /* patterns of keys that may be left, separated by blanks */
    const char *const *extra;   /* borrowed */
    struct certs certs;         /* SERVER_TLS: in dir */
    int      tls_port, tls_port_held;
    char     tls_url[160];
};

/* Starts a server; returns when it has answered a PING. `extra`: more arguments of redis-server, with NULL at the end.
 * NULL: none. */
struct server *server_start(unsigned flags, const char *const *extra);

/* For the library: by Unix socket, or by TCP with SERVER_TCP or if there are credentials. */
const char *hlk_test_url(const struct server *server);

void server_kill(struct server *server);        /* SIGKILL, and waits until it is dead; no-op if it is */
void server_pause(struct server *server);       /* SIGSTOP, and waits until it has stopped */
void server_resume(struct server *server);      /* SIGCONT */

/* Kills it if it runs, and starts it at the same address. It starts empty, unless keep_data (SERVER_AOF only). */
void server_restart(struct server *server, bool keep_data);

/* Allows keys that match `glob` (fnmatch) at the end. SERVER_TOMBSTONES: queues without waiters, which contain only
 * tombstones. SERVER_QUEUE: queues with tickets of dead clients. */
void server_allow(struct server *server, const char *glob);
#define SERVER_TOMBSTONES  "tombstones:hasplock_queue:*"
#define SERVER_QUEUE "hasplock_queue:*"

/* Waits until only allowed keys and no subscriptions are left. NULL: so it is. Else the text says what is left. */
const char *server_leftovers(struct server *server);

void server_stop(struct server *server);        /* kills it, removes its directory, frees. NULL is fine */
void server_finish(struct server *server);      /* leftovers of a running server fail the test; then as server_stop */

#endif
