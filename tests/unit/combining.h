/* combining.h - calls.h with an owner that can combine: "<a+b+c>" for calls whose bytes are "[a]", "[b]" and "[c]", and
 * "<!a+b+c>" when that is to be whole. */
#ifndef HLK_TEST_COMBINING_H
#define HLK_TEST_COMBINING_H

#include "calls.h"

#include <stdio.h>

#define NONE (-77LL) /* no reply */

static int combines, fails_at; /* the combine that fails, from 1; 0: none */

static inline bool combine(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n,
                           bool whole)
{
    char command[256] = "<";
    cr_assert(n >= 2 && n <= HLK_COMBINE_MOST, "%u", n);
    if (whole)
        strcat(command, "!");
    for (unsigned i = 0; i < n; bytes += calls[i++]->len) {
        cr_assert_eq(calls[i]->part, 'p');
        cr_assert_eq(bytes[0], '[');
        strncat(command, bytes + calls[i]->keys_at, calls[i]->args_at - calls[i]->keys_at);
        strcat(command, i + 1 < n ? "+" : ">");
    }
    return ++combines != fails_at && hlk_buffer_add(to, command, strlen(command));
}

static inline void combining_begin(void)
{
    calls_begin();
    peer.mux->owner.combine = combine;
    combines = fails_at = 0;
}

/* A small letter is a part, sent as "[a]"; any other none, sent as it is. */
static inline const char *as_part(struct hlk_call *call, char letter)
{
    static char bytes[4];
    bool part = letter >= 'a' && letter <= 'z';
    (void)snprintf(bytes, sizeof bytes, part ? "[%c]" : "%c", letter);
    call->part = part ? 'p' : 0;
    call->keys_at = 1;
    call->args_at = 2;
    call->args_end = 3;
    return bytes;
}

static inline enum hlk_status ask_letter(struct asked *a, char letter)
{
    memset(a, 0, sizeof *a);
    a->answer = NONE;
    return ask(a, as_part(&a->call, letter));
}

static inline void queue_letters(struct asked *a, const char *letters)
{
    hlk_mux_batch(peer.mux, true);
    for (; *letters; letters++)
        cr_assert_eq(ask_letter(a++, *letters), HLK_OK);
}

/* All in one write: what the server hears of it. */
static inline const char *ask_at_once(struct asked *a, const char *letters)
{
    queue_letters(a, letters);
    hlk_mux_batch(peer.mux, false);
    return peer_hears(&peer);
}

static inline const char *ask_many(struct asked *a, unsigned n)
{
    char letters[2048] = "";
    memset(letters, 'a', n);
    return ask_at_once(a, letters);
}

static char text[32768];

/* n calls as they are sent together, or each by itself. */
static inline char *together(unsigned n)
{
    char *at = text;
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, i ? "+a" : "<a");
    (void)sprintf(at, ">");
    return text;
}

static inline char *apart(unsigned n)
{
    char *at = text;
    *at = '\0';
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, "[a]");
    return text;
}

/* The same answer n times: without an array, or in one. */
static inline const char *singly(unsigned n, const char *answer)
{
    char *at = text;
    *at = '\0';
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, "%s\r\n", answer);
    return text;
}

static inline const char *array_of(unsigned n, const char *answer)
{
    char *at = text + sprintf(text, "*%u\r\n", n);
    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, "%s\r\n", answer);
    return text;
}

static inline bool all_end(const struct asked *a, unsigned n, enum hlk_call_end end, long long answer)
{
    for (unsigned i = 0; i < n; i++)
        if (a[i].ends != 1 || a[i].end != end || a[i].answer != answer)
            return false;
    return hlk_list_empty(&peer.mux->flight) && peer.mux->writes == 0;
}

#endif
