/* pipeline_ends.h - the calls in flight, in order, and their ends. */
#ifndef HLK_NET_PIPELINE_ENDS_H
#define HLK_NET_PIPELINE_ENDS_H

#include "net/pipeline_internal.h"

/* mu held: of the flight; NULL: none */
struct hlk_call *hlk_pipeline_first(const struct hlk_pipeline *pipeline);

/* mu held: takes it out of the flight */
void hlk_pipeline_end_call(struct hlk_pipeline *pipeline, struct hlk_call *call, enum hlk_call_end end,
                           struct hlk_ends *ends);

/* Wakes the callers, or runs `done`, of ended calls. No mutex held. */
void hlk_pipeline_report_ends(struct hlk_ends *ends);

#endif
