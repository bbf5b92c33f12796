#include "lease/entry_table.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "lease/holder.h"

#include <assert.h>
#include <string.h>

static void free_entry(struct hlk_entry *e)
{
    HLK_DEBUG_ASSERT(atomic_load(&e->refs) == 0);
    hlk_mem_free(e->hold.ticket);
    hlk_mem_free(e);
}

/* maps: those of the nodes are there. */
static void free_gone(struct hlk_entry_table *table, bool maps)
{
    for (;;) {
        hlk_mutex_lock(&table->mu);
        struct hlk_list *node = hlk_list_pop(&table->gone);
        struct hlk_entry *e = node ? HLK_CONTAINER(node, struct hlk_entry, gone) : NULL;
        if (e && maps)
            hlk_map_remove(&e->node->entries, &e->link);
        hlk_mutex_unlock(&table->mu);
        if (!e)
            return;
        struct hlk_entry *line = hlk_entry_line(e);
        free_entry(e);
        if (line)
            hlk_entry_unref(line);
    }
}

static void table_on_tick(struct hlk_tick *tick, int64_t now_ms)
{
    struct hlk_entry_table *table = HLK_CONTAINER(tick, struct hlk_entry_table, tick);
    hlk_loop_assert_here(table->loop);
    (void)now_ms;
    free_gone(table, true);
}

static int64_t table_tick_due_ms(struct hlk_tick *tick)
{
    struct hlk_entry_table *table = HLK_CONTAINER(tick, struct hlk_entry_table, tick);
    hlk_mutex_lock(&table->mu);
    bool idle = hlk_list_empty(&table->gone);
    hlk_mutex_unlock(&table->mu);
    return idle ? INT64_MAX : 0;
}

void hlk_entry_ref(struct hlk_entry *e)
{
    atomic_fetch_add(&e->refs, 1);
}

bool hlk_entry_try_ref(struct hlk_entry *e)
{
    hlk_mutex_lock(&e->node->table->mu);
    bool lives = atomic_load(&e->refs) > 0;
    if (lives)
        hlk_entry_ref(e);
    hlk_mutex_unlock(&e->node->table->mu);
    return lives;
}

static void forget_hold(struct hlk_entry *e)
{
    hlk_mutex_assert_held(&e->node->table->mu);
    struct hlk_own_ticket *p = hlk_entry_own_ticket(e);
    if (p && p->link.key)
        hlk_map_remove(&e->node->holds, &p->link);
    if (p)
        p->link.key = NULL;
}

bool hlk_entry_table_note_hold(struct hlk_entry *e, uint64_t h)
{
    HLK_DEBUG_ASSERT(e->per_holder && e->hold.ticket && h);
    struct hlk_entry_table *table = e->node->table;
    struct hlk_own_ticket *p = HLK_CONTAINER(e->hold.ticket, struct hlk_own_ticket, ticket);
    hlk_mutex_lock(&table->mu);
    forget_hold(e);
    p->hold = h;
    bool noted = hlk_map_put(&e->node->holds, &p->link, (const char *)&p->hold, sizeof p->hold);
    hlk_mutex_unlock(&table->mu);
    return noted;
}

struct hlk_entry *hlk_entry_find_hold(struct hlk_node *node, uint64_t hold)
{
    hlk_mutex_lock(&node->table->mu);
    struct hlk_map_node *found = hlk_map_get(&node->holds, (const char *)&hold, sizeof hold);
    struct hlk_entry *e = found ? HLK_CONTAINER(found, struct hlk_own_ticket, link)->entry : NULL;
    if (e)
        hlk_entry_ref(e);
    hlk_mutex_unlock(&node->table->mu);
    return e;
}

/* A lookup may find the entry again before it is freed. So nothing may be left in it that says that an alarm is set. */
static void settle_gone(struct hlk_entry *e)
{
    hlk_mutex_assert_held(&e->node->table->mu);
    assert(e->state == HLK_ENTRY_NONE && hlk_list_empty(&e->waiters) && !e->ended_hold);
    forget_hold(e);
    hlk_loop_cancel(e->node->table->loop, &e->hold.alarm);
    if (e->hold.ticket)
        e->hold.ticket->passing.asks_ms = 0;
    e->gone = (struct hlk_list){ NULL, NULL }; /* instead of the empty queue */
}

/* The last reference is dropped under the table's mutex, like a lookup. The entry's alarm may just have been taken from
 * the wheel, so the loop frees the entry after the alarms, in its next tick. Before that a lookup finds it: a thread
 * that acquires a lock again and again, and has an entry for each hold, always has the same one. (The loop is not woken
 * for the tick.) */
void hlk_entry_unref(struct hlk_entry *e)
{
    int refs = atomic_load(&e->refs);
    while (refs > 1)
        if (atomic_compare_exchange_weak(&e->refs, &refs, refs - 1))
            return;
    struct hlk_entry_table *table = e->node->table;
    hlk_mutex_lock(&table->mu);
    bool last = atomic_fetch_sub(&e->refs, 1) == 1;
    if (last) {
        settle_gone(e);
        hlk_list_push_back(&table->gone, &e->gone);
    }
    hlk_mutex_unlock(&table->mu);
    if (last)
        hlk_loop_need_ticks(table->loop);
}

/* The key of an entry without its holder: the name; for a format that has a letter a NUL, which no name has, and the
 * letter. Returns its length. */
static size_t entry_key(char key[HLK_NAME_MAX + 2], const struct hlk_format *format, const char *name, size_t len)
{
    memcpy(key, name, len);
    if (format->letter) {
        key[len++] = '\0';
        key[len++] = format->letter;
    }
    return len;
}

static unsigned entry_stripe(const char *key, size_t len)
{
    return (unsigned)(hlk_map_hash(key, len) % HLK_STRIPES);
}

unsigned hlk_entry_table_stripe(const struct hlk_format *format, const char *name, size_t len)
{
    HLK_DEBUG_ASSERT(len > 0 && len <= HLK_NAME_MAX);
    char key[HLK_NAME_MAX + 2];
    return entry_stripe(key, entry_key(key, format, name, len));
}

/* The first stripe_len bytes choose its mutex: without the holder, so that all of a name have one. */
static struct hlk_entry *table_make(struct hlk_node *node, const char *name, size_t len, size_t stripe_len)
{
    hlk_mutex_assert_held(&node->table->mu);
    HLK_DEBUG_ASSERT(stripe_len <= len);
    struct hlk_entry *e = hlk_mem_zalloc(offsetof(struct hlk_entry, name) + len + 1);
    if (!e)
        return NULL;
    memcpy(e->name, name, len);
    e->node = node;
    e->mu = &node->table->stripes[entry_stripe(name, stripe_len)];
    e->hold.alarm.fire = node->table->on_alarm;
    e->hold.lease.renewals = node->table->renewals;
    hlk_list_init(&e->waiters);
    if (hlk_map_put(&node->entries, &e->link, e->name, len))
        return e;
    free_entry(e);
    return NULL;
}

/* gone: also one without a reference. */
static struct hlk_entry *table_find(struct hlk_node *node, const char *name, size_t len, bool gone)
{
    hlk_mutex_assert_held(&node->table->mu);
    struct hlk_map_node *found = hlk_map_get(&node->entries, name, len);
    struct hlk_entry *e = found ? HLK_CONTAINER(found, struct hlk_entry, link) : NULL;
    if (!e || atomic_load(&e->refs) > 0)
        return e;
    if (!gone)
        return NULL;
    hlk_list_remove(&e->gone);
    hlk_list_init(&e->waiters);
    return e;
}

static unsigned format_number(const struct hlk_entry_table *table, const struct hlk_format *format)
{
    unsigned i = 0;
    while (table->formats[i] != format)
        i++;
    return i;
}

/* Behind entry_key, for a format with an entry for each holder, comes the holder. Returns the entry with a reference.
 * NULL: there is none, or no memory. */
static struct hlk_entry *table_get(struct hlk_node *node, const struct hlk_format *format, const char *name, size_t len,
                                   const uint64_t *holder, bool make_it)
{
    HLK_DEBUG_ASSERT(len > 0 && len <= HLK_NAME_MAX);
    char key[HLK_NAME_MAX + 2 + sizeof *holder];
    len = entry_key(key, format, name, len);
    size_t stripe_len = len;
    if (holder) {
        memcpy(key + len, holder, sizeof *holder);
        len += sizeof *holder;
    }
    hlk_mutex_lock(&node->table->mu);
    struct hlk_entry *e = table_find(node, key, len, make_it);
    if (!e && make_it && (e = table_make(node, key, len, stripe_len))) {
        e->format = format_number(node->table, format) & (HLK_FORMATS_MAX - 1);
        e->per_holder = holder != NULL;
    }
    if (e)
        hlk_entry_ref(e);
    hlk_mutex_unlock(&node->table->mu);
    return e;
}

struct hlk_entry *hlk_entry_get(struct hlk_node *node, const struct hlk_format *format, const char *name, size_t len)
{
    return table_get(node, format, name, len, NULL, true);
}

struct hlk_entry *hlk_entry_find(struct hlk_node *node, const struct hlk_format *format, const char *name, size_t len)
{
    return table_get(node, format, name, len, NULL, false);
}

struct hlk_entry *hlk_entry_get_own(struct hlk_node *node, const struct hlk_format *format, const char *name,
                                    size_t len, uint64_t holder, bool make_it)
{
    return table_get(node, format, name, len, &holder, make_it);
}

#define EACH_MOST 64 /* entries visited at a time; they are on the stack, so the walk needs no memory */

struct walk {
    size_t bucket, skip; /* the next entry is the skip-th of this bucket */
};

/* Takes references to the entries of some buckets. A map that grows meanwhile moves entries only to later buckets, so
 * none is missed, and some may be visited twice. (A bucket with more than half of EACH_MOST entries exists only in a
 * map that could not grow. There an entry may be missed when one before it is removed meanwhile.) */
static unsigned table_gather(struct hlk_node *node, struct walk *at, struct hlk_entry **out)
{
    unsigned n = 0;
    hlk_mutex_lock(&node->table->mu);
    const struct hlk_map *map = &node->entries;
    while (map->buckets && at->bucket <= map->mask && n < EACH_MOST / 2) {
        struct hlk_map_node *link = map->buckets[at->bucket];
        for (size_t i = 0; link && i < at->skip; i++)
            link = link->next;
        for (; link && n < EACH_MOST; link = link->next, at->skip++) {
            out[n] = HLK_CONTAINER(link, struct hlk_entry, link);
            if (atomic_load(&out[n]->refs) > 0)
                hlk_entry_ref(out[n++]);
        }
        if (!link)
            *at = (struct walk){ at->bucket + 1, 0 };
    }
    hlk_mutex_unlock(&node->table->mu);
    return n;
}

void hlk_entry_table_each_of(struct hlk_node *node, void (*fn)(struct hlk_entry *e, void *ctx), void *ctx)
{
    struct hlk_entry *some[EACH_MOST];
    struct walk at = { 0, 0 };
    unsigned n;
    atomic_fetch_add(&node->table->walks, 1);
    while ((n = table_gather(node, &at, some)) > 0) {
        for (unsigned i = 0; i < n; i++) {
            fn(some[i], ctx);
            hlk_entry_unref(some[i]);
        }
    }
    atomic_fetch_sub(&node->table->walks, 1);
}

void hlk_entry_table_each(struct hlk_entry_table *table, void (*fn)(struct hlk_entry *e, void *ctx), void *ctx)
{
    for (unsigned i = 0; i < table->node_count; i++)
        hlk_entry_table_each_of(&table->nodes[i], fn, ctx);
}

void hlk_entry_table_init(struct hlk_entry_table *table)
{
    HLK_DEBUG_ASSERT(table->loop && table->node_count > 0);
    hlk_mutex_init(&table->mu, HLK_RANK_TABLE);
    for (int i = 0; i < HLK_STRIPES; i++) {
        hlk_mutex_init(&table->stripes[i], HLK_RANK_ENTRY);
        pthread_cond_init(&table->unbatched[i], NULL);
        hlk_list_init(&table->shared[i].holds);
    }
    hlk_mutex_init(&table->handles_mu, HLK_RANK_LEAF);
    hlk_list_init(&table->gone);
    table->tick.run = table_on_tick;
    table->tick.due_ms = table_tick_due_ms;
    hlk_loop_add_tick(table->loop, &table->tick);
    for (unsigned i = 0; i < table->node_count; i++)
        table->nodes[i].table = table;
}

void hlk_entry_table_fini(struct hlk_entry_table *table)
{
    free_gone(table, false);
    for (int i = 0; i < HLK_STRIPES; i++) {
        hlk_mutex_fini(&table->stripes[i]);
        pthread_cond_destroy(&table->unbatched[i]);
    }
    hlk_mutex_fini(&table->handles_mu);
    hlk_mutex_fini(&table->mu);
}
