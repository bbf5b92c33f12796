/* latch.c - see latch.h. A wait leaves nothing in Redis, so a signal may simply end the process. */
#include "latch.h"

#include "say.h"

#include <hasplock/hasplock.h>

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

/* 0, or the exit code of a fault, which was said. */
static int answer_count(const struct options *options, int64_t count)
{
    char line[2200], shown_name[2100];
    struct json json;
    if (options->json) {
        json_begin(&json);
        json_string(&json, "name", options->name);
        json_int(&json, "count", count);
        json_end(&json);
        return say_answer(json.line, json.len) ? 0 : EX_IOERR;
    }
    if (options->verbosity < 0)
        return 0;
    text_shown(shown_name, sizeof shown_name, options->name);
    int len = snprintf(line, sizeof line, "%s: count %" PRId64 "\n", shown_name, count);
    return say_answer(line, (size_t)len) ? 0 : EX_IOERR;
}

/* The status of a call as an exit code; what was not reached is no fault. */
static int code_of(const struct options *options, enum hlk_status status)
{
    if (status == HLK_OK)
        return 0;
    if (status != HLK_BUSY && status != HLK_TIMEOUT)
        return say_fault();
    say(SAY_NOTE, "busy", "%s", say_story());
    return options->conflict_code;
}

/* Without a count it is as after a reset. */
static int reset(hlk_latch *of, const struct options *options)
{
    enum hlk_status status = hlk_latch_delete(of);
    if (status != HLK_NOT_HOLDER)
        return code_of(options, status);
    say(SAY_VERBOSE, "unset", "%s", say_story());
    return 0;
}

static int do_verb(hlk_latch *of, const struct options *options)
{
    int64_t count = 0;
    int code;
    switch (options->verb) {
    case LATCH_SET:
        return code_of(options, hlk_latch_try_set(of, options->number));
    case LATCH_WAIT:
        return code_of(options, hlk_latch_await(of, options->wait_ms));
    case LATCH_RESET:
        return reset(of, options);
    case LATCH_DOWN:
        code = code_of(options, hlk_latch_count_down(of, options->number ? options->number : 1, &count));
        break;
    default:
        code = code_of(options, hlk_latch_count(of, &count));
    }
    return code ? code : answer_count(options, count);
}

int latch(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    hlk_latch *of = hlk_latch_create(client, options->name);
    int code = of ? do_verb(of, options) : say_fault();
    hlk_latch_destroy(of);
    hlk_client_close(client);
    return code;
}
