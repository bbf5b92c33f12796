#include "quorum/queue.h"

#include "base/debug.h"
#include "base/mem.h"

/* Pauses in which other processes may acquire: of this length at least, and of twice this length at most. */
#define PASS_YIELD_MS 2 /* after the lock was passed on within the process for: */
#define PASSES_MS 10
#define BACK_YIELD_MS 1 /* if the process had to wait for others, and acquires again this soon after its release: */
#define BACK_MS 2

/* --- other processes --- */

/* Those that wait learn of a release by a message, and their commands arrive later than one that is sent right behind
 * the release. Without a pause such a process would get the lock again each time. */
static void note_turn(struct hlk_quorums *all, const struct hlk_quorum_queue *queue, int64_t now_ms)
{
    hlk_mutex_assert_held(&all->mu);
    all->turns[all->next_turn] = (struct hlk_quorum_turn){ queue->node.hash, now_ms };
    all->next_turn = (all->next_turn + 1) % HLK_QUORUM_TURNS;
}

static bool had_turn(const struct hlk_quorums *all, const struct hlk_quorum_queue *queue, int64_t now_ms)
{
    hlk_mutex_assert_held(&all->mu);
    for (unsigned i = 0; i < HLK_QUORUM_TURNS; i++)
        if (all->turns[i].ms && all->turns[i].name == queue->node.hash && now_ms < all->turns[i].ms + BACK_MS)
            return true;
    return false;
}

/* --- the queue --- */

static struct hlk_quorum_queue *queue_add(struct hlk_quorums *all, const char *name, size_t len)
{
    hlk_mutex_assert_held(&all->mu);
    HLK_DEBUG_ASSERT(len > 0);
    struct hlk_quorum_queue *queue = hlk_mem_zalloc(sizeof *queue + len + 1);
    if (!queue)
        return NULL;
    memcpy(queue->name, name, len);
    hlk_list_init(&queue->waiters);
    if (hlk_map_put(&all->queues, &queue->node, queue->name, len))
        return queue;
    hlk_mem_free(queue);
    return NULL;
}

enum hlk_status hlk_quorum_queue_enter(struct hlk_quorums *all, const char *name, size_t len, int64_t now_ms,
                                       struct hlk_quorum_waiter *waiter, struct hlk_quorum_queue **out)
{
    hlk_mutex_assert_held(&all->mu);
    HLK_DEBUG_ASSERT(len > 0 && out);
    HLK_DEBUG_ASSERT(!waiter || (waiter->waker && !hlk_list_linked(&waiter->link)));
    struct hlk_map_node *node = hlk_map_get(&all->queues, name, len);
    struct hlk_quorum_queue *queue = node ? HLK_CONTAINER(node, struct hlk_quorum_queue, node) : NULL;
    if (queue && !waiter)
        return HLK_BUSY;
    if (!queue && !(queue = queue_add(all, name, len)))
        return HLK_E_NOMEM;
    *out = queue;
    queue->users++;
    if (queue->taken) {
        hlk_list_push_back(&queue->waiters, &waiter->link);
        return HLK_BUSY;
    }
    queue->taken = true;
    if (waiter)
        waiter->yields_ms = had_turn(all, queue, now_ms) ? BACK_YIELD_MS : 0;
    return HLK_OK;
}

static void queue_unuse(struct hlk_quorums *all, struct hlk_quorum_queue *queue)
{
    hlk_mutex_assert_held(&all->mu);
    HLK_DEBUG_ASSERT(queue->users > 0);
    if (--queue->users > 0)
        return;
    hlk_map_remove(&all->queues, &queue->node);
    hlk_mem_free(queue);
}

void hlk_quorum_queue_leave(struct hlk_quorums *all, struct hlk_quorum_queue *queue, struct hlk_quorum_waiter *waiter)
{
    hlk_mutex_assert_held(&all->mu);
    HLK_DEBUG_ASSERT(hlk_list_linked(&waiter->link));
    hlk_list_remove(&waiter->link);
    queue_unuse(all, queue);
}

void hlk_quorum_queue_pass(struct hlk_quorums *all, struct hlk_quorum_queue *queue, int64_t now_ms)
{
    hlk_mutex_assert_held(&all->mu);
    HLK_DEBUG_ASSERT(queue->taken);
    struct hlk_list *next = hlk_list_pop(&queue->waiters);
    queue->taken = next != NULL;
    if (next) {
        struct hlk_quorum_waiter *waiter = HLK_CONTAINER(next, struct hlk_quorum_waiter, link);
        if (!queue->since_ms)
            queue->since_ms = now_ms;
        if (now_ms - queue->since_ms >= PASSES_MS) {
            waiter->yields_ms = PASS_YIELD_MS;
            queue->since_ms = 0;
            queue->contended = false;
        }
        waiter->head = true;
        hlk_waker_wake(waiter->waker, HLK_WAKE_QUEUE);
    } else if (queue->contended) {
        note_turn(all, queue, now_ms);
    }
    queue_unuse(all, queue);
}
