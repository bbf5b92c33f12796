/* A lock made of several locks: calls of lock.h for each of them. */
#include "multilock/multilock.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/min.h"
#include "base/opts.h"
#include "handle/member_handle.h"
#include "multilock/multilock_acquire.h"
#include "multilock/multilock_async.h"
#include "multilock/multilock_release.h"

#include <stdio.h>
#include <string.h>

/* --- what is held --- */

static enum hlk_status multilock_extend(hlk_lock *multilock, int64_t lease_ms)
{
    HLK_DEBUG_ASSERT(multilock->members);
    const struct hlk_members *members = multilock->members;
    for (size_t i = 0; i < members->count; i++) {
        enum hlk_status status = hlk_lock_extend(members->locks[i], lease_ms);
        if (status != HLK_OK)
            return hlk_last_set(status, "multilock of %zu: %s", members->count, hlk_last_error());
    }
    return HLK_OK;
}

/* As the member that has the least. Lost if one member is lost. */
static void multilock_view(const hlk_lock *multilock, struct hlk_holder holder, struct hlk_view *view)
{
    HLK_DEBUG_ASSERT(multilock->members);
    const struct hlk_members *members = multilock->members;
    struct hlk_thread *self = hlk_thread_get(); /* the caller has it */
    (void)holder;
    for (size_t i = 0; self && i < members->count; i++) {
        struct hlk_view one = { 0 };
        hlk_lock_view(members->locks[i], self, &one);
        if (i == 0) {
            *view = one;
            continue;
        }
        view->count = one.count < view->count ? one.count : view->count;
        view->until_ms = hlk_min_ms(view->until_ms, one.until_ms);
        view->cap_ms = hlk_min_ms(view->cap_ms, one.cap_ms);
        if (one.lease_ms != view->lease_ms)
            view->lease_ms = 0;
        if (one.lost) {
            view->lost = true;
            view->why = one.why;
        }
    }
    view->h = 0;
    view->token = 0;
}

static void multilock_destroy(hlk_lock *multilock)
{
    HLK_DEBUG_ASSERT(multilock->members);
    struct hlk_members *members = multilock->members;
    for (size_t i = 0; i < members->count; i++) {
        if (multilock->handle.callback.fn)
            hlk_events_silence(&members->locks[i]->client->events, &multilock->handle);
        hlk_lock_drop_member_handle(members->locks[i]);
    }
}

static const struct hlk_lock_group multilock_group = {
    .acquire = hlk_multilock_acquire,
    .acquire_async = hlk_multilock_acquire_async,
    .release = hlk_multilock_release,
    .release_async = hlk_multilock_release_async,
    .extend = multilock_extend,
    .view = multilock_view,
    .destroy = multilock_destroy,
};

/* --- making --- */

/* Members of one name, which are of several clients, stay in the caller's order. */
static void insert(struct hlk_members *members, hlk_lock *lock)
{
    HLK_DEBUG_ASSERT(lock && members->count < HLK_MULTILOCK_MAX);
    size_t at = members->count++;
    for (; at > 0 && strcmp(hlk_lock_text(members->locks[at - 1]), hlk_lock_text(lock)) > 0; at--)
        members->locks[at] = members->locks[at - 1];
    members->locks[at] = lock;
}

static bool same_lock(const hlk_lock *a, const hlk_lock *b)
{
    return a->client == b->client && strcmp(hlk_lock_text(a), hlk_lock_text(b)) == 0;
}

static enum hlk_status check_members(hlk_lock *const *members, size_t count)
{
    if (!members || count < 1 || count > HLK_MULTILOCK_MAX)
        return hlk_last_set(HLK_E_INVALID, "create multilock: it has 1 to %d members", HLK_MULTILOCK_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!members[i]) {
            char member[32];
            (void)snprintf(member, sizeof member, "member %zu", i);
            return hlk_last_null("create multilock", member);
        }
        if (members[i]->members)
            return hlk_last_set(HLK_E_INVALID, "create multilock: member %zu is a multilock itself", i);
        for (size_t k = 0; k < i; k++)
            if (same_lock(members[k], members[i]))
                return hlk_last_set(HLK_E_INVALID, "create multilock: members %zu and %zu are both \"%s\"", k, i,
                                    hlk_lock_text(members[i]));
    }
    return HLK_OK;
}

HLK_OPTS_NO_TAIL(struct hlk_lock_opts, permits);

static enum hlk_status read_multilock_opts(const struct hlk_lock_opts *given, struct hlk_lock_opts *opts)
{
    const struct hlk_lock_opts defaults = HLK_LOCK_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_last_set(HLK_E_INVALID, "create multilock: options of this size are not known");
    struct hlk_lock_opts rest = *opts;
    rest.size = defaults.size;
    rest.lease_ms = 0;
    rest.on_event = NULL;
    rest.event_ctx = NULL;
    if (memcmp(&rest, &defaults, sizeof rest) != 0)
        return hlk_last_set(
            HLK_E_INVALID, "create multilock: it has lease_ms, on_event and event_ctx; other options are its members'");
    if (opts->lease_ms != 0 && (opts->lease_ms < HLK_LEASE_MIN_MS || opts->lease_ms > HLK_LEASE_MAX_MS))
        return hlk_last_set(HLK_E_INVALID, "create multilock: lease_ms is not 0 and not between 100 and a year");
    return HLK_OK;
}

/* The names of all, as many as fit. */
static size_t write_name(char out[HLK_NAME_MAX + 1], hlk_lock *const *members, size_t count)
{
    struct hlk_text text;
    hlk_text_init(&text, out, HLK_NAME_MAX + 1);
    for (size_t i = 0; i < count; i++)
        hlk_text_add(&text, i > 0 ? "+%s" : "%s", hlk_lock_text(members[i]));
    return strlen(out);
}

/* The owner of the first member: with an owner a handle has async calls. NULL: threads hold some of the members. */
static hlk_owner *owner_of(hlk_lock *const *members, size_t count)
{
    HLK_DEBUG_ASSERT(count > 0 && count <= HLK_MULTILOCK_MAX);
    for (size_t i = 0; i < count; i++)
        if (!hlk_lock_owner(members[i]))
            return NULL;
    return hlk_lock_owner(members[0]);
}

/* NULL: no memory. */
static hlk_lock *make_multilock(hlk_lock *const *given, size_t count, struct hlk_lock_opts *opts)
{
    HLK_DEBUG_ASSERT(count > 0 && count <= HLK_MULTILOCK_MAX);
    opts->owner = owner_of(given, count);
    char name[HLK_NAME_MAX + 1];
    struct hlk_members *members = hlk_mem_zalloc(sizeof *members + count * sizeof(hlk_lock *));
    hlk_lock *multilock =
        members ? hlk_lock_make_without_entry(given[0]->client, name, write_name(name, given, count), opts) : NULL;
    if (!multilock) {
        hlk_mem_free(members);
        return NULL;
    }
    members->group = &multilock_group;
    multilock->members = members;
    for (size_t i = 0; i < count; i++) {
        hlk_lock *member = hlk_lock_member_handle(given[i], multilock);
        if (!member) {
            hlk_lock_destroy(multilock);
            return NULL;
        }
        insert(members, member);
    }
    return multilock;
}

hlk_lock *hlk_lock_create_multilock(hlk_lock *const *members, size_t count, const struct hlk_lock_opts *given)
{
    struct hlk_lock_opts opts;
    if (check_members(members, count) != HLK_OK || read_multilock_opts(given, &opts) != HLK_OK)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (hlk_lock_check(members[i], "create multilock") != HLK_OK)
            return NULL;
    hlk_lock *multilock = make_multilock(members, count, &opts);
    if (!multilock)
        (void)hlk_last_set(HLK_E_NOMEM, "create multilock: no memory");
    return multilock;
}
