/* demo_text.c - see demo_text.h. */
#include "demo_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *demo_number(char buf[DEMO_WORD], int64_t n)
{
    char digits[24], *to = buf;
    int count = snprintf(digits, sizeof digits, "%" PRId64, n < 0 ? -n : n);

    if (n < 0)
        *to++ = '-';
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return buf;
}

const char *demo_length(char buf[DEMO_WORD], int64_t ns)
{
    double ms = (double)ns / 1e6;
    if (ms < 9.995)
        snprintf(buf, DEMO_WORD, "%.2f ms", ms);
    else if (ms < 999.5)
        snprintf(buf, DEMO_WORD, "%.0f ms", ms);
    else
        snprintf(buf, DEMO_WORD, "%.2f s", ms / 1e3);
    return buf;
}

const char *demo_url(char *buf, size_t size, const char *url)
{
    const char *scheme = strstr(url, "://"), *at = strrchr(url, '@');
    int shown = scheme ? (int)(scheme + 3 - url) : 0;

    if (at && at >= url + shown)
        snprintf(buf, size, "%.*s%s", shown, url, at + 1);
    else
        snprintf(buf, size, "%s", url);
    return buf;
}
