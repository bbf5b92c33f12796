/* text.h - text from outside for people, and numbers in such text. */
#ifndef HLK_CLI_TEXT_H
#define HLK_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed UTF-8 sequence at `s` (RFC 3629: no surrogates, nothing overlong), or 0. Reads nothing
 * after a NUL, which is no continuation byte. */
size_t text_utf8_length(const char *s);

/* The code point of the well-formed character at `s`, of that length, if it is one that a terminal acts on, or that
 * changes the direction of writing: U+0000 to U+FFFF. -1: it is not. */
int text_harmful(const char *s, size_t len);

/* `bytes` as a terminal may show them: UTF-8 as it is; \" and \\ for quotes and backslashes; \xNN for control
 * characters, for those that change the direction of writing, and for invalid UTF-8. "..." if cut. Returns buf. */
const char *text_shown(char *buf, size_t size, const char *bytes);

/* A duration: "30" or "0.5" seconds, or with units, as in "250ms", "5s", "1m30s", "2h", "7d". In ms, rounded; INT64_MAX
 * if it is too long. False: invalid. */
bool text_read_duration(const char *text, int64_t *ms);

/* "250 ms", "1.5 s", "90 s", "2 h": the largest unit that leaves a short number. Returns buf. */
const char *text_duration(char *buf, size_t size, int64_t ms);

#endif
