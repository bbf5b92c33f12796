/* barrier.c - see barrier.h. A signal ends the wait before it ends the process: the other parties are told at once, and
 * not when the lease is over. */
#include "barrier.h"

#include "say.h"

#include <hasplock/hasplock.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sysexits.h>

static hlk_cancel *cancel;
static volatile sig_atomic_t ended_by;

static void on_signal(int signal)
{
    ended_by = signal;
    hlk_cancel_trigger(cancel);
}

static void catch_signals(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)sigaction(signals[i], &action, NULL);
}

/* 0, or the exit code of a fault, which was said. */
static int answer_index(const struct options *options, unsigned index)
{
    char line[2200], shown_name[2100];
    struct json json;
    if (options->json) {
        json_begin(&json);
        json_string(&json, "name", options->name);
        json_int(&json, "index", index);
        json_int(&json, "parties", options->number);
        json_end(&json);
        return say_answer(json.line, json.len) ? 0 : EX_IOERR;
    }
    if (options->verbosity < 0)
        return 0;
    text_shown(shown_name, sizeof shown_name, options->name);
    int len = snprintf(line, sizeof line, "%s: index %u of %" PRId64 "\n", shown_name, index, options->number);
    return say_answer(line, (size_t)len) ? 0 : EX_IOERR;
}

static int await(hlk_barrier *of, const struct options *options)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    unsigned index = 0;
    opts.wait_ms = options->wait_ms;
    opts.cancel = cancel;
    enum hlk_status status = hlk_barrier_await_with(of, &opts, &index);
    if (status == HLK_OK)
        return answer_index(options, index);
    if (status == HLK_INTERRUPTED && ended_by) {
        (void)raise(ended_by);
        return 128 + ended_by;
    }
    if (status != HLK_BUSY && status != HLK_TIMEOUT && status != HLK_BROKEN)
        return say_fault();
    say(SAY_NOTE, status == HLK_BROKEN ? "broken" : "busy", "%s", say_story());
    return status == HLK_BROKEN ? EX_TEMPFAIL : options->conflict_code;
}

int barrier(const struct options *options)
{
    struct hlk_client_opts opts = options_client(options);
    hlk_client *client;
    if (hlk_client_open(&client, options->url, &opts) != HLK_OK)
        return say_fault();
    hlk_barrier *of = hlk_barrier_create(client, options->name, (unsigned)options->number, options->lease_ms);
    cancel = hlk_cancel_create(client);
    if (cancel)
        catch_signals();
    int code = of && cancel ? await(of, options) : say_fault();
    hlk_barrier_destroy(of);
    hlk_client_close(client);
    return code;
}
