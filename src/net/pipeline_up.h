/* pipeline_up.h - waiting for a connection, and whether one may still come. */
#ifndef HLK_NET_PIPELINE_UP_H
#define HLK_NET_PIPELINE_UP_H

#include "net/pipeline.h"

/* Waits until connected. HLK_OK; HLK_E_CONNECT at at_ms, or HLK_E_AUTH and the like at once when the server refused us
 * (see error), and HLK_E_OS or NOMEM at once as long as it was never up; HLK_E_CLOSED; HLK_INTERRUPTED: a bit of mask.
 * A cancellation point like hlk_pipeline_wait. */
enum hlk_status hlk_pipeline_wait_up(hlk_pipeline *pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask,
                                     struct hlk_error *error);

/* The same. HLK_OK also when there were more reroutes than these. */
enum hlk_status hlk_pipeline_wait_since(hlk_pipeline *pipeline, struct hlk_thread *self, int64_t at_ms, unsigned mask,
                                        unsigned reroutes, struct hlk_error *error);

/* The same without a thread. False: up already, or closed, or more reroutes: `up` will not run. */
bool hlk_pipeline_when_up(hlk_pipeline *pipeline, struct hlk_up *up, unsigned reroutes);
bool hlk_pipeline_forget_up(hlk_pipeline *pipeline, struct hlk_up *up);        /* true: it will not run */

/* Until when a call that began then rides out that there is no connection: reconnect_timeout_ms from its start, or
 * from the loss of the connection if that was later. < 0: INT64_MAX. */
int64_t hlk_pipeline_reconnect_until(hlk_pipeline *pipeline, int64_t began_ms, int64_t reconnect_timeout_ms);

/* HLK_OK: up. Else why not: E_CONNECT while it may still come, E_AUTH..., E_CLOSED. */
enum hlk_status hlk_pipeline_health(hlk_pipeline *pipeline, struct hlk_error *error);

/* Each wait for this connection looks again where to send: another server has got what this one had. Loop thread. */
void hlk_pipeline_reroute(hlk_pipeline *pipeline);
unsigned hlk_pipeline_reroutes(hlk_pipeline *pipeline);        /* how often that was */

/* Begins to connect, if that was not begun. Shortens the long pause of hlk_pipeline_rest. Any thread. */
void hlk_pipeline_link_dial(hlk_pipeline *pipeline);

/* true: no command needs this server. While it is away, an attempt to connect is made every 5 s. The pause is the usual
 * one again when a caller waits for the connection, or calls hlk_pipeline_link_dial. Any thread. */
void hlk_pipeline_rest(hlk_pipeline *pipeline, bool rests);

/* An attempt to connect has ended, well or not. */
bool hlk_pipeline_tried(hlk_pipeline *pipeline);

/* One has ended well. */
bool hlk_pipeline_was_up(hlk_pipeline *pipeline);

/* --- for the other files of the pipeline --- */

void hlk_pipeline_report_up(struct hlk_pipeline *pipeline);    /* mu held: each wait in waiting_up looks again */
void hlk_pipeline_run_up_waiters(struct hlk_pipeline *pipeline);    /* loop thread: runs each hlk_up that waits now */
bool hlk_pipeline_is_refused(const struct hlk_pipeline *pipeline);     /* mu held: to wait on would not help */

#endif
