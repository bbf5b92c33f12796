#include "demo_options.h"
#include "say.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_LEAST 10
#define ITEMS_MOST 1000000

const char DEMO_HELP[] = "hasplock demo [options]\n"
                         "\n"
                         "Sells one stock, which lies in a SQLite file, from several processes with\n"
                         "several threads each: every order reads the stock, thinks, and writes it back.\n"
                         "First without the lock, then with it; then one holder is killed and one is\n"
                         "stopped past its lease. Takes 10 to 20 seconds.\n"
                         "\n"
                         "Size\n"
                         "      --processes N    2 to 16                                    [4]\n"
                         "      --threads N      of each process; 64 in all at most         [4]\n"
                         "      --items N        in stock, 10 to 1000000                    [4000]\n"
                         "      --seconds TIME   each part ends after so long, if not sold out before, as\n"
                         "                       in 5, 30s or 1m       [4 without, 12 with the lock]\n"
                         "      --seed N         of the orders' lengths                     [1]\n"
                         "Showing\n"
                         "      --svg FILE       the picture: who waited, who held, when\n"
                         "                                                     [hasplock-demo.svg]\n"
                         "      --plain          a line per event, no live view; so too when stdout is\n"
                         "                       no terminal\n"
                         "      --json           one JSON object per line\n"
                         "Server\n"
                         "  -u, --url URL        redis://[user:pass@]host[:port][/db],\n"
                         "                       unix:/path.sock, local: [local:, a private server of\n"
                         "                       yours; HASPLOCK_URL is not asked]\n"
                         "      --redlock        three private servers, a majority of which decides; one\n"
                         "                       of them is killed\n"
                         "  -h, --help\n"
                         "\n"
                         "Exit code: 0 when no update was lost and no two holds overlapped under the lock,\n"
                         "1 when they did; 64 usage, 69 no server, 70 the server refused, 71 no process or\n"
                         "memory, 73 the picture or the stock cannot be made, 74 stdout cannot be written,\n"
                         "or the stock not be read or written, 77 wrong password or missing right.\n"
                         "Colours: not with NO_COLOR.\n";

enum {
    OPT_PROCESSES = 256,
    OPT_THREADS,
    OPT_ITEMS,
    OPT_SECONDS,
    OPT_SEED,
    OPT_SVG,
    OPT_PLAIN,
    OPT_JSON,
    OPT_REDLOCK,
    OPT_WORKER
};

static const struct option OPTIONS[] = { { "processes", required_argument, NULL, OPT_PROCESSES },
                                         { "threads", required_argument, NULL, OPT_THREADS },
                                         { "items", required_argument, NULL, OPT_ITEMS },
                                         { "seconds", required_argument, NULL, OPT_SECONDS },
                                         { "seed", required_argument, NULL, OPT_SEED },
                                         { "svg", required_argument, NULL, OPT_SVG },
                                         { "plain", no_argument, NULL, OPT_PLAIN },
                                         { "json", no_argument, NULL, OPT_JSON },
                                         { "url", required_argument, NULL, 'u' },
                                         { "redlock", no_argument, NULL, OPT_REDLOCK },
                                         { "help", no_argument, NULL, 'h' },
                                         { "worker", required_argument, NULL, OPT_WORKER }, /* for workers */
                                         { NULL, 0, NULL, 0 } };

static bool read_number(const char *option, int64_t least, int64_t most, int64_t *out)
{
    char *end, shown[64];

    errno = 0;
    long long value = strtoll(optarg, &end, 10);
    text_shown(shown, sizeof shown, optarg);
    if (*optarg < '0' || *optarg > '9' || *end)
        say(SAY_ERROR, "error", "%s: \"%s\" is not a whole number", option, shown);
    else if (errno || value < least || value > most)
        say(SAY_ERROR, "error", "%s: \"%s\" is not within %" PRId64 " to %" PRId64, option, shown, least, most);
    else
        return *out = value, true;
    return false;
}

static bool read_int(const char *option, int least, int most, int *out)
{
    int64_t value;
    if (!read_number(option, least, most, &value))
        return false;
    *out = (int)value;
    return true;
}

static bool read_seconds(int *seconds)
{
    int64_t ms = 0;
    char shown[64];
    if (text_read_duration(optarg, &ms) && ms >= 1000 && ms <= 3600000)
        return *seconds = (int)(ms / 1000), true;
    say(SAY_ERROR, "error", "--seconds: \"%s\" is no length of time from 1s to 1h",
        text_shown(shown, sizeof shown, optarg));
    return false;
}

static bool read_option(struct demo_options *s, int option, char **argv, int stands_at)
{
    char shown[64];
    int64_t seed;

    switch (option) {
    case OPT_PROCESSES:
        return read_int("--processes", 2, DEMO_MAX_PROCESSES, &s->processes);
    case OPT_THREADS:
        return read_int("--threads", 1, DEMO_MAX_THREADS / 2, &s->threads);
    case OPT_ITEMS:
        return read_int("--items", ITEMS_LEAST, ITEMS_MOST, &s->items);
    case OPT_SECONDS:
        return read_seconds(&s->seconds);
    case OPT_WORKER:
        return read_int("--worker", 0, DEMO_MAX_PROCESSES - 1, &s->worker);
    case OPT_SEED:
        if (!read_number("--seed", 0, INT64_MAX, &seed))
            return false;
        s->seed = (uint64_t)seed;
        return true;
    case OPT_SVG:
        s->svg = optarg;
        return true;
    case OPT_PLAIN:
        s->mode = DEMO_PLAIN;
        return true;
    case OPT_JSON:
        s->mode = DEMO_JSON;
        say_setup("demo", true, 0);
        return true;
    case 'u':
        s->url = optarg;
        return true;
    case OPT_REDLOCK:
        s->redlock = true;
        return true;
    case 'h':
        s->help = true;
        return true;
    case ':':
        say(SAY_ERROR, "error", "%s needs a value", text_shown(shown, sizeof shown, argv[stands_at]));
        return false;
    default:
        say(SAY_ERROR, "error", "no option %s (see: hasplock demo --help)",
            text_shown(shown, sizeof shown, argv[stands_at]));
        return false;
    }
}

bool demo_options_read(struct demo_options *s, int argc, char **argv)
{
    char shown[64];
    int option, stands_at = 1;

    *s = (struct demo_options){ .processes = 4, .threads = 4, .items = 4000, .worker = -1, .seed = 1 };
    s->svg = "hasplock-demo.svg";
    optind = 1;
    while ((option = getopt_long(argc, argv, ":u:h", OPTIONS, NULL)) != -1) {
        if (!read_option(s, option, argv, stands_at))
            return false;
        stands_at = optind;
    }
    if (optind < argc) {
        say(SAY_ERROR, "error", "\"%s\" is no option (see: hasplock demo --help)",
            text_shown(shown, sizeof shown, argv[optind]));
        return false;
    }
    if (s->processes * s->threads > DEMO_MAX_THREADS) {
        say(SAY_ERROR, "error", "%d processes x %d threads are %d threads; %d are possible", s->processes, s->threads,
            s->processes * s->threads, DEMO_MAX_THREADS);
        return false;
    }
    if (s->redlock && s->url) {
        say(SAY_ERROR, "error", "--redlock has servers of its own; --url is not possible with it");
        return false;
    }
    s->url = s->url ? s->url : "local:";
    if (strlen(s->url) >= sizeof((struct demo_order *)NULL)->url) {
        say(SAY_ERROR, "error", "--url is too long");
        return false;
    }
    return true;
}
