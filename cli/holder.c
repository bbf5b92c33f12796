/* holder.c - see holder.h. */
#include "holder.h"

#include "text.h"

#include <hasplock/lock.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The decimal number from `s` to `end`. */
static bool read_number(const char *s, const char *end, int64_t *number)
{
    int64_t n = 0;
    if (s == end || end - s > 18)
        return false;
    for (; s < end; s++) {
        if (*s < '0' || *s > '9')
            return false;
        n = n * 10 + (*s - '0');
    }
    *number = n;
    return true;
}

static const char *last_dash(const char *start, const char *end)
{
    while (end > start && *--end != '-')
        ;
    return end > start ? end : NULL;
}

/* Read from the end, because the host's name may contain dashes. */
static bool read_ours(struct holder *holder, const char *written)
{
    const char *host = written + 4;
    const char *colon = strrchr(written, ':');
    if (strncmp(written, "hlk-", 4) != 0 || !colon)
        return false;
    const char *before_random = last_dash(host, colon);
    const char *before_pid = before_random ? last_dash(host, before_random) : NULL;
    if (!before_pid || (size_t)(before_pid - host) >= sizeof holder->host)
        return false;
    memcpy(holder->host, host, (size_t)(before_pid - host));
    holder->host[before_pid - host] = '\0';
    return read_number(before_pid + 1, before_random, &holder->pid) &&
           read_number(colon + 1, colon + strlen(colon), &holder->hold);
}

void holder_read(struct holder *holder, const char *written)
{
    *holder = (struct holder){ .written = written };
    holder->ours = read_ours(holder, written);
}

const char *holder_shown(const struct holder *holder, char *buf, size_t size)
{
    char host[300];
    if (!holder->ours)
        return text_shown(buf, size, holder->written);
    snprintf(buf, size, "%s pid %" PRId64 " (hold %" PRId64 ")", text_shown(host, sizeof host, holder->host),
             holder->pid, holder->hold);
    return buf;
}

const char *holder_held(int kind, int64_t count, char *buf, size_t size)
{
    if (kind == HLK_LOCK_READ && count > 1)
        snprintf(buf, size, "held to read %" PRId64 " times, once", count);
    else
        snprintf(buf, size, "held%s", kind == HLK_LOCK_READ ? " to read" : kind == HLK_LOCK_WRITE ? " to write" : "");
    return buf;
}

const char *holder_none(int kind)
{
    return kind == HLK_LOCK_READ ? "not held to read" : kind == HLK_LOCK_WRITE ? "not held to write" : "free";
}

void holder_json(const struct holder *holder, struct json *json)
{
    json_string(json, "holder", holder->written);
    if (!holder->ours)
        return;
    json_string(json, "host", holder->host);
    json_int(json, "pid", holder->pid);
    json_int(json, "hold", holder->hold);
}

void holder_add_json(const char *written, struct json *json)
{
    struct holder holder;
    holder_read(&holder, written);
    holder_json(&holder, json);
}
