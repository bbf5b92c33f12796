/* barrier_fixture.h - what the tests of barriers share. The barrier is "t". */
#ifndef HLK_TEST_INTEGRATION_BARRIER_FIXTURE_H
#define HLK_TEST_INTEGRATION_BARRIER_FIXTURE_H

#include "support/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define BARRIER "hasplock_barrier:{t}"
#define ARRIVED "hasplock_arrived:{t}"
#define POLL_MS 5000 /* without a message a wait asks so often */

void barrier_start(void);
void barrier_start_proxied(void);
void barrier_start_durable(void);

hlk_barrier *barrier_make(hlk_client *client, unsigned parties, int64_t lease_ms);
int64_t barrier_arrived(void);          /* so many wait, by Redis */

struct party { /* a thread that waits */
    hlk_barrier *barrier;
    struct hlk_acquire_opts opts; /* size 0: the usual ones */
    enum hlk_status status;
    unsigned index;
    int64_t took_ms;
    char error[256];
    atomic_bool answered;
    pthread_t thread;
};

void party_arrives(struct party *party, hlk_barrier *barrier);
/* The same, and its place is taken: `before` others have arrived. */
void party_arrives_as(struct party *party, hlk_barrier *barrier, int64_t before);
enum hlk_status party_ended(struct party *party);
/* It gets HLK_BROKEN, with this text, within two polls. */
void party_is_broken(struct party *party, const char *why);

#endif
