/* script.h - the embedded Lua scripts, run by EVAL on a raw connection. For tests that see src/ (INTERNAL). */
#ifndef HLK_TEST_SCRIPT_H
#define HLK_TEST_SCRIPT_H

#include "script/table.h"
#include "support/raw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A number as an argument; valid until this thread's 16th call after it. */
const char *script_number(int64_t number);

/* EVAL of the script: `keys` keys, then its arguments, then NULL. Returns the reply as raw() shows it. */
const char *script_run(redisContext *redis, enum hlk_script script, int keys, ...);

/* "Acquired" as text: the reply names the hold. */
#define NAMES(hold) "\"" hold "\""

#endif
