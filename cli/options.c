/* options.c - see options.h. getopt_long in its "-" mode returns the words that are no options one by one, so the place
 * where COMMAND begins is seen, and nothing behind it is looked at. */
#include "options.h"

#include "say.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MOST 512
#define YEAR_MS (365LL * 24 * 3600 * 1000)
#define MOST_MS (100 * YEAR_MS) /* of what may be for ever */
#define LEASE_LEAST_MS 1000     /* below it a busy host is soon late with a renewal */
#define LEASE_DEFAULT_MS 30000
#define WORD 1 /* what getopt answers for a word that is no option */

enum { OPT_JSON = 256, OPT_FAIR, OPT_LEASE, OPT_MAX_HOLD, OPT_GRACE, OPT_ON_LOST, OPT_FENCED };

/* One table; which command knows which: the strings below. */
static const struct option all[] = { { "url", required_argument, NULL, 'u' },
                                     { "json", no_argument, NULL, OPT_JSON },
                                     { "quiet", no_argument, NULL, 'q' },
                                     { "verbose", no_argument, NULL, 'v' },
                                     { "help", no_argument, NULL, 'h' },
                                     { "version", no_argument, NULL, 'V' },
                                     { "fair", no_argument, NULL, OPT_FAIR },
                                     { "nonblock", no_argument, NULL, 'n' },
                                     { "wait", required_argument, NULL, 'w' },
                                     { "conflict-exit-code", required_argument, NULL, 'E' },
                                     { "command", required_argument, NULL, 'c' },
                                     { "lease", required_argument, NULL, OPT_LEASE },
                                     { "max-hold", required_argument, NULL, OPT_MAX_HOLD },
                                     { "grace", required_argument, NULL, OPT_GRACE },
                                     { "on-lost", required_argument, NULL, OPT_ON_LOST },
                                     { "fenced", no_argument, NULL, OPT_FENCED },
                                     { NULL, 0, NULL, 0 } };
#define OF_ALL 7 /* the first so many: every command's */

struct reader { /* what is being put together */
    struct options *options;
    int argc;
    char **argv;
    char *shell; /* -c */
    bool grace_given;
    int stands_at; /* the word that getopt is at: for messages */
    enum parsed result;
};

static enum parsed wrong(struct reader *r)
{
    r->result = PARSED_WRONG;
    return PARSED_WRONG;
}

#define COMPLAIN(r, ...) (say(SAY_ERROR, "error", __VA_ARGS__), wrong(r))

/* Seconds as a decimal number, to the millisecond; what is far too large becomes what is too large. strtod alone would
 * take "inf", "nan", "0x1p3" and " 1" too. */
static bool read_ms(const char *text, int64_t *ms)
{
    char *end;
    if (!*text || text[strspn(text, "0123456789.")] || !strpbrk(text, "0123456789"))
        return false;
    double seconds = strtod(text, &end);
    if (*end)
        return false;
    *ms = seconds > (double)MOST_MS ? INT64_MAX : (int64_t)(seconds * 1000 + 0.5);
    return true;
}

struct range {
    int64_t least_ms, most_ms;
    const char *words; /* for messages */
};

/* `option` as the user knows it, in messages. */
static void read_seconds(struct reader *r, const char *option, const struct range *range, int64_t *ms)
{
    char shown[64];
    int64_t value = 0;
    say_shown(shown, sizeof shown, optarg);
    if (optarg[0] == '-' && read_ms(optarg + 1, &value))
        COMPLAIN(r, "%s: \"%s\" is negative", option, shown);
    else if (!read_ms(optarg, &value))
        COMPLAIN(r, "%s: \"%s\" is not a number of seconds such as 90 or 0.5", option, shown);
    else if (value < range->least_ms || value > range->most_ms)
        COMPLAIN(r, "%s: \"%s\" is not within %s", option, shown, range->words);
    else
        *ms = value;
}

static void read_conflict_code(struct reader *r)
{
    char shown[64];
    char *end;
    errno = 0;
    long code = strtol(optarg, &end, 10);
    if (optarg[0] < '0' || optarg[0] > '9' || *end || errno || code > 255)
        COMPLAIN(r, "-E: \"%s\" is not an exit code, 0 to 255", say_shown(shown, sizeof shown, optarg));
    else
        r->options->conflict_code = (int)code;
}

static void read_on_lost(struct reader *r)
{
    static const char *const words[] = { [ON_LOST_TERM] = "term", [ON_LOST_KILL] = "kill", [ON_LOST_WARN] = "warn" };
    char shown[64];
    for (int i = 0; i < 3; i++)
        if (strcmp(optarg, words[i]) == 0) {
            r->options->on_lost = (enum on_lost)i;
            return;
        }
    COMPLAIN(r, "--on-lost: \"%s\" is none of term, kill, warn", say_shown(shown, sizeof shown, optarg));
}

static void complain_about_option(struct reader *r, bool lacks_argument)
{
    char shown[64];
    const char *word = r->argv[r->stands_at];
    char short_option[3] = { '-', (char)optopt, 0 };
    if (word[0] == '-' && word[1] != '-' && optopt > 0 && optopt < 128)
        word = short_option; /* of several in one word: which */
    say_shown(shown, sizeof shown, word);
    if (lacks_argument)
        COMPLAIN(r, "%s needs a value", shown);
    else if (r->options->command == COMMAND_RUN)
        COMPLAIN(r, "no option %s; COMMAND's own stand behind COMMAND (see: hasplock run --help)", shown);
    else
        COMPLAIN(r, "no option %s (see: hasplock %s --help)", shown, r->argv[0]);
}

static void read_common(struct reader *r, int option)
{
    struct options *o = r->options;
    switch (option) {
    case 'u':
        o->url = optarg;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_FAIR:
        o->fair = true;
        break;
    case 'q':
        o->verbosity = -1;
        break;
    case 'v':
        o->verbosity = o->verbosity < 1 ? 1 : 2;
        break;
    case 'h':
        r->result = PARSED_HELP;
        break;
    case 'V':
        r->result = PARSED_VERSION;
        break;
    default:
        complain_about_option(r, option == ':');
    }
    say_setup(r->argv[0], o->json, o->verbosity);
}

static void read_option(struct reader *r, int option)
{
    static const struct range wait = { 0, MOST_MS, "0 to 100 years" },
                              lease = { LEASE_LEAST_MS, YEAR_MS, "a second to a year" },
                              max_hold = { 1, MOST_MS, "a millisecond to 100 years" },
                              grace = { 1, YEAR_MS, "a millisecond to half of the lease" };
    struct options *o = r->options;
    switch (option) {
    case 'n':
        o->wait_ms = 0;
        break;
    case 'w':
        read_seconds(r, "-w", &wait, &o->wait_ms);
        break;
    case 'E':
        read_conflict_code(r);
        break;
    case 'c':
        r->shell = optarg;
        break;
    case OPT_LEASE:
        read_seconds(r, "--lease", &lease, &o->lease_ms);
        break;
    case OPT_MAX_HOLD:
        read_seconds(r, "--max-hold", &max_hold, &o->max_hold_ms);
        break;
    case OPT_GRACE:
        r->grace_given = true;
        read_seconds(r, "--grace", &grace, &o->grace_ms);
        break;
    case OPT_ON_LOST:
        read_on_lost(r);
        break;
    case OPT_FENCED:
        o->fenced = true;
        break;
    default:
        read_common(r, option);
    }
}

static void take_name(struct reader *r, const char *name)
{
    size_t len = strlen(name);
    if (len == 0)
        COMPLAIN(r, "NAME is empty; it has 1 to %d bytes", NAME_MOST);
    else if (len > NAME_MOST)
        COMPLAIN(r, "NAME has %zu bytes; 1 to %d are possible", len, NAME_MOST);
    else
        r->options->name = name;
    say_about(r->options->name);
}

/* Behind the options: argv[at...] is NAME, if that is still missing, and COMMAND. */
static void take_rest(struct reader *r, int at)
{
    struct options *o = r->options;
    if (!o->name && at < r->argc) {
        take_name(r, r->argv[at++]);
        if (r->result != PARSED_GO)
            return;
        if (at < r->argc && strcmp(r->argv[at], "--") == 0)
            at++;
    }
    o->argv = &r->argv[at];
}

static void check_command(struct reader *r)
{
    static char sh[] = "/bin/sh", dash_c[] = "-c";
    struct options *o = r->options;
    char shown[64];
    if (o->command != COMMAND_RUN) {
        if (o->argv[0])
            COMPLAIN(r, "one NAME, and no \"%s\" behind it", say_shown(shown, sizeof shown, o->argv[0]));
    } else if (r->shell && o->argv[0]) {
        COMPLAIN(r, "-c and a COMMAND: which of the two?");
    } else if (r->shell) {
        o->shell[0] = sh;
        o->shell[1] = dash_c;
        o->shell[2] = r->shell;
        o->argv = o->shell;
    } else if (!o->argv[0]) {
        COMPLAIN(r, "no COMMAND given");
    } else if (!o->argv[0][0]) {
        COMPLAIN(r, "COMMAND is empty");
    }
}

/* The first renewal comes after a third of the lease, and a part of its end is kept for doubt: a longer grace would
 * begin before there is anything wrong. */
static void check_grace(struct reader *r)
{
    struct options *o = r->options;
    if (!r->grace_given)
        o->grace_ms = o->lease_ms / 3;
    else if (o->grace_ms > o->lease_ms / 2)
        COMPLAIN(r, "--grace: %.13g seconds are more than half of the lease, %.13g seconds", (double)o->grace_ms / 1000,
                 (double)o->lease_ms / 1000);
}

static void check_url(struct reader *r)
{
    if (!r->options->url)
        r->options->url = getenv("HASPLOCK_URL");
    bool none = !r->options->url || !*r->options->url;
    if (none && getenv("HASPLOCK_NAME")) /* hasplock within hasplock */
        COMPLAIN(r, "which server? hasplock run keeps a URL with a password from its COMMAND: set HASPLOCK_URL in it, "
                    "or give --url");
    else if (none)
        COMPLAIN(r,
                 "which server? Set HASPLOCK_URL or give --url, as in redis://host; --url local: is a private server "
                 "on this host only");
}

static void check(struct reader *r)
{
    if (r->result == PARSED_GO && !r->options->name)
        COMPLAIN(r, "no NAME given (see: hasplock %s --help)", r->argv[0]);
    if (r->result == PARSED_GO && r->options->fair && r->options->fenced)
        COMPLAIN(r, "--fair and --fenced: a fair lock has no tokens");
    if (r->result == PARSED_GO)
        check_command(r);
    if (r->result == PARSED_GO)
        check_grace(r);
    if (r->result == PARSED_GO)
        check_url(r);
}

/* Reads options and NAME up to where COMMAND begins. "-": words come as they stand; ":": we say what is wrong. */
static void read_words(struct reader *r)
{
    bool run = r->options->command == COMMAND_RUN;
    struct option known[sizeof all / sizeof all[0]] = { 0 };
    memcpy(known, all, run ? sizeof all : OF_ALL * sizeof all[0]);
    opterr = 0;
    optind = 1;
    while (r->result == PARSED_GO) {
        r->stands_at = optind;
        int option = getopt_long(r->argc, r->argv, run ? "-:u:qvhVnw:E:c:" : "-:u:qvhV", known, NULL);
        if (option == -1) {
            take_rest(r, optind);
            return;
        }
        if (option == WORD && r->options->name) {
            take_rest(r, optind - 1);
            return;
        }
        if (option == WORD)
            take_name(r, optarg);
        else
            read_option(r, option);
    }
}

enum parsed options_parse(struct options *options, enum command command, int argc, char **argv)
{
    *options = (struct options){
        .command = command, .wait_ms = -1, .conflict_code = 1, .lease_ms = LEASE_DEFAULT_MS, .on_lost = ON_LOST_TERM
    };
    struct reader r = { .options = options, .argc = argc, .argv = argv, .result = PARSED_GO };
    say_setup(argv[0], false, 0);
    read_words(&r);
    check(&r);
    return r.result;
}

struct hlk_client_opts options_client(const struct options *options)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.log = say_log;
    opts.log_level = options->verbosity >= 2   ? HLK_LOG_DEBUG
                     : options->verbosity == 1 ? HLK_LOG_INFO
                                               : HLK_LOG_ERROR; /* dropped: the call's own answer says it */
    return opts;
}

struct hlk_lock_opts options_lock(const struct options *options)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = options->fair ? HLK_LOCK_FAIR : options->fenced ? HLK_LOCK_FENCED : HLK_LOCK_PLAIN;
    return opts;
}

bool options_url_has_password(const char *url)
{
    const char *colon = strchr(url, ':'); /* behind the scheme */
    const char *at = strrchr(url, '@');
    if (!colon || !at)
        return false;
    colon = strchr(colon + 1, ':');
    return colon && colon < at;
}
