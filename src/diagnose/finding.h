/* finding.h - a finding while it is written: level and three texts. */
#ifndef HLK_DIAGNOSE_FINDING_H
#define HLK_DIAGNOSE_FINDING_H

#include "base/text.h"
#include "hasplock/diagnose.h"

#include <stdbool.h>

/* An advice may have a right for each kind of key, each with a prefix of 512 bytes, all of them escaped. */
#define HLK_ADVICE_MAX 24576

struct hlk_found {
    enum hlk_finding_level level;
    bool applies;                   /* false: the check has nothing to say about this server */
    struct hlk_text measured, meaning, advice;
    char texts[2][1024], advice_text[HLK_ADVICE_MAX];
};

void hlk_found_init(struct hlk_found *found);      /* OK, applies, three empty texts */

/* Sets the level and replaces what was measured. */
void hlk_found_set(struct hlk_found *found, enum hlk_finding_level level, const char *measured, ...)
    __attribute__((format(printf, 3, 4)));
/* Replace the text. */
void hlk_found_meaning(struct hlk_found *found, const char *meaning, ...) __attribute__((format(printf, 2, 3)));
void hlk_found_advice(struct hlk_found *found, const char *advice, ...) __attribute__((format(printf, 2, 3)));

#endif
