/* sentinels.h - a master, its replicas, and three sentinels that watch them: all of one test.
 *
 *     sentinels_begin(1);
 *     hlk_client *client = fixture_open_at(sentinels.url, NULL);
 *     sentinels_fail_over();
 *     ...
 *     sentinels_end();
 *
 * They are started in the order in which the first failover works: the replicas first, and the sentinels know each
 * other and every replica before sentinels_begin returns. A master is replaced after SENTINELS_PATIENCE_MS of silence:
 * a busy machine does not do that by itself. For one that sentinels_kill has killed, SENTINELS_DOWN_MS are enough.
 */
#ifndef HLK_TEST_SENTINELS_H
#define HLK_TEST_SENTINELS_H

#include "support/fixture.h"

#include <stdint.h>

enum { SENTINELS = 3, SENTINELS_SERVERS_MAX = 3, SENTINELS_DOWN_MS = 800, SENTINELS_PATIENCE_MS = 10000 };
#define SENTINELS_SERVICE "tmaster"

struct sentinels {
    struct server *sentinels[SENTINELS];
    redisContext *sentinel_views[SENTINELS];
    struct server *servers[SENTINELS_SERVERS_MAX];
    redisContext *views[SENTINELS_SERVERS_MAX];     /* of sentinels_at */
    int server_count;
    char url[256];              /* redis+sentinel://, all three */
};
extern struct sentinels sentinels;

void sentinels_begin(int replicas);
/* From now on the sentinels take this user only; they know that of each other. */
void sentinels_set_user(const char *user, const char *password);
/* Destroys the fixture's locks and clients; then fails the test if a key, or anybody subscribed, is left at the master.
 */
void sentinels_end(void);

/* redis+sentinel:// of the n sentinels from `first` on. Valid until the 4th next call. */
const char *sentinels_url(int first, int n, const char *service);
const char *sentinels_address(const struct server *server);     /* 127.0.0.1:port, the same */

int  sentinels_master(void);            /* which server the sentinels that answer name, all of them; -1: they differ */
/* The server's own view, each time by a new connection: sentinels close those of servers whose role they change. */
redisContext *sentinels_at(int server);
redisContext *sentinels_view(void);     /* the master's */
void sentinels_await_copy(const char *key);     /* until every replica that is attached has it */

void sentinels_await_replica(int server);       /* until all sentinels see it as a replica that they may promote */

void sentinels_fail_over(void);         /* planned: returns when all sentinels name another master, and it is one */
int  sentinels_await_switch(int before);/* waits for that; the new master */
/* The replica gets nothing more of its master, until sentinels_attach. */
void sentinels_cut_off(int replica);
void sentinels_attach(int replica);

void sentinels_kill(int server);                /* SIGKILL */
/* As a replica of the master, as its configuration file would say by then. The sentinels would do that too, but take up
 * to half a minute. */
void sentinels_restart(int server);
void sentinels_kill_sentinel(int i);
void sentinels_restart_sentinel(int i);         /* it knows what it knew */
void sentinels_pause_sentinel(int i);           /* SIGSTOP; until sentinels_end */

#endif
