/* ours_condition.c - hasplock's condition as a peer, beside one lock.
 *
 *     ours-condition       two threads take turns. `release` signals and keeps the lock, which the wait for the next
 *                          turn gives up. So the other thread always waits when it is signalled. If the lock were
 *                          released and acquired again, both would be in its queue by turns, and none would wait
 *     ours-condition-all   each thread waits once, until `fire`; it comes back with the lock, and releases it */
#include "ours.h"
#include "page.h"

#include <stdlib.h>

struct with_condition {
    hlk_lock *lock;
    hlk_condition *condition;
};

static hlk_client *const *client_of_process;

static int result(struct bench_worker *worker, const char *what, enum hlk_status status)
{
    return status == HLK_OK ? 0 : bench_fail(worker, "%s: %s: %s", what, hlk_status_name(status), hlk_last_error());
}

static int condition_open(struct bench_worker *worker)
{
    struct with_condition *with = worker->state = calloc(1, sizeof *with);
    if (!with)
        return bench_fail(worker, "no memory");
    with->lock = hlk_lock_create(*client_of_process, worker->key, NULL);
    with->condition = with->lock ? hlk_condition_create(*client_of_process, worker->key, 0) : NULL;
    return with->condition ? 0 : bench_fail(worker, "create: %s", hlk_last_error());
}

/* A thread whose last turn is over holds the lock still, which the other one needs for its own last turn. */
static void condition_close(struct bench_worker *worker)
{
    struct with_condition *with = worker->state;
    if (hlk_lock_holds(with->lock) > 0)
        (void)result(worker, "release", hlk_lock_release(with->lock));
    hlk_condition_destroy(with->condition);
    hlk_lock_destroy(with->lock);
    free(with);
}

/* --- turns --- */

/* Waits until the other one has had its turn; not longer than the round, after which it may have none any more. Then
 * this thread ends, without an error. */
static int turn_acquire(struct bench_worker *worker)
{
    struct with_condition *with = worker->state;
    enum hlk_status status = hlk_lock_holds(with->lock) > 0 ? HLK_OK : hlk_lock_acquire(with->lock, HLK_FOREVER);
    while (status == HLK_OK && worker->page->last == worker->id)
        status = hlk_condition_wait(with->condition, with->lock, (worker->end_ns - bench_now_ns()) / 1000000);
    return status == HLK_TIMEOUT || status == HLK_BUSY ? -1 : result(worker, "wait", status);
}

static int turn_release(struct bench_worker *worker)
{
    struct with_condition *with = worker->state;
    return result(worker, "signal", hlk_condition_signal(with->condition));
}

/* --- a broadcast --- */

/* The page counts nobody before `fire`. */
static int broadcast_await(struct bench_worker *worker)
{
    struct with_condition *with = worker->state;
    enum hlk_status status = hlk_lock_acquire(with->lock, HLK_FOREVER);
    while (status == HLK_OK && worker->page->counter == 0)
        status = hlk_condition_wait(with->condition, with->lock, HLK_FOREVER);
    return result(worker, "wait", status);
}

static int broadcast_release(struct bench_worker *worker)
{
    struct with_condition *with = worker->state;
    return result(worker, "release", hlk_lock_release(with->lock));
}

/* Its connection is up when it fires. */
static int broadcast_arm(struct bench_worker *worker)
{
    struct with_condition *with = worker->state;
    unsigned waiting;
    return result(worker, "waiting", hlk_condition_waiting(with->condition, &waiting));
}

/* As in the example of condition.h. Ticket 0: so that none of those that wait counts as overtaken. */
static int broadcast_fire(struct bench_worker *worker)
{
    struct with_condition *with = worker->state;
    if (result(worker, "acquire", hlk_lock_acquire(with->lock, HLK_FOREVER)) < 0)
        return -1;
    (void)bench_page_enter(worker->page, worker->id, 0, bench_now_ns());
    if (result(worker, "broadcast", hlk_condition_broadcast(with->condition)) < 0)
        return -1;
    bench_page_leave(worker->page, worker->id, bench_now_ns());
    return broadcast_release(worker);
}

void ours_condition_peer(struct bench_peer *peer, bool to_all, hlk_client *const *client)
{
    client_of_process = client;
    peer->thread_open = condition_open;
    peer->thread_close = condition_close;
    peer->acquire = to_all ? broadcast_await : turn_acquire;
    peer->release = to_all ? broadcast_release : turn_release;
    peer->arm = to_all ? broadcast_arm : NULL;
    peer->fire = to_all ? broadcast_fire : NULL;
    peer->run_async = NULL;
    peer->hold = NULL;
    peer->drop = NULL;
}
