/* semaphore_fixture.h - what the tests of semaphores share: semaphore "t", seen by two clients, and threads that
 * acquire. */
#ifndef HLK_TEST_INTEGRATION_SEMAPHORE_FIXTURE_H
#define HLK_TEST_INTEGRATION_SEMAPHORE_FIXTURE_H

#include "support/fixture.h"

#include <pthread.h>
#include <stdatomic.h>

enum { RECONNECT_MS = 15000 };

#define SEMAPHORE_QUEUE   "hasplock_queue:{t}"
#define SEMAPHORE_CHANNEL "redisson_sc:{t}"

extern hlk_client *client, *other;
extern hlk_semaphore *permits, *theirs; /* of each */

void semaphore_start(void);
void semaphore_start_proxied(void);
void semaphore_stop(void);

int64_t semaphore_free(void); /* permits; Redis' own number */
void semaphore_set(int64_t n);
int64_t semaphore_tickets(void); /* that were not called */

/* A thread that acquires once. */
struct taker {
    hlk_semaphore *semaphore;
    int64_t n, wait_ms;
    enum hlk_status status;
    char error[256];
    int64_t answered_ms;
    atomic_bool answered;
    pthread_t thread;
};

void start_taker(struct taker *taker, hlk_semaphore *semaphore, int64_t n);
/* It has a ticket, or stands in line behind one of its process that has, behind those that were there before. */
void queue_taker(struct taker *taker, hlk_semaphore *semaphore, int64_t n);
enum hlk_status end_taker(struct taker *taker);
void got(struct taker *taker); /* it has acquired */

#endif
