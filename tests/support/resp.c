#include "support/resp.h"

/* Length up to and including the next CRLF; 0: incomplete. */
static size_t resp_line(const char *at, size_t left)
{
    const char *end = left ? memchr(at, '\n', left) : NULL;
    return end ? (size_t)(end - at) + 1 : 0;
}

size_t resp_length(const char *at, size_t left)
{
    size_t line = resp_line(at, left), done = line;
    if (!line)
        return 0;
    long n = strtol(at + 1, NULL, 10);
    if (strchr("$!=", at[0])) {
        if (n < 0)
            return line;
        return left < line + (size_t)n + 2 ? 0 : line + (size_t)n + 2;
    }
    if (!strchr("*~>%|", at[0]))
        return line;
    if (at[0] == '%' || at[0] == '|')
        n *= 2;
    if (at[0] == '|')
        n += 1; /* attributes precede their value */
    for (long i = 0; i < n; i++) {
        size_t one = resp_length(at + done, left - done);
        if (!one)
            return 0;
        done += one;
    }
    return done;
}

struct resp_word resp_word(const char *at, size_t len, size_t i)
{
    struct resp_word none = { NULL, 0 };
    size_t line = resp_line(at, len), done = line;
    if (!strchr("*>", at[0]) || strtol(at + 1, NULL, 10) <= (long)i)
        return none;
    for (; i > 0; i--)
        done += resp_length(at + done, len - done);
    line = resp_line(at + done, len - done);
    if (at[done] != '$' || strtol(at + done + 1, NULL, 10) < 0)
        return none;
    return (struct resp_word){ at + done + line, (size_t)strtol(at + done + 1, NULL, 10) };
}

bool resp_word_is(const char *at, size_t len, size_t i, const char *text)
{
    struct resp_word word = resp_word(at, len, i);
    return word.at && word.len == strlen(text) && strncasecmp(word.at, text, word.len) == 0;
}

size_t resp_words(const char *at)
{
    long n = strchr("*>", at[0]) ? strtol(at + 1, NULL, 10) : 0;
    return n > 0 ? (size_t)n : 0;
}
