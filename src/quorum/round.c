#include "quorum/round.h"

#include "acquire/multi_wait.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "net/pipeline_link.h"
#include "net/pipeline_up.h"
#include "script/engine.h"

/* --- memory --- */

struct hlk_round *hlk_round_make(struct hlk_quorum *quorum, bool acquires, uint64_t hold, int64_t ttl_ms)
{
    HLK_DEBUG_ASSERT(hold && ttl_ms > 0);
    unsigned n = quorum->client->node_count;
    struct hlk_round *round = hlk_mem_zalloc(sizeof *round + n * sizeof *round->votes);
    if (!round)
        return NULL;
    atomic_init(&round->refs, 1);
    hlk_quorum_ref(quorum);
    round->quorum = quorum;
    round->acquires = acquires;
    round->hold = hold;
    round->ttl_ms = round->keep_ms = ttl_ms;
    round->n = round->open = n;
    round->need = n / 2 + 1;
    hlk_mutex_init(&round->mu, HLK_RANK_ROUND);
    for (unsigned i = 0; i < n; i++) {
        struct hlk_vote *vote = &round->votes[i];
        struct hlk_command *cmd = &vote->cmd;
        vote->round = round;
        vote->renewal = (struct hlk_renewal){ quorum->name, quorum->name_len, hold, ttl_ms };
        cmd->type = acquires ? quorum->layout->acquire : quorum->layout->renew;
        cmd->pipeline = quorum->client->nodes[i].pipeline;
        cmd->client_id = quorum->client->id;
        cmd->name = quorum->name;
        cmd->name_len = quorum->name_len;
        cmd->hold = hold;
        cmd->lease_ms = ttl_ms;
        cmd->renewals = acquires ? NULL : &vote->renewal;
        cmd->count = 1;
        cmd->limits = (struct hlk_limits){
            .at_ms = INT64_MAX, .reconnect_timeout_ms = -1, .once = true, .waits_out_writes = true
        };
    }
    return round;
}

void hlk_round_ref(struct hlk_round *round)
{
    HLK_DEBUG_ASSERT(atomic_load(&round->refs) > 0);
    atomic_fetch_add(&round->refs, 1);
}

static void round_free(struct hlk_round *round)
{
    HLK_DEBUG_ASSERT(atomic_load(&round->refs) == 0);
    struct hlk_quorum *quorum = round->quorum;
    hlk_mutex_fini(&round->mu);
    hlk_mem_free(round);
    hlk_quorum_unref(quorum);
}

static void round_on_end(struct hlk_post *post)
{
    hlk_loop_assert_here(HLK_CONTAINER(post, struct hlk_round, end)->quorum->client->loop);
    struct hlk_round *round = HLK_CONTAINER(post, struct hlk_round, end);
    hlk_loop_cancel(round->quorum->client->loop, &round->alarm);
    round_free(round);
}

/* The loop may have the alarm in its hands. */
void hlk_round_unref(struct hlk_round *round)
{
    HLK_DEBUG_ASSERT(!round || atomic_load(&round->refs) > 0);
    if (!round || atomic_fetch_sub(&round->refs, 1) != 1)
        return;
    round->end.run = round_on_end;
    if (!round->alarmed || !hlk_loop_try_post(round->quorum->client->loop, &round->end))
        round_free(round);
}

/* --- counting --- */

void hlk_round_watch(struct hlk_round *round, struct hlk_waker *waker)
{
    hlk_mutex_lock(&round->mu);
    round->waker = waker;
    hlk_mutex_unlock(&round->mu);
}

void hlk_round_wake(struct hlk_round *round)
{
    hlk_mutex_lock(&round->mu);
    if (round->waker)
        hlk_waker_wake(round->waker, HLK_WAKE_SETTLED);
    hlk_mutex_unlock(&round->mu);
}

/* The vote has its end. */
static void vote_count(struct hlk_vote *vote, enum hlk_vote_state state)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(state != HLK_VOTE_IN_FLIGHT && state != HLK_VOTE_RESEND);
    struct hlk_round *round = vote->round;
    hlk_mutex_lock(&round->mu);
    vote->state = state;
    vote->doubt |= vote->cmd.doubt;
    vote->had |= state == HLK_VOTE_YES;
    round->open--;
    round->yes += state == HLK_VOTE_YES;
    bool decides = (round->yes >= round->need || round->yes + round->open < round->need) &&
                   !atomic_exchange(&round->decided, true);
    hlk_mutex_unlock(&round->mu);
    if (state == HLK_VOTE_NO && round->on_no)
        round->on_no(round, (unsigned)(vote - round->votes));
    if (!decides)
        return;
    hlk_round_wake(round);
    if (round->on_decided)
        round->on_decided(round);
}

static void vote_fail(struct hlk_vote *vote, const struct hlk_error *error, bool for_good)
{
    HLK_DEBUG_ASSERT(error->status != HLK_OK);
    vote->error = *error;
    vote->for_good = for_good;
    vote_count(vote, HLK_VOTE_FAILED);
}

static void vote_distrust(struct hlk_vote *vote)
{
    struct hlk_error error;
    hlk_pipeline_distrust(vote->cmd.pipeline, vote->cmd.call.epoch);
    vote->cmd.doubt = true;
    (void)hlk_error_set(&error, HLK_E_SERVER, "its answer is none to this command");
    vote_fail(vote, &error, false);
}

/* 0: the master counts. Else how long ago it started, at the least. */
static int64_t young_ms(const struct hlk_vote *vote, bool *told)
{
    const struct hlk_round *round = vote->round;
    int64_t age = vote->sent_ms - hlk_pipeline_server_started(vote->cmd.pipeline, told);
    return age < round->quorum->opts.restart_delay_ms ? age > 0 ? age : 1 : 0;
}

static void vote_keep_out(struct hlk_vote *vote, int64_t age_ms, bool told)
{
    HLK_DEBUG_ASSERT(age_ms > 0);
    static const char started[] = "started %lld ms ago, counts from %lld ms on (restart_delay_ms)",
                      met[] =
                          "met %lld ms ago, counts from %lld ms on (restart_delay_ms): when it started is not known "
                          "without the right to INFO (docs/acl.md)";
    struct hlk_error error;
    (void)hlk_error_set(&error, HLK_E_CONNECT, told ? started : met, (long long)age_ms,
                        (long long)vote->round->quorum->opts.restart_delay_ms);
    vote->young = true;
    vote_fail(vote, &error, false);
}

static void vote_read_acquire(struct hlk_vote *vote, const redisReply *reply)
{
    HLK_DEBUG_ASSERT(vote->round->acquires && reply);
    struct hlk_answer answer = { 0 };
    switch (vote->round->quorum->layout->read_acquire(&vote->cmd, reply, &answer)) {
    case HLK_ANSWER_ACQUIRED: {
        bool told;
        int64_t age = young_ms(vote, &told); /* the server may be another process by now */
        if (age) {
            vote->cmd.doubt = true;
            vote_keep_out(vote, age, told);
        } else {
            vote_count(vote, HLK_VOTE_YES);
        }
        return;
    }
    case HLK_ANSWER_BUSY:
        vote->holder_len = answer.holder_len < sizeof vote->holder ? answer.holder_len : sizeof vote->holder;
        memcpy(vote->holder, answer.holder, vote->holder_len);
        vote_count(vote, HLK_VOTE_NO);
        return;
    case HLK_ANSWER_TOMBSTONE:
        vote_count(vote, HLK_VOTE_NO);
        return;
    case HLK_ANSWER_AGAIN: /* no lock answers so */
    case HLK_ANSWER_FAILED:
    case HLK_ANSWER_NONE:
        vote_distrust(vote);
    }
}

static void vote_read(struct hlk_vote *vote)
{
    HLK_DEBUG_ASSERT(vote->cmd.call.reply);
    redisReply *reply = vote->cmd.call.reply;
    int renewed = vote->round->acquires ? 0 : hlk_quorum_read_renew(&vote->cmd, reply);
    if (vote->round->acquires)
        vote_read_acquire(vote, reply);
    else if (renewed < 0)
        vote_distrust(vote);
    else
        vote_count(vote, renewed ? HLK_VOTE_YES : HLK_VOTE_NO);
}

/* --- sending --- */

static void vote_send(struct hlk_vote *vote);

/* The attempt was not run. An acquire is sent again by its sender alone, because nothing may be sent behind its
 * release. */
static void vote_resend(struct hlk_vote *vote)
{
    hlk_mutex_assert_none();
    struct hlk_round *round = vote->round;
    if (!round->acquires) {
        vote_send(vote);
        return;
    }
    hlk_mutex_lock(&round->mu);
    vote->state = HLK_VOTE_RESEND;
    void (*again)(struct hlk_vote *) = vote->again;
    hlk_mutex_unlock(&round->mu);
    if (again) {
        again(vote);
        return;
    }
    atomic_store(&round->wants_resend, true);
    hlk_round_wake(round);
}

static void vote_on_end(struct hlk_call *call)
{
    hlk_mutex_assert_none();
    struct hlk_vote *vote = HLK_CONTAINER(call, struct hlk_vote, cmd.call);
    struct hlk_round *round = vote->round;
    struct hlk_error error = { .status = HLK_E_CONNECT, .text = "the connection broke" };
    switch (hlk_command_end(&vote->cmd, &error)) {
    case HLK_COMMAND_ANSWERED: {
        redisReply *reply = vote->cmd.call.reply;
        vote_read(vote); /* the round's owner may use the vote from here on */
        freeReplyObject(reply);
        break;
    }
    case HLK_COMMAND_RESEND:
        vote_resend(vote);
        break;
    case HLK_COMMAND_FAILED:
        if (error.status == HLK_E_UNSURE) /* its release settles that */
            error.status = HLK_E_CONNECT;
        vote_fail(vote, &error, error.status == HLK_E_AUTH || error.status == HLK_E_SERVER);
        break;
    default:
        vote_fail(vote, &error, false);
    }
    hlk_round_unref(round);
}

static void vote_send(struct hlk_vote *vote)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    struct hlk_round *round = vote->round;
    hlk_round_ref(round);
    vote->epoch = hlk_pipeline_epoch(vote->cmd.pipeline);
    vote->cmd.call.done = vote_on_end;
    vote->cmd.call.lazy = !round->eager; /* the thread that waits for it reads it; else the loop's next tick does */
    enum hlk_progress progress = hlk_command_send(&vote->cmd, &error);
    if (progress == HLK_COMMAND_IN_FLIGHT)
        return;
    if (vote->cmd.attempts == 0)
        vote->epoch = 0;
    if (progress == HLK_COMMAND_UNCONNECTED &&
        hlk_pipeline_health(vote->cmd.pipeline, &error) == HLK_OK) /* the connection is back this moment */
        (void)hlk_error_set(&error, HLK_E_CONNECT, "no connection");
    vote_fail(vote, &error, error.status == HLK_E_AUTH);
    hlk_round_unref(round);
}

static void vote_leave_out(struct hlk_vote *vote)
{
    struct hlk_error error;
    (void)hlk_error_set(&error, HLK_E_INVALID, HLK_QUORUM_TWIN);
    vote_fail(vote, &error, true);
}

void hlk_vote_ask(struct hlk_vote *vote)
{
    hlk_mutex_assert_none();
    struct hlk_error error;
    if (atomic_load(&vote->round->quorum->all->twins) & 1u << (vote - vote->round->votes)) {
        vote_leave_out(vote);
        return;
    }
    bool told, asks_age = vote->round->acquires && hlk_pipeline_health(vote->cmd.pipeline, &error) == HLK_OK;
    int64_t age = asks_age ? young_ms(vote, &told) : 0;
    if (age)
        vote_keep_out(vote, age, told);
    else
        vote_send(vote);
}

void hlk_round_send(struct hlk_round *round)
{
    hlk_mutex_assert_none();
    hlk_round_ref(round); /* the round may be decided, and given up by its owner, meanwhile */
    round->sent_ms = hlk_clock_ms();
    for (unsigned i = 0; i < round->n; i++) {
        round->votes[i].sent_ms = round->sent_ms;
        hlk_vote_ask(&round->votes[i]);
    }
    hlk_round_unref(round);
}

void hlk_round_resend(struct hlk_round *round)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(round->acquires);
    atomic_store(&round->wants_resend, false);
    for (unsigned i = 0; i < round->n; i++) {
        struct hlk_vote *vote = &round->votes[i];
        hlk_mutex_lock(&round->mu);
        bool resend = vote->state == HLK_VOTE_RESEND;
        vote->state = resend ? HLK_VOTE_IN_FLIGHT : vote->state;
        hlk_mutex_unlock(&round->mu);
        if (resend)
            vote_send(vote);
    }
}

/* --- waiting --- */

static int64_t spin_budget(struct hlk_quorums *all)
{
    hlk_mutex_lock(&all->mu);
    int64_t budget = hlk_spin_budget_ns(&all->spin);
    hlk_mutex_unlock(&all->mu);
    return budget;
}

struct awaited {
    const atomic_bool *ready, *also; /* one of them; also: or NULL */
};

static bool is_ready(void *ctx)
{
    const struct awaited *awaited = ctx;
    return atomic_load(awaited->ready) || (awaited->also && atomic_load(awaited->also));
}

static void wait_for(const struct hlk_round *round, struct hlk_thread *self, struct awaited awaited, unsigned mask,
                     int64_t at_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self);
    const struct hlk_client *client = round->quorum->client;
    struct hlk_multi_wait wait = { .self = self, .over = is_ready, .ctx = &awaited, .mask = mask };
    for (unsigned i = 0; i < client->node_count; i++)
        (void)hlk_multi_wait_add(&wait, client->nodes[i].pipeline);
    hlk_multi_wait_run(&wait, spin_budget(round->quorum->all), at_ms);
}

void hlk_round_wait(struct hlk_round *round, struct hlk_thread *self, unsigned mask, int64_t at_ms)
{
    struct hlk_quorums *all = round->quorum->all;
    int64_t began = hlk_clock_ns();
    wait_for(round, self, (struct awaited){ &round->decided, &round->wants_resend }, mask, at_ms);
    hlk_mutex_lock(&all->mu);
    hlk_spin_saw(&all->spin, hlk_clock_ns() - began);
    hlk_mutex_unlock(&all->mu);
}

void hlk_round_wait_released(struct hlk_round *round, struct hlk_thread *self, int64_t at_ms)
{
    wait_for(round, self, (struct awaited){ &round->released, NULL }, 0, at_ms);
}

bool hlk_round_won(struct hlk_round *round)
{
    hlk_mutex_lock(&round->mu);
    bool won = round->yes >= round->need;
    hlk_mutex_unlock(&round->mu);
    return won;
}

bool hlk_round_absent(struct hlk_round *round)
{
    HLK_DEBUG_ASSERT(!round->acquires);
    unsigned no = 0;
    hlk_mutex_lock(&round->mu);
    for (unsigned i = 0; i < round->n; i++)
        no += round->votes[i].state == HLK_VOTE_NO;
    hlk_mutex_unlock(&round->mu);
    return round->n - no < round->need;
}
