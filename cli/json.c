/* json.c - see json.h. */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* Length of the well-formed UTF-8 sequence at `s` (RFC 3629: no surrogates, nothing overlong); 0 if there is none. A
 * string's NUL is no continuation byte: nothing behind it is read. */
static size_t utf8_length(const unsigned char *s)
{
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

static bool add_escaped(struct json *json, const unsigned char *s)
{
    while (*s) {
        char code[8];
        size_t len = utf8_length(s);
        bool fits;
        if (len == 0) {
            fits = add(json, "\xef\xbf\xbd", 3);
            len = 1;
        } else if (*s == '"' || *s == '\\') {
            code[0] = '\\';
            code[1] = (char)*s;
            fits = add(json, code, 2);
        } else if (*s < ' ' || *s == 0x7f) {
            int escaped = snprintf(code, sizeof code, "\\u%04x", *s);
            fits = add(json, code, (size_t)escaped);
        } else {
            fits = add(json, (const char *)s, len);
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
    if (!(add_key(json, key) && add(json, "\"", 1) && add_escaped(json, (const unsigned char *)value) &&
          add(json, "\"", 1)))
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

void json_end(struct json *json)
{
    memcpy(json->line + json->len, "}\n", CLOSING);
    json->len += CLOSING;
}
