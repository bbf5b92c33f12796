/* settled.h - the notes of a semaphore that are needed no more.
 *
 * Redis has a note about each acquire and release, so that it happens once however often it is sent. When its answer is
 * here the note is needed no more, which the next command says (cmd->settled). */
#ifndef HLK_API_SETTLED_H
#define HLK_API_SETTLED_H

#include "base/mutex.h"

#include <stdint.h>

#define HLK_SETTLED_KEPT 256    /* those that are too many grow old in Redis (lua/part_permits.lua) */
#define HLK_SETTLED_SENT 8      /* by one command, of which each adds one at most */
#define HLK_SETTLED_TEXT(n) ((n) * 21 + 1)

struct hlk_settled {            /* holds whose notes are needed no more. Of a semaphore's handle, freed with its lock */
    struct hlk_mutex mu;        /* rank LEAF; guards: */
    unsigned count;
    uint64_t holds[HLK_SETTLED_KEPT];
};

struct hlk_settled *hlk_settled_make(void);             /* NULL: no memory */
void hlk_settled_free(struct hlk_settled *settled);     /* NULL is fine */
void hlk_settled_note(struct hlk_settled *settled, uint64_t hold);
/* At most so many, as text of HLK_SETTLED_TEXT(most); they are no more in here. Returns how many. */
unsigned hlk_settled_take(struct hlk_settled *settled, char *out, unsigned most);

#endif
