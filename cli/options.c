/* options.c - see options.h. getopt_long in its "-" mode returns the words that are no options one by one, so the place
 * where COMMAND begins is seen, and nothing behind it is looked at. */
#include "options.h"

#include "note.h"
#include "options_words.h"
#include "say.h"
#include "url.h"

#include <hasplock/barrier.h>
#include <hasplock/latch.h>

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 512
#define HOLDER_MAX_BYTES 191  /* hlk_lock_break_holder */
#define DOCTOR_PREFIX_MAX 400 /* by doctor, which adds to it */
#define YEAR_MS (365LL * 24 * 3600 * 1000)
#define MOST_MS (100 * YEAR_MS) /* of what may be for ever */
#define LEASE_LEAST_MS 1000     /* below it a busy host is soon late with a renewal */
#define LEASE_DEFAULT_MS 30000
#define WATCH_DEFAULT_MS 1000
#define WATCH_LEAST_MS 100
#define LIST_WATCH_DEFAULT_MS 5000 /* each look goes through the keys of the server */
#define LIST_WATCH_LEAST_MS 1000
#define LIMIT_DEFAULT 1000
#define LIMIT_MOST 100000
#define REPLICAS_MOST 1000
#define PERMITS_MOST 1000000
#define COUNT_MOST HLK_LATCH_MAX
#define PARTIES_MOST HLK_BARRIER_MAX
struct reader { /* what is being put together */
    struct options *options;
    int argc;
    char **argv;
    char *shell; /* -c */
    bool lease_given, grace_given;
    int stands_at; /* the word that getopt is at: for messages */
    enum parsed result;
    char complaint[1024]; /* the first one; said at the end, when it is known whether by --json */
    const char *complaint_about;
};

static void complain(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void complain(struct reader *r, const char *format, ...)
{
    va_list args;
    if (r->result == PARSED_WRONG)
        return;
    r->result = PARSED_WRONG;
    r->complaint_about = r->options->name;
    va_start(args, format);
    vsnprintf(r->complaint, sizeof r->complaint, format, args);
    va_end(args);
}

struct range {
    int64_t min_ms, max_ms;
    const char *words; /* for messages */
};

/* `option` as the user knows it, in messages. */
static void read_duration(struct reader *r, const char *option, const struct range *range, int64_t *ms)
{
    char shown[64];
    int64_t value = 0;
    text_shown(shown, sizeof shown, optarg);
    if (optarg[0] == '-' && text_read_duration(optarg + 1, &value))
        complain(r, "%s: \"%s\" is negative", option, shown);
    else if (!text_read_duration(optarg, &value))
        complain(r, "%s: \"%s\" is no length of time such as 90, 0.5, 250ms, 5s, 1m30s or 2h", option, shown);
    else if (value < range->min_ms || value > range->max_ms)
        complain(r, "%s: \"%s\" is not within %s", option, shown, range->words);
    else
        *ms = value;
}

static void read_number(struct reader *r, const char *option, const char *what, long min, long max, int64_t *out)
{
    char shown[64], *end;
    errno = 0;
    long value = strtol(optarg, &end, 10);
    if (optarg[0] < '0' || optarg[0] > '9' || *end || errno || value < min || value > max)
        complain(r, "%s: \"%s\" is not %s, %ld to %ld", option, text_shown(shown, sizeof shown, optarg), what, min,
                 max);
    else
        *out = value;
}

static void read_conflict_code(struct reader *r)
{
    int64_t code = r->options->conflict_code;
    read_number(r, "-E", "an exit code", 0, 255, &code);
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
    complain(r, "--on-lost: \"%s\" is none of term, kill, warn", text_shown(shown, sizeof shown, optarg));
}

static void read_holder(struct reader *r)
{
    size_t len = strlen(optarg);
    if (len == 0 || len > HOLDER_MAX_BYTES)
        complain(r, "--holder has %zu bytes; 1 to %d are possible", len, HOLDER_MAX_BYTES);
    else
        r->options->holder = optarg;
}

static void read_note(struct reader *r)
{
    size_t len = strlen(optarg);
    if (len > NOTE_MAX_BYTES)
        complain(r, "--note has %zu bytes; up to %d are possible", len, NOTE_MAX_BYTES);
    else
        r->options->note = optarg;
}

static void complain_about_option(struct reader *r, bool lacks_argument)
{
    char shown[64];
    const char *word = r->argv[r->stands_at];
    char short_option[3] = { '-', (char)optopt, 0 };
    if (word[0] == '-' && word[1] != '-' && optopt > 0 && optopt < 128)
        word = short_option; /* of several in one word: which */
    text_shown(shown, sizeof shown, word);
    if (lacks_argument)
        complain(r, "%s needs a value", shown);
    else if (OPTIONS_RUNS(r->options->command))
        complain(r, "no option %s; COMMAND's own stand behind COMMAND (see: hasplock %s --help)", shown, r->argv[0]);
    else
        complain(r, "no option %s (see: hasplock %s --help)", shown, r->argv[0]);
}

static void read_common(struct reader *r, int option)
{
    struct options *o = r->options;
    if (option >= OPT_ACCESS) {
        o->access.words[option - OPT_ACCESS] = optarg;
        return;
    }
    switch (option) {
    case 'u':
        o->url = optarg;
        break;
    case OPT_URL_FILE:
        o->url_file = optarg;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_FAIR:
        o->fair = true;
        break;
    case OPT_STRING:
        o->string = true;
        break;
    case 'q':
        o->verbosity = -1;
        break;
    case 'v':
        o->verbosity = o->verbosity < 1 ? 1 : 2;
        break;
    case 'h':
    case 'V':
        if (r->result == PARSED_GO)
            r->result = option == 'h' ? PARSED_HELP : PARSED_VERSION;
        break;
    default:
        complain_about_option(r, option == ':');
    }
    say_setup(r->argv[0], o->json, o->verbosity);
}

/* Of those that run COMMAND: holding. */
static void read_holding(struct reader *r, int option)
{
    static const struct range lease = { LEASE_LEAST_MS, YEAR_MS, "a second to a year" },
                              hold = { 1, MOST_MS, "a millisecond to 100 years" },
                              grace = { 1, YEAR_MS, "a millisecond to half of the lease" };
    struct options *o = r->options;
    switch (option) {
    case OPT_LEASE:
        r->lease_given = true;
        read_duration(r, "--lease", &lease, &o->lease_ms);
        break;
    case OPT_MAX_HOLD:
        read_duration(r, "--max-hold", &hold, &o->max_hold_ms);
        break;
    case OPT_MIN_HOLD:
        read_duration(r, "--min-hold", &hold, &o->min_hold_ms);
        break;
    case OPT_NOTE:
        read_note(r);
        break;
    case OPT_GRACE:
        r->grace_given = true;
        read_duration(r, "--grace", &grace, &o->grace_ms);
        break;
    case OPT_ON_LOST:
        read_on_lost(r);
        break;
    case OPT_FENCED:
        o->fenced = true;
        break;
    case OPT_ALL:
        o->all = true;
        break;
    case OPT_WAIT_REPLICAS:
        read_number(r, "--wait-replicas", "a number of replicas", 0, REPLICAS_MOST, &o->wait_replicas);
        break;
    case 'k':
        read_number(r, "-k", "a number of permits", 1, PERMITS_MOST, &o->permits);
        break;
    case OPT_DROP:
        o->drops = true;
        break;
    case OPT_DELETE:
        o->deletes = true;
        break;
    default:
        read_common(r, option);
    }
}

static void read_option(struct reader *r, int option)
{
    static const struct range wait = { 0, MOST_MS, "0 to 100 years" },
                              server_wait = { 1, MOST_MS, "a millisecond to 100 years" },
                              watch = { WATCH_LEAST_MS, YEAR_MS, "a tenth of a second to a year" },
                              list_watch = { LIST_WATCH_LEAST_MS, YEAR_MS, "a second to a year" };
    struct options *o = r->options;
    bool lists = o->command == COMMAND_LIST;
    switch (option) {
    case 'n':
        if (o->command == COMMAND_BARRIER)
            read_number(r, "-n", "a number of parties", 1, PARTIES_MOST, &o->number);
        else
            o->wait_ms = 0;
        break;
    case 'w':
        read_duration(r, strncmp(r->argv[r->stands_at], "--t", 3) == 0 ? "--timeout" : "-w", &wait, &o->wait_ms);
        break;
    case OPT_SERVER_WAIT:
        read_duration(r, "--server-wait", &server_wait, &o->server_wait_ms);
        break;
    case 'E':
        read_conflict_code(r);
        break;
    case 'c':
        r->shell = optarg;
        break;
    case OPT_WATCH:
        o->watch_ms = lists ? LIST_WATCH_DEFAULT_MS : WATCH_DEFAULT_MS;
        if (optarg)
            read_duration(r, "--watch", lists ? &list_watch : &watch, &o->watch_ms);
        break;
    case OPT_LIMIT:
        read_number(r, "--limit", "a number of locks", 1, LIMIT_MOST, &o->limit);
        break;
    case OPT_NOW:
        o->now = true;
        break;
    case OPT_NUMBERS:
        o->numbers = true;
        break;
    case OPT_HOLDER:
        read_holder(r);
        break;
    case OPT_SPIN:
        o->spin = true;
        break;
    case OPT_SEMAPHORE:
        o->semaphore = true;
        break;
    case 's':
        o->shared = true;
        break;
    case 'x':
        o->exclusive = true;
        break;
    default:
        read_holding(r, option);
    }
}

/* The word is the beginning of names. */
static bool takes_prefix(const struct options *options)
{
    return options->command == COMMAND_LIST || options->command == COMMAND_DOCTOR;
}

/* Each lock once: the locks of a multilock are different ones. */
static void add_name(struct reader *r, const char *name)
{
    static char all[NAME_MAX_BYTES + 1];
    struct options *o = r->options;
    char shown[64];
    size_t len = 0;
    for (size_t i = 0; i < o->names_count; i++)
        if (strcmp(o->names[i], name) == 0)
            complain(r, "\"%s\" is named twice", text_shown(shown, sizeof shown, name));
    if (o->names_count == HLK_MULTILOCK_MAX) {
        complain(r, "more than %d NAMEs", HLK_MULTILOCK_MAX);
        return;
    }
    o->names[o->names_count++] = name;
    for (size_t i = 0; i < o->names_count && len < sizeof all; i++)
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i ? "+" : "", o->names[i]);
    o->name = o->names_count > 1 ? all : name;
}

static void take_name(struct reader *r, const char *name)
{
    size_t len = strlen(name), max = r->options->command == COMMAND_DOCTOR ? DOCTOR_PREFIX_MAX : NAME_MAX_BYTES;
    bool prefix = takes_prefix(r->options);
    if (len == 0 && !prefix)
        complain(r, "NAME is empty; it has 1 to %d bytes", NAME_MAX_BYTES);
    else if (len > max)
        complain(r, "%s has %zu bytes; %s%zu are possible", prefix ? "PREFIX" : "NAME", len, prefix ? "" : "1 to ",
                 max);
    else
        add_name(r, name);
    say_about(r->options->name && *r->options->name ? r->options->name : NULL);
}

/* Words of latch: what is done, NAME, a number. */
static void take_latch_word(struct reader *r, char *word)
{
    static const char *const verbs[] = { [LATCH_SET] = "set",
                                         [LATCH_DOWN] = "down",
                                         [LATCH_WAIT] = "wait",
                                         [LATCH_COUNT] = "count",
                                         [LATCH_RESET] = "reset" };
    struct options *o = r->options;
    char shown[64];
    if (o->verb != LATCH_NONE && !o->name) {
        take_name(r, word);
    } else if (o->verb == LATCH_NONE) {
        for (int i = LATCH_SET; i <= LATCH_RESET; i++)
            if (strcmp(word, verbs[i]) == 0)
                o->verb = (enum latch_verb)i;
        if (o->verb == LATCH_NONE)
            complain(r, "\"%s\" is none of set, down, wait, count, reset", text_shown(shown, sizeof shown, word));
    } else if ((o->verb == LATCH_SET || o->verb == LATCH_DOWN) && !o->number) {
        optarg = word;
        read_number(r, o->verb == LATCH_SET ? "COUNT" : "N", "a count", 1, COUNT_MOST, &o->number);
    } else {
        complain(r, "one word too many: \"%s\"", text_shown(shown, sizeof shown, word));
    }
}

/* Behind the options: argv[at...] is NAME, if that is still missing, and COMMAND. */
static void take_rest(struct reader *r, int at)
{
    struct options *o = r->options;
    while (o->command == COMMAND_LATCH && at < r->argc)
        take_latch_word(r, r->argv[at++]);
    if (!o->name && at < r->argc) {
        take_name(r, r->argv[at++]);
        if (r->result != PARSED_GO)
            return;
        if (at < r->argc && strcmp(r->argv[at], "--") == 0)
            at++;
    }
    o->argv = &r->argv[at];
}

/* How many words from argv[at] on are NAMEs: those up to "--", if no option is among them. Else they are COMMAND: 0. */
static int more_names(const struct reader *r, int at)
{
    int n = 0;
    while (at + n < r->argc && r->argv[at + n][0] != '-')
        n++;
    bool ended = at + n < r->argc && strcmp(r->argv[at + n], "--") == 0;
    return ended && r->options->command == COMMAND_RUN ? n : 0;
}

/* argv[at] is the first word behind NAME that is no option. */
static void take_names_and_command(struct reader *r, int at)
{
    int more = more_names(r, at);
    for (int i = 0; i < more; i++)
        take_name(r, r->argv[at + i]);
    take_rest(r, more ? at + more + 1 : at);
}

static void one_too_many(struct reader *r, const char *word)
{
    char shown[64];
    complain(r, "one %s, and no \"%s\" behind it", takes_prefix(r->options) ? "PREFIX" : "NAME",
             text_shown(shown, sizeof shown, word));
}

static void check_command(struct reader *r)
{
    static char sh[] = "/bin/sh", dash_c[] = "-c";
    struct options *o = r->options;
    if (!OPTIONS_RUNS(o->command) || o->deletes) {
        if (o->argv[0])
            one_too_many(r, o->argv[0]);
    } else if (r->shell && o->argv[0]) {
        complain(r, "-c and a COMMAND: which of the two?");
    } else if (r->shell) {
        o->shell[0] = sh;
        o->shell[1] = dash_c;
        o->shell[2] = r->shell;
        o->argv = o->shell;
    } else if (!o->argv[0]) {
        complain(r, "no COMMAND given");
    } else if (!o->argv[0][0]) {
        complain(r, "COMMAND is empty");
    }
}

/* The library takes the URL's, so it is that of --max-hold, --grace and the messages too. */
static void check_lease(struct reader *r)
{
    struct options *o = r->options;
    char lease[32], url[32];
    int64_t ms = url_lease_ms(o->url);
    if (ms <= 0 || !OPTIONS_RUNS(o->command))
        return;
    if (ms < LEASE_LEAST_MS || ms > YEAR_MS)
        complain(r, "the URL's ttl_ms of %s: a second to a year", text_duration(url, sizeof url, ms));
    else if (r->lease_given && ms != o->lease_ms)
        complain(r, "--lease is %s and the URL's ttl_ms %s: which lease?",
                 text_duration(lease, sizeof lease, o->lease_ms), text_duration(url, sizeof url, ms));
    o->lease_ms = ms;
}

/* An outage of half of the lease is survived: a tenth is for the time between two renewals (run.c), an eighth for doubt
 * (lease.h), a sixth for the grace, and the rest for the reconnection. */
static void check_grace(struct reader *r)
{
    struct options *o = r->options;
    char grace[32], lease[32];
    if (!r->grace_given)
        o->grace_ms = o->lease_ms / 6;
    else if (o->grace_ms > o->lease_ms / 2)
        complain(r, "--grace: %s are more than half of the lease, %s", text_duration(grace, sizeof grace, o->grace_ms),
                 text_duration(lease, sizeof lease, o->lease_ms));
}

static void check_hold(struct reader *r)
{
    const struct options *o = r->options;
    char least[32], most[32];
    if (o->max_hold_ms && o->min_hold_ms > o->max_hold_ms)
        complain(r, "--min-hold is %s and --max-hold %s: for how long?",
                 text_duration(least, sizeof least, o->min_hold_ms), text_duration(most, sizeof most, o->max_hold_ms));
}

static bool waits_given(const struct options *o)
{
    return o->wait_ms != HLK_FOREVER || o->server_wait_ms;
}

struct kind_option { /* says which kind of lock NAME is */
    bool given;
    const char *word, *lock;
};

/* One at most, and none of these has tokens. Returns its word; NULL: none is given. */
static const char *check_one_kind(struct reader *r)
{
    const struct options *o = r->options;
    const struct kind_option kinds[] = { { o->shared, "-s", "a read/write lock" },
                                         { o->exclusive, "-x", "a read/write lock" },
                                         { o->spin, "--spin", "a spin lock" },
                                         { o->string, "--string", "a string lock" },
                                         { o->fair, "--fair", "a fair lock" } };
    const struct kind_option *found = NULL;
    if (o->shared && o->exclusive)
        complain(r, "-s and -x: to read or to write?");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (found && kinds[i].given)
            complain(r, "%s and %s: these are different locks", found->word, kinds[i].word);
        else if (kinds[i].given)
            found = &kinds[i];
    }
    if (found && o->fenced)
        complain(r, "%s and --fenced: %s has no tokens", found->word, found->lock);
    return found ? found->word : NULL;
}

/* Doctor is asked about several at once. */
static void check_kind(struct reader *r)
{
    const struct options *o = r->options;
    if (o->command == COMMAND_DOCTOR)
        return;
    const char *kind = check_one_kind(r);
    if (kind && (o->semaphore || o->command == COMMAND_LATCH || o->command == COMMAND_BARRIER))
        complain(r, "%s is for locks only", kind);
    else if (o->deletes && (o->permits || o->drops || r->shell || o->note || waits_given(o)))
        complain(r, "--delete runs nothing, and does not wait: without -k, --drop, --note, -c, -n, -w and "
                    "--server-wait");
    else if (o->command == COMMAND_SEMAPHORE && !o->permits && !o->deletes)
        complain(r, "no -k N: how many may run at once?");
    else if (o->command == COMMAND_BARRIER && !o->number)
        complain(r, "no -n PARTIES: how many wait for each other?");
}

static void check_name(struct reader *r)
{
    struct options *o = r->options;
    if (!o->name && takes_prefix(o))
        o->name = "";
    else if (o->command == COMMAND_LATCH && o->verb == LATCH_NONE)
        complain(r, "set, down, wait, count or reset? (see: hasplock latch --help)");
    else if (!o->name)
        complain(r, "no NAME given (see: hasplock %s --help)", r->argv[0]);
    else if (o->command == COMMAND_LATCH && o->verb != LATCH_WAIT && waits_given(o))
        complain(r, "-n, -w and --server-wait are for latch wait");
    else if (o->verb == LATCH_SET && !o->number)
        complain(r, "no COUNT given: how often is it counted down?");
    else
        check_kind(r);
}

static void check(struct reader *r)
{
    char why[400];
    if (r->result == PARSED_GO)
        check_name(r);
    if (r->result == PARSED_GO)
        check_command(r);
    if (r->result == PARSED_GO && !url_find(&r->options->url, &r->options->url_file, why, sizeof why))
        complain(r, "%s", why);
    if (r->result == PARSED_GO)
        check_lease(r);
    if (r->result == PARSED_GO)
        check_grace(r);
    if (r->result == PARSED_GO)
        check_hold(r);
    if (r->result == PARSED_GO && !access_find(&r->options->access, r->options->url, why, sizeof why))
        complain(r, "%s", why);
}

/* Reads options and NAME up to where COMMAND begins; what is wrong does not keep from reading on, for --json may stand
 * behind it. "-": words come as they stand; ":": we say what is wrong. */
static void read_words(struct reader *r)
{
    struct options_words words;
    options_choose(&words, "-", 1u << r->options->command);
    for (;;) {
        r->stands_at = optind > 0 ? optind : 1;
        int option = getopt_long(r->argc, r->argv, words.shorts, words.longs, NULL);
        if (option == -1) {
            take_rest(r, optind);
            return;
        }
        bool another = option == WORD && r->options->name;
        if (another && OPTIONS_RUNS(r->options->command)) {
            take_names_and_command(r, optind - 1);
            return;
        }
        if (option == WORD && r->options->command == COMMAND_LATCH)
            take_latch_word(r, optarg);
        else if (another)
            one_too_many(r, optarg);
        else if (option == WORD)
            take_name(r, optarg);
        else
            read_option(r, option);
    }
}

enum parsed options_parse(struct options *options, enum command command, int argc, char **argv)
{
    *options = (struct options){ .command = command,
                                 .semaphore = command == COMMAND_SEMAPHORE,
                                 .wait_ms = HLK_FOREVER,
                                 .conflict_code = 1,
                                 .lease_ms = LEASE_DEFAULT_MS,
                                 .on_lost = ON_LOST_TERM,
                                 .limit = LIMIT_DEFAULT };
    struct reader r = { .options = options, .argc = argc, .argv = argv, .result = PARSED_GO };
    say_setup(argv[0], false, 0);
    read_words(&r);
    check(&r);
    if (r.result == PARSED_WRONG) {
        say_about(r.complaint_about && *r.complaint_about ? r.complaint_about : NULL);
        say(SAY_ERROR, "error", "%s", r.complaint);
    }
    return r.result;
}

/* --- before the command's word */

static void say_no_option_here(char **argv, int at, bool lacks_argument)
{
    char shown[64];
    text_shown(shown, sizeof shown, argv[at]);
    for (int i = 0; argv[i]; i++)
        if (strcmp(argv[i], "--json") == 0)
            say_setup(NULL, true, 0);
    if (lacks_argument)
        say(SAY_ERROR, "error", "%s needs a value", shown);
    else
        say(SAY_ERROR, "error", "no option %s here; options of one command stand behind it (see: hasplock --help)",
            shown);
}

/* "+": up to the first word. Its own options are read again behind the command's word. */
bool options_find_command(int argc, char **argv, enum parsed *parsed)
{
    struct options_words words;
    int option, at = 1;
    *parsed = PARSED_WRONG;
    options_choose(&words, "+", ALL_COMMANDS);
    while (at = optind > 0 ? optind : 1, (option = getopt_long(argc, argv, words.shorts, words.longs, NULL)) != -1) {
        if (option == '?' || option == ':') {
            say_no_option_here(argv, at, option == ':');
            return false;
        }
        if (option == 'h' || option == 'V')
            *parsed = option == 'h' ? PARSED_HELP : PARSED_VERSION;
    }
    if (optind >= argc) {
        if (*parsed == PARSED_WRONG)
            say(SAY_ERROR, "error",
                "run, semaphore, latch, barrier, show, list, break, doctor or demo? See: hasplock --help");
        return false;
    }
    char *word = argv[optind];
    memmove(&argv[2], &argv[1], (size_t)(optind - 1) * sizeof *argv);
    argv[1] = word;
    return true;
}
