/* scripts_batch_fixture.h - lock_batch as a function. */
#ifndef HLK_TEST_INTEGRATION_SCRIPTS_BATCH_FIXTURE_H
#define HLK_TEST_INTEGRATION_SCRIPTS_BATCH_FIXTURE_H

#include "integration/scripts_fixture.h"

enum { MOST = 16, LOCKS = 4, TTL = 300000, QUEUE_TTL = 500000, LEASE = 900000 };

/* CHANNEL and QUEUE belong to the first of them. */
extern const char *const locks[LOCKS];

struct part {
    char letter;
    const char *lock, *hold;
};

const char *queue_of(const char *lock);
redisReply *run(const struct part *parts, unsigned n);
const char *many(const struct part *parts, unsigned n);

#define MANY(...)                                                                                                      \
    many((const struct part[]){ __VA_ARGS__ }, sizeof((const struct part[]){ __VA_ARGS__ }) / sizeof(struct part))

/* A batch of one command. Returns its reply without the array around it, valid until the 4th next call. */
const char *one(char letter, const char *hold);

/* --- all that is in Redis: every key and value, every score, every ttl */

struct state {
    char text[4096];
    int64_t ttl[2 * LOCKS];
};

struct state look(void);
void assert_state(const struct state *expected, const char *what);

#endif
