/* text.h - text in a buffer of fixed size. It is cut, never overrun, and always ends with NUL. */
#ifndef HLK_BASE_TEXT_H
#define HLK_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct hlk_text { char *buf; size_t size, len; };

void hlk_text_init(struct hlk_text *text, char *buf, size_t size);          /* size > 0; "" */
void hlk_text_add(struct hlk_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hlk_text_vadd(struct hlk_text *text, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
/* Text from outside, for people. Readable UTF-8 is added as it is. Each byte of anything else is added as \xNN: invalid
 * UTF-8, control characters, characters that hide text or change its direction. The result is one line without terminal
 * codes. If the room ends, "..." takes the place of the rest. */
void hlk_text_add_shown(struct hlk_text *text, const char *bytes, size_t len);
/* The same for a name, in quotes, with a backslash before " and \. At most `max` bytes of the name are added; if it
 * has more, "..." follows the quotes. */
void hlk_text_add_quoted(struct hlk_text *text, const char *bytes, size_t len, size_t max);

/* `n` in decimal, without NUL; returns its length. snprintf would take a tenth of the client CPU of a lock. */
size_t hlk_text_number(char out[24], int64_t n);

#endif
