/* local_guard.h - the guard: the parent process of a `local:` server, which ends it when it is idle.
 *
 * A library cannot exec itself. So the guard is a forked copy of the process that started the server, and keeps a
 * copy-on-write image of its memory. That process may have had many threads, so the guard calls only async-signal-safe
 * functions: system calls and arithmetic, no stdio, no malloc. Everything else is prepared in the plan.
 *
 * Guard and server hold a flock on the folder as long as one of them lives. A process that gets that flock knows that
 * no server is left, whatever the socket answers. They refer to the folder by descriptor, so they never remove files of
 * another folder with the same path. If the guard is killed, the kernel kills the server. */
#ifndef HLK_NET_LOCAL_GUARD_H
#define HLK_NET_LOCAL_GUARD_H

#include <stdint.h>
#include <sys/un.h>

struct hlk_local_plan {
    const char *program;                /* with its arguments and environment */
    char *const *argv, *const *envp;
    const char *dir;                    /* the folder of the files below */
    const char *log_path;               /* the server's stdout and stderr */
    struct sockaddr_un address;
    int64_t idle_ms;
    int starter;                        /* >= 3, a stream socket to the starter, which shuts it down to cancel the
                                         * start */
    int descriptors;                    /* upper limit of descriptors, for systems without close_range */
};

/* Names of files in `dir`. */
#define HLK_LOCAL_SOCKET "redis.sock"
#define HLK_LOCAL_LOG "redis.log"
#define HLK_LOCAL_PID "pid"
#define HLK_LOCAL_LOCK "lock"           /* flocked while the server is checked, started or ended */

/* The guard's message to the starter; then the socket is closed. Without a message the server has ended, and its log
 * may say why. */
#define HLK_LOCAL_READY 'R'             /* the server answers */
#define HLK_LOCAL_NO_EXEC 'X'           /* followed by an int, errno */

/* In the forked child, with all signals blocked. Forks again and exits, so that the application has no such child. */
_Noreturn void hlk_local_guard(const struct hlk_local_plan *plan);

#endif
