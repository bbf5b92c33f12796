/* ours.h - the parts of the driver for hasplock. It uses only public headers. */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include <hasplock/hasplock.h>

#include "driver.h"

/* ours_async.c: many pairs in flight, completions in the calling thread by hlk_client_dispatch. `await_release`: a pair
 * ends with the release's completion; else the next acquire follows at once. */
int ours_async_run(hlk_client *client, struct bench_worker *worker, bool await_release);

/* ours_quorum.c: makes it a peer whose locks are on several masters. */
void ours_quorum_peer(struct bench_peer *peer);

/* ours_semaphore.c: makes it a peer that acquires a permit of a semaphore of peer->permits. client: is there after
 * peer->open. */
void ours_semaphore_peer(struct bench_peer *peer, hlk_client *const *client);

/* ours_rw.c: makes it a peer that acquires halves of a read/write lock, by the variant. Likewise. */
void ours_rw_peer(struct bench_peer *peer, const char *variant, hlk_client *const *client);

/* ours_latch.c: makes it a peer whose threads wait for a latch. Likewise. */
void ours_latch_peer(struct bench_peer *peer, hlk_client *const *client);

/* ours_barrier.c: makes it a peer whose threads are parties of a barrier. Likewise. */
void ours_barrier_peer(struct bench_peer *peer, hlk_client *const *client);

/* ours_condition.c: makes it a peer whose threads wait at a condition: two take turns by signals, or, to_all, many wait
 * for one broadcast. Likewise. */
void ours_condition_peer(struct bench_peer *peer, bool to_all, hlk_client *const *client);

/* ours_multilock.c: makes it a peer that acquires several locks at once, by the variant. Likewise. */
void ours_multilock_peer(struct bench_peer *peer, const char *variant, hlk_client *const *client);

/* ours_open.c: makes it a peer that opens and closes a client around each acquire and release. */
void ours_open_peer(struct bench_peer *peer);

/* ours_hold.c: locks that are held for a long time. */
int ours_hold(hlk_client *client, int count);
int ours_drop(void);
void ours_stats(const hlk_client *client, FILE *out);

#endif
