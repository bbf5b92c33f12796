/* pipeline_link.h - the life of a shared connection: dialling, coming up, breaking, closing. */
#ifndef HLK_NET_PIPELINE_LINK_H
#define HLK_NET_PIPELINE_LINK_H

#include "net/pipeline.h"

enum hlk_status hlk_pipeline_create(hlk_pipeline **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                    const struct hlk_greeting *greeting, const struct hlk_pipeline_owner *owner,
                                    bool no_spin, struct hlk_error *error);
void hlk_pipeline_close(hlk_pipeline *pipeline);       /* everything in it ends; later calls are refused. Any thread */
void hlk_pipeline_destroy(hlk_pipeline *pipeline);     /* after close and after the loop has stopped */

/* Since when the server has been the same process: what was sent from then on, and answered, was answered by the
 * process that is connected now, or was last. */
int64_t hlk_pipeline_server_since(hlk_pipeline *pipeline);

/* A number for that process; 0: not known. */
uint64_t hlk_pipeline_server(hlk_pipeline *pipeline);

/* The latest moment at which that process may have started. *told: the server has said so; else it is when this client
 * met it, for the user may not run INFO. */
int64_t hlk_pipeline_server_started(hlk_pipeline *pipeline, bool *told);

/* The stream of this epoch answered with something that was not the answer: it is out of step, and ended;
 * the log says so. */
void hlk_pipeline_distrust(hlk_pipeline *pipeline, uint64_t epoch);

/* Loop thread: the endpoint means another server now, and the one before may answer still. What is in flight ends as if
 * the connection had broken, so that nothing more is taken from that server; what is being dialled is dialled anew. */
void hlk_pipeline_move(hlk_pipeline *pipeline);

/* Everything that is in the stream now has been answered, or at_ms came (false). Blocks. */
bool hlk_pipeline_drain(hlk_pipeline *pipeline, int64_t at_ms);

/* --- for the other files of the pipeline --- */

/* mu held: a stream begins, to this process of the server's (0: not known, so it may be another one) */
void hlk_pipeline_begin_epoch(struct hlk_pipeline *pipeline, uint64_t server, int64_t uptime_ms);

#endif
