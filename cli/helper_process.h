/* helper_process.h - what runs in the helper, and what it shares with hasplock. */
#ifndef HLK_CLI_HELPER_PROCESS_H
#define HLK_CLI_HELPER_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HELPER_LINE_MOST 16384

struct helper_shared {
    _Atomic int64_t kill_at_ms;         /* written by hasplock */
    atomic_bool disarmed;               /*   COMMAND has ended: what is left is not killed */
    char *const *env;                   /*   written before HELPER_RUN is sent, as is: */
    bool foreground;
    atomic_bool killed;                 /* written by the helper */
    atomic_bool gone;
    atomic_bool ended;                  /*   after `status` */
    atomic_int status;
    atomic_int exec_errno;              /* written in COMMAND's process */
};

/* A packet of the socket. Its end is that of the other process. */
struct helper_packet {
    enum helper_word {
        HELPER_RUN,         /* to the helper: start COMMAND; answered by one of the next two */
        HELPER_STARTED,     /*   value: its process */
        HELPER_NOT_STARTED, /*   value: errno */
        HELPER_LOOK,        /* to both: read what is shared again */
        HELPER_STOPPED,     /* from the helper: COMMAND was stopped; value: the signal */
        HELPER_CONTINUED
    } word;
    int value;
};

/* Called in the forked process. `lines`: a socket whose packets are written to stderr. `orders`: one of packets. */
_Noreturn void helper_process(struct helper_shared *shared, char *const command[], int lines, int orders);

#endif
