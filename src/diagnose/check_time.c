/* The server's clock, and what else of the server runs long. */
#include "diagnose/exam.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double ms(int64_t us)
{
    return (double)us / 1000;
}

static int64_t absolute(int64_t n)
{
    return n < 0 ? -n : n;
}

static void found_no_time(struct hlk_found *found)
{
    hlk_found_set(found, HLK_FINDING_NOTE, "not known: this user may not run TIME, or the server does not answer it");
    hlk_found_advice(found, "Grant +time (see rights).");
}

/* --- clock-offset. Fair locks bear clocks of Java hosts that are up to 5 min off (docs/decisions/fair.md). */

#define OFFSET_FAIR_US (300 * INT64_C(1000000))
#define OFFSET_NOTE_US INT64_C(1000000)

void hlk_check_clock_offset(const struct hlk_exam *exam, struct hlk_found *found)
{
    const struct hlk_clocks *clocks = &exam->clocks;
    hlk_found_meaning(found, "Leases do not depend on it: each side counts with its own clock.");
    if (clocks->over_us == 0) {
        found_no_time(found);
        return;
    }
    int64_t off_us = absolute(clocks->offset_us) - clocks->offset_error_us;
    enum hlk_finding_level level = off_us > OFFSET_FAIR_US   ? HLK_FINDING_WARNING
                                   : off_us > OFFSET_NOTE_US ? HLK_FINDING_NOTE
                                                             : HLK_FINDING_OK;
    bool large = off_us > OFFSET_NOTE_US;
    hlk_found_set(found, level, "the server's clock is %.1f %s %s this host's (+- %.1f ms)",
                  ms(absolute(clocks->offset_us)) / (large ? 1000 : 1), large ? "s" : "ms",
                  clocks->offset_us < 0 ? "behind" : "ahead of", ms(clocks->offset_error_us));
    if (level == HLK_FINDING_WARNING)
        hlk_found_meaning(found, "Times of day that hasplock show prints are off. A Java host whose clock is more than "
                                 "5 min off removes living waiters of a fair lock. A clock that is this far off will "
                                 "be set some day: forward, that ends leases early.");
    if (level != HLK_FINDING_OK)
        hlk_found_advice(found, "Synchronize both clocks with NTP, by slewing.");
}

/* --- clock-rate. The library allows for a server's clock that runs 2 % fast (docs/safety.md). */

#define RATE_ALLOWED_PERCENT 2
#define RATE_NOTICED_US 1000

void hlk_check_clock_rate(const struct hlk_exam *exam, struct hlk_found *found)
{
    const struct hlk_clocks *clocks = &exam->clocks;
    hlk_found_meaning(found, "Leases end when this host expects it: it allows for a clock that is 2 %% fast.");
    if (clocks->over_us == 0) {
        found_no_time(found);
        return;
    }
    int64_t excess_us = absolute(clocks->gain_us) - clocks->gain_error_us;
    bool wrong = excess_us > clocks->over_us / 100 * RATE_ALLOWED_PERCENT + 2000;
    bool odd = excess_us > clocks->over_us / 500 + RATE_NOTICED_US;
    hlk_found_set(found,
                  wrong ? HLK_FINDING_PROBLEM
                  : odd ? HLK_FINDING_WARNING
                        : HLK_FINDING_OK,
                  "in %.2f s the server's clock gained %+.1f ms on this host's (+- %.1f ms)",
                  (double)clocks->over_us / 1e6, ms(clocks->gain_us), ms(clocks->gain_error_us));
    if (!odd)
        return;
    hlk_found_meaning(found, clocks->gain_us > 0
                                 ? "It was set forward, or runs fast: leases end early, and two may hold until the "
                                   "first one's next renewal."
                                 : "It was set back, or runs slowly: locks of dead holders are kept for longer.");
    hlk_found_advice(found, "Let NTP slew the server's clock and never step it (chrony: makestep only at boot). Run "
                            "this again to tell a step from a rate.");
}

/* --- slow-commands: while one command runs, no other does */

#define SLOW_US 100000

struct slow {
    bool known;
    int64_t us; /* the longest */
    char what[64], when[64];
};

/* Each entry: id, unix time, us, {command, arguments ...}, ... Arguments may be secret. */
static void read_slowlog(const redisReply *reply, struct slow *slow)
{
    bool known = reply && reply->type == REDIS_REPLY_ARRAY;
    slow->known = slow->known || known;
    for (size_t i = 0; known && i < reply->elements; i++) {
        const redisReply *entry = reply->element[i];
        bool whole = entry->type == REDIS_REPLY_ARRAY && entry->elements >= 4 &&
                     entry->element[2]->type == REDIS_REPLY_INTEGER && entry->element[3]->type == REDIS_REPLY_ARRAY &&
                     entry->element[3]->elements > 0 && entry->element[3]->element[0]->str;
        if (!whole || entry->element[2]->integer <= slow->us)
            continue;
        const redisReply *command = entry->element[3]->element[0];
        struct hlk_text text;
        hlk_text_init(&text, slow->what, sizeof slow->what);
        hlk_text_add_shown(&text, command->str, command->len);
        slow->us = entry->element[2]->integer;
    }
}

/* Each entry: event, unix time, latest ms, largest ms. */
static void read_latencies(const redisReply *reply, struct slow *slow)
{
    bool known = reply && reply->type == REDIS_REPLY_ARRAY;
    slow->known = slow->known || known;
    for (size_t i = 0; known && i < reply->elements; i++) {
        const redisReply *entry = reply->element[i];
        bool whole = entry->type == REDIS_REPLY_ARRAY && entry->elements >= 4 && entry->element[0]->str &&
                     entry->element[3]->type == REDIS_REPLY_INTEGER;
        if (!whole || entry->element[3]->integer * 1000 <= slow->us)
            continue;
        struct hlk_text text;
        hlk_text_init(&text, slow->what, sizeof slow->what);
        hlk_text_add_shown(&text, entry->element[0]->str, entry->element[0]->len);
        slow->us = entry->element[3]->integer * 1000;
    }
}

/* cmdstat_keys:calls=2,usec=4000,usec_per_call=2000.00,...: of all commands the one that takes longest on average. */
static void read_commandstats(const redisReply *reply, struct slow *slow)
{
    bool known = reply && reply->type == REDIS_REPLY_STRING;
    slow->known = slow->known || known;
    for (const char *at = known ? strstr(reply->str, "cmdstat_") : NULL; at; at = strstr(at + 1, "cmdstat_")) {
        char name[32];
        const char *each = strstr(at, "usec_per_call=");
        if (!each || each > at + strcspn(at, "\r\n") || sscanf(at, "cmdstat_%31[a-z_|-]", name) != 1)
            continue;
        int64_t us = (int64_t)strtod(each + strlen("usec_per_call="), NULL);
        if (us > slow->us) {
            slow->us = us;
            (void)snprintf(slow->what, sizeof slow->what, "%s on average", name);
        }
    }
}

void hlk_check_slow_commands(const struct hlk_exam *exam, struct hlk_found *found)
{
    struct slow slow = { .known = false };
    read_slowlog(exam->answers.reply[HLK_ASK_SLOWLOG], &slow);
    read_latencies(exam->answers.reply[HLK_ASK_LATENCY], &slow);
    read_commandstats(exam->answers.reply[HLK_ASK_COMMANDSTATS], &slow);
    hlk_found_meaning(found, "While one command or script runs, the server answers nobody: acquires, grants and "
                             "renewals wait for it.");
    if (!slow.known) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_SLOWLOG);
        return;
    }
    int64_t renewal_us = exam->lease_ms * 1000 * 2 / 3;
    enum hlk_finding_level level = slow.us > renewal_us ? HLK_FINDING_PROBLEM
                                   : slow.us > SLOW_US  ? HLK_FINDING_WARNING
                                                        : HLK_FINDING_OK;
    if (slow.us == 0)
        hlk_found_set(found, HLK_FINDING_OK, "none is recorded");
    else
        hlk_found_set(found, level, "the longest that is recorded took %.1f ms: %s", ms(slow.us), slow.what);
    if (level == HLK_FINDING_PROBLEM)
        hlk_found_meaning(found, "It took longer than a renewal may: a lease of %.3g s was lost meanwhile.",
                          ms(exam->lease_ms));
    if (level != HLK_FINDING_OK)
        hlk_found_advice(found, "Look at SLOWLOG GET and LATENCY DOCTOR. Move what is slow to another server, or give "
                                "the locks one of their own. SLOWLOG RESET, LATENCY RESET and CONFIG RESETSTAT forget "
                                "what is past.");
}

/* --- busy-scripts */

#define BUSY_MOST_MS 10000

void hlk_check_busy_scripts(const struct hlk_exam *exam, struct hlk_found *found)
{
    int64_t limit_ms = hlk_answers_config_number(&exam->answers, HLK_ASK_BUSY, -1);
    hlk_found_meaning(found, "While a script runs for longer than that, the server answers BUSY, and locks wait for "
                             "its end. Before that it does not answer at all.");
    if (limit_ms < 0) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_BUSY);
        return;
    }
    bool never = limit_ms == 0 || limit_ms > BUSY_MOST_MS;
    hlk_found_set(found, never ? HLK_FINDING_WARNING : HLK_FINDING_OK, "busy-reply-threshold %" PRId64 " ms%s",
                  limit_ms, limit_ms == 0 ? ": never" : "");
    if (never)
        hlk_found_advice(found, "CONFIG SET lua-time-limit 5000: a script that hangs can be ended then (SCRIPT KILL).");
}
