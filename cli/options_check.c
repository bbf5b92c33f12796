#include "options_check.h"

#include "options_words.h"
#include "text.h"
#include "url.h"

static void check_command(struct reader *r)
{
    static char sh[] = "/bin/sh", dash_c[] = "-c";
    struct options *o = r->options;
    if (!OPTIONS_RUNS(o->command) || o->deletes) {
        if (o->argv[0])
            options_refuse_word(r, o->argv[0]);
    } else if (r->shell && o->argv[0]) {
        options_complain(r, "-c and a COMMAND: which of the two?");
    } else if (r->shell) {
        o->shell[0] = sh;
        o->shell[1] = dash_c;
        o->shell[2] = r->shell;
        o->argv = o->shell;
    } else if (!o->argv[0]) {
        options_complain(r, "no COMMAND given");
    } else if (!o->argv[0][0]) {
        options_complain(r, "COMMAND is empty");
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
        options_complain(r, "the URL's ttl_ms of %s: a second to a year", text_duration(url, sizeof url, ms));
    else if (r->lease_given && ms != o->lease_ms)
        options_complain(r, "--lease is %s and the URL's ttl_ms %s: which lease?",
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
        options_complain(r, "--grace: %s are more than half of the lease, %s",
                         text_duration(grace, sizeof grace, o->grace_ms),
                         text_duration(lease, sizeof lease, o->lease_ms));
}

static void check_hold(struct reader *r)
{
    const struct options *o = r->options;
    char least[32], most[32];
    if (o->max_hold_ms && o->min_hold_ms > o->max_hold_ms)
        options_complain(r, "--min-hold is %s and --max-hold %s: for how long?",
                         text_duration(least, sizeof least, o->min_hold_ms),
                         text_duration(most, sizeof most, o->max_hold_ms));
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
        options_complain(r, "-s and -x: to read or to write?");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (found && kinds[i].given)
            options_complain(r, "%s and %s: these are different locks", found->word, kinds[i].word);
        else if (kinds[i].given)
            found = &kinds[i];
    }
    if (found && o->fenced)
        options_complain(r, "%s and --fenced: %s has no tokens", found->word, found->lock);
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
        options_complain(r, "%s is for locks only", kind);
    else if (o->deletes && (o->permits || o->drops || r->shell || o->note || waits_given(o)))
        options_complain(r, "--delete runs nothing, and does not wait: without -k, --drop, --note, -c, -n, -w and "
                            "--server-wait");
    else if (o->command == COMMAND_SEMAPHORE && !o->permits && !o->deletes)
        options_complain(r, "no -k N: how many may run at once?");
    else if (o->command == COMMAND_BARRIER && !o->number)
        options_complain(r, "no -n PARTIES: how many wait for each other?");
}

static void check_name(struct reader *r)
{
    struct options *o = r->options;
    if (!o->name && options_take_prefix(o))
        o->name = "";
    else if (o->command == COMMAND_LATCH && o->verb == LATCH_NONE)
        options_complain(r, "set, down, wait, count or reset? (see: hasplock latch --help)");
    else if (!o->name)
        options_complain(r, "no NAME given (see: hasplock %s --help)", r->argv[0]);
    else if (o->command == COMMAND_LATCH && o->verb != LATCH_WAIT && waits_given(o))
        options_complain(r, "-n, -w and --server-wait are for latch wait");
    else if (o->verb == LATCH_SET && !o->number)
        options_complain(r, "no COUNT given: how often is it counted down?");
    else
        check_kind(r);
}

void options_check(struct reader *r)
{
    char why[400];
    if (r->result == PARSED_GO)
        check_name(r);
    if (r->result == PARSED_GO)
        check_command(r);
    if (r->result == PARSED_GO && !url_find(&r->options->url, &r->options->url_file, why, sizeof why))
        options_complain(r, "%s", why);
    if (r->result == PARSED_GO)
        check_lease(r);
    if (r->result == PARSED_GO)
        check_grace(r);
    if (r->result == PARSED_GO)
        check_hold(r);
    if (r->result == PARSED_GO && !access_find(&r->options->access, r->options->url, why, sizeof why))
        options_complain(r, "%s", why);
}
