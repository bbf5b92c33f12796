/* Handles that belong to another handle, which reports their losses by its callback and its descriptor.
 *
 * A thread handle. A plain lock has one entry for each process, and its threads wait in the local queue of that entry.
 * In the queue of a fair lock each thread has its own ticket, among the threads of all processes. So each thread has
 * its own entry, with a hold id, a lease and renewals. A thread handle serves one call of a thread, and then its hold.
 * It is a handle like an owner's, with the thread as its holder.
 *
 * A handle for one call of a semaphore is made in the same way.
 *
 * A member handle. A multilock has one on each of its members. */
#include "api/semaphore_call.h"

#include "base/mem.h"

#include <string.h>

static void free_child_handle(struct hlk_handle *handle)
{
    hlk_lock *own = HLK_CONTAINER(handle, hlk_lock, handle);
    struct hlk_handle *parent = handle->parent;
    const struct hlk_semaphore_call *call = hlk_lock_semaphore_call(own);
    if (call && call->line)
        hlk_entry_unref(call->line);
    if (own->entry)
        hlk_entry_unref(own->entry);
    hlk_mem_free(own);
    hlk_handle_release(parent);
}

/* Its terms are those of `of`. */
static void init_child(hlk_lock *own, const hlk_lock *of, struct hlk_handle *parent)
{
    atomic_init(&own->handle.refs, 1);
    own->handle.callback = parent->callback;
    own->handle.free = free_child_handle;
    own->handle.parent = parent;
    hlk_handle_retain(parent);
    own->client = of->client;
    own->lease_ms = of->lease_ms;
    own->max_hold_ms = of->max_hold_ms;
    own->kind = of->kind;
    own->token_floor = of->token_floor;
    own->drops_permits = of->drops_permits;
    own->backoff_min_ms = of->backoff_min_ms;
    own->backoff_max_ms = of->backoff_max_ms;
}

/* --- for one call --- */

/* With a reference. NULL: no memory. */
static struct hlk_entry *entry_for(const hlk_lock *lock, uint64_t holder, struct hlk_entry *shared)
{
    if (!shared)
        return hlk_entry_get_own(hlk_lock_node(lock), lock->kind->format, lock->name, strlen(lock->name), holder, true);
    hlk_entry_ref(shared);
    return shared;
}

/* For a holder with this number. more: bytes behind it. shared: its entry, or NULL: one of its own. NULL: no memory;
 * the thread's error is set. */
static hlk_lock *make_own(hlk_lock *lock, const char *operation, uint64_t holder, size_t more, struct hlk_entry *shared)
{
    hlk_lock *own = hlk_mem_zalloc(sizeof *own + more);
    struct hlk_entry *e = own ? entry_for(lock, holder, shared) : NULL;
    if (!e) {
        hlk_mem_free(own);
        (void)hlk_lock_fail(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
        return NULL;
    }
    init_child(own, lock, &lock->handle);
    own->entry = e;
    own->holder.id = holder;
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
    hlk_lock *own = make_own(lock, operation, self->id, 0, NULL);
    if (own)
        own->holder.holds = &self->holds;
    return own;
}

hlk_lock *hlk_lock_call_handle(hlk_lock *lock, const char *operation, int64_t permits, struct hlk_entry *shared)
{
    hlk_lock *own = make_own(lock, operation, hlk_thread_next_id(), sizeof(struct hlk_semaphore_call), shared);
    if (!own)
        return NULL;
    own->has_permits = true;
    struct hlk_semaphore_call *call = hlk_lock_semaphore_call(own);
    call->count = permits;
    own->holder.holds = &call->holds;
    return own;
}

void hlk_lock_drop_thread_handle(const hlk_lock *lock, hlk_lock *own)
{
    if (own && own != lock)
        hlk_handle_release(&own->handle);
}

/* --- on a member --- */

/* The client of a member may be another one than its multilock's. */
static void free_member_handle(struct hlk_handle *handle)
{
    hlk_client *client = HLK_CONTAINER(handle, hlk_lock, handle)->client;
    free_child_handle(handle);
    hlk_client_unref(client);
}

hlk_lock *hlk_lock_member_handle(hlk_lock *member, hlk_lock *multilock)
{
    size_t more = member->entry ? 0 : strlen(member->name) + 1;
    hlk_lock *own = hlk_mem_zalloc(sizeof *own + more);
    if (!own)
        return NULL;
    init_child(own, member, &multilock->handle);
    own->handle.free = free_member_handle;
    memcpy(own->name, member->name, more);
    own->entry = member->entry;
    if (own->entry)
        hlk_entry_ref(own->entry);
    hlk_client_ref(own->client);
    own->holder = member->holder;
    hlk_owner *owner = hlk_lock_owner(member);
    own->owned = owner != NULL;
    if (owner)
        atomic_fetch_add(&owner->refs, 1);
    return own;
}

void hlk_lock_drop_member_handle(hlk_lock *own)
{
    hlk_lock_disown(own);
    hlk_handle_release(&own->handle);
}
