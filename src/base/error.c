/* error.c - see error.h. The thread's last error is plain thread-local memory, which is never allocated or freed. */
#include "base/error.h"

#include "base/debug.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct hlk_error last, creation; /* creation: the last one that failed */

/* Formats into a buffer of its own first, because an argument may be the text that is replaced, as in ("%s: ...",
 * hlk_last_error()). Escaping a text twice gives the same as escaping it once. */
static void fill(struct hlk_error *error, enum hlk_status status, const char *format, va_list args)
{
    HLK_DEBUG_ASSERT(error && format);
    char raw[2 * HLK_ERROR_TEXT];
    struct hlk_text text;
    int keep = errno;
    if (vsnprintf(raw, sizeof raw, format, args) < 0)
        raw[0] = '\0';
    hlk_text_init(&text, error->text, sizeof error->text);
    hlk_text_add_shown(&text, raw, strlen(raw));
    error->status = status;
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
    if (strncmp(last.text, "create ", 7) == 0 || strncmp(last.text, "open", 4) == 0)
        creation = last;
    return status;
}

/* A creation that was given a NULL client is not kept: the client's own error is the cause. */
enum hlk_status hlk_last_null(const char *operation, const char *what)
{
    HLK_DEBUG_ASSERT(operation && what);
    if (creation.status == HLK_OK)
        return hlk_last_set(HLK_E_INVALID, "%s: %s is NULL", operation, what);
    return hlk_error_set(&last, HLK_E_INVALID, "%s: %s is NULL; the last creation that failed in this thread: %s",
                         operation, what, creation.text);
}

const char *hlk_last_error(void)
{
    return last.text;
}

enum hlk_status hlk_last_status(void)
{
    return last.status;
}
