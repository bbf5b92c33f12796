#include "quorum/tally.h"

#include "base/debug.h"

#include <stdio.h>
#include <string.h>

static void tally_failure(struct hlk_tally *t, enum hlk_status status)
{
    HLK_DEBUG_ASSERT(status != HLK_OK);
    t->failure = t->failure == HLK_OK || t->failure == status ? status : HLK_E_CONNECT;
}

static unsigned same_holder(const struct hlk_round *round, const struct hlk_vote *vote)
{
    hlk_mutex_assert_held(&round->mu);
    HLK_DEBUG_ASSERT(vote->state == HLK_VOTE_NO);
    unsigned n = 0;
    for (unsigned i = 0; i < round->n; i++) {
        const struct hlk_vote *other = &round->votes[i];
        n += other->state == HLK_VOTE_NO && other->holder_len == vote->holder_len &&
             memcmp(other->holder, vote->holder, vote->holder_len) == 0;
    }
    return n;
}

void hlk_tally_reason(struct hlk_text *text, const struct hlk_node *node, const char *why)
{
    hlk_text_add(text, "; %s: %s", node->endpoint.url.shown, why);
}

struct hlk_tally hlk_tally_count(struct hlk_round *round, const struct hlk_node *nodes, int64_t timeout_ms, char *out,
                                 size_t size)
{
    HLK_DEBUG_ASSERT(round->acquires && size > 0);
    struct hlk_tally t = { .failure = HLK_OK };
    struct hlk_text text;
    char silent[48];
    hlk_text_init(&text, out, size);
    (void)snprintf(silent, sizeof silent, "no answer in %lld ms", (long long)timeout_ms);
    hlk_mutex_lock(&round->mu);
    hlk_text_add(&text, "%u of %u masters granted it, %u are needed", round->yes, round->n, round->need);
    for (unsigned i = 0; i < round->n; i++) {
        const struct hlk_vote *vote = &round->votes[i];
        const struct hlk_node *node = &nodes[i];
        unsigned same;
        switch (vote->state) {
        case HLK_VOTE_YES:
            t.yes++;
            continue;
        case HLK_VOTE_NO:
            same = same_holder(round, vote);
            t.no++;
            t.largest = same > t.largest ? same : t.largest;
            break;
        case HLK_VOTE_FAILED:
            t.failed++;
            t.for_good += vote->for_good;
            t.young += vote->young;
            tally_failure(&t, vote->error.status);
            hlk_tally_reason(&text, node, vote->error.text);
            break;
        case HLK_VOTE_IN_FLIGHT:
        case HLK_VOTE_RESEND:
            if (!atomic_load(&round->decided)) { /* else its answer was not needed */
                t.silent++;
                tally_failure(&t, HLK_E_CONNECT);
                if (timeout_ms)
                    hlk_tally_reason(&text, node, silent);
            }
            continue;
        }
        t.blocked |= 1u << i;
    }
    if (t.no > 0)
        hlk_text_add(&text, "; others hold %u", t.no);
    if (t.silent > 0 && !timeout_ms)
        hlk_text_add(&text, "; there was no time for the answers of %u", t.silent);
    hlk_mutex_unlock(&round->mu);
    return t;
}
