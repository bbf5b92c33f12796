/* floor.h - the parts of the floor driver. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "driver.h"
#include "floor_conn.h"

/* floor_pipeline.c: the ceiling of one connection and one Redis thread. */
int floor_pipeline_run(struct bench_worker *worker);

/* floor_message.c: makes it a peer whose threads wait for a message. */
void floor_message_peer(struct bench_peer *peer);

/* floor_batch.c: locks that are held and renewed. */
int floor_batch_hold(int count, const struct bench_options *options);
int floor_batch_drop(void);
void floor_batch_stats(FILE *out);

#endif
