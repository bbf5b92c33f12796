/* text.c - see text.h. */
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t text_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    size_t len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

static unsigned code_point(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned code = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (s[i] & 0x3fu);
    return code;
}

/* Controls (C0, DEL, C1), line separators, and marks that reorder the text around them. */
static bool may_harm(unsigned code)
{
    return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x61c || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

int text_harmful(const char *s, size_t len)
{
    unsigned code = code_point(s, len);
    return may_harm(code) ? (int)code : -1;
}

/* Writes the character at `s` as it is shown; *len is its length in `s`. Returns the length written. */
static size_t show_one(char *out, size_t size, const char *s, size_t *len)
{
    *len = text_utf8_length(s);
    if (*len == 0 || text_harmful(s, *len) >= 0) {
        size_t n = 0;
        *len += *len == 0;
        for (size_t i = 0; i < *len; i++)
            n += (size_t)snprintf(out + n, size - n, "\\x%02x", (unsigned char)s[i]);
        return n;
    }
    size_t n = *s == '"' || *s == '\\';
    out[0] = '\\';
    memcpy(out + n, s, *len);
    return n + *len;
}

const char *text_shown(char *buf, size_t size, const char *bytes)
{
    static const char cut[] = "...";
    size_t at = 0, len;
    for (; *bytes; bytes += len) {
        char one[24];
        size_t n = show_one(one, sizeof one, bytes, &len);
        if (at + n + sizeof cut > size) {
            memcpy(buf + at, cut, sizeof cut);
            return buf;
        }
        memcpy(buf + at, one, n);
        at += n;
    }
    buf[at] = '\0';
    return buf;
}

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
enum { UNITS = sizeof units / sizeof units[0] };

/* strtod alone would also accept "inf", "nan", "0x1p3" and " 1". *text is moved behind the number. */
static bool read_number(const char **text, double *number)
{
    size_t len = strspn(*text, "0123456789.");
    char copy[64], *end;
    if (len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, *text, len);
    copy[len] = '\0';
    *number = strtod(copy, &end);
    *text += len;
    return end != copy && !*end; /* not a single dot, nor two in one number */
}

/* 0: unknown. *text is moved behind it. */
static int64_t read_unit(const char **text)
{
    size_t len = strspn(*text, "abcdefghijklmnopqrstuvwxyz");
    for (int i = 0; i < UNITS; i++)
        if (strlen(units[i].name) == len && strncmp(*text, units[i].name, len) == 0) {
            *text += len;
            return units[i].ms;
        }
    return 0;
}

bool text_read_duration(const char *text, int64_t *ms)
{
    double sum = 0, number;
    const char *start = text;
    do {
        if (!read_number(&text, &number))
            return false;
        int64_t unit = read_unit(&text);
        if (unit == 0 && (*text || strspn(start, "0123456789.") != strlen(start)))
            return false; /* a number without unit must stand alone */
        sum += number * (double)(unit ? unit : 1000);
    } while (*text);
    *ms = sum >= 9e18 ? INT64_MAX : (int64_t)(sum + 0.5);
    return true;
}

const char *text_duration(char *buf, size_t size, int64_t ms)
{
    if (ms < 1000)
        snprintf(buf, size, "%" PRId64 " ms", ms);
    else if (ms >= 7200000 && ms % 3600000 == 0)
        snprintf(buf, size, "%" PRId64 " h", ms / 3600000);
    else if (ms >= 120000 && ms % 60000 == 0)
        snprintf(buf, size, "%" PRId64 " min", ms / 60000);
    else
        snprintf(buf, size, "%.13g s", (double)ms / 1000);
    return buf;
}
