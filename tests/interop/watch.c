#include "interop/watch.h"

#include "support/raw.h"
#include "support/wait.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watch {
    redisContext *monitor; /* sends MONITOR once, then only listens */
    redisContext *marker;  /* writes marks into the transcript */
    char **lines;
    size_t len, room;
    size_t seen; /* by watch_for */
    unsigned marks;
    char side; /* of the latest request: whose script it is that runs */
};

struct watch *watch_start(const struct server *server)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        test_give_up("no memory");
    watch->monitor = raw_open(server);
    watch->marker = raw_open(server);
    watch->side = '?';
    raw(watch->monitor, "MONITOR");
    return watch;
}

void watch_stop(struct watch *watch)
{
    if (!watch)
        return;
    for (size_t i = 0; i < watch->len; i++)
        free(watch->lines[i]);
    free(watch->lines);
    redisFree(watch->monitor);
    redisFree(watch->marker);
    free(watch);
}

/* `"hset" "t" "a b"` -> `hset t a b` */
static void unquote(char *to, const char *from)
{
    bool command = true;
    for (; *from; from++) {
        command = command && *from != ' ';
        if (from[0] == '\\' && from[1])
            *to++ = *from++;
        else if (*from == '"')
            continue;
        *to++ = command ? (char)tolower((unsigned char)*from) : *from;
    }
    *to = '\0';
}

/* `1795228518.182000 [0 127.0.0.1:4711] "EVALSHA" ...` -> a line of ours */
static void add(struct watch *watch, const char *text)
{
    const char *source = strchr(text, '['), *command = strstr(text, "] \"");
    if (!source || !command)
        return; /* MONITOR's own OK */
    bool inner = strncmp(source, "[0 lua]", 7) == 0;
    if (!inner)
        watch->side = strncmp(source, "[0 unix:", 8) == 0 ? 'C' : 'J';

    char *line = malloc(strlen(command) + 8);
    if (watch->len == watch->room) {
        watch->room = watch->room ? watch->room * 2 : 256;
        watch->lines = realloc(watch->lines, watch->room * sizeof *watch->lines);
    }
    if (!line || !watch->lines)
        test_give_up("no memory");
    sprintf(line, "%c%c ", watch->side, inner ? '.' : '>');
    unquote(line + 3, command + 2);
    watch->lines[watch->len++] = line;
}

static bool read_line(struct watch *watch, int64_t ms)
{
    const char *text = raw_next_within(watch->monitor, ms);
    if (text)
        add(watch, text);
    return text != NULL;
}

const char *watch_for(struct watch *watch, const char *format, ...)
{
    char pattern[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(pattern, sizeof pattern, format, args);
    va_end(args);

    int64_t deadline_at_ms = test_now_ms() + WAIT_MS;
    for (;;) {
        while (watch->seen < watch->len) {
            const char *line = watch->lines[watch->seen++];
            if (fnmatch(pattern, line, 0) == 0)
                return line;
        }
        int64_t left = deadline_at_ms - test_now_ms();
        if (left <= 0 || !read_line(watch, left)) {
            watch_print(watch);
            test_give_up("waited %d ms in vain for the server to see: %s", WAIT_MS, pattern);
        }
    }
}

size_t watch_mark(struct watch *watch)
{
    char mark[48];
    snprintf(mark, sizeof mark, "C> echo mark-%u", ++watch->marks);
    raw(watch->marker, "ECHO mark-%d", (int)watch->marks);
    while (watch->len == 0 || strcmp(watch->lines[watch->len - 1], mark) != 0)
        if (!read_line(watch, WAIT_MS))
            test_give_up("MONITOR does not show the mark");
    watch->seen = watch->len;
    return watch->len;
}

const char *watch_line(const struct watch *watch, size_t i)
{
    return watch->lines[i];
}

size_t watch_count(const struct watch *watch, size_t from, size_t to, const char *format, ...)
{
    char pattern[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(pattern, sizeof pattern, format, args);
    va_end(args);
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        count += fnmatch(pattern, watch->lines[i], 0) == 0;
    return count;
}

void watch_print(const struct watch *watch)
{
    for (size_t i = 0; i < watch->len; i++)
        fprintf(stderr, "[----]   %s\n", watch->lines[i]);
}
