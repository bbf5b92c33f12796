#include "quorum/round_release.h"

#include "base/clock.h"
#include "base/debug.h"
#include "script/release_list.h"

/* With what is still to come neither a majority can be free nor the hold be known as lost: the refusals decide. */
static bool refusals_decide(const struct hlk_round *round)
{
    hlk_mutex_assert_held(&round->mu);
    unsigned open = round->releases - round->settled, never = round->n - round->releases;
    return round->refused > 0 && round->freed + never + open < round->need &&
           round->n - round->absent - never - open >= round->need;
}

static void release_decide(struct hlk_round *round)
{
    hlk_mutex_assert_none();
    if (atomic_exchange(&round->released, true))
        return;
    for (unsigned i = 0; i < round->n; i++)
        atomic_store(&round->votes[i].release.optional, true);
    hlk_round_wake(round);
    if (round->on_released)
        round->on_released(round);
}

static void count_release(struct hlk_round *round, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(outcome != HLK_RELEASE_PENDING);
    hlk_mutex_lock(&round->mu);
    round->settled++;
    round->freed += outcome == HLK_RELEASE_DONE || outcome == HLK_RELEASE_ABSENT_REPEATED;
    round->absent += outcome == HLK_RELEASE_ABSENT || outcome == HLK_RELEASE_UNKNOWN;
    round->refused += error != NULL;
    if (error)
        round->refusal = *error;
    bool over = round->freed >= round->need || round->settled == round->releases || refusals_decide(round);
    hlk_mutex_unlock(&round->mu);
    if (over)
        release_decide(round);
}

/* Masters that never granted it are free of it: with them a majority may be. Only a master that is silent could say
 * that the hold was lost before; it had its time. */
static void release_on_alarm(struct hlk_alarm *alarm)
{
    hlk_loop_assert_here(HLK_CONTAINER(alarm, struct hlk_round, alarm)->quorum->client->loop);
    hlk_mutex_assert_none();
    struct hlk_round *round = HLK_CONTAINER(alarm, struct hlk_round, alarm);
    hlk_mutex_lock(&round->mu);
    bool free = round->freed + round->n - round->releases >= round->need;
    hlk_mutex_unlock(&round->mu);
    if (free)
        release_decide(round);
}

static void vote_on_released(struct hlk_release *pending, enum hlk_release_outcome outcome,
                             const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_round *round = pending->ctx;
    count_release(round, outcome, error);
    hlk_round_unref(round);
}

/* Has it got the lock there, or may it have? */
static bool vote_owes(struct hlk_vote *vote)
{
    struct hlk_release *pending = &vote->release;
    hlk_mutex_assert_held(&vote->round->mu);
    bool in_flight = vote->state == HLK_VOTE_IN_FLIGHT;
    pending->doubt = vote->doubt;
    pending->acquire_epoch = in_flight ? vote->epoch : 0;
    return vote->epoch && (in_flight || vote->had || vote->doubt);
}

static void vote_release(struct hlk_vote *vote, int64_t until_ms, bool eager)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(until_ms > 0);
    struct hlk_round *round = vote->round;
    const struct hlk_quorum *quorum = round->quorum;
    struct hlk_releases *releases = &quorum->client->nodes[vote - round->votes].releases;
    struct hlk_release *pending = &vote->release;
    pending->cmd.type = quorum->layout->release;
    pending->cmd.name = quorum->name;
    pending->cmd.name_len = quorum->name_len;
    pending->cmd.hold = round->hold;
    pending->until_ms = until_ms;
    pending->known_ms = vote->sent_ms;
    pending->settled = vote_on_released;
    pending->ctx = round;
    hlk_round_ref(round);
    if (round->release_at_ms) {
        hlk_release_announce(releases, pending);
        hlk_release_start_at(releases, pending, round->release_at_ms);
    } else {
        hlk_release_start(releases, pending, NULL, eager);
    }
}

void hlk_round_release(struct hlk_round *round, bool eager)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(round->acquires);
    bool owes[HLK_QUORUM_MAX] = { false };
    int64_t until_ms = hlk_clock_ms() + round->keep_ms;
    hlk_mutex_lock(&round->mu);
    round->release_until_ms = until_ms;
    round->release_eager = eager;
    for (unsigned i = 0; i < round->n; i++) {
        struct hlk_vote *vote = &round->votes[i];
        owes[i] = !vote->sending && vote_owes(vote);
        round->releases += owes[i] || vote->sending;
    }
    bool alarmed = round->alarmed = round->releases < round->n && !round->release_at_ms;
    round->alarm.fire = release_on_alarm;
    hlk_mutex_unlock(&round->mu);
    for (unsigned i = 0; i < round->n; i++)
        if (owes[i])
            vote_release(&round->votes[i], until_ms, eager);
    if (alarmed)
        hlk_loop_arm(round->quorum->client->loop, &round->alarm,
                     hlk_clock_after(hlk_clock_ms(), round->quorum->opts.node_timeout_ms));
}

void hlk_vote_sent(struct hlk_vote *vote)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(vote->round->acquires);
    struct hlk_round *round = vote->round;
    hlk_mutex_lock(&round->mu);
    vote->sending = false;
    int64_t until_ms = round->release_until_ms;
    bool owes = until_ms && vote_owes(vote);
    hlk_mutex_unlock(&round->mu);
    if (owes)
        vote_release(vote, until_ms, round->release_eager);
    else if (until_ms) /* it is among round->releases, and nothing is there */
        count_release(round, HLK_RELEASE_GIVEN_UP, NULL);
}

/* Masters whose releases are not settled, and that have refused each attempt so far. */
static unsigned refused_so_far(const struct hlk_round *round, struct hlk_error *last)
{
    unsigned n = 0;
    for (unsigned i = 0; i < round->n; i++)
        n += hlk_releases_refused(&round->quorum->client->nodes[i].releases, round->hold, last);
    return n;
}

enum hlk_status hlk_round_released(struct hlk_round *round, struct hlk_error *error)
{
    hlk_mutex_lock(&round->mu);
    unsigned freed = round->freed, settled = round->settled, releases = round->releases;
    unsigned never = round->n - releases, absent = round->absent + never;
    bool refused = settled == releases ? round->refused > 0 : refusals_decide(round);
    struct hlk_error refusal = round->refusal;
    hlk_mutex_unlock(&round->mu);
    if (freed >= round->need)
        return HLK_OK;
    if (round->n - absent < round->need)
        return hlk_error_set(error, HLK_LOST, "%u of %u masters did not have the hold any more", absent, round->n);
    if (freed + never >= round->need)
        return HLK_OK;
    if (refused)
        return hlk_error_set(error, refusal.status, "confirmed by %u of %u masters, refused: %s", freed, round->n,
                             refusal.text);
    unsigned refused_now = refused_so_far(round, &refusal);
    if (refused_now > 0 && freed + never + releases - settled - refused_now < round->need)
        return hlk_error_set(error, refusal.status,
                             "confirmed by %u of %u masters, refused: %s; repeated in the background", freed, round->n,
                             refusal.text);
    return hlk_error_set(error, HLK_E_UNSURE,
                         "sent, and confirmed by %u of %u masters in time; repeated in the background", freed,
                         round->n);
}
