#include "acquire/async_driver.h"

#include "base/debug.h"

#define ASYNC_RUNNING 0x40000000u /* a thread runs the steps, and will see events that arrive meanwhile */

/* --- references --- */

static void async_free(struct hlk_async *async)
{
    hlk_mutex_assert_none();
    hlk_owner *owner = async->owner;
    async->type->free(async);
    hlk_owner_destroy(owner);
}

static void async_on_end(struct hlk_post *post)
{
    hlk_loop_assert_here(HLK_CONTAINER(post, struct hlk_async, end)->lock->client->loop);
    async_free(HLK_CONTAINER(post, struct hlk_async, end));
}

/* If the loop may have a pointer to `async`, the loop frees it. */
void hlk_async_unref(struct hlk_async *async)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(atomic_load(&async->refs) > 0);
    if (atomic_fetch_sub(&async->refs, 1) != 1)
        return;
    hlk_loop *loop = async->lock->client->loop;
    if (!async->touched || !hlk_loop_try_post(loop, &async->end))
        async_free(async);
}

/* --- events --- */

static void async_on_wake(struct hlk_waker *waker, unsigned bit)
{
    struct hlk_async *async = HLK_CONTAINER(waker, struct hlk_async, waker);
    atomic_fetch_or(&async->bits, bit);
    hlk_loop_post(async->lock->client->loop, &async->post);
}

/* Without a reference the post that frees it is queued. */
static void async_on_post(struct hlk_post *post)
{
    hlk_loop_assert_here(HLK_CONTAINER(post, struct hlk_async, post)->lock->client->loop);
    hlk_mutex_assert_none();
    struct hlk_async *async = HLK_CONTAINER(post, struct hlk_async, post);
    if (atomic_load(&async->refs) > 0)
        hlk_async_step(async, 0);
}

static void async_on_alarm(struct hlk_alarm *alarm)
{
    hlk_loop_assert_here(HLK_CONTAINER(alarm, struct hlk_async, alarm)->lock->client->loop);
    hlk_mutex_assert_none();
    struct hlk_async *async = HLK_CONTAINER(alarm, struct hlk_async, alarm);
    if (atomic_load(&async->refs) > 0)
        hlk_async_step(async, HLK_WAKE_TIME);
}

/* --- steps --- */

static void async_wait_for(struct hlk_async *async, struct hlk_wait_for next)
{
    async->over = next.what == HLK_WAIT_DONE;
    if (async->over || next.until_ms == INT64_MAX || next.until_ms == async->alarm_ms)
        return;
    async->touched = true;
    async->alarm_ms = next.until_ms;
    hlk_loop_arm(async->lock->client->loop, &async->alarm, next.until_ms);
}

/* The last action of this thread on `async`. */
static void conclude(struct hlk_async *async)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(async->over);
    if (async->touched)
        hlk_loop_cancel(async->lock->client->loop, &async->alarm);
    async->type->end(async);
}

/* Runs steps until no event is left. The caller has set ASYNC_RUNNING. After the end the bit stays set. */
static void async_run(struct hlk_async *async)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(atomic_load(&async->bits) & ASYNC_RUNNING);
    for (;;) {
        unsigned bits = atomic_fetch_and(&async->bits, ASYNC_RUNNING) & ~ASYNC_RUNNING;
        if (bits & HLK_WAKE_TIME)
            async->alarm_ms = 0;
        if (bits && !async->over)
            async_wait_for(async, async->type->step(async, bits));
        if (async->over) {
            conclude(async);
            return;
        }
        unsigned running = ASYNC_RUNNING;
        if (!bits && atomic_compare_exchange_strong(&async->bits, &running, 0))
            return;
    }
}

void hlk_async_step(struct hlk_async *async, unsigned bit)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!(bit & ASYNC_RUNNING));
    if (!(atomic_fetch_or(&async->bits, bit | ASYNC_RUNNING) & ASYNC_RUNNING))
        async_run(async);
}

/* --- the first step and the completion --- */

static void async_run_done(struct hlk_job *job)
{
    hlk_mutex_assert_none();
    struct hlk_async *async = HLK_CONTAINER(job, struct hlk_async, job);
    if (async->status != HLK_OK)
        (void)hlk_last_set(async->status, "%s", async->error.text);
    async->done(async->lock, async->status, async->ctx);
    hlk_async_unref(async);
}

void hlk_async_init(struct hlk_async *async, const struct hlk_async_type *type, hlk_lock *lock, hlk_owner *owner)
{
    HLK_DEBUG_ASSERT(!async->type && lock && type->step && type->end && type->free);
    async->type = type;
    async->lock = lock;
    async->owner = owner;
    if (owner)
        atomic_fetch_add(&owner->refs, 1);
    async->waker.wake = async_on_wake;
    async->post.run = async_on_post;
    async->end.run = async_on_end;
    async->alarm.fire = async_on_alarm;
    async->job.run = async_run_done;
    atomic_init(&async->refs, 1);
    atomic_init(&async->bits, ASYNC_RUNNING);
}

void hlk_async_drop(struct hlk_async *async)
{
    HLK_DEBUG_ASSERT(atomic_load(&async->refs) == 1);
    async_free(async);
}

void hlk_async_start(struct hlk_async *async, struct hlk_wait_for first)
{
    hlk_mutex_assert_none();
    async_wait_for(async, first);
    async_run(async);
}
