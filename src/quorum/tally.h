/* tally.h - what a round without a majority means: how many masters said what, and the words for it. */
#ifndef HLK_QUORUM_TALLY_H
#define HLK_QUORUM_TALLY_H

#include "base/text.h"
#include "quorum/round.h"

struct hlk_tally {
    unsigned yes, no, failed, for_good, silent;
    unsigned young;          /* of those that failed: they count from a moment on that is known */
    unsigned largest;        /* so many of the noes name the same holder */
    unsigned blocked;        /* a bit for each master that others hold, or that cannot be asked */
    enum hlk_status failure; /* of those that failed: all the same, or HLK_E_CONNECT */
};

/* Of the round as it is now; its votes are those of `nodes`. Writes the sentence that an error says. timeout_ms: so
 * much time a master had that has not answered; 0: too little to blame it. */
struct hlk_tally hlk_tally_count(struct hlk_round *round, const struct hlk_node *nodes, int64_t timeout_ms, char *text,
                                 size_t size);
/* Appends why a master could not be asked. */
void hlk_tally_reason(struct hlk_text *text, const struct hlk_node *node, const char *why);

#endif
