/* run.c - see run.h. The sequence is:
 *
 *     block signals, helper, open -> [signals end the wait] acquire -> [signals go to COMMAND] start, watch ->
 *     [signals end --min-hold] keep -> release
 *
 * The client is opened lazily, so that connecting is part of the wait: it can be interrupted, and has the same
 * deadline. */
#include "run.h"

#include "child.h"
#include "helper.h"
#include "keep.h"
#include "locks.h"
#include "note.h"
#include "say.h"
#include "signals.h"
#include "url.h"
#include "waiting.h"
#include "watch.h"

#include <hasplock/hasplock.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define RELEASE_MS 3000 /* how long a release may take (reply_timeout_ms); */
#define BRIEFLY_MS 250  /* for a release without much hope of a reply */

#define OURS_MOST (5 + ACCESS_WORDS) /* variables that are set for COMMAND */

struct release { /* the outcome, set by the events thread; then `fd` is readable */
    int fd;
    enum hlk_status status;
    char why[256];
};

#define RENEWALS 10 /* in the time of a lease */

struct run {
    const struct options *options;
    struct watch_fds fds;
    struct release release;
    hlk_client *client;
    hlk_owner *owner; /* the holder, so that a release need not be waited for */
    struct locks locks;
    hlk_cancel *cancel;
    struct waiting waiting;
    char names[HLK_MULTILOCK_MAX * 513];  /* each of these: a word for each NAME, with blanks between */
    char owners[HLK_MULTILOCK_MAX * 192]; /* "": one is lost already, which the watch will see */
    char tokens[HLK_MULTILOCK_MAX * 21];  /* 0: without --fenced, or lost already; smaller than every token */
    int64_t asked_at_ms, held_at_ms;
    bool by_command; /* the exit code is COMMAND's */
    int died_of;     /* the signal that ended COMMAND; 0: none */
    bool foreground; /* COMMAND had the terminal */
};

static int os_error(const char *what, int why)
{
    say(SAY_ERROR, "error", "%s: %s", what, strerror(why));
    return EX_OSERR;
}

/* --- COMMAND's environment */

static bool is_kept(const char *variable, const struct access *access)
{
    static const char *const ours[] = {
        "HASPLOCK_NAME=",     "HASPLOCK_OWNER=", "HASPLOCK_OWNERS=",           "HASPLOCK_URL=",
        "HASPLOCK_URL_FILE=", "HASPLOCK_TOKEN=", "HASPLOCK_SENTINEL_PASSWORD="
    };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) /* of an outer run, perhaps on another server; a secret */
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return false;
    for (int i = 0; i < ACCESS_WORDS; i++) {
        const char *name = access_variable((enum access_word)i);
        if (access->words[i] && strncmp(variable, name, strlen(name)) == 0 && variable[strlen(name)] == '=')
            return false;
    }
    return true;
}

struct environment { /* in helper_memory */
    char **all;      /* ends with NULL; ours come first */
    size_t ours;
    char *room, *end; /* for their strings */
    bool no_memory;
};

static void add(struct environment *env, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct environment *env, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(env->room, (size_t)(env->end - env->room), format, args);
    env->no_memory |= len < 0 || len >= env->end - env->room;
    va_end(args);
    if (env->no_memory)
        return;
    env->all[env->ours++] = env->room;
    env->room += len + 1;
}

/* Sets our URL, or its file, or neither: then COMMAND uses the same server. */
static void add_url(struct environment *env, const struct options *options)
{
    char *path = options->url_file ? realpath(options->url_file, NULL) : NULL;
    if (path)
        add(env, "HASPLOCK_URL_FILE=%s", path);
    else if (!options->url_file && !url_has_password(options->url))
        add(env, "HASPLOCK_URL=%s", options->url);
    free(path);
}

/* And the files that it needs for that. */
static void add_access(struct environment *env, const struct access *access)
{
    for (int i = 0; i < ACCESS_WORDS; i++) {
        char *value = access_value(access, (enum access_word)i);
        if (value)
            add(env, "%s=%s", access_variable((enum access_word)i), value);
        free(value);
    }
}

/* The other variables stay where they are: the helper has them too. */
static bool make_environment(struct environment *env, const struct run *s)
{
    size_t n = 0;
    const char *around = getenv("HASPLOCK_OWNERS");
    while (environ[n])
        n++;
    size_t size, pointers = (n + OURS_MOST + 1) * sizeof *env->all;
    char *memory = helper_memory(&size);
    *env = (struct environment){ .all = (char **)(void *)memory, .room = memory + pointers, .end = memory + size };
    add(env, "HASPLOCK_NAME=%s", s->names);
    add(env, "HASPLOCK_OWNER=%s", s->owners);
    add(env, "HASPLOCK_OWNERS=%s%s%s", around ? around : "", around ? " " : "", s->owners);
    add_url(env, s->options);
    add_access(env, &s->options->access);
    if (s->options->fenced)
        add(env, "HASPLOCK_TOKEN=%s", s->tokens);
    size_t at = env->ours;
    for (size_t i = 0; i < n; i++)
        if (is_kept(environ[i], &s->options->access))
            env->all[at++] = environ[i];
    env->all[at] = NULL;
    return !env->no_memory;
}

/* --- waiting. These return 0, or the exit code after printing the reason. */

static int open_all(struct run *s)
{
    int why = watch_open(&s->fds);
    if (!why && (s->release.fd = eventfd(0, EFD_CLOEXEC)) < 0)
        why = errno;
    if (why)
        return os_error("no descriptor", why);
    struct hlk_client_opts opts = options_client(s->options);
    opts.watchdog_ms = s->options->lease_ms;
    opts.renew_ms = s->options->lease_ms / RENEWALS;
    opts.at_risk_ms = s->options->grace_ms;
    opts.flags |= s->options->spin ? HLK_OPEN_NO_PUBSUB : HLK_OPEN_LISTEN; /* a break ends COMMAND at once */
    opts.on_event = watch_on_event;
    opts.event_ctx = &s->fds;
    if (hlk_client_open(&s->client, s->options->url, &opts) != HLK_OK)
        return say_fault();
    s->owner = hlk_owner_create(s->client, NULL);
    if (!s->owner || !locks_create(&s->locks, s->client, s->options, s->owner))
        return say_fault();
    s->cancel = hlk_cancel_create(s->client);
    return s->cancel ? 0 : say_fault();
}

static void close_all(struct run *s)
{
    hlk_client_close(s->client);
    waiting_join(&s->waiting);
    hlk_cancel_destroy(s->cancel);
    locks_destroy(&s->locks);
    hlk_owner_destroy(s->owner);
    watch_close(&s->fds);
    close(s->release.fd);
}

static void say_end(const struct run *s, int code)
{
    struct json fields;
    if (!say_json())
        return;
    say_begin(&fields, "end");
    json_string(&fields, "by", s->by_command ? "command" : "hasplock");
    json_int(&fields, "code", code);
    say_with(&fields, SAY_VERBOSE, "exit code %d", code);
}

/* Dies of `signal`, as COMMAND would have. If the lock was acquired at the same moment, it is released first. */
static _Noreturn void interrupted(struct run *s, int signal, bool held)
{
    char name[16];
    if (held && hlk_lock_release(s->locks.lock) != HLK_OK)
        say_fault();
    close_all(s);
    say(SAY_VERBOSE, "interrupted", "%s ended the wait; nothing is held", signals_name(signal, name));
    say_log_end();
    say_end(s, 128 + signal);
    helper_finish();
    signals_die_of(signal);
}

/* For --json. Without a wait no thread has looked up the holder. */
static void add_holder(struct run *s, struct json *fields, bool waited)
{
    struct locks_obstacle obstacle;
    if (waited)
        waiting_holder_json(&s->waiting, fields);
    else if (say_json() && locks_look(&s->locks, false, &obstacle) == HLK_OK && obstacle.state.held)
        locks_add_json(&s->locks, obstacle.name, obstacle.state.holder, fields);
}

static int not_acquired(struct run *s, enum hlk_status status)
{
    struct json fields;
    char story[1024];
    if (status != HLK_BUSY && status != HLK_TIMEOUT)
        return say_fault();
    snprintf(story, sizeof story, "%s", say_story()); /* the next call replaces it */
    say_begin(&fields, "busy");
    add_holder(s, &fields, status == HLK_TIMEOUT);
    json_int(&fields, "waited_ms", hlk_now_ms() - s->asked_at_ms);
    say_with(&fields, SAY_NOTE, "%s", story);
    return s->options->conflict_code;
}

static int waits_for_itself(struct run *s)
{
    char which[LOCKS_WHICH];
    say(SAY_ERROR, "error",
        "%sheld by the hasplock run around this one: it would wait for itself for ever (to wait for its end all the "
        "same: HASPLOCK_OWNERS= hasplock run ...)",
        locks_which(s->options, waiting_lock(&s->waiting), which));
    return EX_USAGE;
}

static void add_word(char *words, size_t size, const char *word)
{
    size_t len = strlen(words);
    snprintf(words + len, size - len, "%s%s", len > 0 ? " " : "", word);
}

static void read_holds(struct run *s)
{
    bool held = true;
    for (size_t i = 0; i < s->locks.count; i++) {
        char owner[192] = "", token[24];
        held = hlk_lock_hold_id(s->locks.each[i], owner, sizeof owner) == HLK_OK && held;
        snprintf(token, sizeof token, "%" PRId64, hlk_lock_token(s->locks.each[i]));
        add_word(s->names, sizeof s->names, s->options->names[i]);
        add_word(s->owners, sizeof s->owners, owner);
        add_word(s->tokens, sizeof s->tokens, token);
    }
    if (!held)
        s->owners[0] = '\0';
}

static void say_acquired(const struct run *s)
{
    struct json fields;
    bool fenced = s->options->fenced, several = s->locks.count > 1;
    say_begin(&fields, "acquired");
    json_string(&fields, "owner", s->owners);
    if (fenced && several)
        json_string(&fields, "tokens", s->tokens);
    else if (fenced)
        json_int(&fields, "token", hlk_lock_token(s->locks.lock));
    json_int(&fields, "waited_ms", s->held_at_ms - s->asked_at_ms);
    json_int(&fields, "lease_ms", s->options->lease_ms);
    say_with(&fields, SAY_VERBOSE, "acquired after %.2f s, lease %.13g s%s%s",
             (double)(s->held_at_ms - s->asked_at_ms) / 1000, (double)s->options->lease_ms / 1000,
             !fenced   ? ""
             : several ? ", tokens "
                       : ", token ",
             fenced ? s->tokens : "");
}

/* HLK_OK: held. Does not return if a signal ended the wait. */
static enum hlk_status acquire(struct run *s)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = s->options->wait_ms;
    opts.cancel = s->cancel;
    s->asked_at_ms = hlk_now_ms();
    waiting_begin(&s->waiting, s->options, s->client, &s->locks, s->cancel);
    signals_wait_begin(s->cancel);
    enum hlk_status status = hlk_lock_acquire_with(s->locks.lock, &opts);
    int signal = signals_wait_end();
    waiting_end(&s->waiting);
    s->held_at_ms = hlk_now_ms();
    if (signal)
        interrupted(s, signal, status == HLK_OK);
    return status;
}

/* --- holding */

/* What may have been meant by a COMMAND that is not there. */
static const char *hint(const struct options *options)
{
    char *const *word = options->argv;
    if (!word[1] && strpbrk(word[0], " \t\n|;&<>$"))
        return " (a command line for the shell is given by -c)";
    while (*word && strcmp(*word, "--") != 0)
        word++;
    return *word && options->command == COMMAND_RUN ? " (options stand before the second of several NAMEs)" : "";
}

static int cannot_execute(const struct options *options, int why)
{
    char shown[200];
    say(SAY_ERROR, "error", "cannot execute \"%s\": %s%s", text_shown(shown, sizeof shown, options->argv[0]),
        strerror(why), why == ENOENT ? hint(options) : "");
    return why == ENOENT ? 127 : 126;
}

static int code_of(struct run *s, const struct child *child, const struct watch_result *result)
{
    if (child->exec_errno)
        return cannot_execute(s->options, child->exec_errno);
    if (result->stopped)
        return EX_TEMPFAIL;
    s->by_command = true;
    s->foreground = child->foreground;
    s->died_of = WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0;
    return s->died_of ? 128 + s->died_of : WEXITSTATUS(child->status);
}

/* Work that was not begun, or that was stopped, may be done by others at once. */
static void keep_for_min_hold(const struct run *s, const struct child *child, struct watch_result *result,
                              int signal_fd)
{
    bool done = !child->exec_errno && !result->stopped && !result->lost && !result->asked;
    if (done && s->options->min_hold_ms)
        keep(result, s->options, s->locks.lock, s->held_at_ms + s->options->min_hold_ms, signal_fd, &s->fds);
}

static int run_command(struct run *s, struct watch_result *result)
{
    struct child child;
    struct environment env = { 0 };
    int signal_fd = signals_open(), why = signal_fd < 0 ? errno : make_environment(&env, s) ? 0 : ENOMEM;
    if (why == 0) {
        watch_order_kill(s->options, s->locks.lock);
        why = child_start(&child, env.all);
    }
    if (why == 0) {
        watch_run(result, s->options, s->locks.lock, &child, signal_fd, &s->fds);
        child_close(&child);
        keep_for_min_hold(s, &child, result, signal_fd);
    }
    close(signal_fd);
    return why ? os_error("no process for COMMAND", why) : code_of(s, &child, result);
}

static void on_released(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    struct release *release = ctx;
    (void)lock;
    release->status = status;
    snprintf(release->why, sizeof release->why, "%s", say_story());
    eventfd_write(release->fd, 1);
}

/* HLK_E_UNSURE: no reply within max_ms. From then on `release` belongs to the events thread. */
static enum hlk_status release_within(struct run *s, int max_ms, const char **why)
{
    static const char unsure[] = "no answer from the server";
    struct pollfd done = { .fd = s->release.fd, .events = POLLIN };
    enum hlk_status status = hlk_lock_release_async(s->locks.lock, on_released, &s->release);
    *why = say_story();
    if (status != HLK_OK)
        return status;
    bool in_time = poll(&done, 1, max_ms) == 1;
    *why = in_time ? s->release.why : unsure;
    return in_time ? s->release.status : HLK_E_UNSURE;
}

/* The result is reported but does not change the exit code, because COMMAND's work is done. False: the server does not
 * answer, or the lock is no longer ours, so nothing is left to wait for. */
static bool release(struct run *s, const struct watch_result *result)
{
    const char *why;
    enum hlk_status status = release_within(s, result->at_risk ? BRIEFLY_MS : RELEASE_MS, &why);
    if (status == HLK_OK)
        say(SAY_VERBOSE, "released", "released after %.2f s", (double)(hlk_now_ms() - s->held_at_ms) / 1000);
    else if (status == HLK_LOST && !result->lost)
        say(SAY_ERROR, "lost", "lost while COMMAND ran, and learnt when it had ended by itself: %s", why);
    else if (status != HLK_LOST)
        say(result->stopped ? SAY_VERBOSE : SAY_ERROR, "error",
            "COMMAND has ended, but its release was not answered: %s; free in %.13g s at the latest", why,
            (double)s->options->lease_ms / 1000);
    return status == HLK_OK;
}

/* Returns the exit code. *answered: as in release(). */
static int hold(struct run *s, bool *answered)
{
    struct watch_result result = { 0 };
    read_holds(s);
    say_acquired(s);
    note_begin(&s->locks, s->held_at_ms);
    int code = run_command(s, &result);
    note_end();
    *answered = release(s, &result);
    return code;
}

static int run_with_helper(struct run *s)
{
    bool answered = true;
    int code = open_all(s);
    if (code == 0) {
        enum hlk_status status = acquire(s);
        code = status == HLK_OK                  ? hold(s, &answered)
               : waiting_for_itself(&s->waiting) ? waits_for_itself(s)
                                                 : not_acquired(s, status);
    }
    if (answered) /* else close would wait for a reply too; exit cleans up the rest */
        close_all(s);
    say_end(s, code);
    return code;
}

/* So that the parent sees that signal. A shell ends its script at ^C only if it gets SIGINT itself, and the terminal
 * has sent it to COMMAND's group alone: so it is sent on to ours. */
static _Noreturn void die_as_command_did(const struct run *s)
{
    if (s->foreground && (s->died_of == SIGINT || s->died_of == SIGQUIT))
        kill(0, s->died_of);
    signals_die_of(s->died_of);
}

int run(const struct options *options)
{
    static struct run s; /* static: a late reply is written to it */
    s.options = options;
    note_prepare(options); /* ^C ends it still */
    signals_block();
    int why = helper_start(options->argv);
    if (why)
        return os_error("no helper process", why);
    say_writer(helper_write);
    int code = run_with_helper(&s);
    say_log_end();
    helper_finish();
    if (s.died_of)
        die_as_command_did(&s);
    return code;
}
