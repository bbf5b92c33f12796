/* Thread handles: how threads use one handle of a fair lock.
 *
 * A plain lock has one entry for each process, and its threads wait in the local queue of that entry. In the queue of a
 * fair lock each thread has its own ticket, among the threads of all processes. So each thread has its own entry, with
 * a hold id, a lease and renewals. A thread handle serves one call of a thread, and then its hold. It is a handle like
 * an owner's, with the thread as its holder. Events and the descriptor of losses are those of the given handle. */
#include "api/handle.h"

#include "base/mem.h"

#include <string.h>

static void free_thread_handle(struct hlk_handle *handle)
{
    hlk_lock *own = HLK_CONTAINER(handle, hlk_lock, handle);
    struct hlk_handle *parent = handle->parent;
    hlk_entry_unref(own->entry);
    hlk_mem_free(own);
    hlk_handle_release(parent);
}

/* For a holder with this number. more: bytes behind it. NULL: no memory; the thread's error is set. */
static hlk_lock *make_own(hlk_lock *lock, const char *operation, uint64_t holder, size_t more)
{
    hlk_lock *own = hlk_mem_zalloc(sizeof *own + more);
    struct hlk_entry *e =
        own ? hlk_entry_get_own(hlk_lock_node(lock), lock->kind->format, lock->name, strlen(lock->name), holder, true)
            : NULL;
    if (!e) {
        hlk_mem_free(own);
        (void)hlk_lock_fail(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
        return NULL;
    }
    atomic_init(&own->handle.refs, 1);
    own->handle.callback = lock->handle.callback;
    own->handle.free = free_thread_handle;
    own->handle.parent = &lock->handle;
    hlk_handle_retain(&lock->handle);
    own->client = lock->client;
    own->entry = e;
    own->holder.id = holder;
    own->lease_ms = lock->lease_ms;
    own->max_hold_ms = lock->max_hold_ms;
    own->kind = lock->kind;
    own->token_floor = lock->token_floor;
    own->backoff_min_ms = lock->backoff_min_ms;
    own->backoff_max_ms = lock->backoff_max_ms;
    return own;
}

hlk_lock *hlk_lock_thread_handle(hlk_lock *lock, const char *operation)
{
    if (lock->entry)
        return lock;
    struct hlk_thread *self = hlk_thread_get();
    if (!self) {
        (void)hlk_lock_fail(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
        return NULL;
    }
    hlk_lock *own = make_own(lock, operation, self->id, 0);
    if (own)
        own->holder.holds = &self->holds;
    return own;
}

hlk_lock *hlk_lock_call_handle(hlk_lock *lock, const char *operation, int64_t permits, const char *settled)
{
    size_t size = settled ? strlen(settled) + 1 : 0;
    hlk_lock *own = make_own(lock, operation, hlk_thread_next_id(), sizeof(struct hlk_semaphore_call) + size);
    if (!own)
        return NULL;
    struct hlk_semaphore_call *call = (struct hlk_semaphore_call *)(void *)(own + 1);
    call->count = permits;
    if (size)
        call->settled = memcpy(call + 1, settled, size);
    own->holder.holds = &call->holds;
    own->has_permits = true;
    return own;
}

void hlk_lock_drop_thread_handle(const hlk_lock *lock, hlk_lock *own)
{
    if (own && own != lock)
        hlk_handle_release(&own->handle);
}
