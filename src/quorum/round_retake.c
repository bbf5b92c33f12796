#include "quorum/round_retake.h"

#include "base/clock.h"
#include "base/debug.h"
#include "net/pipeline_up.h"
#include "quorum/round_release.h"

/* Asks the master again, and sends the release behind that if one is decided meanwhile. lease_ms 0: as before; it was
 * not run. */
static void retake(struct hlk_vote *vote, int64_t lease_ms);

static void retake_again(struct hlk_vote *vote)
{
    retake(vote, 0);
}

static bool was_not_run(const struct hlk_vote *vote)
{
    struct hlk_mutex *mu = &vote->round->mu;
    hlk_mutex_lock(mu);
    bool yes = vote->state == HLK_VOTE_RESEND;
    hlk_mutex_unlock(mu);
    return yes;
}

static void retake(struct hlk_vote *vote, int64_t lease_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(lease_ms >= 0 && vote->round->acquires);
    struct hlk_round *round = vote->round;
    hlk_mutex_lock(&round->mu);
    bool may =
        !round->release_until_ms && !vote->sending && vote->state != HLK_VOTE_YES && vote->state != HLK_VOTE_IN_FLIGHT;
    if (may) {
        round->open += vote->state != HLK_VOTE_RESEND;
        vote->state = HLK_VOTE_IN_FLIGHT;
        vote->sending = true;
        vote->again = retake_again;
    }
    hlk_mutex_unlock(&round->mu);
    if (!may)
        return;
    if (lease_ms > 0) {
        vote->sent_ms = hlk_clock_ms();
        vote->cmd.lease_ms = lease_ms;
        vote->cmd.doubt = false; /* vote->doubt remembers that of earlier attempts */
    }
    hlk_vote_ask(vote);
    hlk_vote_sent(vote);
    if (was_not_run(vote)) /* and that was read while `sending` kept others from sending it again */
        retake(vote, 0);
}

void hlk_round_retake(struct hlk_round *round, int64_t lease_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(lease_ms > 0 && round->acquires);
    for (unsigned i = 0; i < round->n; i++)
        retake(&round->votes[i], lease_ms);
}

static bool was_away(const struct hlk_vote *vote)
{
    struct hlk_mutex *mu = &vote->round->mu;
    hlk_mutex_lock(mu);
    bool away = vote->state == HLK_VOTE_FAILED && vote->error.status == HLK_E_CONNECT && !vote->young;
    hlk_mutex_unlock(mu);
    return away;
}

bool hlk_round_may_grow(struct hlk_round *round)
{
    HLK_DEBUG_ASSERT(round->acquires);
    struct hlk_error error;
    for (unsigned i = 0; i < round->n; i++) {
        const struct hlk_vote *vote = &round->votes[i];
        if (was_away(vote) && hlk_pipeline_health(vote->cmd.pipeline, &error) == HLK_OK)
            return true;
    }
    return false;
}

bool hlk_round_lacks(struct hlk_round *round, unsigned i)
{
    HLK_DEBUG_ASSERT(i < round->n);
    hlk_mutex_lock(&round->mu);
    bool lacks = round->votes[i].state != HLK_VOTE_YES;
    hlk_mutex_unlock(&round->mu);
    return lacks;
}

bool hlk_round_miss(struct hlk_round *round, unsigned i)
{
    HLK_DEBUG_ASSERT(i < round->n && round->acquires);
    struct hlk_vote *vote = &round->votes[i];
    hlk_mutex_lock(&round->mu);
    bool had = vote->state == HLK_VOTE_YES;
    if (had) {
        vote->state = HLK_VOTE_NO;
        vote->holder_len = 0;
        round->yes--;
    }
    hlk_mutex_unlock(&round->mu);
    return had;
}
