/* engine.h - a command until it is answered: attempts, one at a time, lost connections, refusals, time.
 *
 * Each step says how far the command is, and its driver provides what it needs next: a blocked thread by
 * hlk_command_run, an acquire in acquire/acquire_step.c, releases in script/pending_release.c.
 *
 *   RESEND --send--> IN_FLIGHT --its call ends, end--> ANSWERED | FAILED | RESEND | PAUSED
 *              `---> UNCONNECTED --connected--> RESEND          PAUSED --until_ms--> RESEND, or FAILED
 *              `---> PAUSED: in a cluster of which no server is known yet
 *
 * An attempt that was written to a connection that broke stays in doubt: it may have run, or may run yet. */
#ifndef HLK_SCRIPT_ENGINE_H
#define HLK_SCRIPT_ENGINE_H

#include "script/command.h"

enum hlk_progress {
    HLK_COMMAND_RESEND,         /* hlk_command_send, at once */
    HLK_COMMAND_IN_FLIGHT,      /* an attempt is: hlk_command_end when its call has ended */
    HLK_COMMAND_UNCONNECTED,    /* no connection: hlk_command_send when there is one; until_ms: no longer than that */
    HLK_COMMAND_PAUSED,         /* refused for now, error says why. At until_ms: hlk_command_send if cmd->resends, else
                                 * the refusal is the outcome */
    HLK_COMMAND_ANSWERED,       /* call.reply, the driver's to drop */
    HLK_COMMAND_FAILED          /* error; not done by the last attempt (hlk_command_give_up) */
};

/* The server of the next attempt, in cmd->pipeline. False: none is known yet. */
bool hlk_command_route(struct hlk_command *cmd);

/* Formats and sends an attempt; call.waiter, or call.done and call.lazy, are set. IN_FLIGHT: with `done` the command
 * may be over, and gone, on return. UNCONNECTED, or FAILED: nothing was sent. */
enum hlk_progress hlk_command_send(struct hlk_command *cmd, struct hlk_error *error);

/* The call of the attempt has ended. Not IN_FLIGHT, nor UNCONNECTED. No attempt is sent so late that it would mostly be
 * unanswered: that would make "sent, may have run" out of a refusal. */
enum hlk_progress hlk_command_end(struct hlk_command *cmd, struct hlk_error *error);

/* It is not sent again, for what *error says. If an attempt may have run that is HLK_E_UNSURE, in *error too. */
enum hlk_status hlk_command_give_up(const struct hlk_command *cmd, struct hlk_error *error);

/* Blocking. HLK_OK: answered. HLK_INTERRUPTED: a bit of `mask` is set. HLK_E_UNSURE: limits.at_ms came while an attempt
 * was in flight, or one broke and limits.once. Another fault: what ended it, and an attempt may have run all the same.
 * *in_flight (false before the first call): an attempt is, and is the caller's to hlk_pipeline_leave, or to wait on for
 * by calling again. A cancellation point if the thread is cancellable. */
enum hlk_status hlk_command_run(struct hlk_command *cmd, struct hlk_thread *self, unsigned mask, bool *in_flight,
                                struct hlk_error *error);

#endif
