/* local.h - `local:`: this user's private redis-server (or valkey-server) on a Unix socket. It is started on demand,
 * shared by all processes of the user, and ended when idle. It keeps only locks, so nothing is saved.
 *
 * Its folder has mode 0700 and contains redis.sock, redis.log, pid, and lock. A process holds the flock of `lock` while
 * it checks whether the server runs, starts it, or ends it. The server and its guard hold a flock on the folder itself
 * as long as one of them lives (local_guard.h), so no second server is started, whatever the socket answers. The folder
 * is $HASPLOCK_LOCAL_DIR/hasplock-<name>, by default /tmp/hasplock-<uid>-<name>. Two processes with different folders
 * have two servers and do not exclude each other. So no other variable counts: cron jobs have no XDG_RUNTIME_DIR, and
 * /run/user/<uid> is removed with the last session.
 *
 * The program is $HASPLOCK_SERVER (a wrapper must exec it), else redis-server or valkey-server in PATH. It has a
 * session of its own without a terminal, inherits no descriptor, and of the environment only what a program needs to
 * run (PATH and the like). It stays in the cgroup of its starter (docs/decisions/local-place.md). Its parent is the
 * guard (local_guard.h), which ends it when for HLK_LOCAL_IDLE_S ($HASPLOCK_LOCAL_IDLE_S) it had no connection and no
 * key. So a held lock keeps it running. Setuid programs ignore the environment. */
#ifndef HLK_NET_LOCAL_H
#define HLK_NET_LOCAL_H

#include "base/error.h"

#define HLK_LOCAL_IDLE_S 60

/* Makes sure that it runs, and fills `path` (size: that of sun_path) with its socket. Connect at once, and call this
 * again before each later attempt.
 * HLK_OK
 * HLK_E_INVALID    no server program, or a path too long for a socket: the text says what to do
 * HLK_E_CONNECT    within reconnect_timeout_ms (< 0: no limit) it did not start, did not answer, or did not end while
 *                  unreachable; quotes the last line of its log
 * HLK_E_OS         folder, descriptors, processes
 * Blocks. Any thread, any number of processes at once. Forks. The short-lived child is reaped here, but a handler of
 * SIGCHLD runs for it. */
enum hlk_status hlk_local_ensure(const char *name, int64_t reconnect_timeout_ms, char *path, size_t path_size,
                                 struct hlk_error *error);

#endif
