/* say.c - see say.h. Lines go out by write(2), whole: no buffer that a fork or a death could copy or lose. */
#include "say.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define TEXT 1024
#define NAME_SHOWN 80

static struct {
    const char *command, *name;
    bool json;
    int verbosity;
    int64_t since_ms;       /* hlk_now_ms() when it all began */
    atomic_bool never_wait; /* read by the library's threads too (say_log) */
} as;

void say_setup(const char *command, bool json, int verbosity)
{
    as.command = command;
    if (!as.since_ms)
        as.since_ms = hlk_now_ms();
    as.json = json;
    as.verbosity = verbosity;
}

void say_about(const char *name)
{
    as.name = name;
}

bool say_json(void)
{
    return as.json;
}

/* A pipe that is ready takes PIPE_BUF bytes without blocking; a terminal that was stopped by ^S is not ready. */
static bool would_wait(int fd, size_t len)
{
    struct pollfd out = { .fd = fd, .events = POLLOUT };
    return len > 4096 || poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT);
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* Errors that stderr did not take at once. Main thread only: logs of other threads are no errors. */
static struct {
    char lines[8192];
    size_t len;
} kept;

static void put(enum say_level level, const char *line, size_t len)
{
    if (!as.never_wait || !would_wait(STDERR_FILENO, len)) {
        write_all(STDERR_FILENO, line, len); /* where could we complain? */
    } else if (level == SAY_ERROR && len <= sizeof kept.lines - kept.len) {
        memcpy(kept.lines + kept.len, line, len);
        kept.len += len;
    }
}

void say_never_wait(bool never)
{
    as.never_wait = never;
    if (!never)
        write_all(STDERR_FILENO, kept.lines, kept.len);
    kept.len = 0;
}

const char *say_shown(char *buf, size_t size, const char *bytes)
{
    static const char cut[] = "...";
    size_t len = 0;
    for (; *bytes; bytes++) {
        char code[8];
        unsigned char c = (unsigned char)*bytes;
        bool plain = c >= ' ' && c < 0x7f;
        size_t n = (size_t)snprintf(code, sizeof code, !plain ? "\\x%02x" : c == '"' || c == '\\' ? "\\%c" : "%c", c);
        if (len + n + sizeof cut > size) {
            memcpy(buf + len, cut, sizeof cut);
            return buf;
        }
        memcpy(buf + len, code, n);
        len += n;
    }
    buf[len] = '\0';
    return buf;
}

static void put_text(enum say_level level, const char *text)
{
    char line[TEXT + NAME_SHOWN + 64], name[NAME_SHOWN];
    int len;
    if (as.name)
        len = snprintf(line, sizeof line, "hasplock: %s \"%s\": %s\n", as.command,
                       say_shown(name, sizeof name, as.name), text);
    else if (as.command)
        len = snprintf(line, sizeof line, "hasplock: %s: %s\n", as.command, text);
    else
        len = snprintf(line, sizeof line, "hasplock: %s\n", text);
    put(level, line, (size_t)len);
}

void say_begin(struct json *fields, const char *event)
{
    json_begin(fields);
    json_string(fields, "event", event);
    if (as.name)
        json_string(fields, "name", as.name);
}

static void say_v(struct json *fields, enum say_level level, const char *format, va_list args)
{
    char text[TEXT];
    vsnprintf(text, sizeof text, format, args);
    if (as.json) {
        json_string(fields, "text", text);
        json_end(fields);
        put(level, fields->line, fields->len);
    } else if ((int)level <= as.verbosity + SAY_NOTE) {
        put_text(level, text);
    }
}

void say_with(struct json *fields, enum say_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_v(fields, level, format, args);
    va_end(args);
}

void say(enum say_level level, const char *event, const char *format, ...)
{
    struct json fields;
    va_list args;
    say_begin(&fields, event);
    va_start(args, format);
    say_v(&fields, level, format, args);
    va_end(args);
}

/* The library tells `acquire "nightly" at redis://...: why`; our line has begun with `run "nightly": ` already. */
const char *say_story(void)
{
    char name[2100];
    const char *text = hlk_last_error();
    const char *quoted = text + strspn(text, "abcdefghijklmnopqrstuvwxyz ");
    if (!as.name || *quoted != '"')
        return text;
    say_shown(name, sizeof name, as.name);
    quoted++;
    for (const char *n = name; *n && *quoted == *n; n++)
        quoted++;
    if (*quoted != '"') /* the library cuts long names too: then a quote follows all the same */
        return text;
    quoted++;
    quoted += strspn(quoted, ".: ");
    return *quoted ? quoted : text;
}

int say_exit_code(enum hlk_status status)
{
    switch (status) {
    case HLK_OK:
        return EX_OK;
    case HLK_E_INVALID:
        return EX_USAGE;
    case HLK_E_CONNECT:
    case HLK_E_UNSURE:
        return EX_UNAVAILABLE;
    case HLK_E_AUTH:
        return EX_NOPERM;
    case HLK_E_NOMEM:
    case HLK_E_OS:
        return EX_OSERR;
    case HLK_LOST:
        return EX_TEMPFAIL;
    case HLK_BUSY:
    case HLK_TIMEOUT:
    case HLK_NOT_HOLDER:
        return 1;
    default:
        return EX_SOFTWARE;
    }
}

/* "no server at redis://...: Connection refused (tried 10.0 s)": the story says where and why. */
static void say_no_server(struct json *fields)
{
    const char *story = say_story();
    if (strncmp(story, "open ", 5) == 0)
        story += 5;
    else if (strncmp(story, "at ", 3) == 0)
        story += 3;
    say_with(fields, SAY_ERROR, "no server at %s (tried %.1f s)", story, (double)(hlk_now_ms() - as.since_ms) / 1000);
}

int say_fault(void)
{
    enum hlk_status status = hlk_last_status();
    struct json fields;
    say_begin(&fields, "error");
    json_string(&fields, "status", hlk_status_name(status));
    if (status == HLK_E_CONNECT)
        say_no_server(&fields);
    else
        say_with(&fields, SAY_ERROR, "%s", say_story());
    return say_exit_code(status);
}

void say_log(int level, const char *line, void *ctx)
{
    (void)level;
    (void)ctx;
    say(SAY_VERBOSE, "log", "%s", line);
}

bool say_answer(const char *line, size_t len)
{
    if (write_all(STDOUT_FILENO, line, len))
        return true;
    say(SAY_ERROR, "error", "cannot write to stdout: %s", strerror(errno));
    return false;
}
