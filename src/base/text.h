/* text.h - building texts in a buffer of fixed size: cut, never overrun, always ended by NUL. */
#ifndef HLK_BASE_TEXT_H
#define HLK_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct hlk_text { char *buf; size_t size, len; };

void hlk_text_init(struct hlk_text *text, char *buf, size_t size);          /* size > 0; "" */
void hlk_text_add(struct hlk_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hlk_text_vadd(struct hlk_text *text, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
/* A name for people, in quotes: printable ASCII as it is (" and \ with a backslash), other bytes as \xNN; at most
 * `most` bytes of the name, then "..." behind the quotes. */
void hlk_text_add_quoted(struct hlk_text *text, const char *bytes, size_t len, size_t most);

/* `n` in decimal, without NUL; returns its length. snprintf is a tenth of a lock's client CPU. */
size_t hlk_text_number(char out[24], int64_t n);

#endif
