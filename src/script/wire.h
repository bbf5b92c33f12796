/* wire.h - a command as Redis reads it, written by hand.
 *
 * hiredis' formatter, used for everything that is not hot, calls sprintf for each argument: measured, more than half of
 * all the instructions that an acquire and a release cost a client. Here is memcpy. The caller gives the room. */
#ifndef HLK_SCRIPT_WIRE_H
#define HLK_SCRIPT_WIRE_H

#include "base/text.h"

#include <string.h>

#define HLK_WIRE_HEAD 24        /* "*<n>\r\n" or "$<n>\r\n" and the last "\r\n", at most */

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
