/* golden_fixture.h - our scripts beside Redisson's recorded transcripts (release 4.7.0, redis-server 7.0.15). A
 * recorded step is the list of commands that Redisson's script ran. They run on one server as recorded, and our script
 * for the same step runs on another. After each step both servers must show the same: same key, type, content and ttl,
 * and the same messages on the same channel. */
#ifndef HLK_TEST_INTEGRATION_GOLDEN_FIXTURE_H
#define HLK_TEST_INTEGRATION_GOLDEN_FIXTURE_H

#include "support/raw.h"
#include "support/script.h"
#include "support/server.h"
#include "support/wait.h"

/* One side of the comparison. */
struct side {
    struct server *server;
    redisContext *redis, *listener;
};

extern struct side theirs, ours;

#define GOLDEN_SUITE(name) TestSuite(name, .init = golden_start, .fini = golden_stop, .timeout = 60)
void golden_start(void);
void golden_stop(void);

void golden_subscribe(const char *channel); /* on both sides */
/* Runs a recorded line, "exists k | hincrby k f 1 | ...", command by command, and returns the reply of the last one. */
const char *golden_replay(const char *line, ...) __attribute__((format(printf, 1, 2)));

/* Type, fields, values and scores. Scores are ends of leases: they may differ as ttls may, by the time of the test. */
void golden_compare(const char *step, const char *key);
void golden_compare_messages(const char *step);
void golden_silent(const char *step); /* no message of ours */

const char *golden_ran_inside(void); /* the commands of our scripts since the last call, as MONITOR shows them */

#endif
