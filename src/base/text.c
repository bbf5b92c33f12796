/* text.c - see text.h. Invariant: len < size, and buf[len] is NUL. */
#include "base/text.h"

#include "base/debug.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void hlk_text_init(struct hlk_text *text, char *buf, size_t size)
{
    assert(size > 0);
    *text = (struct hlk_text){ .buf = buf, .size = size };
    buf[0] = '\0';
}

void hlk_text_vadd(struct hlk_text *text, const char *format, va_list args)
{
    HLK_DEBUG_ASSERT(text->len < text->size);
    size_t room = text->size - text->len;
    int made = vsnprintf(text->buf + text->len, room, format, args);
    if (made < 0)
        text->buf[text->len] = '\0';
    else
        text->len += (size_t)made < room ? (size_t)made : room - 1;
}

void hlk_text_add(struct hlk_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hlk_text_vadd(text, format, args);
    va_end(args);
}

/* --- text that is safe to show --- */

/* Characters that move the cursor, change the direction of text or hide it: terminal controls (C0, C1, DEL),
 * Unicode. */
static bool is_control(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } controls[] = {
        { 0x0000, 0x001f }, { 0x007f, 0x009f }, { 0x061c, 0x061c }, { 0x200b, 0x200b }, { 0x200e, 0x200f },
        { 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
    };
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        if (c >= controls[i].first && c <= controls[i].last)
            return true;
    return false;
}

/* The length of the character at `at` if it may be shown as it is, else 0. */
static size_t seen_as_it_is(const char *at, size_t len)
{
    HLK_DEBUG_ASSERT(len > 0);
    static const uint32_t min[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = (unsigned char)*at;
    if (first >= ' ' && first < 0x7f)
        return 1;
    size_t n = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
    if (n == 0 || n > len)
        return 0;
    uint32_t c = n == 1 ? first : first & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | ((unsigned char)at[i] & 0x3fu);
    }
    bool is_unicode = c >= min[n] && c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
    return is_unicode && !is_control(c) ? n : 0;
}

/* Adds the next character as it is, or its first byte as \xNN. A character in `escaped` gets a backslash before it.
 * False: there is no room for all of it, and nothing is added. *used: how many bytes were consumed. */
static bool add_item(struct hlk_text *text, const char *at, size_t len, const char *escaped, size_t *used)
{
    HLK_DEBUG_ASSERT(len > 0 && text->len < text->size);
    static const char digits[] = "0123456789abcdef";
    size_t n = seen_as_it_is(at, len), behind = n && *at && strchr(escaped, *at) ? 1 : 0;
    const char hex[] = { '\\', 'x', digits[(unsigned char)*at >> 4], digits[*at & 0xf] };
    *used = n ? n : 1;
    size_t added = n ? behind + n : sizeof hex;
    if (added >= text->size - text->len)
        return false;
    if (behind)
        text->buf[text->len] = '\\';
    memcpy(text->buf + text->len + behind, n ? at : hex, added - behind);
    text->len += added;
    text->buf[text->len] = '\0';
    return true;
}

static bool is_plain(const char *bytes, size_t len)
{
    bool plain = true;
    for (size_t i = 0; i < len; i++)
        plain &= bytes[i] >= ' ' && bytes[i] < 0x7f;
    return plain;
}

void hlk_text_add_shown(struct hlk_text *text, const char *bytes, size_t len)
{
    HLK_DEBUG_ASSERT(text->len < text->size);
    static const char dots[] = "...";
    size_t used, before_dots = text->len;
    if (len < text->size - text->len && is_plain(bytes, len)) { /* the usual case; even BUSY has a text */
        memcpy(text->buf + text->len, bytes, len);
        text->len += len;
        text->buf[text->len] = '\0';
        return;
    }
    for (size_t i = 0; i < len; i += used) {
        if (!add_item(text, bytes + i, len - i, "", &used)) {
            text->len = before_dots;
            hlk_text_add(text, "%s", dots);
            return;
        }
        if (text->size - text->len >= sizeof dots)
            before_dots = text->len;
    }
}

void hlk_text_add_quoted(struct hlk_text *text, const char *bytes, size_t len, size_t max)
{
    HLK_DEBUG_ASSERT(text->len < text->size);
    size_t used;
    hlk_text_add(text, "\"");
    for (size_t i = 0; i < len && i < max; i += used) {
        size_t n = seen_as_it_is(bytes + i, len - i);
        if (i + n > max || !add_item(text, bytes + i, len - i, "\"\\", &used))
            break;
    }
    hlk_text_add(text, len > max ? "\"..." : "\"");
}

size_t hlk_text_number(char out[24], int64_t n)
{
    char digits[24];
    size_t len = 0, d = 0;
    uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    if (n < 0)
        out[len++] = '-';
    do
        digits[d++] = (char)('0' + rest % 10);
    while (rest /= 10);
    while (d)
        out[len++] = digits[--d];
    return len;
}
