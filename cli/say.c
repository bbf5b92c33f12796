/* say.c - see say.h. Each line is one write(2): there is no buffer that a fork would copy or a death would lose. */
#include "say.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define TEXT 1024
#define NAME_SHOWN 80
#define PREFIX (NAME_SHOWN + 64)
#define FOLDED 8 /* different log lines that are remembered */
#define FOLD_MS 10000

static struct {
    const char *command, *name;
    bool json;
    int verbosity;
    int64_t since_ms; /* start of the command, by hlk_now_ms() */
    bool (*writer)(const char *line, size_t len, bool urgent);
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

void say_writer(bool (*writer)(const char *line, size_t len, bool urgent))
{
    as.writer = writer;
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

static void put(enum say_level level, const char *line, size_t len)
{
    if (!as.writer || !as.writer(line, len, level == SAY_ERROR))
        write_all(STDERR_FILENO, line, len); /* there is nowhere to report an error */
}

static int put_prefix(char *buf, size_t size)
{
    char name[NAME_SHOWN];
    if (as.name)
        return snprintf(buf, size, "hasplock: %s \"%s\": ", as.command, text_shown(name, sizeof name, as.name));
    return as.command ? snprintf(buf, size, "hasplock: %s: ", as.command) : snprintf(buf, size, "hasplock: ");
}

static void put_text(enum say_level level, const char *text)
{
    char line[TEXT + PREFIX + 1];
    int len = put_prefix(line, PREFIX);
    len += snprintf(line + len, sizeof line - (size_t)len, "%s\n", text);
    put(level, line, (size_t)len);
}

/* At most `columns` - 1 bytes of `line`, in whole characters, because a wrapped line could not be removed. It counts
 * bytes and not columns, so the line may be shorter than needed. */
static size_t cut_to(const char *line, size_t len, size_t columns)
{
    if (len < columns)
        return len;
    for (len = columns - 1; len > 0 && ((unsigned char)line[len] & 0xc0) == 0x80; len--)
        ;
    return len;
}

void say_status(const char *text, size_t columns)
{
    static const char clear[] = "\r\033[K";
    char line[TEXT + PREFIX] = "", out[sizeof clear + sizeof line];
    size_t len = 0;
    if (*text) {
        len = (size_t)put_prefix(line, PREFIX);
        len += (size_t)snprintf(line + len, sizeof line - len, "%s", text);
        len = cut_to(line, len < sizeof line ? len : sizeof line - 1, columns);
    }
    memcpy(out, clear, sizeof clear - 1);
    memcpy(out + sizeof clear - 1, line, len);
    put(SAY_NOTE, out, sizeof clear - 1 + len);
}

void say_begin(struct json *fields, const char *event)
{
    json_begin(fields);
    json_string(fields, "event", event);
    json_time(fields);
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

/* --- the library's texts */

/* The reason in the words of `local:`, which include the folder. NULL: another error. */
static const char *about_local(const char *text)
{
    return strstr(text, "local server: ");
}

/* `multilock of 3: acquire "b" at redis://...: why` from the operation on, which is about a member. NULL: another
 * text. */
static const char *about_member(const char *text)
{
    int len = 0;
    (void)sscanf(text, "multilock of %*u: %n", &len);
    return len > 0 ? text + len : NULL;
}

/* What follows operation and name; the whole text if there are none. */
static const char *behind_name(const char *text)
{
    const char *quoted = text + strspn(text, "abcdefghijklmnopqrstuvwxyz ");
    if (*quoted != '"')
        return text;
    for (quoted++; *quoted && *quoted != '"'; quoted++)
        quoted += *quoted == '\\' && quoted[1];
    if (*quoted != '"')
        return text;
    quoted++;
    quoted += strspn(quoted, ".: "); /* dots: a shortened name */
    return *quoted ? quoted : text;
}

/* The library's text is `acquire "nightly" at redis://...: why`, but the line begins with `run "nightly": ` already. Of
 * several locks the name says which one. */
const char *say_story(void)
{
    const char *text = hlk_last_error(), *member = about_member(text);
    if (about_local(text))
        return about_local(text);
    if (member)
        return strchr(member, '"') ? strchr(member, '"') : member;
    return behind_name(text);
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
    case HLK_NOT_REPLICATED:
    case HLK_BROKEN:
        return EX_TEMPFAIL;
    case HLK_BUSY:
    case HLK_TIMEOUT:
    case HLK_NOT_HOLDER:
        return 1;
    default:
        return EX_SOFTWARE;
    }
}

/* What follows `open`, or `diagnose`: " redis://...: why", or ": why". NULL: it is another operation. */
static const char *about_server(const char *text)
{
    static const char *const operations[] = { "open", "diagnose" };
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        size_t len = strlen(operations[i]);
        if (strncmp(text, operations[i], len) == 0 && (text[len] == ' ' || text[len] == ':'))
            return text + len;
    }
    return NULL;
}

/* Both `open redis://...: why` and `acquire "nightly" at redis://...: why` name the server. */
static void say_no_server(struct json *fields, const char *text)
{
    double tried = (double)(hlk_now_ms() - as.since_ms) / 1000;
    const char *about = about_server(text), *member = about_member(text);
    const char *story = about && *about == ' ' ? about + 1 : behind_name(member ? member : text);
    if (strncmp(story, "at ", 3) == 0)
        story += 3;
    if (about_local(text))
        say_with(fields, SAY_ERROR, "%s; gave up after %.1f s", about_local(text), tried);
    else
        say_with(fields, SAY_ERROR, "no server at %s; gave up after %.1f s", story, tried);
}

int say_fault(void)
{
    enum hlk_status status = hlk_last_status();
    const char *text = hlk_last_error(), *about = about_server(text);
    struct json fields;
    say_begin(&fields, "error");
    json_string(&fields, "status", hlk_status_name(status));
    if (status == HLK_E_CONNECT)
        say_no_server(&fields, text);
    else if (about_local(text) || !about || *about != ' ')
        say_with(&fields, SAY_ERROR, "%s", about && *about == ':' ? about + 2 : say_story());
    else
        say_with(&fields, SAY_ERROR, "cannot connect to %s", about + 1);
    return say_exit_code(status);
}

/* --- the library's log. While a server is away, it repeats the same few lines. */

static struct folded {
    char line[256];
    int64_t said_ms; /* hlk_now_ms(); 0: unused */
    int more;        /* repetitions since */
} folded[FOLDED];
static bool log_over; /* under the mutex, too */
static pthread_mutex_t folded_mu = PTHREAD_MUTEX_INITIALIZER;

/* The entry with this line, else the oldest one, for reuse. */
static struct folded *find_folded(const char *line)
{
    struct folded *oldest = folded;
    for (int i = 0; i < FOLDED; i++) {
        if (strncmp(folded[i].line, line, sizeof folded[i].line - 1) == 0 && folded[i].said_ms)
            return &folded[i];
        if (folded[i].said_ms < oldest->said_ms)
            oldest = &folded[i];
    }
    return oldest;
}

static void say_more(struct folded *f)
{
    if (f->more)
        say(SAY_VERBOSE, "log", "%s (%d times more)", f->line, f->more);
    f->more = 0;
}

void say_log(int level, const char *line, void *ctx)
{
    int64_t now_ms = hlk_now_ms();
    (void)level, (void)ctx;
    pthread_mutex_lock(&folded_mu);
    if (log_over) {
        pthread_mutex_unlock(&folded_mu);
        return;
    }
    struct folded *f = find_folded(line);
    bool same = f->said_ms && strncmp(f->line, line, sizeof f->line - 1) == 0;
    if (same && now_ms < f->said_ms + FOLD_MS) {
        f->more++;
    } else {
        say_more(f);
        snprintf(f->line, sizeof f->line, "%s", line);
        f->said_ms = now_ms;
        say(SAY_VERBOSE, "log", "%s", line);
    }
    pthread_mutex_unlock(&folded_mu);
}

void say_log_end(void)
{
    pthread_mutex_lock(&folded_mu);
    for (int i = 0; i < FOLDED; i++)
        say_more(&folded[i]);
    log_over = true;
    pthread_mutex_unlock(&folded_mu);
}

bool say_answer(const char *line, size_t len)
{
    if (write_all(STDOUT_FILENO, line, len))
        return true;
    say(SAY_ERROR, "error", "cannot write to stdout: %s", strerror(errno));
    return false;
}
