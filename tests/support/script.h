/* script.h - the embedded Lua scripts, run by EVAL on a raw connection. For tests that see src/ (INTERNAL). */
#ifndef HLK_TEST_SCRIPT_H
#define HLK_TEST_SCRIPT_H

#include "script/table.h"
#include "support/raw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A number as an argument; valid until the 16th next call of this thread. */
static inline const char *script_number(int64_t number)
{
    static _Thread_local char texts[16][24];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 16];
    snprintf(text, sizeof texts[0], "%" PRId64, number);
    return text;
}

/* EVAL of the script's bytes: `keys` keys, then the arguments, NULL at the end. The reply as raw() shows it. */
static inline const char *script_run(redisContext *redis, enum hlk_script script, int keys, ...)
{
    enum { MOST = 64 };
    const char *argv[MOST] = { "EVAL", hlk_script_table[script].text, script_number(keys) };
    size_t lens[MOST] = { 4, hlk_script_table[script].len, strlen(argv[2]) };
    int n = 3;
    va_list args;
    va_start(args, keys);
    for (const char *arg; n < MOST && (arg = va_arg(args, const char *)) != NULL; n++) {
        argv[n] = arg;
        lens[n] = strlen(arg);
    }
    va_end(args);
    return raw_argv(redis, n, argv, lens);
}

#endif
