/* fixture.h - runs the real hasplock as a user does, and reads what comes out.
 *
 *     struct command *c = COMMAND("run", "t", "--", "cat");
 *     command_type(c, "hello\n");
 *     command_until(c, OUT, "hello");
 *     command_type_end(c);
 *     cr_assert_eq(command_end(c), 0);
 *
 * It dies with the test. What it prints is kept. A text that does not come ends the test after WAIT_MS (wait.h). */
#ifndef HLK_TEST_CLI_FIXTURE_H
#define HLK_TEST_CLI_FIXTURE_H

#include "support/pause.h"
#include "support/raw.h"
#include "support/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HASPLOCK HLK_CLI_PATH           /* the built command: by CMake */
#define FAKE_COMMAND HLK_FAKE_COMMAND_PATH    /* fake_command.c */

enum stream { OUT, ERR, STREAMS };

struct command {
    pid_t pid;                  /* of hasplock; 0 once it has ended */
    int in;                     /* its stdin, -1 once closed. With a terminal: the master, for both ways */
    int from[STREAMS];
    char text[STREAMS][65536];  /* so far; cut */
    int status;                 /* as waitpid gives it, when ended */
    int64_t began_ms;
};

/* argv ends with NULL; argv[0] is looked up in PATH unless it has a slash. Calls of one thread only. */
struct command *command_start(const char *const *argv);
#define COMMAND(...) command_start((const char *const[]){ HASPLOCK, __VA_ARGS__, NULL })

/* The same with a stderr of the test's own, which is not read. */
struct command *command_start_with_stderr(const char *const *argv, int stderr_fd);

/* The same in a session of its own with a terminal; out and err come together as OUT. */
struct command *command_start_on_terminal(const char *const *argv);

void command_type(struct command *command, const char *text);
void command_type_end(struct command *command);         /* closes its stdin */

void command_until(struct command *command, enum stream stream, const char *text);
/* Waits for a line on OUT that is `word` and a number, and gives that; 0 for the next call looks on from there. */
long command_number(struct command *command, const char *word);

/* The last complete "at N" that came from a fake_command with "times" yet; 0: none. */
long long command_last_time(const struct command *command);

/* Waits for its end, and for that of everybody who holds its stdout and stderr. The exit code; 1000 + n: died of n. */
int command_end(struct command *command);
enum { DIED_OF = 1000 };
int command_wait(struct command *command);              /* its end alone */
void command_free(struct command *command);             /* kills it if it runs. NULL is fine */

/* All of it, when the exit code says enough. */
int command_code(struct command *command);              /* command_end, then command_free */
#define RUN(...) command_code(COMMAND(__VA_ARGS__))

/* One that holds when this returns, until its stdin ends; and its end, with exit code 0. */
struct command *holder_start(const char *const *argv);
#define HOLDER(...)                                                                                                    \
    holder_start((const char *const[]){ HASPLOCK, __VA_ARGS__, "--", FAKE_COMMAND, "ready", "read", NULL })
void holder_end(struct command *holder);

/* One private server a test, named by HASPLOCK_URL: .init and .fini. */
extern struct server *server;
extern redisContext *redis;
void cli_start(void);
void cli_stop(void);

bool process_is_gone(pid_t pid);                        /* no such process, or a zombie */
int count_lines(const char *text);

#endif
