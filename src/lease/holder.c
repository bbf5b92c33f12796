#include "lease/holder.h"

#include "base/debug.h"
#include "lease/holding.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hlk_mutex mu;    /* rank CLIENT; guards: */
static struct hlk_list tables; /*   of open clients */

static void orphan_one(struct hlk_entry *e, void *ctx)
{
    hlk_entry_orphan(e, *(uint64_t *)ctx);
}

void hlk_holder_orphan(struct hlk_entry_table *table, uint64_t holder)
{
    hlk_entry_table_each(table, orphan_one, &holder);
    void (*on_orphan)(struct hlk_entry_table *, uint64_t) = atomic_load(&table->on_orphan);
    if (on_orphan)
        on_orphan(table, holder);
}

/* A thread ends while it holds. That is a bug of the application, so a slow search of all clients is good enough. */
static void thread_ended(uint64_t id)
{
    hlk_mutex_assert_none();
    hlk_mutex_lock(&mu);
    for (struct hlk_list *n = tables.next; n != &tables; n = n->next)
        hlk_holder_orphan(HLK_CONTAINER(n, struct hlk_entry_table, link), id);
    hlk_mutex_unlock(&mu);
}

static void holder_before_fork(void)
{
    hlk_mutex_lock(&mu);
}

static void holder_after_fork_parent(void)
{
    hlk_mutex_unlock(&mu);
}

/* The tables belong to the parent and are not used here: their mutexes may be locked by threads that do not exist. */
static void holder_after_fork_child(void)
{
    hlk_list_init(&tables);
    hlk_mutex_unlock(&mu);
}

static void holder_start(void)
{
    hlk_mutex_init(&mu, HLK_RANK_CLIENT);
    hlk_list_init(&tables);
    hlk_thread_on_exit(thread_ended); /* registers its fork handlers first, so they run inside ours */
    pthread_atfork(holder_before_fork, holder_after_fork_parent, holder_after_fork_child);
}

void hlk_holder_watch(struct hlk_entry_table *table)
{
    HLK_DEBUG_ASSERT(!hlk_list_linked(&table->link));
    pthread_once(&once, holder_start);
    hlk_mutex_lock(&mu);
    hlk_list_push_back(&tables, &table->link);
    hlk_mutex_unlock(&mu);
}

void hlk_holder_unwatch(struct hlk_entry_table *table)
{
    HLK_DEBUG_ASSERT(hlk_list_linked(&table->link));
    hlk_mutex_lock(&mu);
    hlk_list_remove(&table->link);
    hlk_mutex_unlock(&mu);
}
