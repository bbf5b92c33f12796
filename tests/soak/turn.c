#include "turn.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 4, LONG_EVERY_MS = 4000 };

int64_t turn_draw_lease(struct soak_rng *rng)
{
    return soak_chance(rng, 70) ? 300 + (int64_t)soak_draw(rng, LONGEST_LEASE_MS - 300)
                                : 100 + (int64_t)soak_draw(rng, 200);
}

static hlk_lock *handle_of(struct worker *worker, const struct turn *turn, int lock)
{
    return turn->how & HOW_OWNER ? worker->owned[lock] : worker->process->locks[lock];
}

void turn_of_one(struct worker *worker, struct turn *turn, int lock)
{
    turn->lock = lock;
    turn->handle = handle_of(worker, turn, lock);
    turn->n = 1;
    turn->parts[0].lock = lock;
    turn->parts[0].handle = turn->handle;
}

static bool has_key_of(const struct turn *turn, int lock)
{
    for (int i = 0; i < turn->n; i++)
        if (soak_lock_key(turn->parts[i].lock) == soak_lock_key(lock))
            return true;
    return false;
}

/* The handle lives until the worker's next multilock: its thread may be cancelled at any time. */
void turn_of_many(struct worker *worker, struct turn *turn)
{
    hlk_lock *members[MEMBERS];
    int wanted = 2 + (int)soak_draw(&worker->rng, MEMBERS - 1);
    turn->lock = LOCK_MULTI;
    turn->how |= HOW_MULTI;
    for (turn->n = 0; turn->n < wanted;) {
        int lock = (int)soak_draw(&worker->rng, LOCKS);
        if (has_key_of(turn, lock))
            continue;
        members[turn->n] = handle_of(worker, turn, lock);
        turn->parts[turn->n].lock = lock;
        turn->parts[turn->n].handle = members[turn->n];
        turn->n++;
    }
    hlk_lock_destroy(worker->multilock);
    worker->multilock = turn->handle = hlk_lock_create_multilock(members, (size_t)turn->n, NULL);
    if (!turn->handle && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "a multilock is not made: %s", hlk_last_error());
}

/* --- what it holds is written down */

static bool part_is_ours(struct part *part)
{
    int64_t until = hlk_lock_held_until(part->handle);
    if (until > 0 && hlk_lock_left_ms(part->handle) > 0) {
        atomic_store(&part->hold->until, until * 1000000);
        return true;
    }
    int64_t none = 0;
    atomic_compare_exchange_strong(&part->hold->lost, &none, soak_now());
    return false;
}

bool turn_is_ours(struct turn *turn)
{
    bool all = true;
    for (int i = 0; i < turn->n; i++)
        all &= part_is_ours(&turn->parts[i]);
    return all;
}

static void add_how(struct turn *turn, int how)
{
    for (int i = 0; i < turn->n; i++)
        turn->parts[i].hold->how |= (int16_t)how;
}

void end_hold(struct process *process, struct soak_hold *hold)
{
    struct soak_hold *mine = hold;
    int64_t not_yet = 0;
    atomic_compare_exchange_strong(&process->current[hold->lock][hold->holder], &mine, NULL);
    atomic_compare_exchange_strong(&hold->end, &not_yet, soak_now());
}

bool begin_hold(struct process *process, struct soak_hold *hold, hlk_lock *handle, bool by_id)
{
    char id[192] = "";
    int64_t until = hlk_lock_held_until(handle);
    hold->until = until > 0 ? until * 1000000 : hold->from;
    if (by_id)
        (void)hlk_lock_hold_id(handle, id, sizeof id);
    const char *colon = strrchr(id, ':');
    hold->h = colon ? strtoull(colon + 1, NULL, 10) : 0;
    hold->token = hlk_lock_token(handle);
    atomic_store(&hold->ready, 1);
    atomic_store(&process->current[hold->lock][hold->holder], hold);
    if (!atomic_load(&process->closing))
        return true;
    atomic_store(&hold->end, hold->from); /* close may release it any time */
    return false;
}

static void begin_part(struct worker *worker, struct turn *turn, struct part *part)
{
    struct process *process = worker->process;
    bool by_id = part->lock != LOCK_PERMITS || soak_chance(&worker->rng, 30); /* a permit whose id was told stays */
    part->hold = soak_acquired(process->soak, turn->asked, part->lock, process->number, worker->number, turn->how);
    if (begin_hold(process, part->hold, part->handle, by_id) && soak_lock_is_fenced(part->lock) &&
        part->hold->token <= 0 && part_is_ours(part) && !atomic_load(&process->closing))
        soak_wrong(process->soak, "%s was acquired and has no token", soak_lock_name(part->lock));
}

void turn_begin(struct worker *worker, struct turn *turn)
{
    turn->depth = 1;
    for (int i = 0; i < turn->n; i++)
        begin_part(worker, turn, &turn->parts[i]);
}

/* --- while it holds */

/* Of a lock that is not reentrant: refused at once, whatever goes on. */
static void try_to_nest(struct worker *worker, struct turn *turn)
{
    enum hlk_status status = hlk_lock_acquire(turn->handle, soak_chance(&worker->rng, 50) ? HLK_FOREVER : HLK_NOWAIT);
    add_how(turn, HOW_NESTED);
    if (status != HLK_DEADLOCK && status != HLK_LOST && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "acquire of %s by its holder: %s: %s", soak_lock_name(turn->lock),
                   hlk_status_name(status), hlk_last_error());
}

static void nest(struct worker *worker, struct turn *turn)
{
    struct soak_rng *rng = &worker->rng;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = soak_chance(rng, 50) ? HLK_FOREVER : HLK_NOWAIT;
    if (soak_chance(rng, 50))
        opts.lease_ms = turn_draw_lease(rng);
    enum hlk_status status = hlk_lock_acquire_with(turn->handle, &opts);
    if (status == HLK_OK) {
        turn->depth++;
        add_how(turn, HOW_NESTED);
        return;
    }
    /* One try whose lease takes a round trip is over when that has no answer (docs/decisions/acquire-answers.md). */
    bool raises = opts.lease_ms > 0 || (turn->how & HOW_FIXED);
    bool unanswered = status == HLK_BUSY && opts.wait_ms == 0 && raises && !worker->process->soak->quiet;
    bool never = status == HLK_BUSY || status == HLK_TIMEOUT || status == HLK_NOT_HOLDER || status == HLK_INTERRUPTED;
    if (never && !unanswered && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "nested acquire of %s: %s", soak_lock_name(turn->lock), hlk_last_error());
}

static void extend(struct worker *worker, struct turn *turn)
{
    int64_t lease_ms = 200 + (int64_t)soak_draw(&worker->rng, LONGEST_LEASE_MS - 200);
    enum hlk_status status = hlk_lock_extend(turn->handle, lease_ms);
    add_how(turn, HOW_EXTENDED);
    bool watchdog = !(turn->how & HOW_FIXED), quiet = worker->process->soak->quiet;
    bool wrong = status == HLK_NOT_HOLDER || status == HLK_E_INVALID || (status != HLK_OK && quiet && watchdog);
    if (wrong && !atomic_load(&worker->process->closing))
        soak_wrong(worker->process->soak, "extend %s: %s", soak_lock_name(turn->lock), hlk_last_error());
}

/* Once more into a lock that is held, or its lease made longer. */
static void go_deeper(struct worker *worker, struct turn *turn)
{
    if (soak_chance(&worker->rng, 25))
        extend(worker, turn);
    else if (soak_locks[turn->lock].nests)
        nest(worker, turn);
    else if (turn->lock != LOCK_MULTI)
        try_to_nest(worker, turn);
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

void turn_hold(struct worker *worker, struct turn *turn)
{
    soak_doing(worker->at, DOING_HOLD, turn->lock, 0);
    turn_begin(worker, turn);
    int64_t us = draw_us(worker);
    for (int64_t until = soak_now() + us * 1000; soak_now() < until;) {
        int64_t left = (until - soak_now()) / 1000;
        soak_rest(left < 0 ? 0 : left > 50000 ? 50000 : left);
        if (!turn_is_ours(turn))
            break;
    }
    while (turn->depth < DEPTH && soak_chance(&worker->rng, 12)) {
        go_deeper(worker, turn);
        (void)turn_is_ours(turn);
    }
    if (turn->depth > 1)
        soak_rest((int64_t)soak_draw(&worker->rng, 300));
    if (soak_chance(&worker->rng, 20))
        turn_other_half(worker, turn);
}

void turn_forget(struct worker *worker, struct turn *turn)
{
    for (int i = 0; i < turn->n; i++)
        end_hold(worker->process, turn->parts[i].hold);
}

/* --- its end */

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
    if (soak->quiet && status != HLK_OK && ours && !(turn->how & HOW_FIXED))
        soak_wrong(soak, "release of %s in quiet: %s: %s", soak_lock_name(turn->lock), hlk_status_name(status),
                   hlk_last_error());
    atomic_fetch_add(&soak->answers[status == HLK_OK ? 8 : status == HLK_LOST ? 9 : 10], 1);
    if (soak_chance(&worker->rng, 50)) /* else the next acquire settles it */
        while (is_owed(status) && !atomic_load(&soak->stop))
            status = hlk_lock_release(turn->handle);
}

static void release_nested(struct worker *worker, struct turn *turn)
{
    for (; turn->depth > 1; turn->depth--) {
        enum hlk_status status = hlk_lock_release(turn->handle);
        if (status != HLK_OK && status != HLK_LOST && !atomic_load(&worker->process->closing))
            soak_wrong(worker->process->soak, "release of a nested hold of %s: %s: %s", soak_lock_name(turn->lock),
                       hlk_status_name(status), hlk_last_error());
        if (turn->depth == 2)
            (void)turn_is_ours(turn);
    }
}

void turn_release(struct worker *worker, struct turn *turn)
{
    soak_doing(worker->at, DOING_RELEASE, turn->lock, 0);
    release_nested(worker, turn);
    bool ours = turn_is_ours(turn), may_async = turn->how & HOW_OWNER || turn->lock != LOCK_MULTI;
    turn_forget(worker, turn);
    if (!may_async || !soak_chance(&worker->rng, 35)) {
        settle(worker, turn, hlk_lock_release(turn->handle), ours);
        return;
    }
    add_how(turn, HOW_END_ASYNC);
    bool asked = turn->how & HOW_OWNER && soak_chance(&worker->rng, 50);
    enum hlk_status status = hlk_lock_release_async(turn->handle, asked ? worker_done : NULL, worker);
    if (asked && status == HLK_OK)
        status = worker_wait_done(worker);
    settle(worker, turn, status, ours || !asked);
}
