/* Whether scripts run, and which rights the user lacks: as the line that grants them. */
#include "diagnose/exam.h"
#include "diagnose/rights.h"

#include <string.h>

void hlk_check_lua(const struct hlk_exam *exam, struct hlk_found *found)
{
    const redisReply *reply = exam->answers.reply[HLK_ASK_RIGHTS];
    if (reply && reply->type == REDIS_REPLY_ARRAY) {
        hlk_found_set(found, HLK_FINDING_OK, "EVAL works");
        hlk_found_meaning(found, "All that is done to a lock is done by scripts.");
        return;
    }
    char why[HLK_VALUE_MAX];
    struct hlk_text text;
    const char *words = reply && reply->str ? reply->str : "no answer";
    hlk_text_init(&text, why, sizeof why);
    hlk_text_add_shown(&text, words, strlen(words));
    hlk_found_set(found, HLK_FINDING_PROBLEM, "EVAL fails: %s", why);
    hlk_found_meaning(found, "All that is done to a lock is done by scripts: no lock can be acquired.");
    hlk_found_advice(found, hlk_answers_refused(&exam->answers, HLK_ASK_RIGHTS)
                                ? "Grant the right (see rights)."
                                : "Use a server with Lua scripts, and do not rename EVAL and EVALSHA.");
}

/* The line so far is in the advice; it is taken away when nothing is missing. */
static void finish_rights(struct hlk_found *found, const struct hlk_missing *missing, bool required)
{
    if (missing->n == 0) {
        hlk_found_advice(found, "%s", "");
        hlk_found_set(found, missing->names ? HLK_FINDING_NOTE : HLK_FINDING_OK, "%s",
                      missing->names ? "all commands; keys not tried: this user may use some names only"
                                     : "all that are needed");
        if (missing->names)
            hlk_found_advice(found, "Give the PREFIX of your locks' names, for which the keys are tried.");
        return;
    }
    enum hlk_finding_level level = !required            ? HLK_FINDING_NOTE
                                   : missing->info_only ? HLK_FINDING_WARNING
                                                        : HLK_FINDING_PROBLEM;
    hlk_found_set(found, level, "%u right%s missing%s%s", missing->n, missing->n == 1 ? " is" : "s are",
                  missing->untried ? " or could not be tried without EVAL" : "",
                  missing->names ? "; keys not tried: this user may use some names only" : "");
}

static void begin_line(const struct hlk_exam *exam, struct hlk_found *found)
{
    hlk_found_advice(found, "ACL SETUSER %s", exam->user);
}

void hlk_check_rights(const struct hlk_exam *exam, struct hlk_found *found)
{
    struct hlk_missing missing = { 0 };
    bool pubsub = exam->pubsub;
    begin_line(exam, found);
    hlk_rights_missing(&exam->answers, exam->prefix, HLK_NEED_LOCK, &missing, &found->advice);
    if (pubsub)
        hlk_rights_missing(&exam->answers, exam->prefix, HLK_NEED_PUBSUB, &missing, &found->advice);
    finish_rights(found, &missing, true);
    if (missing.n == 0)
        hlk_found_meaning(found, pubsub ? "Plain, spin and non-reentrant locks work, and waiters are woken."
                                        : "Spin locks work.");
    else if (missing.info_only)
        hlk_found_meaning(found, "Locks work. A release whose reply is lost with its connection is reported as LOST, "
                                 "even where it was done.");
    else
        hlk_found_meaning(found, "A call that needs a missing right fails with HLK_E_AUTH: at open, at the first lock "
                                 "or at the first wait.");
}

static void check_more(const struct hlk_exam *exam, struct hlk_found *found, enum hlk_need need, bool required)
{
    struct hlk_missing missing = { 0 };
    begin_line(exam, found);
    hlk_rights_missing(&exam->answers, exam->prefix, need, &missing, &found->advice);
    finish_rights(found, &missing, required);
}

void hlk_check_rights_fenced(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_FENCED, exam->flags & HLK_DIAGNOSE_FENCED);
    hlk_found_meaning(found, "Fenced locks, and hlk_lock_break, need these beside those of plain locks.");
}

void hlk_check_rights_fair(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_FAIR, exam->flags & HLK_DIAGNOSE_FAIR);
    hlk_found_meaning(found, "Fair locks need these beside those of plain locks.");
}

void hlk_check_rights_string(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_STRING, exam->flags & HLK_DIAGNOSE_STRING);
    hlk_found_meaning(found, "String locks need these beside those of plain locks.");
}

void hlk_check_rights_list(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_LIST, exam->flags & HLK_DIAGNOSE_LIST);
    hlk_found_meaning(found, "hasplock list needs these beside those of plain locks.");
}

void hlk_check_rights_rwlock(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_RW, false);
    hlk_found_meaning(found, "Read/write locks need these beside those of plain locks.");
}

void hlk_check_rights_latch(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_LATCH, false);
    hlk_found_meaning(found, "Latches need these beside those of plain locks: docs/acl.md, section Latches.");
}

void hlk_check_rights_semaphore(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_SEMAPHORE, false);
    hlk_found_meaning(found, "Semaphores and permits need these beside those of plain locks: docs/acl.md, section "
                             "Semaphores.");
}

void hlk_check_rights_permits(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_PERMIT, false);
    hlk_found_meaning(found, "Permits, as of hasplock semaphore, need these beside those of semaphores: docs/acl.md, "
                             "section Permits.");
}

void hlk_check_rights_barrier(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_BARRIER, false);
    hlk_found_meaning(found, "Barriers need these beside those of plain locks: docs/acl.md, section Barriers.");
}

void hlk_check_rights_condition(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_CONDITION, false);
    hlk_found_meaning(found, "Conditions need these beside those of plain locks: docs/acl.md, section Conditions.");
}

void hlk_check_rights_note(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_NOTE, false);
    hlk_found_meaning(found, "hasplock run says with these for hasplock show who runs it and what; without them it "
                             "runs all the same: docs/acl.md, section Notes.");
}

/* WAIT without replicas returns at once. */
void hlk_check_rights_replicas(const struct hlk_exam *exam, struct hlk_found *found)
{
    check_more(exam, found, HLK_NEED_REPLICAS, false);
    hlk_found_meaning(found, "Locks that wait for replicas need these beside those of plain locks.");
}

void hlk_check_rights_cluster(const struct hlk_exam *exam, struct hlk_found *found)
{
    found->applies = exam->url->kind == HLK_URL_CLUSTER;
    if (!found->applies)
        return;
    check_more(exam, found, HLK_NEED_CLUSTER, true);
    hlk_found_meaning(found, "A cluster needs these beside those of plain locks, on each of its nodes.");
}
