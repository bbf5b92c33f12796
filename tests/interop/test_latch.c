/* hlk_latch and RCountDownLatch of one name: one count, and waits of both sides that end together. */
/* Shows: P48 */
#include "interop/fixture.h"

#include <criterion/criterion.h>

enum { ROUNDS = 20 };

#define CHANNEL "redisson_countdownlatch__channel__{t}"

static hlk_latch *latch;
static struct watch *watch;

static void start(void)
{
    fixture_open();
    server_allow(fixture.server, SERVER_TOMBSTONES); /* of the last opening by C */
    latch = hlk_latch_create(fixture.client, "t");
    cr_assert_not_null(latch, "%s", hlk_last_error());
    watch = watch_start(fixture.server);
}

static void stop(void)
{
    watch_stop(watch);
    hlk_latch_destroy(latch);
    fixture_close();
}

TestSuite(redisson_latch, .init = start, .fini = stop, .timeout = FIXTURE_SECONDS);

static int64_t count(void)
{
    int64_t now = -1;
    cr_assert_eq(hlk_latch_count(latch, &now), HLK_OK, "%s", hlk_last_error());
    return now;
}

static void *waits(void *status)
{
    *(enum hlk_status *)status = hlk_latch_await(latch, WAIT_MS);
    return NULL;
}

/* A thread of ours sleeps: it has subscribed, and has then asked once more. */
static pthread_t c_waits(enum hlk_status *status)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, waits, status), 0);
    watch_for(watch, "C> subscribe " CHANNEL);
    watch_for(watch, "C. get t");
    return thread;
}

static void java_waits(const char *who)
{
    peer_tell(fixture.java, "%s latch t wait", who);
    watch_for(watch, "J> subscribe " CHANNEL);
    watch_for(watch, "J> get t");
}

Test(redisson_latch, is_one_count_for_both)
{
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t"), "0");
    cr_assert_eq(hlk_latch_try_set(latch, 3), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t set 5"), "false");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t"), "3");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t down"), "ok");
    cr_assert_eq(count(), 2);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t wait 50"), "false");
    cr_assert_eq(hlk_latch_count_down(latch, 2, NULL), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t wait 50"), "true");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t set 2"), "true");
    cr_assert_eq(hlk_latch_try_set(latch, 9), HLK_BUSY);
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_BUSY);
    cr_assert_eq(count(), 2);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t delete"), "true");
    cr_assert_eq(hlk_latch_await(latch, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_latch_delete(latch), HLK_NOT_HOLDER);
}

Test(redisson_latch, java_s_last_count_down_wakes_c)
{
    enum hlk_status status;
    cr_assert_eq(hlk_latch_try_set(latch, 2), HLK_OK);
    pthread_t thread = c_waits(&status);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t down"), "ok");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t down"), "ok");
    pthread_join(thread, NULL);
    cr_assert_eq(status, HLK_OK);
}

Test(redisson_latch, c_s_last_count_down_wakes_java_and_c)
{
    enum hlk_status status;
    cr_assert_str_eq(peer_ask(fixture.java, "A.3 latch t set 2"), "true");
    java_waits("A.1");
    pthread_t thread = c_waits(&status);
    cr_assert_eq(hlk_latch_count_down(latch, 1, NULL), HLK_OK);
    cr_assert(peer_waits(fixture.java, "A.1"));
    cr_assert_eq(hlk_latch_count_down(latch, 1, NULL), HLK_OK);
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
    pthread_join(thread, NULL);
    cr_assert_eq(status, HLK_OK);
}

/* redisson-api 10: Java's waiters stay blocked after Java's own delete. After ours they go on. */
Test(redisson_latch, a_delete_by_c_wakes_java_too)
{
    cr_assert_eq(hlk_latch_try_set(latch, 2), HLK_OK);
    java_waits("A.1");
    cr_assert_eq(hlk_latch_delete(latch), HLK_OK, "%s", hlk_last_error());
    const struct answer *got = peer_answer(fixture.java, "A.1");
    cr_assert_str_eq(got->text, "ok", "%s", got->why);
}

Test(redisson_latch, a_delete_by_java_wakes_c)
{
    enum hlk_status status;
    cr_assert_eq(hlk_latch_try_set(latch, 2), HLK_OK);
    pthread_t thread = c_waits(&status);
    int64_t began = test_now_ms();
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t delete"), "true");
    pthread_join(thread, NULL);
    cr_assert_eq(status, HLK_OK);
    cr_assert_lt(test_now_ms() - began, 4000, "by the message, not by the poll");
}

/* Redisson's trySetCount(0) leaves a key, and its own next trySetCount fails. */
Test(redisson_latch, is_set_by_c_where_java_left_0)
{
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t set 0"), "true");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t set 1"), "false");
    cr_assert_eq(hlk_latch_try_set(latch, 1), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 latch t down"), "ok");
    cr_assert_eq(count(), 0);
}

/* Both count down at the same time, and waiters of both sides go on, each round. */
Test(redisson_latch, counts_each_count_down_of_both)
{
    for (int i = 0; i < ROUNDS; i++) {
        enum hlk_status status;
        pthread_t thread;
        cr_assert_eq(hlk_latch_try_set(latch, 4), HLK_OK, "%s", hlk_last_error());
        peer_tell(fixture.java, "A.1 latch t wait");
        cr_assert_eq(pthread_create(&thread, NULL, waits, &status), 0);
        for (int k = 0; k < 2; k++) {
            peer_tell(fixture.java, "A.2 latch t down");
            cr_assert_eq(hlk_latch_count_down(latch, 1, NULL), HLK_OK, "%s", hlk_last_error());
        }
        for (int k = 0; k < 2; k++)
            cr_assert_str_eq(peer_answer(fixture.java, "A.2")->text, "ok");
        cr_assert_str_eq(peer_answer(fixture.java, "A.1")->text, "ok");
        pthread_join(thread, NULL);
        cr_assert_eq(status, HLK_OK);
        cr_assert_eq(count(), 0);
    }
}
