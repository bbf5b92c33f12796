/* text.c - see text.h. The invariant everywhere: len < size and buf[len] is NUL. */
#include "base/text.h"

#include <assert.h>
#include <stdio.h>

void hlk_text_init(struct hlk_text *text, char *buf, size_t size)
{
    assert(size > 0);
    *text = (struct hlk_text){ .buf = buf, .size = size };
    buf[0] = '\0';
}

void hlk_text_vadd(struct hlk_text *text, const char *format, va_list args)
{
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

static void add_byte(struct hlk_text *text, unsigned char byte)
{
    if (byte == '"' || byte == '\\')
        hlk_text_add(text, "\\%c", byte);
    else if (byte >= ' ' && byte < 0x7f)
        hlk_text_add(text, "%c", byte);
    else
        hlk_text_add(text, "\\x%02x", (unsigned)byte);
}

void hlk_text_add_quoted(struct hlk_text *text, const char *bytes, size_t len, size_t most)
{
    hlk_text_add(text, "\"");
    for (size_t i = 0; i < len && i < most; i++)
        add_byte(text, (unsigned char)bytes[i]);
    hlk_text_add(text, len > most ? "\"..." : "\"");
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
