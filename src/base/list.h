/* list.h - intrusive doubly linked list; a zeroed or unlinked node has next == NULL. Everything O(1). */
#ifndef HLK_BASE_LIST_H
#define HLK_BASE_LIST_H

#include "base/debug.h"

#include <stdbool.h>
#include <stddef.h>

struct hlk_list { struct hlk_list *next, *prev; };

#define HLK_CONTAINER(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))

static inline void hlk_list_init(struct hlk_list *head) { head->next = head->prev = head; }
static inline bool hlk_list_empty(const struct hlk_list *head) { return head->next == head; }
static inline bool hlk_list_linked(const struct hlk_list *node) { return node->next != NULL; }

static inline void hlk_list_insert_before(struct hlk_list *at, struct hlk_list *node)
{
    HLK_DEBUG_ASSERT(at->next && !node->next);
    node->next = at;
    node->prev = at->prev;
    at->prev->next = node;
    at->prev = node;
}

static inline void hlk_list_push_back(struct hlk_list *head, struct hlk_list *node)
{
    hlk_list_insert_before(head, node);
}

static inline void hlk_list_remove(struct hlk_list *node)     /* no-op when not linked */
{
    if (!node->next)
        return;
    HLK_DEBUG_ASSERT(node->prev->next == node && node->next->prev == node);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}

static inline struct hlk_list *hlk_list_first(const struct hlk_list *head)    /* NULL when empty */
{
    return head->next == head ? NULL : head->next;
}

static inline struct hlk_list *hlk_list_pop(struct hlk_list *head)    /* NULL when empty */
{
    struct hlk_list *node = hlk_list_first(head);
    if (node)
        hlk_list_remove(node);
    return node;
}

/* Moves everything from `from` to the end of `to`; `from` is empty then. */
static inline void hlk_list_splice(struct hlk_list *to, struct hlk_list *from)
{
    if (hlk_list_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    hlk_list_init(from);
}

#endif
