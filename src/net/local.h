/* local.h - `local:`: this user's private redis-server (or valkey-server) on a Unix socket, started on demand, shared
 * by all processes of the user, gone when idle. Its memory is only locks: nothing is saved.
 *
 * It lives in a folder of mode 0700: redis.sock, redis.log, pid, and lock, whose flock everybody holds who asks whether
 * it runs, starts it, or ends it. The folder is /tmp/hasplock-<uid>-<name>, or $HASPLOCK_LOCAL_DIR/hasplock-<name>. Two
 * processes that do not agree on it have two servers and do not exclude each other, so nothing else is asked: not
 * XDG_RUNTIME_DIR, which jobs of cron do not have; not /run/user/<uid>, which goes with the last session.
 *
 * The program is $HASPLOCK_SERVER (a wrapper has to exec it), else redis-server or valkey-server in PATH. It belongs to
 * no terminal and no session of ours and inherits no descriptor, but stays in the cgroup of who started it. Beside it
 * we leave a guard (local_guard.h), its parent, that ends it when for HLK_LOCAL_IDLE_S ($HASPLOCK_LOCAL_IDLE_S) nobody
 * was connected or came and no key was there: a lock that is held keeps it. Setuid programs heed no environment. */
#ifndef HLK_NET_LOCAL_H
#define HLK_NET_LOCAL_H

#include "base/error.h"

#define HLK_LOCAL_IDLE_S 60

/* Makes sure it runs and fills `path` (size: that of sun_path) with its socket; connect to it at once, and call this
 * again before each later attempt.
 * HLK_OK
 * HLK_E_INVALID    no server program, or a path too long for a socket: says what to do
 * HLK_E_CONNECT    did not come up or does not answer within patience_ms (< 0: no limit); quotes its log's last line
 * HLK_E_OS         folder, descriptors, processes
 * Blocks. Any thread, any number of processes at once. Forks; the short-lived child is reaped here, but a handler of
 * SIGCHLD sees it come and go. */
enum hlk_status hlk_local_ensure(const char *name, int64_t patience_ms, char *path, size_t path_size,
                                 struct hlk_error *error);

#endif
