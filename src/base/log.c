/* log.c - see log.h. */
#include "base/log.h"

#include "base/debug.h"
#include "base/logger.h"
#include "base/mutex.h"
#include "base/nocancel.h"
#include "base/text.h"
#include "hasplock/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE 1024

static void to_stderr(int level, const char *line)
{
    static const char *const names[] = {
        [HLK_LOG_ERROR] = "error", [HLK_LOG_WARN] = "warning", [HLK_LOG_INFO] = "info", [HLK_LOG_DEBUG] = "debug"
    };
    char text[LINE + 32];
    int len = snprintf(text, sizeof text, "hasplock: %s: %s\n", names[level], line);
    hlk_logger_add(text, (size_t)len);
}

void hlk_log_write(const struct hlk_log *log, int level, const char *format, ...)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(level >= HLK_LOG_ERROR && level <= HLK_LOG_DEBUG);
    char raw[LINE], line[LINE];
    struct hlk_text text;
    int keep = errno;
    va_list args;

    if (level > log->level)
        return;
    va_start(args, format);
    if (vsnprintf(raw, sizeof raw, format, args) < 0)
        raw[0] = '\0';
    va_end(args);
    hlk_text_init(&text, line, sizeof line);
    hlk_text_add_shown(&text, raw, strlen(raw)); /* one line; no terminal codes from a server or a name */

    int old = hlk_nocancel_begin();
    if (log->fn)
        log->fn(level, line, log->ctx);
    else
        to_stderr(level, line);
    hlk_nocancel_end(old);
    errno = keep;
}
