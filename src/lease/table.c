#include "lease/table.h"

#include "base/clock.h"
#include "base/mem.h"
#include "lease/holder.h"

#include <string.h>

struct named_session {
    struct hlk_session session;
    char name[];
};

static void free_session(struct hlk_session *s)
{
    hlk_mem_free(s->place);
    hlk_mem_free(HLK_CONTAINER(s, struct named_session, session));
}

static void on_free(struct hlk_post *post)
{
    free_session(HLK_CONTAINER(post, struct hlk_session, free));
}

void hlk_session_ref(struct hlk_session *s)
{
    atomic_fetch_add(&s->refs, 1);
}

bool hlk_session_try_ref(struct hlk_session *s)
{
    hlk_mutex_lock(&s->table->mu);
    bool lives = atomic_load(&s->refs) > 0;
    if (lives)
        hlk_session_ref(s);
    hlk_mutex_unlock(&s->table->mu);
    return lives;
}

/* The last reference goes under the table's mutex, so that nobody finds a session on its way out. An alarm of it may
 * have been taken out of the wheel this moment: the loop frees it after those. */
void hlk_session_unref(struct hlk_session *s)
{
    int refs = atomic_load(&s->refs);
    while (refs > 1)
        if (atomic_compare_exchange_weak(&s->refs, &refs, refs - 1))
            return;
    struct hlk_table *table = s->table;
    hlk_mutex_lock(&table->mu);
    bool last = atomic_fetch_sub(&s->refs, 1) == 1;
    if (last)
        hlk_map_remove(&table->map, &s->node);
    hlk_mutex_unlock(&table->mu);
    if (!last)
        return;
    hlk_loop_cancel(table->loop, &s->alarm);
    memset(&s->free, 0, sizeof s->free);
    s->free.run = on_free;
    if (!hlk_loop_try_post(table->loop, &s->free))
        free_session(s);
}

static struct hlk_session *make(struct hlk_table *table, const char *name, size_t len)
{
    struct named_session *named = hlk_mem_zalloc(sizeof *named + len + 1);
    if (!named)
        return NULL;
    struct hlk_session *s = &named->session;
    memcpy(named->name, name, len);
    s->table = table;
    s->mu = &table->stripes[hlk_map_hash(name, len) % HLK_STRIPES];
    s->alarm.fire = hlk_watchdog_fire;
    hlk_list_init(&s->line);
    if (hlk_map_put(&table->map, &s->node, named->name, len))
        return s;
    free_session(s);
    return NULL;
}

struct hlk_session *hlk_session_get(struct hlk_table *table, const char *name, size_t len)
{
    hlk_mutex_lock(&table->mu);
    struct hlk_map_node *node = hlk_map_get(&table->map, name, len);
    struct hlk_session *s = node ? HLK_CONTAINER(node, struct hlk_session, node) : make(table, name, len);
    if (s)
        hlk_session_ref(s);
    hlk_mutex_unlock(&table->mu);
    return s;
}

struct hlk_session *hlk_session_find(struct hlk_table *table, const char *name, size_t len)
{
    hlk_mutex_lock(&table->mu);
    struct hlk_map_node *node = hlk_map_get(&table->map, name, len);
    struct hlk_session *s = node ? HLK_CONTAINER(node, struct hlk_session, node) : NULL;
    if (s)
        hlk_session_ref(s);
    hlk_mutex_unlock(&table->mu);
    return s;
}

struct hlk_session *hlk_session_get_fair(struct hlk_table *table, const char *name, size_t len, uint64_t holder,
                                         bool make_it)
{
    char key[HLK_NAME_MAX + 1 + sizeof holder];
    memcpy(key, name, len);
    key[len] = '\0';
    memcpy(key + len + 1, &holder, sizeof holder);
    len += 1 + sizeof holder;
    hlk_mutex_lock(&table->mu);
    struct hlk_map_node *node = hlk_map_get(&table->map, key, len);
    struct hlk_session *s = node ? HLK_CONTAINER(node, struct hlk_session, node) : NULL;
    if (!s && make_it && (s = make(table, key, len)))
        s->fair = true;
    if (s)
        hlk_session_ref(s);
    hlk_mutex_unlock(&table->mu);
    return s;
}

#define EACH_MOST 64 /* sessions taken at a time, on the stack: the walk needs no memory */

struct walk {
    size_t bucket, skip; /* the next one is bucket's skip-th */
};

/* References to the sessions of some buckets. A map that grows meanwhile moves entries to later buckets only, so none
 * is missed; some may be seen twice. (In a bucket of more than half of EACH_MOST, which only a map that could not grow
 * has, one may be missed when one before it goes meanwhile.) */
static unsigned gather(struct hlk_table *table, struct walk *at, struct hlk_session **out)
{
    unsigned n = 0;
    hlk_mutex_lock(&table->mu);
    const struct hlk_map *map = &table->map;
    while (map->buckets && at->bucket <= map->mask && n < EACH_MOST / 2) {
        struct hlk_map_node *node = map->buckets[at->bucket];
        for (size_t i = 0; node && i < at->skip; i++)
            node = node->next;
        for (; node && n < EACH_MOST; node = node->next, at->skip++) {
            out[n] = HLK_CONTAINER(node, struct hlk_session, node);
            hlk_session_ref(out[n++]);
        }
        if (!node)
            *at = (struct walk){ at->bucket + 1, 0 };
    }
    hlk_mutex_unlock(&table->mu);
    return n;
}

void hlk_table_each(struct hlk_table *table, void (*fn)(struct hlk_session *s, void *ctx), void *ctx)
{
    struct hlk_session *some[EACH_MOST];
    struct walk at = { 0, 0 };
    unsigned n;
    while ((n = gather(table, &at, some)) > 0) {
        for (unsigned i = 0; i < n; i++) {
            fn(some[i], ctx);
            hlk_session_unref(some[i]);
        }
    }
}

void hlk_table_fill_end(struct hlk_undo *undo, const struct hlk_session *s, const struct hlk_parting *parting)
{
    undo->q.name = hlk_session_name(s);
    undo->q.name_len = hlk_session_len(s);
    undo->q.fair = s->fair;
    undo->q.hold = parting->h;
    undo->q.fenced = parting->fenced;
    undo->q.place = parting->place;
    undo->doubt = parting->doubt;
    undo->until_ms = parting->until_ms;
}

static void on_settled(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    struct hlk_session *s = undo->ctx;
    (void)outcome, (void)error;
    hlk_session_unref(s);
    hlk_mem_free(undo);
}

void hlk_table_start_end(struct hlk_undo *undo, struct hlk_session *s)
{
    hlk_session_ref(s);
    undo->settled = on_settled;
    undo->ctx = s;
    hlk_undo_start(s->table->undos, undo, NULL, false);
}

void hlk_table_end(struct hlk_session *s, const struct hlk_parting *parting)
{
    struct hlk_undo *undo = hlk_mem_zalloc(sizeof *undo);
    if (!undo)
        return; /* its lease is over, or nearly: Redis ends it alone */
    hlk_table_fill_end(undo, s, parting);
    hlk_table_start_end(undo, s);
}

void hlk_table_give_back(struct hlk_session *s, uint64_t holder)
{
    struct hlk_parting parting;
    if (hlk_session_let_go(s, holder, &parting) != HLK_LET_LAST)
        return;
    hlk_table_end(s, &parting);
    hlk_session_ended(s);
}

struct end_job {
    struct hlk_job job;
    struct hlk_session *s;
    struct hlk_parting parting;
};

static void run_end(struct hlk_job *job)
{
    struct end_job *end = HLK_CONTAINER(job, struct end_job, job);
    hlk_table_end(end->s, &end->parting);
    hlk_session_unref(end->s);
    hlk_mem_free(end);
}

static void end_lost(struct hlk_session *s, const struct hlk_parting *parting)
{
    struct end_job *end = hlk_mem_zalloc(sizeof *end);
    if (end) { /* else the lease ends it */
        hlk_session_ref(s);
        end->s = s;
        end->parting = *parting;
        end->job.run = run_end;
        hlk_events_post(s->table->events, &end->job);
    }
    hlk_session_ended(s);
}

void hlk_table_lose(struct hlk_session *s, uint64_t h, const char *why)
{
    struct hlk_parting parting;
    if (hlk_session_lose(s, h, why, &parting))
        end_lost(s, &parting);
}

void hlk_table_lose_locked(struct hlk_session *s, const char *why)
{
    struct hlk_parting parting;
    if (hlk_session_lose_locked(s, why, &parting))
        end_lost(s, &parting);
}

void hlk_table_init(struct hlk_table *table)
{
    hlk_mutex_init(&table->mu, HLK_RANK_TABLE);
    for (int i = 0; i < HLK_STRIPES; i++)
        hlk_mutex_init(&table->stripes[i], HLK_RANK_SESSION);
    hlk_mutex_init(&table->vias_mu, HLK_RANK_LEAF);
    hlk_watchdog_init(&table->watchdog, table);
}

void hlk_table_fini(struct hlk_table *table)
{
    hlk_map_fini(&table->map);
    for (int i = 0; i < HLK_STRIPES; i++)
        hlk_mutex_fini(&table->stripes[i]);
    hlk_mutex_fini(&table->vias_mu);
    hlk_mutex_fini(&table->mu);
}
