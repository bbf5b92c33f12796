/* options.c - see options.h. getopt_long in its "-" mode returns the words that are no options one by one, so the place
 * where COMMAND begins is seen, and nothing behind it is looked at. */
#include "options.h"

#include "note.h"
#include "options_check.h"
#include "options_words.h"
#include "say.h"
#include "url.h"

#include <hasplock/barrier.h>
#include <hasplock/latch.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 512
#define HOLDER_MAX_BYTES 191    /* hlk_lock_break_holder */
#define DOCTOR_PREFIX_MAX 400   /* by doctor, which adds to it */
#define MOST_MS (100 * YEAR_MS) /* of what may be for ever */
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
        options_complain(r, "%s: \"%s\" is negative", option, shown);
    else if (!text_read_duration(optarg, &value))
        options_complain(r, "%s: \"%s\" is no length of time such as 90, 0.5, 250ms, 5s, 1m30s or 2h", option, shown);
    else if (value < range->min_ms || value > range->max_ms)
        options_complain(r, "%s: \"%s\" is not within %s", option, shown, range->words);
    else
        *ms = value;
}

static void read_number(struct reader *r, const char *option, const char *what, long min, long max, int64_t *out)
{
    char shown[64], *end;
    errno = 0;
    long value = strtol(optarg, &end, 10);
    if (optarg[0] < '0' || optarg[0] > '9' || *end || errno || value < min || value > max)
        options_complain(r, "%s: \"%s\" is not %s, %ld to %ld", option, text_shown(shown, sizeof shown, optarg), what,
                         min, max);
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
    options_complain(r, "--on-lost: \"%s\" is none of term, kill, warn", text_shown(shown, sizeof shown, optarg));
}

static void read_holder(struct reader *r)
{
    size_t len = strlen(optarg);
    if (len == 0 || len > HOLDER_MAX_BYTES)
        options_complain(r, "--holder has %zu bytes; 1 to %d are possible", len, HOLDER_MAX_BYTES);
    else
        r->options->holder = optarg;
}

static void read_note(struct reader *r)
{
    size_t len = strlen(optarg);
    if (len > NOTE_MAX_BYTES)
        options_complain(r, "--note has %zu bytes; up to %d are possible", len, NOTE_MAX_BYTES);
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
        options_complain(r, "%s needs a value", shown);
    else if (OPTIONS_RUNS(r->options->command))
        options_complain(r, "no option %s; COMMAND's own stand behind COMMAND (see: hasplock %s --help)", shown,
                         r->argv[0]);
    else
        options_complain(r, "no option %s (see: hasplock %s --help)", shown, r->argv[0]);
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

static void read_kind(struct reader *r, int option)
{
    struct options *o = r->options;
    switch (option) {
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
    default:
        read_kind(r, option);
    }
}

/* The word is the beginning of names. */
/* Each lock once: the locks of a multilock are different ones. */
static void add_name(struct reader *r, const char *name)
{
    static char all[NAME_MAX_BYTES + 1];
    struct options *o = r->options;
    char shown[64];
    size_t len = 0;
    for (size_t i = 0; i < o->names_count; i++)
        if (strcmp(o->names[i], name) == 0)
            options_complain(r, "\"%s\" is named twice", text_shown(shown, sizeof shown, name));
    if (o->names_count == HLK_MULTILOCK_MAX) {
        options_complain(r, "more than %d NAMEs", HLK_MULTILOCK_MAX);
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
    bool prefix = options_take_prefix(r->options);
    if (len == 0 && !prefix)
        options_complain(r, "NAME is empty; it has 1 to %d bytes", NAME_MAX_BYTES);
    else if (len > max)
        options_complain(r, "%s has %zu bytes; %s%zu are possible", prefix ? "PREFIX" : "NAME", len,
                         prefix ? "" : "1 to ", max);
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
            options_complain(r, "\"%s\" is none of set, down, wait, count, reset",
                             text_shown(shown, sizeof shown, word));
    } else if ((o->verb == LATCH_SET || o->verb == LATCH_DOWN) && !o->number) {
        optarg = word;
        read_number(r, o->verb == LATCH_SET ? "COUNT" : "N", "a count", 1, COUNT_MOST, &o->number);
    } else {
        options_complain(r, "one word too many: \"%s\"", text_shown(shown, sizeof shown, word));
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
            options_refuse_word(r, optarg);
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
    options_check(&r);
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
