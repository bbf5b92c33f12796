/* resp.h - for the proxy: the length of a request or reply of Redis' protocol, and its first words. */
#ifndef HLK_TEST_RESP_H
#define HLK_TEST_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct resp_word { const char *at; size_t len; };

/* Length of the first complete value (RESP2 and RESP3); 0: incomplete. An inline request is one line. */
size_t resp_length(const char *at, size_t left);

/* The i-th bulk string of a complete array; at is NULL if there is none. */
struct resp_word resp_word(const char *at, size_t len, size_t i);
bool resp_word_is(const char *at, size_t len, size_t i, const char *text);
size_t resp_words(const char *at);

#endif
