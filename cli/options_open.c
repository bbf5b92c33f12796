/* options_open.c - what the options make of the client and the lock: see options.h. */
#include "options.h"

#include "say.h"

#include <stdlib.h>

/* NULL: it is not there, or empty. */
static const char *from_environment(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

static bool waits(const struct options *options)
{
    switch (options->command) {
    case COMMAND_RUN:
    case COMMAND_BARRIER:
        return true;
    case COMMAND_SEMAPHORE:
        return !options->deletes;
    case COMMAND_LATCH:
        return options->verb == LATCH_WAIT;
    default:
        return false;
    }
}

struct hlk_client_opts options_client(const struct options *options)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    access_fill(&options->access, &opts);
    opts.wait_replicas = (int)options->wait_replicas;
    if (waits(options)) { /* it is the wait that takes its time, not the opening of the client */
        opts.reconnect_timeout_ms = options->server_wait_ms ? options->server_wait_ms : -1;
        opts.flags |= HLK_OPEN_LAZY;
    }
    opts.sentinel_username = from_environment("HASPLOCK_SENTINEL_USERNAME");
    opts.sentinel_password = from_environment("HASPLOCK_SENTINEL_PASSWORD");
    opts.log = say_log;
    opts.log_level = options->verbosity >= 2   ? HLK_LOG_DEBUG
                     : options->verbosity == 1 ? HLK_LOG_INFO
                                               : HLK_LOG_ERROR; /* dropped: the call's own answer says it */
    return opts;
}

struct hlk_lock_opts options_lock(const struct options *options)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = options->fair        ? HLK_LOCK_FAIR
                : options->fenced    ? HLK_LOCK_FENCED
                : options->spin      ? HLK_LOCK_SPIN
                : options->string    ? HLK_LOCK_STRING
                : options->shared    ? HLK_LOCK_READ
                : options->exclusive ? HLK_LOCK_WRITE
                : options->semaphore ? HLK_LOCK_PERMIT
                                     : HLK_LOCK_PLAIN;
    opts.permits = options->permits;
    opts.flags = options->drops ? HLK_PERMITS_DROP : 0;
    return opts;
}
