/* demo_text.h - formats numbers, durations and URLs. Each function fills `buf` and returns it. */
#ifndef HLK_DEMO_TEXT_H
#define HLK_DEMO_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define DEMO_WORD 32                                        /* enough for either of the next two */

const char *demo_number(char buf[DEMO_WORD], int64_t n);    /* 12,345 */
const char *demo_length(char buf[DEMO_WORD], int64_t ns);   /* 0.42 ms, 18 ms, 1.02 s */

/* A URL without its user and password: the part before an '@' is left out. */
const char *demo_url(char *buf, size_t size, const char *url);

#endif
