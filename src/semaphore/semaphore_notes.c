#include "semaphore/semaphore_notes.h"

#include "base/debug.h"
#include "base/mem.h"
#include "base/text.h"

struct hlk_notes *hlk_notes_make(void)
{
    struct hlk_notes *notes = hlk_mem_zalloc(sizeof *notes);
    if (notes)
        hlk_mutex_init(&notes->mu, HLK_RANK_LEAF);
    return notes;
}

void hlk_notes_free(struct hlk_notes *notes)
{
    if (notes)
        hlk_mutex_fini(&notes->mu);
    hlk_mem_free(notes);
}

bool hlk_notes_add(struct hlk_notes *notes, uint64_t hold)
{
    HLK_DEBUG_ASSERT(hold);
    hlk_mutex_lock(&notes->mu);
    if (notes->count < HLK_NOTES_KEPT)
        notes->holds[notes->count++] = hold;
    bool closed = notes->closed;
    hlk_mutex_unlock(&notes->mu);
    return closed;
}

void hlk_notes_close(struct hlk_notes *notes)
{
    hlk_mutex_lock(&notes->mu);
    notes->closed = true;
    hlk_mutex_unlock(&notes->mu);
}

unsigned hlk_notes_take(struct hlk_notes *notes, char *out, unsigned most)
{
    HLK_DEBUG_ASSERT(most > 0 && most <= HLK_NOTES_KEPT);
    size_t len = 0;
    unsigned taken = 0;
    hlk_mutex_lock(&notes->mu);
    for (; taken < most && notes->count > 0; taken++) {
        len += hlk_text_number(out + len, (int64_t)notes->holds[--notes->count]);
        out[len++] = ' ';
    }
    hlk_mutex_unlock(&notes->mu);
    out[len] = '\0';
    return taken;
}
