/* every_cluster.h - a Redis Cluster as a place of each kind of lock (integration/every_kind.h). The start of a cluster
 * takes two seconds, as does a restart of a server. So a test has one cluster, and on it the promises of a kind, one
 * after the other.
 *
 * `fixture` is about the server of the lock "t", its home. */
#ifndef HLK_TEST_CLUSTER_EVERY_CLUSTER_H
#define HLK_TEST_CLUSTER_EVERY_CLUSTER_H

#include "fixture.h"
#include "integration/every_promise.h"

/* For .init and .fini: a cluster behind proxies; one whose masters have replicas; and its end. */
void every_cluster_begin(void);
void every_cluster_begin_replicas(void);
void every_cluster_end(void);

unsigned home_slot(void);
int home(void);                     /* the server that has it, by what this test has done */
void home_moves(int server);        /* it is that one from now on */

/* A promise, from an empty cluster to an empty cluster. If it fails, its name is printed. */
void every_run(const struct every_kind *kind, const char *name, void (*promise)(const struct every_kind *kind));
#define EVERY_RUN(kind, promise, flags) every_run(&every_kinds[EVERY_##kind], #kind " " #promise, promise);

#endif
