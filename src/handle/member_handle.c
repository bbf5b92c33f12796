#include "handle/member_handle.h"

#include "base/debug.h"
#include "base/mem.h"
#include "lease/entry_table.h"

#include <string.h>

/* The client of a member may be another one than its multilock's. */
static void free_member_handle(struct hlk_handle *handle)
{
    HLK_DEBUG_ASSERT(atomic_load(&handle->refs) == 0 && !handle->mu && handle->parent);
    hlk_lock *own = HLK_CONTAINER(handle, hlk_lock, handle);
    struct hlk_handle *parent = handle->parent;
    hlk_client *client = own->client;
    if (own->entry)
        hlk_entry_unref(own->entry);
    hlk_defaults_unref(own->defaults);
    hlk_mem_free(own);
    hlk_handle_release(parent);
    hlk_client_unref(client);
}

hlk_lock *hlk_lock_member_handle(hlk_lock *member, hlk_lock *multilock)
{
    HLK_DEBUG_ASSERT(!member->members && multilock->members);
    size_t more = member->entry ? 0 : strlen(member->name) + 1;
    hlk_lock *own = hlk_mem_zalloc(sizeof *own + more);
    if (!own)
        return NULL;
    atomic_init(&own->handle.refs, 1);
    own->handle.callback = multilock->handle.callback;
    own->handle.free = free_member_handle;
    own->handle.parent = &multilock->handle;
    hlk_handle_retain(own->handle.parent);
    own->client = member->client;
    hlk_client_ref(own->client);
    own->kind = member->kind;
    own->defaults = hlk_defaults_ref(member->defaults);
    memcpy(own->name, member->name, more);
    own->entry = member->entry;
    if (own->entry)
        hlk_entry_ref(own->entry);
    own->holder = member->holder;
    hlk_owner *owner = hlk_lock_owner(member);
    own->owned = owner != NULL;
    if (owner)
        atomic_fetch_add(&owner->refs, 1);
    return own;
}

void hlk_lock_drop_member_handle(hlk_lock *own)
{
    HLK_DEBUG_ASSERT(!own->handle.mu && own->handle.parent);
    hlk_lock_disown(own);
    hlk_handle_release(&own->handle);
}
