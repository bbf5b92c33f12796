/* A thread is stopped while it asks a master again for a hold that another thread releases. */
#include "halt.h"
#include "net/pipeline.h"
#include "net/pipeline_up.h"
#include "quorum/round.h"
#include "quorum/round_release.h"
#include "quorum/round_retake.h"
#include "quorum_fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { BEFORE_RETAKE = 1, BEFORE_SEND, BEFORE_SENT };

enum { N = 3, LATE = 2, LONG_MS = 600000 }; /* LATE: the master that the hold does not have at first */

WRAPPED(void, hlk_round_retake, (struct hlk_round * round, int64_t lease_ms))
{
    halt(BEFORE_RETAKE);
    __real_hlk_round_retake(round, lease_ms);
}

/* A renewal does not ask for it. */
WRAPPED(enum hlk_status, hlk_pipeline_health, (hlk_pipeline * pipeline, struct hlk_error *error))
{
    halt(BEFORE_SEND);
    return __real_hlk_pipeline_health(pipeline, error);
}

WRAPPED(void, hlk_vote_sent, (struct hlk_vote * vote))
{
    halt(BEFORE_SENT);
    __real_hlk_vote_sent(vote);
}

static void start(void)
{
    quorum_begin(STAGE_PROXY);
}

TestSuite(preempted_quorum, .init = start, .fini = quorum_end, .timeout = 60);

/* Held by the other masters. LATE has refused it, and is free now. */
static void held_without(hlk_client *client, hlk_quorum *q, hlk_lock *lock, bool string)
{
    (void)raw(views[LATE], string ? "SET t else" : "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
    enum hlk_status status = q ? hlk_quorum_acquire(q, WAIT_MS) : hlk_lock_acquire(lock, WAIT_MS);
    cr_assert_eq(status, HLK_OK, "%s", hlk_last_error());
    quorum_read(client, LATE);
    (void)raw(views[LATE], "DEL t");
}

static void *extend(void *q)
{
    return (void *)(intptr_t)hlk_quorum_extend(q, LONG_MS);
}

static void release_beside(int place, int format)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.format = format;
    opts.ttl_ms = LONG_MS;
    hlk_client *client = quorum_open(N, NULL);
    hlk_quorum *q = quorum_make(client, "t", &opts);
    pthread_t thread;
    void *extended;
    held_without(client, q, NULL, format == HLK_QUORUM_STRING);
    arm(place);
    pthread_create(&thread, NULL, extend, q);
    WAIT_FOR(atomic_load(&standing));
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    quorum_read(client, LATE);
    uint64_t seen = proxy_count(proxies[LATE], PROXY_SCRIPTS);
    go_on();
    pthread_join(thread, &extended);
    cr_assert_eq((int)(intptr_t)extended, HLK_OK); /* before the release */
    quorum_read(client, LATE);                     /* two scripts; and two more: it, and its release */
    cr_assert_eq(proxy_count(proxies[LATE], PROXY_SCRIPTS) - seen, place == BEFORE_SEND ? 4u : 2u);
    cr_assert_eq(quorum_keys("t"), 0u);
}

Test(preempted_quorum, retake_does_not_begin_after_a_release_string)
{
    release_beside(BEFORE_RETAKE, HLK_QUORUM_STRING);
}

Test(preempted_quorum, retake_does_not_begin_after_a_release_hash)
{
    release_beside(BEFORE_RETAKE, HLK_QUORUM_HASH);
}

Test(preempted_quorum, release_comes_after_a_retake_that_has_begun_string)
{
    release_beside(BEFORE_SEND, HLK_QUORUM_STRING);
}

Test(preempted_quorum, release_comes_after_a_retake_that_has_begun_hash)
{
    release_beside(BEFORE_SEND, HLK_QUORUM_HASH);
}

/* The client has read that it was not run before the thread that sent it knows that it was sent. */
Test(preempted_quorum, retake_that_was_not_run_is_sent_again)
{
    struct hlk_quorum_opts opts = quorum_opts();
    opts.ttl_ms = LONG_MS;
    hlk_client *client = quorum_open(N, NULL);
    hlk_quorum *q = quorum_make(client, "t", &opts);
    pthread_t thread;
    void *extended;
    held_without(client, q, NULL, true);
    (void)raw(views[LATE], "SCRIPT FLUSH");
    arm(BEFORE_SENT);
    pthread_create(&thread, NULL, extend, q);
    WAIT_FOR(atomic_load(&standing));
    quorum_read(client, LATE);
    go_on();
    pthread_join(thread, &extended);
    WAIT_FOR(quorum_keys("t") == N);
    cr_assert_eq(hlk_quorum_release(q), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(quorum_keys("t") == 0);
}

static void *extend_lock(void *lock)
{
    return (void *)(intptr_t)hlk_lock_extend(lock, LONG_MS);
}

/* Two masters go away meanwhile. Close gives up the release that is owed to one of them. The other owes none. */
Test(preempted_quorum, release_ends_though_a_retake_could_not_be_sent)
{
    static struct done released;
    struct hlk_client_opts opts = fixture_opts();
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    opts.watchdog_ms = LONG_MS;
    opts.reply_timeout_ms = 300;
    hlk_client *client = quorum_open_url(N, "", &opts);
    hlk_owner *owner = lock_opts.owner = hlk_owner_create(client, NULL);
    hlk_lock *lock = quorum_lock(client, "t", &lock_opts);
    pthread_t thread;
    void *extended;
    held_without(client, NULL, lock, false);
    arm(BEFORE_SEND);
    pthread_create(&thread, NULL, extend_lock, lock);
    WAIT_FOR(atomic_load(&standing));
    for (int i = 1; i < N; i++) {
        proxy_refuse(proxies[i], true);
        proxy_cut_all(proxies[i]);
    }
    cr_assert_eq(hlk_lock_release_async(lock, remember, &released), HLK_OK, "%s", hlk_last_error());
    go_on();
    pthread_join(thread, &extended);
    hlk_owner_destroy(owner);
    quorum_close(client);
    cr_assert_eq(atomic_load(&released.runs), 1);
    cr_assert_eq(released.status, HLK_E_CLOSED, "%s", hlk_status_name(released.status));
    (void)raw(views[1], "DEL t");
}
