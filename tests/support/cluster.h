/* cluster.h - a Redis Cluster for one test: servers of its own, masters first, joined by hand, which is faster than by
 * redis-cli.
 *
 *     static struct cluster *cluster;
 *     static void start(void) { cluster = cluster_start(3, 0); }
 *     static void stop(void) { cluster_finish(cluster); }
 *
 * Slots are spread evenly over the masters. The servers take each other for dead after CLUSTER_TIMEOUT_MS.
 */
#ifndef HLK_TEST_CLUSTER_H
#define HLK_TEST_CLUSTER_H

#include "support/proxy.h"
#include "support/raw.h"
#include "support/server.h"

#include <stdint.h>

enum { CLUSTER_MOST = 8, CLUSTER_SLOTS = 16384, CLUSTER_TIMEOUT_MS = 1000 };

struct cluster {
    int n, masters;
    int joined;                                 /* how many know each other */
    struct server *servers[CLUSTER_MOST];
    redisContext *redis[CLUSTER_MOST];          /* as raw_open; NULL once its server was killed */
    struct proxy *proxies[CLUSTER_MOST];        /* of cluster_start_behind_proxies, else NULL */
    char ids[CLUSTER_MOST][48];
    char bus_text[CLUSTER_MOST][8];
    int bus[CLUSTER_MOST], bus_held[CLUSTER_MOST];
    char announced_text[CLUSTER_MOST][8];
    const char *extra[CLUSTER_MOST][20];
    unsigned char owner[CLUSTER_SLOTS];         /* as started, and as moved by cluster_move */
    char url[256];                              /* redis+cluster://, with all masters */
};

struct cluster *cluster_start(int masters, int replicas);       /* replica i follows master i % masters */
/* Masters with an AOF. Each announces its proxy's port, so clients reach it through the proxy. */
struct cluster *cluster_start_behind_proxies(int masters);
int cluster_add(struct cluster *cluster);       /* a master without slots that the others know; its number */
/* The epoch that all of them name, after it has risen by so much. */
uint64_t cluster_raise_epoch(struct cluster *cluster, int by);
/* All of them lose their keys and forget each other (CLUSTER RESET HARD), and the first `masters` are a new cluster
 * with small epochs; the others are killed. scattered: neighbouring slots are on different servers, so that the map has
 * a range for each slot. */
void cluster_make_anew(struct cluster *cluster, int masters, bool scattered);
/* The others forget the server, and one of them has its slots. It takes itself for a cluster of one, with all slots and
 * this epoch. */
void cluster_make_alone(struct cluster *cluster, int server, int epoch);
unsigned cluster_slot(struct cluster *cluster, const char *key);
int cluster_owner(struct cluster *cluster, const char *key);    /* which server keeps it */
/* A name that begins with "t" and is kept by that server; another one for each i. */
void cluster_name(struct cluster *cluster, int server, int i, char *name, size_t size);

/* Moving a slot, in the steps that an operator's tool takes: */
void cluster_move_begin(struct cluster *cluster, unsigned slot, int to);
void cluster_move_keys(struct cluster *cluster, unsigned slot, int to);         /* all of them */
void cluster_move_end(struct cluster *cluster, unsigned slot, int to);
void cluster_move(struct cluster *cluster, unsigned slot, int to);              /* the three */

void cluster_kill(struct cluster *cluster, int server);         /* kill -9 */
/* The same address and slots; with data only if it has an AOF. Waits until it serves its slots: two seconds. */
void cluster_restart(struct cluster *cluster, int server, bool keep_data);
/* Which living server says of itself that it is the slot's master; -1: none yet. */
int cluster_master_of(struct cluster *cluster, unsigned slot);
/* server_leftovers of those that run. NULL: nothing is left. */
const char *cluster_leftovers(struct cluster *cluster);
void cluster_finish(struct cluster *cluster);   /* leftovers fail the test, of servers that run; then stops all */

#endif
