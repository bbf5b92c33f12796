/* error.c - see error.h. The thread's last error is plain thread-local memory: nothing to allocate, nothing to free. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct hlk_error last;

/* What a server or a name brings along may hold line breaks and terminal codes; a text for people is one line. */
static void make_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

/* Formats aside first: an argument may well be the text that is replaced, as in ("%s: ...", hlk_last_error()). */
static void fill(struct hlk_error *error, enum hlk_status status, const char *format, va_list args)
{
    static const char cut[] = "...";
    char text[HLK_ERROR_TEXT];
    int keep = errno;
    int len = vsnprintf(text, sizeof text, format, args);
    if (len < 0)
        text[0] = '\0';
    else if ((size_t)len >= sizeof text)
        memcpy(text + sizeof text - sizeof cut, cut, sizeof cut);
    make_one_line(text);
    error->status = status;
    memcpy(error->text, text, strlen(text) + 1);
    errno = keep;
}

enum hlk_status hlk_error_set(struct hlk_error *error, enum hlk_status status, const char *format, ...)
{
    if (!error)
        return status;
    va_list args;
    va_start(args, format);
    fill(error, status, format, args);
    va_end(args);
    return status;
}

enum hlk_status hlk_last_set(enum hlk_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(&last, status, format, args);
    va_end(args);
    return status;
}

const char *hlk_last_error(void)
{
    return last.text;
}

enum hlk_status hlk_last_status(void)
{
    return last.status;
}
