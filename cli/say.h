/* say.h - hasplock's own messages, on stderr. stdout belongs to COMMAND, or to the results of the other commands.
 *
 * A message is one line in one write, with `hasplock: run "nightly": ` before it. With --json it is one object:
 * {"event":"acquired","time_ms":...,"name":"nightly",...,"text":"..."}. Names are shown as text_shown shows them.
 *
 * With a writer (helper.h) nothing here blocks. Any thread, except for the setup. */
#ifndef HLK_CLI_SAY_H
#define HLK_CLI_SAY_H

#include "json.h"
#include "text.h"

#include <hasplock/status.h>

#include <stdbool.h>
#include <stddef.h>

enum say_level { SAY_ERROR, SAY_NOTE, SAY_VERBOSE };    /* kept by -q; the default; only with -v. --json shows all */

/* --- setup, before there is another thread */

void say_setup(const char *command, bool json, int verbosity);     /* verbosity: -1 for -q, 0, 1 for -v, 2 for -vv */
void say_about(const char *name);           /* the lock's name, borrowed; NULL: none */
bool say_json(void);
/* Receives the lines instead of write(2). False: not taken. */
void say_writer(bool (*writer)(const char *line, size_t len, bool urgent));

/* --- lines */

/* `event` is its name in --json. */
void say(enum say_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with more fields for --json: say_begin, json_int(...), say_with. */
void say_begin(struct json *fields, const char *event);
void say_with(struct json *fields, enum say_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A line on a terminal, cut to its width and without newline, which the next one replaces. "" removes it. Not with
 * --json. */
void say_status(const char *text, size_t columns);

/* Prints the library's last error of this thread, without repeating operation and name. Returns its exit code. */
int say_fault(void);
int say_exit_code(enum hlk_status status);
const char *say_story(void);                /* hlk_last_error() without operation and name; valid until the next call */

/* An hlk_log_fn: any thread. A line that was shown within the last 10 s is counted and not shown again. */
void say_log(int level, const char *line, void *ctx);
/* Shows how often those lines were repeated. Nothing is logged after it: a thread of the library would write by itself
 * when the helper has finished, and could not be ended while the file of stderr stands still. */
void say_log_end(void);

/* The result of the other commands, on stdout. False: it could not be written, and that was reported. */
bool say_answer(const char *line, size_t len);

#endif
