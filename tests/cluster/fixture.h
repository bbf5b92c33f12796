/* fixture.h - a cluster of three masters, a client of it, and what tests ask of both. */
#ifndef HLK_TEST_CLUSTER_FIXTURE_H
#define HLK_TEST_CLUSTER_FIXTURE_H

#include "support/cluster.h"
#include "support/fixture.h"

#include <criterion/criterion.h>

enum { MASTERS = 3 };

extern struct cluster *cluster;

void cluster_begin(void);                   /* three masters */
void cluster_begin_replicas(void);          /* and a replica of each */
void cluster_end(void);                     /* as fixture_end, for each server that runs */

/* Options with which a test outlasts what it does to the cluster. */
struct hlk_client_opts patient_opts(void);
hlk_client *open_cluster(void);             /* with these, and all masters in its URL */

hlk_lock *lock_at(hlk_client *client, int server, int i, const struct hlk_lock_opts *opts);     /* cluster_name */
unsigned slot_of(const hlk_lock *lock);
bool is_at(const hlk_lock *lock, int server);       /* the lock's key is there */
int replica_of(int server);                         /* of cluster_begin_replicas; the other way, too */
void replicated(int server);                        /* waits until its replica has all that was written so far */
void acquire(hlk_lock *lock);
void release(hlk_lock *lock);

#endif
