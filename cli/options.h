/* options.h - the words of the command line, read and checked. flock(1)'s habits: options stand before or after NAME;
 * the first other word, or --, begins COMMAND. Those that every command knows may stand before the command too. Words
 * that stand alone between NAME and -- are more NAMEs of run. */
#ifndef HLK_CLI_OPTIONS_H
#define HLK_CLI_OPTIONS_H

#include "access.h"

#include <hasplock/multilock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum command {
    COMMAND_RUN,
    COMMAND_SEMAPHORE,
    COMMAND_LATCH,
    COMMAND_BARRIER,
    COMMAND_SHOW,
    COMMAND_LIST,
    COMMAND_BREAK,
    COMMAND_DOCTOR,
    COMMANDS
};

enum latch_verb { LATCH_NONE, LATCH_SET, LATCH_DOWN, LATCH_WAIT, LATCH_COUNT, LATCH_RESET };

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_WARN };

struct options {                    /* borrows argv */
    enum command command;
    const char *url;                /* never NULL or "" once parsed */
    const char *url_file;           /* where it was read from; NULL: it was given as such */
    struct access access;
    const char *name;               /* 1 to 512 bytes; of list and doctor the prefix, 0 to 512. Of several NAMEs all of
                                     * them with + between, cut: as a multilock has it */
    const char *names[HLK_MULTILOCK_MAX];
    size_t names_count;             /* more than 1: of run only */
    bool fair;                      /* NAME is a fair lock */
    bool string;                    /* NAME is a string lock */
    bool shared, exclusive;         /* NAME is a read/write lock: its read half, its write half */
    bool semaphore;                 /* NAME is a semaphore's, whose permits have leases */
    bool json;
    int verbosity;                  /* -1: -q, 1: -v, 2: -vv */

    /* run, semaphore */
    int64_t wait_ms;                /* HLK_FOREVER: not given */
    int64_t server_wait_ms;         /* for a server that cannot be reached, as in hlk_client_opts; 0: not given */
    int conflict_code;              /* -E */
    int64_t lease_ms, grace_ms;     /* grace: half of the lease at most */
    int64_t max_hold_ms;            /* 0: no limit */
    int64_t min_hold_ms;            /* 0: none */
    const char *note;               /* note.h; NULL: not given; "": user and COMMAND are not written, either */
    bool all;                       /* until all that COMMAND has started has ended */
    enum on_lost on_lost;
    bool fenced;
    bool spin;                      /* doctor, too: spin locks only */
    int64_t wait_replicas;
    int64_t permits;                /* of a semaphore: how many may run at once; 0: not said */
    bool drops;                     /* with the last permit their number goes */
    bool deletes;                   /* semaphore: it deletes the number, and runs nothing */
    char *const *argv;              /* COMMAND, ended by NULL */
    char *shell[4];                 /* what argv points to for -c */

    /* latch, barrier; wait_ms, server_wait_ms and conflict_code too */
    enum latch_verb verb;
    int64_t number;                 /* set: the count, 0: none given; down: by how many, 1 if none is given; of a
                                     * barrier: the parties, 0: none given */

    /* show, list */
    int64_t watch_ms;               /* 0: once */

    /* break */
    const char *holder;             /* from whom; NULL: from any holder */
    bool now;                       /* it is taken, and not asked for. wait_ms: how long one that was asked is waited
                                     * for; HLK_FOREVER: not given */

    /* list */
    int64_t limit;                  /* of locks that are named */
    bool numbers;                   /* semaphores, latches and other numbers, too */

    /* doctor: fair, string, fenced, spin and lease_ms */
};

enum parsed { PARSED_GO, PARSED_HELP, PARSED_VERSION, PARSED_WRONG };

/* Moves the command's word to argv[1], and the options that stood before it behind it. False: there is no command, or
 * what stands before it is wrong; *parsed says what to do then. */
bool options_find_command(int argc, char **argv, enum parsed *parsed);

/* argv[0] is the command's word. PARSED_WRONG: one line has been said (exit 64). From the first word on `say` knows
 * --json, -q and -v, and the name as soon as it is read. */
enum parsed options_parse(struct options *options, enum command command, int argc, char **argv);

/* What every command opens its client with: the log goes to `say`. */
struct hlk_client_opts options_client(const struct options *options);

/* And makes its lock with. */
struct hlk_lock_opts options_lock(const struct options *options);

#endif
