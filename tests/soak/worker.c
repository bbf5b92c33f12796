#include "worker.h"

#include "support/wait.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 4, LONG_EVERY_MS = 4000 };

/* What one turn was drawn to be. */
struct turn {
    int lock, how;
    hlk_lock *handle;
    struct hlk_acquire_opts opts;
    int64_t asked;
    struct soak_hold *hold;
    int depth;
};

static void on_done(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct worker *worker = ctx;
    pthread_mutex_lock(&worker->mu);
    worker->is_done = true;
    worker->status = status;
    worker->done_at = soak_now();
    pthread_cond_signal(&worker->done);
    pthread_mutex_unlock(&worker->mu);
}

static enum hlk_status wait_done(struct worker *worker)
{
    pthread_mutex_lock(&worker->mu);
    while (!worker->is_done)
        pthread_cond_wait(&worker->done, &worker->mu);
    worker->is_done = false;
    enum hlk_status status = worker->status;
    pthread_mutex_unlock(&worker->mu);
    return status;
}

static int64_t draw_lease(struct soak_rng *rng)
{
    return soak_chance(rng, 70) ? 300 + (int64_t)soak_draw(rng, LONGEST_LEASE_MS - 300)
                                : 100 + (int64_t)soak_draw(rng, 200);
}

static struct turn draw(struct worker *worker)
{
    struct soak_rng *rng = &worker->rng;
    struct turn turn = { .lock = soak_draw_lock(rng) };
    struct hlk_acquire_opts none = HLK_ACQUIRE_OPTS_INIT;
    turn.opts = none;
    if (soak_chance(rng, (unsigned)soak_locks[turn.lock].fixed)) {
        turn.opts.lease_ms = draw_lease(rng);
        turn.how |= HOW_FIXED;
    }
    switch (soak_draw(rng, 8)) {
    case 0:
        turn.opts.wait_ms = 0;
        break;
    case 1:
    case 2:
        turn.opts.wait_ms = 1 + (int64_t)soak_draw(rng, soak_chance(rng, 50) ? 20 : 800);
        break;
    default:
        turn.opts.wait_ms = -1;
    }
    if (soak_chance(rng, 30)) {
        if (hlk_cancel_triggered(worker->cancel))
            hlk_cancel_reset(worker->cancel);
        turn.opts.cancel = worker->cancel;
    }
    if (soak_chance(rng, 20))
        turn.opts.flags |= HLK_ACQUIRE_EINTR;
    if (soak_chance(rng, 60))
        turn.how |= HOW_OWNER;
    if (turn.how & HOW_OWNER && soak_chance(rng, 50)) {
        turn.how |= HOW_ASYNC;
        turn.opts.flags &= ~HLK_ACQUIRE_EINTR;
    }
    turn.handle = turn.how & HOW_OWNER ? worker->owned[turn.lock] : worker->process->locks[turn.lock];
    return turn;
}

static enum hlk_status acquire(struct worker *worker, struct turn *turn)
{
    soak_doing(worker->at, turn->how & HOW_ASYNC ? DOING_ACQUIRE_ASYNC : DOING_ACQUIRE, turn->lock, turn->opts.wait_ms);
    if (!(turn->how & HOW_ASYNC)) {
        int old; /* a cancellation is seen while it waits only: what it got it returns */
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        enum hlk_status got = hlk_lock_acquire_with(turn->handle, &turn->opts);
        pthread_setcancelstate(old, &old);
        return got;
    }
    enum hlk_status status = hlk_lock_acquire_async(turn->handle, &turn->opts, on_done, worker);
    return status == HLK_OK ? wait_done(worker) : status;
}

/* What is there to say about an answer other than OK: was it one that this call may give? */
static void judge_refusal(struct worker *worker, const struct turn *turn, enum hlk_status status)
{
    struct soak *soak = worker->process->soak;
    int64_t took_ms = (soak_now() - turn->asked) / 1000000;
    bool may = false;
    switch (status) {
    case HLK_BUSY:
        may = turn->opts.wait_ms == 0;
        break;
    case HLK_TIMEOUT:
        may = turn->opts.wait_ms > 0 && took_ms + 1 >= turn->opts.wait_ms;
        break;
    case HLK_INTERRUPTED:
        may = turn->opts.cancel || turn->opts.flags & HLK_ACQUIRE_EINTR;
        break;
    case HLK_E_CONNECT:
    case HLK_E_SERVER:
        may = !soak->quiet;
        break;
    default:
        break;
    }
    if (!may && !atomic_load(&worker->process->closing))
        soak_wrong(soak, "slot %d thread %d: acquire %s, wait %lld, how %d, after %lld ms: %s: %s",
                   worker->process->number, worker->number, soak_lock_name(turn->lock), (long long)turn->opts.wait_ms,
                   turn->how, (long long)took_ms, hlk_status_name(status), hlk_last_error());
}

/* Asks how long it is ours, and writes that down. False: it is not any more. */
static bool still_ours(struct turn *turn)
{
    int64_t until = hlk_lock_held_until(turn->handle);
    if (until > 0 && hlk_lock_left_ms(turn->handle) > 0) {
        atomic_store(&turn->hold->until, until * 1000000);
        return true;
    }
    int64_t none = 0;
    atomic_compare_exchange_strong(&turn->hold->lost, &none, soak_now());
    return false;
}

void end_hold(struct process *process, int lock, struct soak_hold *hold)
{
    struct soak_hold *mine = hold;
    int64_t not_yet = 0;
    atomic_compare_exchange_strong(&process->current[lock], &mine, NULL);
    atomic_compare_exchange_strong(&hold->end, &not_yet, soak_now());
}

bool begin_hold(struct process *process, int lock, struct soak_hold *hold, hlk_lock *handle)
{
    char id[192] = "";
    int64_t until = hlk_lock_held_until(handle);
    hold->until = until > 0 ? until * 1000000 : hold->from;
    (void)hlk_lock_hold_id(handle, id, sizeof id);
    const char *colon = strrchr(id, ':');
    hold->h = colon ? strtoull(colon + 1, NULL, 10) : 0;
    hold->token = hlk_lock_token(handle);
    atomic_store(&hold->ready, 1);
    atomic_store(&process->current[lock], hold);
    if (!atomic_load(&process->closing))
        return true;
    atomic_store(&hold->end, hold->from); /* close may release it any time */
    return false;
}

static void begin(struct worker *worker, struct turn *turn)
{
    struct process *process = worker->process;
    turn->hold = soak_acquired(process->soak, turn->asked, turn->lock, process->number, worker->number, turn->how);
    turn->depth = 1;
    if (begin_hold(process, turn->lock, turn->hold, turn->handle) && soak_lock_is_fenced(turn->lock) &&
        turn->hold->token <= 0 && still_ours(turn) && !atomic_load(&process->closing))
        soak_wrong(process->soak, "%s was acquired and has no token", soak_lock_name(turn->lock));
}

static void rest(struct worker *worker, int64_t us)
{
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    if (us)
        nanosleep(&time, NULL);
    (void)worker;
}

/* Of a lock that is not reentrant: refused at once, whatever goes on. */
static void try_to_nest(struct worker *worker, struct turn *turn)
{
    enum hlk_status status = hlk_lock_acquire(turn->handle, soak_chance(&worker->rng, 50) ? HLK_FOREVER : HLK_NOWAIT);
    turn->hold->how |= HOW_NESTED;
    if (status != HLK_DEADLOCK && status != HLK_LOST && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "acquire of %s by its holder: %s: %s", soak_lock_name(turn->lock),
                   hlk_status_name(status), hlk_last_error());
}

/* Once more into a lock that is held, or its lease made longer. */
static void go_deeper(struct worker *worker, struct turn *turn)
{
    struct soak_rng *rng = &worker->rng;
    if (soak_chance(rng, 25)) {
        enum hlk_status status = hlk_lock_extend(turn->handle, 200 + (int64_t)soak_draw(rng, LONGEST_LEASE_MS - 200));
        turn->hold->how |= HOW_EXTENDED;
        bool watchdog = !(turn->how & HOW_FIXED), quiet = worker->process->soak->quiet;
        bool wrong = status == HLK_NOT_HOLDER || status == HLK_E_INVALID || (status != HLK_OK && quiet && watchdog);
        if (wrong && !atomic_load(&worker->process->closing))
            soak_wrong(worker->process->soak, "extend %s: %s", soak_lock_name(turn->lock), hlk_last_error());
        return;
    }
    if (!soak_locks[turn->lock].nests) {
        try_to_nest(worker, turn);
        return;
    }
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = soak_chance(rng, 50) ? -1 : 0;
    if (soak_chance(rng, 50))
        opts.lease_ms = draw_lease(rng);
    enum hlk_status status = hlk_lock_acquire_with(turn->handle, &opts);
    if (status == HLK_OK) {
        turn->depth++;
        turn->hold->how |= HOW_NESTED;
        return;
    }
    /* One try whose lease takes a round trip is over when that has no answer (docs/decisions/acquire-answers.md). */
    bool raises = opts.lease_ms > 0 || (turn->how & HOW_FIXED);
    bool unanswered = status == HLK_BUSY && opts.wait_ms == 0 && raises && !worker->process->soak->quiet;
    bool never = status == HLK_BUSY || status == HLK_TIMEOUT || status == HLK_NOT_HOLDER || status == HLK_INTERRUPTED;
    if (never && !unanswered && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "nested acquire of %s: %s", soak_lock_name(turn->lock), hlk_last_error());
}

/* How long it holds: mostly not at all; now and then, by one thread of a process at a time, longer than a lease. */
static int64_t draw_us(struct worker *worker)
{
    struct process *process = worker->process;
    struct soak_rng *rng = &worker->rng;
    uint64_t kind = soak_draw(rng, 100);
    int64_t now = soak_now(), long_at = atomic_load(&process->long_at);
    if (kind >= 90 && now >= long_at && !process->soak->quiet &&
        atomic_compare_exchange_strong(&process->long_at, &long_at, now + LONG_EVERY_MS * INT64_C(1000000)))
        return (int64_t)soak_draw(rng, (uint64_t)LONGEST_LEASE_MS * 1300);
    return kind < 55 ? 0 : (int64_t)soak_draw(rng, kind < 96 ? 1500 : 20000);
}

static void hold(struct worker *worker, struct turn *turn)
{
    soak_doing(worker->at, DOING_HOLD, turn->lock, 0);
    begin(worker, turn);
    int64_t us = draw_us(worker);
    for (int64_t until = soak_now() + us * 1000; soak_now() < until;) {
        int64_t left = (until - soak_now()) / 1000;
        rest(worker, left < 0 ? 0 : left > 50000 ? 50000 : left);
        if (!still_ours(turn))
            break;
    }
    while (turn->depth < DEPTH && soak_chance(&worker->rng, 12)) {
        go_deeper(worker, turn);
        (void)still_ours(turn);
    }
    if (turn->depth > 1)
        rest(worker, (int64_t)soak_draw(&worker->rng, 300));
}

/* No outcome yet: not answered, or refused until now. */
static bool is_owed(enum hlk_status status)
{
    return status == HLK_E_UNSURE || status == HLK_E_CONNECT || status == HLK_E_SERVER;
}

/* The outcome of a release, which may have to be asked for again. */
static void settle(struct worker *worker, const struct turn *turn, enum hlk_status status, bool ours)
{
    struct soak *soak = worker->process->soak;
    if (atomic_load(&worker->process->closing))
        return;
    if (status == HLK_OK && !ours)
        soak_wrong(soak, "release of %s answers OK, and it was over before", soak_lock_name(turn->lock));
    if (status != HLK_OK && status != HLK_LOST && !is_owed(status))
        soak_wrong(soak, "release of %s: %s: %s", soak_lock_name(turn->lock), hlk_status_name(status),
                   hlk_last_error());
    if (soak->quiet && status != HLK_OK && ours && !(turn->hold->how & HOW_FIXED))
        soak_wrong(soak, "release of %s in quiet: %s: %s", soak_lock_name(turn->lock), hlk_status_name(status),
                   hlk_last_error());
    atomic_fetch_add(&soak->answers[status == HLK_OK ? 8 : status == HLK_LOST ? 9 : 10], 1);
    if (soak_chance(&worker->rng, 50)) /* else the next acquire settles it */
        while (is_owed(status) && !atomic_load(&soak->stop))
            status = hlk_lock_release(turn->handle);
}

static void release(struct worker *worker, struct turn *turn)
{
    struct process *process = worker->process;
    soak_doing(worker->at, DOING_RELEASE, turn->lock, 0);
    for (; turn->depth > 1; turn->depth--) {
        enum hlk_status status = hlk_lock_release(turn->handle);
        if (status != HLK_OK && status != HLK_LOST && !atomic_load(&process->closing))
            soak_wrong(process->soak, "release of a nested hold of %s: %s: %s", soak_lock_name(turn->lock),
                       hlk_status_name(status), hlk_last_error());
        if (turn->depth == 2)
            (void)still_ours(turn);
    }
    bool ours = still_ours(turn);
    end_hold(process, turn->lock, turn->hold);
    if (!soak_chance(&worker->rng, 35)) {
        settle(worker, turn, hlk_lock_release(turn->handle), ours);
        return;
    }
    turn->hold->how |= HOW_END_ASYNC;
    bool asked = turn->how & HOW_OWNER && soak_chance(&worker->rng, 50);
    enum hlk_status status = hlk_lock_release_async(turn->handle, asked ? on_done : NULL, worker);
    if (asked && status == HLK_OK)
        status = wait_done(worker);
    settle(worker, turn, status, ours || !asked);
}

static int answer_of(enum hlk_status status)
{
    switch (status) {
    case HLK_OK:
        return 0;
    case HLK_BUSY:
        return 1;
    case HLK_TIMEOUT:
        return 2;
    case HLK_INTERRUPTED:
        return 3;
    default:
        return 4;
    }
}

static void note_wait(struct worker *worker, const struct turn *turn)
{
    soak_longest(&worker->process->soak->longest_wait_ns[turn->lock], soak_now() - turn->asked);
}

/* The thread ends, by a cancellation or with the lock in its hands: another one takes its place. */
static void leave(void *arg)
{
    struct worker *worker = arg;
    if (!atomic_load(&worker->process->soak->stop))
        begin_work(worker);
    atomic_fetch_sub(&worker->process->working, 1);
}

/* Now and then a thread forgets what it holds: ORPHANED, and the lease runs out. Never what an owner holds. */
static bool forgets(struct worker *worker, const struct turn *turn)
{
    return !(turn->how & HOW_OWNER) && !worker->process->soak->quiet && soak_draw(&worker->rng, 600) == 0;
}

static void look(struct worker *worker, const struct turn *turn)
{
    struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
    enum hlk_status status = hlk_lock_query(turn->handle, &state);
    if (status == HLK_OK && state.held && !state.holder[0])
        soak_wrong(worker->process->soak, "%s is held by nobody", soak_lock_name(turn->lock));
    if (status != HLK_OK && worker->process->soak->quiet && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "query of %s: %s", soak_lock_name(turn->lock), hlk_last_error());
}

static bool one_turn(struct worker *worker)
{
    struct soak *soak = worker->process->soak;
    struct turn turn = draw(worker);
    turn.asked = soak_now();
    enum hlk_status status = acquire(worker, &turn);
    atomic_fetch_add(&soak->answers[answer_of(status)], 1);
    note_wait(worker, &turn);
    if (status == HLK_OK) {
        hold(worker, &turn);
        if (forgets(worker, &turn)) {
            end_hold(worker->process, turn.lock, turn.hold);
            return false;
        }
        release(worker, &turn);
    } else {
        judge_refusal(worker, &turn, status);
    }
    soak_doing(worker->at, DOING_NOTHING, turn.lock, 0);
    if (soak_draw(&worker->rng, 200) == 0)
        look(worker, &turn);
    if (soak_chance(&worker->rng, 50))
        rest(worker, (int64_t)soak_draw(&worker->rng, soak->hurry ? UINT64_C(1000) << soak->hurry : 200));
    return true;
}

void *work(void *arg)
{
    struct worker *worker = arg;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_cleanup_push(leave, worker);
    while (!atomic_load(&worker->process->soak->stop) && one_turn(worker))
        ;
    pthread_cleanup_pop(1);
    return NULL;
}

void begin_work(struct worker *worker)
{
    pthread_mutex_lock(&worker->mu);
    atomic_fetch_add(&worker->process->working, 1);
    soak_doing(worker->at, DOING_NOTHING, 0, 0);
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
        test_give_up("no thread");
    pthread_detach(worker->thread);
    pthread_mutex_unlock(&worker->mu);
}
