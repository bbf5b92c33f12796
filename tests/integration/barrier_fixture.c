#include "barrier_fixture.h"

static void up(unsigned flags)
{
    fixture_begin(flags);
    server_allow(fixture.server, BARRIER);
}

void barrier_start(void)
{
    up(0);
}

void barrier_start_proxied(void)
{
    up(STAGE_PROXY);
}

void barrier_start_durable(void)
{
    up(SERVER_AOF);
}

hlk_barrier *barrier_make(hlk_client *client, unsigned parties, int64_t lease_ms)
{
    hlk_barrier *made = hlk_barrier_create(client, "t", parties, lease_ms);
    cr_assert_not_null(made, "%s", hlk_last_error());
    return made;
}

int64_t barrier_arrived(void)
{
    return raw_int(fixture.redis, "ZCARD " ARRIVED);
}

static void *arrives(void *arg)
{
    struct party *party = arg;
    int64_t began = test_now_ms();
    party->index = 77;
    party->status = hlk_barrier_await_with(party->barrier, &party->opts, &party->index);
    party->took_ms = test_now_ms() - began;
    strncpy(party->error, hlk_last_error(), sizeof party->error - 1);
    atomic_store(&party->answered, true);
    return NULL;
}

void party_arrives(struct party *party, hlk_barrier *barrier)
{
    if (!party->opts.size)
        party->opts = (struct hlk_acquire_opts)HLK_ACQUIRE_OPTS_INIT;
    party->barrier = barrier;
    cr_assert_eq(pthread_create(&party->thread, NULL, arrives, party), 0);
}

void party_arrives_as(struct party *party, hlk_barrier *barrier, int64_t before)
{
    party_arrives(party, barrier);
    WAIT_FOR(barrier_arrived() == before + 1);
    cr_assert_not(atomic_load(&party->answered));
}

enum hlk_status party_ended(struct party *party)
{
    cr_assert_eq(pthread_join(party->thread, NULL), 0);
    return party->status;
}

void party_is_broken(struct party *party, const char *why)
{
    cr_assert_eq(party_ended(party), HLK_BROKEN, "%s", party->error);
    cr_assert(strstr(party->error, why), "%s", party->error);
    cr_assert_eq(party->index, 77u);
    cr_assert_lt(party->took_ms, 2 * POLL_MS);
}
