#include "lease/holder.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hlk_mutex mu;    /* rank CLIENT; guards: */
static struct hlk_list tables; /*   of open clients */

static void orphan_one(struct hlk_session *s, void *ctx)
{
    hlk_session_orphan(s, *(uint64_t *)ctx);
}

void hlk_holder_orphan(struct hlk_table *table, uint64_t holder)
{
    hlk_table_each(table, orphan_one, &holder);
}

/* A thread ends while it holds: all clients are looked through, a bug is allowed to be slow. */
static void thread_ended(uint64_t id)
{
    hlk_mutex_lock(&mu);
    for (struct hlk_list *n = tables.next; n != &tables; n = n->next)
        hlk_holder_orphan(HLK_CONTAINER(n, struct hlk_table, link), id);
    hlk_mutex_unlock(&mu);
}

static void before_fork(void)
{
    hlk_mutex_lock(&mu);
}

static void after_fork_parent(void)
{
    hlk_mutex_unlock(&mu);
}

/* The parent's tables are never looked at again: whoever had their mutexes is not here. */
static void after_fork_child(void)
{
    hlk_list_init(&tables);
    hlk_mutex_unlock(&mu);
}

static void start(void)
{
    hlk_mutex_init(&mu, HLK_RANK_CLIENT);
    hlk_list_init(&tables);
    hlk_self_on_exit(thread_ended); /* its handlers of fork lie within ours, as its mutex within `mu` */
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

void hlk_holder_watch(struct hlk_table *table)
{
    pthread_once(&once, start);
    hlk_mutex_lock(&mu);
    hlk_list_push_back(&tables, &table->link);
    hlk_mutex_unlock(&mu);
}

void hlk_holder_unwatch(struct hlk_table *table)
{
    hlk_mutex_lock(&mu);
    hlk_list_remove(&table->link);
    hlk_mutex_unlock(&mu);
}
