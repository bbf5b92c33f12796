#include "api/settled.h"

#include "base/mem.h"
#include "base/text.h"

struct hlk_settled *hlk_settled_make(void)
{
    struct hlk_settled *settled = hlk_mem_zalloc(sizeof *settled);
    if (settled)
        hlk_mutex_init(&settled->mu, HLK_RANK_LEAF);
    return settled;
}

void hlk_settled_free(struct hlk_settled *settled)
{
    if (settled)
        hlk_mutex_fini(&settled->mu);
    hlk_mem_free(settled);
}

void hlk_settled_note(struct hlk_settled *settled, uint64_t hold)
{
    hlk_mutex_lock(&settled->mu);
    if (settled->count < HLK_SETTLED_KEPT)
        settled->holds[settled->count++] = hold;
    hlk_mutex_unlock(&settled->mu);
}

unsigned hlk_settled_take(struct hlk_settled *settled, char *out, unsigned most)
{
    size_t len = 0;
    unsigned taken = 0;
    hlk_mutex_lock(&settled->mu);
    for (; taken < most && settled->count > 0; taken++) {
        len += hlk_text_number(out + len, (int64_t)settled->holds[--settled->count]);
        out[len++] = ' ';
    }
    hlk_mutex_unlock(&settled->mu);
    out[len] = '\0';
    return taken;
}
