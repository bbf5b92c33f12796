/* log.c - see log.h. */
#include "base/log.h"

#include "base/nocancel.h"
#include "base/text.h"
#include "hasplock/client.h"

#include <errno.h>
#include <stdio.h>

#define LINE 1024

static void to_stderr(int level, const char *line)
{
    static const char *const names[] = {
        [HLK_LOG_ERROR] = "error", [HLK_LOG_WARN] = "warning", [HLK_LOG_INFO] = "info", [HLK_LOG_DEBUG] = "debug"
    };
    fprintf(stderr, "hasplock: %s: %s\n", names[level], line);
}

void hlk_log_write(const struct hlk_log *log, int level, const char *format, ...)
{
    char line[LINE];
    struct hlk_text text;
    int keep = errno;
    va_list args;

    if (level > log->level)
        return;
    hlk_text_init(&text, line, sizeof line);
    va_start(args, format);
    hlk_text_vadd(&text, format, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' '; /* one line, and no terminal codes from a server or a name */

    int old = hlk_nocancel_begin();
    if (log->fn)
        log->fn(level, line, log->ctx);
    else
        to_stderr(level, line);
    hlk_nocancel_end(old);
    errno = keep;
}
