/* json.c - see json.h. */
#include "json.h"

#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CLOSING 2 /* "}\n": always kept free */

void json_begin(struct json *json)
{
    json->line[0] = '{';
    json->len = 1;
}

/* False, and nothing written, when it does not fit. */
static bool add(struct json *json, const char *bytes, size_t len)
{
    if (len > sizeof json->line - CLOSING - json->len)
        return false;
    memcpy(json->line + json->len, bytes, len);
    json->len += len;
    return true;
}

/* Keys are our own words: nothing in them needs escaping. */
static bool add_key(struct json *json, const char *key)
{
    return (json->len == 1 || add(json, ",", 1)) && add(json, "\"", 1) && add(json, key, strlen(key)) &&
           add(json, "\":", 2);
}

static bool add_escaped(struct json *json, const char *s)
{
    while (*s) {
        char code[8];
        size_t len = text_utf8_length(s);
        bool fits;
        if (len == 0) {
            fits = add(json, "\xef\xbf\xbd", 3);
            len = 1;
        } else if (*s == '"' || *s == '\\') {
            code[0] = '\\';
            code[1] = *s;
            fits = add(json, code, 2);
        } else if (text_harmful(s, len) >= 0) { /* JSON would allow most of them, a terminal that shows it obeys them */
            int escaped = snprintf(code, sizeof code, "\\u%04x", (unsigned)text_harmful(s, len) & 0xffffu);
            fits = add(json, code, (size_t)escaped);
        } else {
            fits = add(json, s, len);
        }
        if (!fits)
            return false;
        s += len;
    }
    return true;
}

void json_string(struct json *json, const char *key, const char *value)
{
    size_t before = json->len;
    if (!(add_key(json, key) && add(json, "\"", 1) && add_escaped(json, value) && add(json, "\"", 1)))
        json->len = before;
}

static void add_plain(struct json *json, const char *key, const char *value)
{
    size_t before = json->len;
    if (!(add_key(json, key) && add(json, value, strlen(value))))
        json->len = before;
}

void json_int(struct json *json, const char *key, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    add_plain(json, key, digits);
}

void json_bool(struct json *json, const char *key, bool value)
{
    add_plain(json, key, value ? "true" : "false");
}

void json_time(struct json *json)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_int(json, "time_ms", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

void json_end(struct json *json)
{
    memcpy(json->line + json->len, "}\n", CLOSING);
    json->len += CLOSING;
}
