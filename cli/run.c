/* run.c - see run.h. The order of things:
 *
 *     block signals, open -> [signals end the wait] acquire -> [signals go to COMMAND] fork, watch -> release, close
 *
 * The client is opened lazily, so that connecting is part of the wait: it can be interrupted, and one deadline governs
 * both. */
#include "run.h"

#include "child.h"
#include "say.h"
#include "signals.h"
#include "watch.h"

#include <hasplock/hasplock.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define TRY_MS 3000 /* a try gives an unreachable or silent server so long (reply_ms) */

struct session {
    const struct options *options;
    struct watch_fds fds;
    hlk_client *client;
    hlk_lock *lock;
    hlk_cancel *cancel;
    char hold_id[192];
    int64_t token; /* 0: not --fenced, or lost already: smaller than every other one */
    int64_t asked_at_ms, held_at_ms;
    bool by_command; /* the exit code is COMMAND's own */
};

static int os_error(const char *what, int why)
{
    say(SAY_ERROR, "error", "%s: %s", what, strerror(why));
    return EX_OSERR;
}

/* --- COMMAND's environment */

static bool is_kept(const char *variable)
{
    static const char *const ours[] = { "HASPLOCK_NAME=", "HASPLOCK_OWNER=", "HASPLOCK_URL=", "HASPLOCK_TOKEN=" };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) /* of an outer run, of another server */
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return false;
    return true;
}

static char *joined(const char *key, const char *value)
{
    char *both;
    return asprintf(&both, "%s=%s", key, value) < 0 ? NULL : both;
}

/* NAME, OWNER; the URL that we use, or none; with --fenced TOKEN. */
static size_t count_ours(const struct options *options)
{
    bool url = !options_url_has_password(options->url);
    return 2 + (size_t)url + (size_t)options->fenced;
}

static void free_environment(const struct options *options, char **env)
{
    for (size_t i = 0; env && i < count_ours(options); i++)
        free(env[i]);
    free(env);
}

/* Made before the fork: a child of a process with threads may not allocate. NULL: no memory. Ours come first. */
static char **environment(const struct session *s)
{
    size_t n = 0, at = 0;
    char token[24];
    while (environ[n])
        n++;
    char **env = calloc(n + count_ours(s->options) + 1, sizeof *env);
    if (!env)
        return NULL;
    snprintf(token, sizeof token, "%" PRId64, s->token);
    bool ok = (env[at++] = joined("HASPLOCK_NAME", s->options->name)) != NULL;
    ok = ok && (env[at++] = joined("HASPLOCK_OWNER", s->hold_id)) != NULL;
    if (!options_url_has_password(s->options->url))
        ok = ok && (env[at++] = joined("HASPLOCK_URL", s->options->url)) != NULL;
    if (s->options->fenced)
        ok = ok && (env[at++] = joined("HASPLOCK_TOKEN", token)) != NULL;
    if (!ok) {
        free_environment(s->options, env);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (is_kept(environ[i]))
            env[at++] = environ[i];
    return env;
}

/* --- waiting. These give 0, or the exit code when it ends here; then what there is to say was said. */

static int open_all(struct session *s)
{
    int why = watch_open(&s->fds);
    if (why)
        return os_error("no descriptor", why);
    struct hlk_client_opts opts = options_client(s->options);
    opts.watchdog_ms = s->options->lease_ms;
    opts.at_risk_ms = s->options->grace_ms;
    opts.flags = HLK_OPEN_LAZY;
    opts.on_event = watch_on_event;
    opts.event_ctx = &s->fds;
    if (hlk_client_open(&s->client, s->options->url, &opts) != HLK_OK)
        return say_fault();
    struct hlk_lock_opts lock_opts = options_lock(s->options);
    s->lock = hlk_lock_create(s->client, s->options->name, &lock_opts);
    if (!s->lock)
        return say_fault();
    s->cancel = hlk_cancel_create(s->client);
    return s->cancel ? 0 : say_fault();
}

static void close_all(struct session *s)
{
    hlk_client_close(s->client);
    hlk_cancel_destroy(s->cancel);
    hlk_lock_destroy(s->lock);
    watch_close(&s->fds);
}

static void say_end(const struct session *s, int code)
{
    struct json fields;
    if (!say_json())
        return;
    say_begin(&fields, "end");
    json_string(&fields, "by", s->by_command ? "command" : "hasplock");
    json_int(&fields, "code", code);
    say_with(&fields, SAY_VERBOSE, "exit code %d", code);
}

/* We die of `signal`, as COMMAND would have. When the lock came in the same moment, it is given back first. */
static _Noreturn void interrupted(struct session *s, int signal, bool held)
{
    char name[16];
    if (held && hlk_lock_release(s->lock) != HLK_OK)
        say_fault();
    close_all(s);
    say(SAY_VERBOSE, "interrupted", "%s ended the wait; nothing is held", signals_name(signal, name));
    say_end(s, 128 + signal);
    signals_die_of(signal);
}

static int not_acquired(const struct session *s, enum hlk_status status)
{
    struct json fields;
    if (status != HLK_BUSY && status != HLK_TIMEOUT)
        return say_fault();
    say_begin(&fields, "busy");
    json_int(&fields, "waited_ms", hlk_now_ms() - s->asked_at_ms);
    say_with(&fields, SAY_NOTE, "%s", say_story());
    return s->options->conflict_code;
}

static void say_acquired(struct session *s)
{
    struct json fields;
    char token[32] = "";
    if (hlk_lock_hold_id(s->lock, s->hold_id, sizeof s->hold_id) != HLK_OK)
        s->hold_id[0] = '\0'; /* lost already: the watch will see it */
    s->token = hlk_lock_token(s->lock);
    if (s->options->fenced)
        snprintf(token, sizeof token, ", token %" PRId64, s->token);
    say_begin(&fields, "acquired");
    json_string(&fields, "owner", s->hold_id);
    if (s->options->fenced)
        json_int(&fields, "token", s->token);
    json_int(&fields, "waited_ms", s->held_at_ms - s->asked_at_ms);
    json_int(&fields, "lease_ms", s->options->lease_ms);
    say_with(&fields, SAY_VERBOSE, "acquired after %.2f s, lease %.13g s%s",
             (double)(s->held_at_ms - s->asked_at_ms) / 1000, (double)s->options->lease_ms / 1000, token);
}

/* A stderr that nobody reads must not keep us from the wait, nor signals from ending it. */
static void say_waiting(void)
{
    say_never_wait(true);
    say(SAY_VERBOSE, "waiting", "waiting: %s", say_story());
    say_never_wait(false);
}

/* For -v: a try that waits for nobody, so it has no place in line to lose, and tells who is before us. True: `status`
 * is the answer; else `opts` has what is left of the wait. A wait no longer than a try may hang goes without. */
static bool try_first(const struct session *s, struct hlk_acquire_opts *opts, enum hlk_status *status)
{
    const struct options *options = s->options;
    if (options->verbosity < 1 || (options->wait_ms >= 0 && options->wait_ms <= TRY_MS))
        return false;
    opts->wait_ms = 0;
    *status = hlk_lock_acquire_with(s->lock, opts);
    if (*status == HLK_BUSY)
        say_waiting();
    else if (*status != HLK_E_CONNECT && *status != HLK_E_UNSURE)
        return true;
    if (options->wait_ms < 0) {
        opts->wait_ms = HLK_FOREVER;
        return false;
    }
    opts->wait_ms = s->asked_at_ms + options->wait_ms - hlk_now_ms();
    if (opts->wait_ms < 1)
        opts->wait_ms = 1;
    return false;
}

/* HLK_OK: held. Does not return when a signal ended the wait. */
static enum hlk_status acquire(struct session *s)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    enum hlk_status status;
    opts.wait_ms = s->options->wait_ms;
    opts.cancel = s->cancel;
    s->asked_at_ms = hlk_now_ms();
    signals_wait_begin(s->cancel);
    if (!try_first(s, &opts, &status))
        status = hlk_lock_acquire_with(s->lock, &opts);
    int signal = signals_wait_end();
    s->held_at_ms = hlk_now_ms();
    if (signal)
        interrupted(s, signal, status == HLK_OK);
    return status;
}

/* --- holding */

static int cannot_execute(const struct options *options, int why)
{
    char shown[200];
    say(SAY_ERROR, "error", "cannot execute \"%s\": %s", say_shown(shown, sizeof shown, options->argv[0]),
        strerror(why));
    return why == ENOENT ? 127 : 126;
}

static int code_of(struct session *s, const struct child *child, const struct watch_result *result)
{
    if (child->exec_errno)
        return cannot_execute(s->options, child->exec_errno);
    if (result->stopped)
        return EX_TEMPFAIL;
    s->by_command = true;
    return WIFEXITED(child->status) ? WEXITSTATUS(child->status) : 128 + WTERMSIG(child->status);
}

static int run_command(struct session *s, struct watch_result *result)
{
    struct child child;
    char **env = environment(s);
    int signal_fd = signals_open();
    if (!env || signal_fd < 0) {
        int why = env ? errno : ENOMEM;
        free_environment(s->options, env);
        return os_error("no way to run COMMAND", why);
    }
    int why = child_start(&child, s->options->argv, env);
    if (why == 0) {
        watch_run(result, s->options, s->lock, &child, signal_fd, &s->fds);
        child_close(&child);
    }
    close(signal_fd);
    free_environment(s->options, env);
    return why ? os_error("no process for COMMAND", why) : code_of(s, &child, result);
}

/* COMMAND's own code stands whatever comes of this: what it did is done. But it is said. */
static void release(const struct session *s, const struct watch_result *result)
{
    enum hlk_status status = hlk_lock_release(s->lock);
    say_never_wait(false);
    if (status == HLK_OK)
        say(SAY_VERBOSE, "released", "released after %.2f s", (double)(hlk_now_ms() - s->held_at_ms) / 1000);
    else if (status == HLK_LOST && !result->lost)
        say(SAY_ERROR, "lost", "lost while COMMAND ran, and learnt when it had ended by itself: %s", say_story());
    else if (status != HLK_LOST)
        say(SAY_ERROR, "error",
            "COMMAND has ended, but its release was not answered: %s; free in %.13g s at the latest", say_story(),
            (double)s->options->lease_ms / 1000);
}

static int hold(struct session *s)
{
    struct watch_result result = { 0 };
    say_never_wait(true);
    say_acquired(s);
    int code = run_command(s, &result);
    release(s, &result);
    return code;
}

int run(const struct options *options)
{
    struct session s = { .options = options };
    signals_block();
    int code = open_all(&s);
    if (code == 0) {
        enum hlk_status status = acquire(&s);
        code = status == HLK_OK ? hold(&s) : not_acquired(&s, status);
    }
    close_all(&s);
    say_end(&s, code);
    return code;
}
