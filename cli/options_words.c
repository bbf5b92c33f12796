/* options_words.c - see options_words.h. A new option is a line of the table, and a case in options.c. */
#include "options_words.h"

#include <stdio.h>
#include <string.h>

enum {
    RUN = 1 << COMMAND_RUN,
    SHOW = 1 << COMMAND_SHOW,
    LIST = 1 << COMMAND_LIST,
    BREAK = 1 << COMMAND_BREAK,
    DOCTOR = 1 << COMMAND_DOCTOR,
    SEMAPHORE = 1 << COMMAND_SEMAPHORE,
    LATCH = 1 << COMMAND_LATCH,
    BARRIER = 1 << COMMAND_BARRIER,
    RUNS = RUN | SEMAPHORE
};

static const struct known {
    const char *name;
    int argument, option; /* a letter: also a short one */
    unsigned of;          /* which commands know it */
} known[] = {
    { "url", required_argument, 'u', ALL_COMMANDS },
    { "url-file", required_argument, OPT_URL_FILE, ALL_COMMANDS },
    { "cacert", required_argument, OPT_ACCESS + ACCESS_CACERT, ALL_COMMANDS },
    { "cacertdir", required_argument, OPT_ACCESS + ACCESS_CACERTDIR, ALL_COMMANDS },
    { "cert", required_argument, OPT_ACCESS + ACCESS_CERT, ALL_COMMANDS },
    { "key", required_argument, OPT_ACCESS + ACCESS_KEY, ALL_COMMANDS },
    { "crl", required_argument, OPT_ACCESS + ACCESS_CRL, ALL_COMMANDS },
    { "sni", required_argument, OPT_ACCESS + ACCESS_SNI, ALL_COMMANDS },
    { "password-file", required_argument, OPT_ACCESS + ACCESS_PASSWORD_FILE, ALL_COMMANDS },
    { "json", no_argument, OPT_JSON, ALL_COMMANDS },
    { "quiet", no_argument, 'q', ALL_COMMANDS },
    { "verbose", no_argument, 'v', ALL_COMMANDS },
    { "help", no_argument, 'h', ALL_COMMANDS },
    { "version", no_argument, 'V', ALL_COMMANDS },
    { "fair", no_argument, OPT_FAIR, RUN | SHOW | BREAK | DOCTOR },
    { "string", no_argument, OPT_STRING, ALL_COMMANDS },
    { "shared", no_argument, 's', RUN | SHOW | BREAK },
    { "exclusive", no_argument, 'x', RUN | SHOW | BREAK },
    { "semaphore", no_argument, OPT_SEMAPHORE, SHOW },
    { "permits", required_argument, 'k', SEMAPHORE },
    { "drop", no_argument, OPT_DROP, SEMAPHORE },
    { "delete", no_argument, OPT_DELETE, SEMAPHORE },
    { "nonblock", no_argument, 'n', RUNS | LATCH },
    { "parties", required_argument, 'n', BARRIER },
    { "wait", required_argument, 'w', RUNS | LATCH | BARRIER | BREAK },
    { "timeout", required_argument, 'w', RUNS | LATCH | BARRIER | BREAK },
    { "server-wait", required_argument, OPT_SERVER_WAIT, RUNS | LATCH | BARRIER },
    { "conflict-exit-code", required_argument, 'E', RUNS | LATCH | BARRIER },
    { "command", required_argument, 'c', RUNS },
    { "lease", required_argument, OPT_LEASE, RUNS | DOCTOR | BARRIER },
    { "max-hold", required_argument, OPT_MAX_HOLD, RUNS },
    { "min-hold", required_argument, OPT_MIN_HOLD, RUNS },
    { "grace", required_argument, OPT_GRACE, RUNS },
    { "note", required_argument, OPT_NOTE, RUNS },
    { "all", no_argument, OPT_ALL, RUNS },
    { "on-lost", required_argument, OPT_ON_LOST, RUNS },
    { "fenced", no_argument, OPT_FENCED, RUN | DOCTOR },
    { "wait-replicas", required_argument, OPT_WAIT_REPLICAS, RUNS },
    { "watch", optional_argument, OPT_WATCH, SHOW | LIST },
    { "holder", required_argument, OPT_HOLDER, BREAK },
    { "now", no_argument, OPT_NOW, BREAK },
    { "limit", required_argument, OPT_LIMIT, LIST },
    { "numbers", no_argument, OPT_NUMBERS, LIST },
    { "spin", no_argument, OPT_SPIN, RUN | DOCTOR },
};
enum { KNOWN = sizeof known / sizeof known[0] };

_Static_assert(KNOWN <= OPTIONS_MOST, "there is room for all");

void options_choose(struct options_words *words, const char *mode, unsigned of)
{
    size_t n = 0, len = (size_t)snprintf(words->shorts, sizeof words->shorts, "%s:", mode);
    for (size_t i = 0; i < KNOWN; i++) {
        const struct known *k = &known[i];
        if ((k->of & of) != of)
            continue;
        words->longs[n++] = (struct option){ k->name, k->argument, NULL, k->option };
        if (k->option < 128 && !strchr(words->shorts, k->option))
            len += (size_t)snprintf(words->shorts + len, sizeof words->shorts - len, k->argument ? "%c:" : "%c",
                                    k->option);
    }
    words->longs[n] = (struct option){ 0 };
    opterr = 0;
    optind = 0; /* GNU: anew, with the mode that the string begins with */
}
