/* Who of a process is next for a lock over several masters. */
#include "base/mem.h"
#include "quorum/quorum.h"

#define PASSES_MS 10 /* a process keeps the lock among its own for so long, then others come first for a moment */

static struct hlk_line *line_add(struct hlk_quorums *all, const char *name, size_t len)
{
    struct hlk_line *line = hlk_mem_zalloc(sizeof *line + len + 1);
    if (!line)
        return NULL;
    memcpy(line->name, name, len);
    hlk_list_init(&line->waiters);
    if (hlk_map_put(&all->lines, &line->node, line->name, len))
        return line;
    hlk_mem_free(line);
    return NULL;
}

enum hlk_status hlk_line_enter(struct hlk_quorums *all, const char *name, size_t len, struct hlk_line_waiter *waiter,
                               struct hlk_line **out)
{
    hlk_mutex_assert_held(&all->mu);
    struct hlk_map_node *node = hlk_map_get(&all->lines, name, len);
    struct hlk_line *line = node ? HLK_CONTAINER(node, struct hlk_line, node) : NULL;
    if (line && !waiter)
        return HLK_BUSY;
    if (!line && !(line = line_add(all, name, len)))
        return HLK_E_NOMEM;
    *out = line;
    line->users++;
    if (line->taken) {
        hlk_list_push_back(&line->waiters, &waiter->link);
        return HLK_BUSY;
    }
    line->taken = true;
    return HLK_OK;
}

static void line_unuse(struct hlk_quorums *all, struct hlk_line *line)
{
    if (--line->users > 0)
        return;
    hlk_map_remove(&all->lines, &line->node);
    hlk_mem_free(line);
}

void hlk_line_leave(struct hlk_quorums *all, struct hlk_line *line, struct hlk_line_waiter *waiter)
{
    hlk_mutex_assert_held(&all->mu);
    hlk_list_remove(&waiter->link);
    line_unuse(all, line);
}

void hlk_line_pass(struct hlk_quorums *all, struct hlk_line *line, int64_t now_ms)
{
    hlk_mutex_assert_held(&all->mu);
    struct hlk_list *next = hlk_list_pop(&line->waiters);
    line->taken = next != NULL;
    if (next) {
        struct hlk_line_waiter *waiter = HLK_CONTAINER(next, struct hlk_line_waiter, link);
        if (!line->since_ms)
            line->since_ms = now_ms;
        waiter->yields = now_ms - line->since_ms >= PASSES_MS;
        if (waiter->yields)
            line->since_ms = 0;
        waiter->head = true;
        hlk_park_wake(&waiter->thread->park, HLK_WAKE_QUEUE);
    }
    line_unuse(all, line);
}
