#include "semaphore_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>

hlk_client *client, *other;
hlk_semaphore *permits, *theirs;

static void up(unsigned flags)
{
    fixture_begin(flags);
    client = fixture_open(NULL);
    other = fixture_open(NULL);
    permits = hlk_semaphore_create(client, "t");
    theirs = hlk_semaphore_create(other, "t");
    cr_assert(permits && theirs, "%s", hlk_last_error());
}

void semaphore_start(void)
{
    up(0);
}

void semaphore_start_proxied(void)
{
    up(STAGE_PROXY);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

/* What is left is the semaphore itself. */
void semaphore_stop(void)
{
    hlk_semaphore_destroy(permits);
    hlk_semaphore_destroy(theirs);
    fixture_close_all(); /* a release may be on its way */
    raw(fixture.redis, "DEL t");
    fixture_end();
}

int64_t semaphore_free(void)
{
    return raw_int(fixture.redis, "GET t");
}

void semaphore_set(int64_t n)
{
    cr_assert_eq(hlk_semaphore_try_set(permits, n, 0), HLK_OK, "%s", hlk_last_error());
}

int64_t semaphore_tickets(void)
{
    return raw_int(fixture.redis, "ZCOUNT %s 1 (1e15", SEMAPHORE_QUEUE);
}

static void *takes(void *arg)
{
    struct taker *taker = arg;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = taker->wait_ms;
    taker->status = hlk_semaphore_acquire_with(taker->semaphore, taker->n, &opts);
    taker->answered_ms = test_now_ms();
    if (taker->status != HLK_OK)
        snprintf(taker->error, sizeof taker->error, "%s", hlk_last_error());
    atomic_store(&taker->answered, true);
    return NULL;
}

void start_taker(struct taker *taker, hlk_semaphore *semaphore, int64_t n)
{
    taker->semaphore = semaphore;
    taker->n = n;
    if (taker->wait_ms == 0)
        taker->wait_ms = RECONNECT_MS;
    cr_assert_eq(pthread_create(&taker->thread, NULL, takes, taker), 0);
}

static uint64_t waiting_in(const hlk_semaphore *semaphore)
{
    return fixture_counters(semaphore == theirs ? other : client).waiting;
}

void queue_taker(struct taker *taker, hlk_semaphore *semaphore, int64_t n)
{
    int64_t tickets = semaphore_tickets();
    uint64_t waiting = waiting_in(semaphore);
    start_taker(taker, semaphore, n);
    if (waiting)
        WAIT_FOR(waiting_in(semaphore) == waiting + 1);
    else
        WAIT_FOR(semaphore_tickets() == tickets + 1);
}

enum hlk_status end_taker(struct taker *taker)
{
    pthread_join(taker->thread, NULL);
    return taker->status;
}

void got(struct taker *taker)
{
    cr_assert_eq(end_taker(taker), HLK_OK, "%s: %s", hlk_status_name(taker->status), taker->error);
}
