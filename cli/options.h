/* options.h - the words after `hasplock run|show|break`, read and checked. flock(1)'s habits: options stand before or
 * after NAME; the first other word, or --, begins COMMAND. */
#ifndef HLK_CLI_OPTIONS_H
#define HLK_CLI_OPTIONS_H

#include <hasplock/lock.h>

#include <stdbool.h>
#include <stdint.h>

enum command { COMMAND_RUN, COMMAND_SHOW, COMMAND_BREAK };

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_WARN };

struct options {                    /* borrows argv */
    enum command command;
    const char *url;                /* --url, else HASPLOCK_URL; never NULL or "" once parsed */
    const char *name;               /* 1 to 512 bytes */
    bool fair;                      /* NAME is a fair lock */
    bool json;
    int verbosity;                  /* -1: -q, 1: -v, 2: -vv */

    /* run */
    int64_t wait_ms;                /* -1: for ever */
    int conflict_code;              /* -E */
    int64_t lease_ms, grace_ms;     /* grace: half of the lease at most */
    int64_t max_hold_ms;            /* 0: no limit */
    enum on_lost on_lost;
    bool fenced;
    char *const *argv;              /* COMMAND, ended by NULL */
    char *shell[4];                 /* what argv points to for -c */
};

enum parsed { PARSED_GO, PARSED_HELP, PARSED_VERSION, PARSED_WRONG };

/* argv[0] is the command's word. PARSED_WRONG: one line has been said (exit 64). From the first word on `say` knows
 * --json, -q and -v, and the name as soon as it is read. */
enum parsed options_parse(struct options *options, enum command command, int argc, char **argv);

/* What every command opens its client with: the log goes to `say`. */
struct hlk_client_opts options_client(const struct options *options);

/* And makes its lock with. */
struct hlk_lock_opts options_lock(const struct options *options);

/* True when a URL has a password in it, so that COMMAND must not inherit it. Rather once too often. */
bool options_url_has_password(const char *url);

#endif
