/* say.h - what the command itself says, on stderr: stdout is COMMAND's, or the answer of `show` and `break`.
 *
 * One line each, `hasplock: run "nightly": ` before it, in one write; with --json the same as one object:
 * {"event":"acquired","name":"nightly",...,"text":"..."}. Texts are ASCII: other bytes of a name appear as \xNN.
 * Main thread only, but for say_log. */
#ifndef HLK_CLI_SAY_H
#define HLK_CLI_SAY_H

#include "json.h"

#include <hasplock/status.h>

#include <stdbool.h>
#include <stddef.h>

enum say_level { SAY_ERROR, SAY_NOTE, SAY_VERBOSE };    /* kept by -q; the default; only with -v. --json keeps all */

void say_setup(const char *command, bool json, int verbosity);     /* verbosity: -1 for -q, 0, 1 for -v, 2 for -vv */
void say_about(const char *name);           /* the lock's name, borrowed; NULL: none */
bool say_json(void);

/* While `never` a line that stderr does not take at once is kept for later (errors) or dropped (the rest): nothing may
 * hold us up while we hold the lock. */
void say_never_wait(bool never);

/* `event` is what --json calls it. */
void say(enum say_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with more fields for --json: say_begin, json_int(...), say_with. */
void say_begin(struct json *fields, const char *event);
void say_with(struct json *fields, enum say_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Says the library's last error, without saying operation and name twice. Returns the exit code that belongs to it. */
int say_fault(void);
int say_exit_code(enum hlk_status status);
const char *say_story(void);                /* hlk_last_error() from behind operation and name; until the next call */

/* hlk_log_fn: any thread. */
void say_log(int level, const char *line, void *ctx);

/* `bytes` for people: printable ASCII as it is, \" \\ and \xNN for the rest, "..." when cut. Returns buf. */
const char *say_shown(char *buf, size_t size, const char *bytes);

/* The answer of show and break, on stdout. False: it could not be written, and that was said. */
bool say_answer(const char *line, size_t len);

#endif
