/* semaphore_notes.h - the notes of a semaphore that are needed no more.
 *
 * Redis has a note about each acquire and release, so that it happens once however often it is sent. When its answer is
 * here the note is needed no more, which the next command says (cmd->drop_notes). The last one is sent when the handle
 * is destroyed; a call that ends after that sends one of its own. */
#ifndef HLK_SEMAPHORE_SEMAPHORE_NOTES_H
#define HLK_SEMAPHORE_SEMAPHORE_NOTES_H

#include "base/mutex.h"

#include <stdbool.h>
#include <stdint.h>

#define HLK_NOTES_KEPT 256      /* those that are too many grow old in Redis (lua/include_permits.lua) */
#define HLK_NOTES_SENT 8        /* by one command, of which each adds one at most */
#define HLK_NOTES_TEXT(n) ((n) * 21 + 1)

struct hlk_notes {              /* of a semaphore's handle, freed with it */
    struct hlk_mutex mu;        /* rank LEAF; guards: */
    bool closed;                        /* the handle is destroyed: no command of it follows */
    unsigned count;
    uint64_t holds[HLK_NOTES_KEPT];     /* whose notes are needed no more */
};

struct hlk_notes *hlk_notes_make(void);         /* NULL: no memory */
void hlk_notes_free(struct hlk_notes *notes);   /* NULL is fine */
/* True: no command will say so, and the caller has to send one. */
bool hlk_notes_add(struct hlk_notes *notes, uint64_t hold);
void hlk_notes_close(struct hlk_notes *notes);
/* Takes out up to `most` of them, and writes them as text of at most HLK_NOTES_TEXT(most). Returns how many. */
unsigned hlk_notes_take(struct hlk_notes *notes, char *out, unsigned most);

#endif
