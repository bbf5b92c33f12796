/* server.h - a private redis-server for one test.
 *
 * Listens on a Unix socket in a directory of its own and, when asked, on a free loopback port. It dies with the thread
 * that started it (parent-death signal), so start it in the test's main thread: in .init or in the test itself.
 *
 *     static struct server *server;
 *     static void start(void) { server = server_start(0, NULL); }
 *     static void stop(void) { server_finish(server); }
 *     TestSuite(lock, .init = start, .fini = stop);
 *
 * With HLK_TEST_ACL=1 in the environment hlk_test_url names a user with the rights of acl.h and no others, and the
 * default user has a password that only raw_open (raw.h) knows. Names of locks in tests begin with "t" for that.
 *
 * With HLK_TEST_SERVER in the environment it is that program, a redis-server or a valkey-server; else the redis-server
 * in PATH.
 *
 * Trouble with the server itself (no binary, does not come up) ends the test at once with a line on stderr.
 */
#ifndef HLK_TEST_SERVER_H
#define HLK_TEST_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#define SERVER_TCP   0x1u       /* also on 127.0.0.1 */
#define SERVER_AOF   0x2u       /* every write is on disk: server_restart can bring the data back */
#define SERVER_NOACL 0x4u       /* rights as a server of its own makes them, also with HLK_TEST_ACL=1 */

#define SERVER_ADMIN_PASSWORD "admin-of-the-test"   /* the default user's, when server->acl */

struct server {
    pid_t    pid;           /* 0: not running */
    unsigned flags;
    bool     acl;
    int      port;          /* 0: no TCP */
    int      port_held;     /* port.h; -1: no TCP */
    char     dir[64];       /* ours, removed by server_stop */
    char     socket[80];
    char     url[160], unix_url[96];
    char     allowed[512];  /* globs of keys that may be left, with blanks between */
    const char *const *extra;   /* borrowed */
};

/* Starts one; returns when it has answered a PING. `extra`: more arguments of redis-server, NULL at the end; NULL:
 * none. */
struct server *server_start(unsigned flags, const char *const *extra);

/* For the library: by socket, or by TCP when SERVER_TCP was asked for or there are credentials to carry. */
const char *hlk_test_url(const struct server *server);

void server_kill(struct server *server);        /* SIGKILL, and waits until it is dead; fine when it is */
void server_pause(struct server *server);       /* SIGSTOP, and waits until it stands: nothing is answered any more */
void server_resume(struct server *server);      /* SIGCONT */

/* Kills it if it runs and starts it at the same address; it comes back empty unless keep_data (SERVER_AOF only). */
void server_restart(struct server *server, bool keep_data);

/* Lets keys that match `glob` (fnmatch) be left at the end. SERVER_VOID: queues in which nobody waits, only
 * holds that ended in doubt; SERVER_QUEUE: queues in which somebody died. */
void server_allow(struct server *server, const char *glob);
#define SERVER_VOID  "void:hasplock_queue:*"
#define SERVER_QUEUE "hasplock_queue:*"

/* Waits until no key is left but allowed ones and nobody is subscribed to anything. NULL: so it is; else what is
 * left. */
const char *server_leftovers(struct server *server);

void server_stop(struct server *server);        /* kills it, removes its directory, frees. NULL is fine */
void server_finish(struct server *server);      /* leftovers fail the test (if it runs); then as server_stop */

#endif
