/* wire.h - writes a command as Redis reads it.
 *
 * hiredis' formatter calls sprintf for each argument. Measured, that was more than half of the client's instructions
 * for an acquire and a release. It is still used for commands that are not hot. The caller provides the buffer. */
#ifndef HLK_SCRIPT_WIRE_H
#define HLK_SCRIPT_WIRE_H

#include "base/text.h"

#include <string.h>

#define HLK_WIRE_HEAD 24        /* "*<n>\r\n", or "$<n>\r\n" and the final "\r\n", at most */

static inline char *hlk_wire_count(char *at, char kind, size_t n)
{
    *at++ = kind;
    at += hlk_text_number(at, (int64_t)n);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static inline char *hlk_wire_word(char *at, const char *bytes, size_t len)
{
    at = hlk_wire_count(at, '$', len);
    memcpy(at, bytes, len);
    at += len;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static inline char *hlk_wire_number(char *at, int64_t n)
{
    char digits[24];
    size_t len = hlk_text_number(digits, n);
    return hlk_wire_word(at, digits, len);
}

#endif
