/* log.h - the client's log callback: one line, a level, never a secret. NULL fn: to stderr as "hasplock: warning: ...",
 * through base/logger.h. Keeps errno. Text from outside is treated as hlk_text_add_shown does. */
#ifndef HLK_BASE_LOG_H
#define HLK_BASE_LOG_H

struct hlk_log {                        /* set by open, then read-only */
    void (*fn)(int level, const char *line, void *ctx);
    void *ctx;
    int level;                          /* HLK_LOG_...; lines above it are not formatted */
};

void hlk_log_write(const struct hlk_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define hlk_log(log, lvl, ...) do { if ((lvl) <= (log)->level) hlk_log_write((log), (lvl), __VA_ARGS__); } while (0)

#endif
