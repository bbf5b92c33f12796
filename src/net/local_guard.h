/* local_guard.h - the process beside a `local:` server: its parent, who ends it when it is idle.
 *
 * A library cannot exec itself, so the guard is a forked copy of the process that started the server (and keeps its
 * memory as it was, copy-on-write). That process may have had many threads, therefore nothing here calls what is not
 * async-signal-safe: system calls and arithmetic, no stdio, no malloc. Whatever they need is prepared in the plan. */
#ifndef HLK_NET_LOCAL_GUARD_H
#define HLK_NET_LOCAL_GUARD_H

#include <stdint.h>
#include <sys/un.h>

struct hlk_local_plan {
    const char *program;                /* and how to run it */
    char *const *argv, *const *envp;
    const char *log_path;               /* its stdout and stderr */
    const char *lock_path;              /* flocked while it is ended */
    struct sockaddr_un address;
    int64_t idle_ms;
    int starter;                        /* >= 3, a stream socket to who started it; shut down from there: give up */
    int descriptors;                    /* how many there may be, when close_range is not there */
};

/* What the starter is told; then the socket is closed. Without one of these: it ended (its log may say why). */
#define HLK_LOCAL_READY 'R'             /* it answers */
#define HLK_LOCAL_NO_EXEC 'X'           /* followed by an int, errno */

/* In the forked child, all signals blocked. Forks again and exits, so that the guard is nobody's child. */
_Noreturn void hlk_local_guard(const struct hlk_local_plan *plan);

#endif
