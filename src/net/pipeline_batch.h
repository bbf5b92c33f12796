/* pipeline_batch.h - several callers' commands as one. A run of a script costs the server about as much as what a
 * simple command does in it: so what is queued when a write begins leaves in as few runs as may be (script/batch.h;
 * the figures are in docs/decisions/combining.md). To its caller each call stays one of its own. */
#ifndef HLK_NET_PIPELINE_BATCH_H
#define HLK_NET_PIPELINE_BATCH_H

#include "net/pipeline_internal.h"

/* Moves what is queued into `wire`, neighbours combined. False: no memory, nothing was moved */
bool hlk_pipeline_batch(struct hlk_pipeline *pipeline);

/* The answer of a combined command, whose calls are the first of the flight; frees it. False: it is none of such a one,
 * and they stay in flight */
bool hlk_pipeline_unbatch(struct hlk_pipeline *pipeline, redisReply *reply, struct hlk_ends *ends);

#endif
