/* send.h - short commands about a lock, one script each: extend, break, the count of nested holds. */
#ifndef HLK_HANDLE_SEND_H
#define HLK_HANDLE_SEND_H

#include "handle/handle.h"

/* Sends `command` and gives the answer to `read`. Its script and arguments are set, and its pipeline only where it is
 * about no lock, or about one over several servers. Limits NULL: all 0. Faults set the thread's error. Blocks. */
enum hlk_status hlk_lock_send(hlk_lock *lock, const char *operation, const struct hlk_command *command,
                              const struct hlk_send_limits *limits, void (*read)(const struct hlk_command *cmd,
                              void *ctx), void *ctx);

/* The same for a command that is answered by a number, which is the reply or the first element of it. `changes`: not
 * the same if it runs twice, so an attempt in doubt is not repeated. HLK_E_SERVER: the answer is no number. */
enum hlk_status hlk_lock_ask_number(hlk_lock *lock, const char *operation, const struct hlk_command *command,
                                    bool changes, int64_t *answer);

/* Sends a command whose answer nobody waits for; cmd->drop_notes or cmd->note is copied. It runs once, more often, or,
 * without memory or without a connection, not at all: what it says must be right then too. If the user may not send it,
 * that is noted (hlk_lock.forbidden). Any thread. Does not block. */
void hlk_lock_send_and_forget(hlk_lock *lock, const struct hlk_command *command);

/* Break on one server. at: one of several, with a time-out, and where a fault goes; or NULL, 0, NULL: the lock's own
 * server, and the thread's error. only: the holder from which it is taken; NULL: any. */
struct hlk_broken {
    bool taken;                     /* from the holder; else it is another one than `only`, or "": none */
    char holder[HLK_FIELD_MAX];
};
enum hlk_status hlk_lock_break_at(hlk_lock *lock, hlk_pipeline *at, int64_t max_ms, const char *only,
                                  struct hlk_broken *out, struct hlk_error *error);

/* HLK_NOT_HOLDER of a break: "" or another holder is there. */
enum hlk_status hlk_lock_not_broken(const hlk_lock *lock, const char *only, const char *holder);

/* Writes count and lease (0: unchanged) of a hold. HLK_OK, HLK_LOST (reported), HLK_NOT_HOLDER (its owner's other
 * thread has released it meanwhile), or a fault, with the thread's error set. */
enum hlk_status hlk_lock_reacquire(hlk_lock *lock, struct hlk_entry *e, const char *operation, uint64_t h,
                                   int64_t count, int64_t lease_ms, const struct hlk_send_limits *limits);

/* Writes only the count, which is for display, and does not wait. If the server no longer knows the hold, the loss is
 * reported. */
void hlk_lock_write_count(hlk_lock *lock, struct hlk_entry *e, uint64_t h, int64_t count);

#endif
