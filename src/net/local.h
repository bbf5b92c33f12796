/* local.h - `local:`: this user's private redis-server (or valkey-server) on a Unix socket, started on demand, shared by all
 * processes of the user, gone when idle.
 *
 * Lives in $XDG_RUNTIME_DIR/hasplock-<name> or, without one, /tmp/hasplock-<uid>-<name> (mode 0700, owner checked, no
 * symlink): redis.sock, redis.log, lock (flock: one starter at a time), pid. The server is found in PATH ($HASPLOCK_SERVER
 * first), runs with --port 0 --unixsocketperm 700 --save '' --appendonly no, detached from our session and stdio, all
 * other descriptors closed; a small supervisor process that we leave beside it (re-exec is not possible from a library, so
 * it is a forked child that only uses async-signal-safe calls after the fork) or the server's own `timeout`... ends it when
 * nobody was connected for HLK_LOCAL_IDLE_S. Its memory is only locks: nothing is saved. */
#ifndef HLK_NET_LOCAL_H
#define HLK_NET_LOCAL_H

#include "base/error.h"

#define HLK_LOCAL_IDLE_S 60

/* Makes sure it runs; fills `path` with its socket. HLK_OK, HLK_E_OS, HLK_E_CONNECT (did not come up in patience_ms; the
 * text quotes the last line of its log), HLK_E_INVALID (no redis-server in PATH: says what to install). Blocks. Any
 * thread, any number of processes at once. */
enum hlk_status hlk_local_ensure(const char *name, int64_t patience_ms, char *path, size_t path_size, struct hlk_error *error);

#endif
