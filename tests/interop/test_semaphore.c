/* hlk_semaphore and RSemaphore of one name, in both directions. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { ROUNDS = 30, LIMIT = 3 };

static hlk_semaphore *semaphore;

static void start(void)
{
    fixture_open();
    semaphore = hlk_semaphore_create(fixture.client, "t");
    cr_assert_not_null(semaphore, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semaset t %d", LIMIT), "true");
}

static void stop(void)
{
    hlk_semaphore_destroy(semaphore);
    raw(fixture.redis, "DEL t");
    fixture_close();
}

TestSuite(redisson_semaphore, .init = start, .fini = stop, .timeout = FIXTURE_SECONDS);

Test(redisson_semaphore, is_one_number_for_both)
{
    cr_assert_eq(hlk_semaphore_try_set(semaphore, 9, 0), HLK_BUSY);
    cr_assert_eq(hlk_semaphore_acquire(semaphore, 2, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semafree t"), "1");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 sematry t 2"), "false");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 sematry t 1"), "true");
    cr_assert_eq(hlk_semaphore_acquire(semaphore, 1, HLK_NOWAIT), HLK_BUSY);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semarelease t 3"), "ok"); /* anybody may */
    int64_t free;
    cr_assert_eq(hlk_semaphore_available(semaphore, &free), HLK_OK);
    cr_assert_eq(free, LIMIT);
}

Test(redisson_semaphore, java_waits_for_c)
{
    cr_assert_eq(hlk_semaphore_acquire(semaphore, LIMIT, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    struct watch *watch = watch_start(fixture.server);
    peer_tell(fixture.java, "A.1 semaacquire t 2");
    for (int i = 0; i < 2; i++)
        watch_for(watch, "J> evalsha*");
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_semaphore_release(semaphore, 2), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    watch_stop(watch);
    cr_assert_eq(raw_int(fixture.redis, "GET t"), 0);
}

static void *waits(void *status)
{
    *(enum hlk_status *)status = hlk_semaphore_acquire(semaphore, 2, WAIT_MS);
    return NULL;
}

Test(redisson_semaphore, c_waits_for_java)
{
    enum hlk_status status = HLK_E_INVALID;
    pthread_t thread;
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 sematry t 3"), "true");
    cr_assert_eq(pthread_create(&thread, NULL, waits, &status), 0);
    WAIT_FOR(raw_int(fixture.redis, "ZCARD hasplock_queue:{t}") == 1);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 semarelease t 2"), "ok");
    pthread_join(thread, NULL);
    cr_assert_eq(status, HLK_OK, "%s", hlk_status_name(status));
    cr_assert_eq(raw_int(fixture.redis, "GET t"), 0);
}

Test(redisson_semaphore, is_shared_by_both_in_turns)
{
    for (int i = 0; i < ROUNDS; i++) {
        peer_tell(fixture.java, "A.1 semaacquire t %d", LIMIT);
        peer_tell(fixture.java, "A.1 semarelease t %d", LIMIT);
        cr_assert_eq(hlk_semaphore_acquire(semaphore, 1 + i % LIMIT, WAIT_MS), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_semaphore_release(semaphore, 1 + i % LIMIT), HLK_OK, "%s", hlk_last_error());
        for (int k = 0; k < 2; k++)
            cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
    }
    cr_assert_eq(raw_int(fixture.redis, "GET t"), LIMIT);
}
