#include "memory.h"

enum { STEPS_MOST = 150, PROBES = STEPS_MOST + 50 };

/* Whether the failure has struck. If not, it strikes an allocation made here. */
static bool struck(bool later)
{
    for (int i = 0; i < PROBES; i++) {
        void *mem = hlk_mem_zalloc(1);
        hlk_mem_free(mem);
        if (!mem)
            return later && i == 0;
    }
    return !later;
}

hlk_client *memory_open_short(unsigned flags)
{
    struct hlk_client_opts opts = fault_opts();
    opts.flags = flags;
    return fixture_open(&opts);
}

/* The stage keeps its locks to the end, and they keep their clients. Here each step frees what it made. */
hlk_lock *memory_make_lock(hlk_client *client, hlk_owner *owner)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.owner = owner;
    hlk_lock *lock = hlk_lock_create(client, "t", &opts);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static void assert_works(struct memory_task *t)
{
    hlk_client *client = t->client ? t->client : memory_open_short(0);
    hlk_lock *lock = memory_make_lock(client, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert_null(disagreement(lock, "t", 1));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    fixture_close(client);
    hlk_lock_destroy(lock);
    hlk_lock_destroy(t->lock);
    hlk_lock_destroy(t->owned);
    hlk_owner_destroy(t->owner);
}

/* False: the step needed fewer allocations. */
static bool step(const struct memory_kind *kind, bool later, long n)
{
    struct memory_task t = { .later = later };
    if (kind->before)
        kind->before(&t);
    if (later)
        hlk_mem_fail_after(n);
    else
        hlk_mem_fail_once(n);
    enum hlk_status status = kind->act(&t);
    bool hit = struck(later);
    hlk_mem_fail_after(-1);
    cr_assert(hit || status == HLK_OK, "n = %ld, with memory: %s", n, hlk_last_error());
    cr_assert(ONE_OF(status, HLK_OK, HLK_E_NOMEM) || (later && (UNKNOWN(status) || NOT_GOT(status))), "n = %ld: %s: %s",
              n, hlk_status_name(status), hlk_last_error());
    if (kind->after)
        kind->after(&t, status);
    WITHIN(FREE_MS, is_free("t"));
    assert_works(&t);
    return hit;
}

void memory_for_every_step(const struct memory_kind *kind)
{
    (void)step(kind, false, STEPS_MOST - 1); /* makes everything that is made only once */
    int descriptors = open_descriptors();
    for (int later = 0; later < 2; later++) {
        long n = 1;
        while (n < STEPS_MOST && step(kind, later, n))
            n++;
        cr_assert_gt(n, kind->least, "only %ld allocations", n - 1);
        cr_assert_lt(n, STEPS_MOST);
        cr_assert_eq(open_descriptors(), descriptors, "%d now, %d before", open_descriptors(), descriptors);
        cr_log_info("%ld allocations", n - 1);
    }
}

/* --- common beginnings and ends of steps */

void memory_before_any(struct memory_task *t)
{
    t->client = memory_open_short(0);
    t->lock = memory_make_lock(t->client, NULL);
    t->owner = hlk_owner_create(t->client, "memory");
    t->owned = memory_make_lock(t->client, t->owner);
}

void memory_before_hold(struct memory_task *t)
{
    memory_before_any(t);
    cr_assert_eq(hlk_lock_acquire(t->owned, 5000), HLK_OK, "%s", hlk_last_error());
}

void memory_before_wait(struct memory_task *t)
{
    memory_before_any(t);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 0); /* the waiters of the last step are gone */
    raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    raw(fixture.redis, "PEXPIRE t 60000");
}

void memory_free_it(void)
{
    raw(fixture.redis, "DEL t");
    raw(fixture.redis, "PUBLISH redisson_lock__channel:{t} 0");
}

/* Checks that the status is true, then releases. */
void memory_after_acquire(struct memory_task *t, enum hlk_status status)
{
    if (t->actor)
        actor_leave(t->actor);
    cr_assert_eq(hlk_lock_holds(t->owned), status == HLK_OK);
    if (status == HLK_OK) {
        cr_assert_null(disagreement(t->owned, "t", 1));
        cr_assert_eq(hlk_lock_release(t->owned), HLK_OK, "%s", hlk_last_error());
    }
}

/* asks A4 redis-py PR 4258: without memory nothing was sent, it is still held and can be released. Or it is released
 * and sent when there is memory again; then releasing again returns the outcome, if there was memory to store it. */
void memory_after_release(struct memory_task *t, enum hlk_status status)
{
    cr_assert_eq(hlk_lock_holds(t->owned), status == HLK_E_NOMEM);
    if (status == HLK_E_NOMEM) {
        cr_assert_gt(hlk_lock_left_ms(t->owned), 0);
        cr_assert_null(disagreement(t->owned, "t", 1));
    }
    if (status != HLK_OK) {
        WAIT_FOR((status = hlk_lock_release(t->owned), !UNKNOWN(status)));
        cr_assert(status == HLK_OK || (t->later && status == HLK_NOT_HOLDER), "%s", hlk_last_error());
    }
}
