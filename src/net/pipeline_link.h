/* pipeline_link.h - the life of a shared connection: dialling, coming up, breaking, closing, and the loop's turn as
 * leader. */
#ifndef HLK_NET_PIPELINE_LINK_H
#define HLK_NET_PIPELINE_LINK_H

#include "net/pipeline.h"

enum hlk_status hlk_pipeline_create(hlk_pipeline **out, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                    const struct hlk_greeting *greeting, const struct hlk_pipeline_owner *owner,
                                    bool no_spin, struct hlk_error *error);
void hlk_pipeline_close(hlk_pipeline *pipeline);       /* everything in it ends; later calls are refused. Any thread */
void hlk_pipeline_destroy(hlk_pipeline *pipeline);     /* after close and after the loop has stopped */

/* For a thread that waits for lazy calls on several pipelines at once. Reads what is there, unless another thread
 * leads; does not block. The ends of calls run before it returns. */
void hlk_pipeline_poll_once(hlk_pipeline *pipeline);

/* For how long such a thread polls before it sleeps, as far as this connection is concerned. */
int64_t hlk_pipeline_spin_ns(hlk_pipeline *pipeline);

/* While on, the loop reads answers as they come: such a thread goes to sleep. Each `on` is followed by one off. */
void hlk_pipeline_expect(hlk_pipeline *pipeline, bool on);

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

/* --- dispatch: the user's loop leads --- */

/* Leads for one round without blocking: writes what is queued, reads what is there. */
void hlk_pipeline_dispatch(hlk_pipeline *pipeline);

/* While on, calls without a waiter are only queued: a push, or the next dispatch, writes them. Off writes. */
void hlk_pipeline_hold_back(hlk_pipeline *pipeline, bool on);

/* Writes what is queued, if it may be written now. Any thread. */
void hlk_pipeline_push(hlk_pipeline *pipeline);

/* Puts the socket into epoll set `epfd`, for one event, if answers are due that no caller leads for. True: something is
 * queued that no thread will write unless dispatch comes again. */
bool hlk_pipeline_arm(hlk_pipeline *pipeline, int epfd);

/* --- for the other files of the pipeline --- */

/* mu held: a stream begins, to this process of the server's (0: not known, so it may be another one) */
void hlk_pipeline_begin_epoch(struct hlk_pipeline *pipeline, uint64_t server, int64_t uptime_ms);

#endif
