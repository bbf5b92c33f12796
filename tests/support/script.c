#include "support/script.h"

const char *script_number(int64_t number)
{
    static _Thread_local char texts[16][24];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 16];
    snprintf(text, sizeof texts[0], "%" PRId64, number);
    return text;
}

const char *script_run(redisContext *redis, enum hlk_script script, int keys, ...)
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
