/* keep.h - --min-hold: the lock is kept for a while when COMMAND has ended. */
#ifndef HLK_CLI_KEEP_H
#define HLK_CLI_KEEP_H

#include "options.h"
#include "watch.h"

#include <hasplock/hasplock.h>

#include <stdint.h>

/* Returns at until_ms of hlk_now_ms; when a signal, or hasplock break, asks for an end; or when the lock is lost, which
 * it reports. Updates what `result` says of the lock. `signal_fd` is from signals_open. The calling thread holds
 * `lock`. */
void keep(struct watch_result *result, const struct options *options, hlk_lock *lock, int64_t until_ms, int signal_fd,
          const struct watch_fds *fds);

#endif
