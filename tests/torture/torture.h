/* torture.h - a server, a state of the table in it, one script run, and what that changed.
 *
 *     TestSuite(torture, .init = torture_start, .fini = torture_stop);
 *     struct torture_case at = { family, state, row, "refused by NOREPLICAS" };
 *     torture_build(&at, 0);
 *     struct torture_run run = torture_run(&at);
 *     torture_expect_listed(&at, &run); */
#ifndef HLK_TEST_TORTURE_H
#define HLK_TEST_TORTURE_H

#include "support/raw.h"
#include "torture/table.h"

extern struct server *torture_server;
extern redisContext *torture_admin;     /* prepares and reads; the scripts have another connection */

void torture_start(void);
void torture_stop(void);

/* Subscribes to the channels of Redisson's clients, or unsubscribes. */
void torture_subscribe_java(bool subscribes);

/* What is run, and in which circumstances, for messages. */
struct torture_case {
    const struct torture_family *family;
    const struct torture_state *state;
    const struct torture_row *row;
    const char *how;
};

void torture_for_states(const struct torture_family *family, const struct torture_state *states, const char *how,
                        void (*each)(const struct torture_case *at));
/* Every use of every script in every state of its family. Calls `each` for each. */
void torture_for_all(const struct torture_family *family, const char *how, void (*each)(const struct torture_case *at));

/* Empties the server and builds the state; moments are `ahead_ms` later than they are. */
void torture_build(const struct torture_case *at, int64_t ahead_ms);
void torture_commands(const struct torture_family *family, const char *commands, int64_t ahead_ms);

struct torture_run {
    char answer[2048];
    int64_t commands;           /* in the script, also those that were refused; by the server's statistics */
    redisReply *before, *after; /* all keys: name, DUMP, PTTL */
};
/* Runs the script. One that does not end fails the test. */
void torture_run(const struct torture_case *at, struct torture_run *run);
void torture_free(struct torture_run *run);

/* A key's value is as it was, and it has a ttl if it had one. */
bool torture_kept(const struct torture_run *run, const char *key);

bool torture_matches(const char *text, const char *pattern); /* an extended regular expression */
/* If not `ok`, the test fails at its end, with these words. The test goes on. */
void torture_expect(bool ok, const struct torture_case *at, const struct torture_run *run, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The answer is one of those at the head of the script, or an error reply that begins as `errors` says: an extended
 * regular expression. An error reply has changed nothing; only dead waiters may have been removed. */
void torture_expect_answer(const struct torture_case *at, const struct torture_run *run, const char *errors);
/* Nothing is changed, but dead waiters may have been removed. */
void torture_expect_unchanged(const struct torture_case *at, const struct torture_run *run);
/* Few commands: some tens, and for each dead waiter a few. */
void torture_expect_bounded(const struct torture_case *at, const struct torture_run *run);
/* A key that had a ttl still has one, and a new one has one. */
void torture_expect_ttls(const struct torture_case *at, const struct torture_run *run);
/* The ticket of a hold that is acquired is no more in the queue: it would be granted again, after the release. */
void torture_expect_no_ticket(const struct torture_case *at, const struct torture_run *run);
/* The keys are in a state that they may be in. */
void torture_expect_sound(const struct torture_case *at, const struct torture_run *run);

#endif
