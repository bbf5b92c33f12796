/* Lock handles and owners: making them, and the calls that need no Redis. */
#include "handle/handle.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "base/opts.h"
#include "hasplock/semaphore.h"
#include "kinds/kinds.h"
#include "lease/entry_table.h"
#include "lease/holder.h"
#include "lease/holding.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TOKEN_FLOOR_MOST (INT64_C(1) << 52) /* Lua counts in doubles */
#define BACKOFF_MIN_MS 1
#define BACKOFF_MAX_MS 128
#define BACKOFF_MOST_MS 60000
_Static_assert(BACKOFF_MOST_MS <= UINT16_MAX, "a handle has them in 16 bits");

/* What a lock that is used costs: programs have many thousands of them. */
_Static_assert(sizeof(void *) != 8 || (sizeof(struct hlk_entry) <= 232 && sizeof(struct hlk_lock) <= 120),
               "malloc takes 256 and 128 bytes for them, with a name of up to 18 bytes");

/* --- defaults --- */

/* Of all locks that are made without options. */
static struct hlk_defaults usual = { .refs = 1, .backoff_min_ms = BACKOFF_MIN_MS, .backoff_max_ms = BACKOFF_MAX_MS };

/* NULL: no memory. */
static struct hlk_defaults *make_defaults(const struct hlk_lock_opts *opts)
{
    HLK_DEBUG_ASSERT(opts->lease_ms >= 0 && opts->max_hold_ms >= 0 && opts->permits >= 0);
    int min_ms = opts->backoff_min_ms ? opts->backoff_min_ms : BACKOFF_MIN_MS;
    int max_ms = opts->backoff_max_ms ? opts->backoff_max_ms : BACKOFF_MAX_MS;
    if (opts->lease_ms == 0 && opts->max_hold_ms == 0 && opts->token_floor == 0 && opts->permits == 0 &&
        min_ms == BACKOFF_MIN_MS && max_ms == BACKOFF_MAX_MS)
        return hlk_defaults_ref(&usual);
    struct hlk_defaults *defaults = hlk_mem_zalloc(sizeof *defaults);
    if (!defaults)
        return NULL;
    atomic_init(&defaults->refs, 1);
    defaults->lease_ms = opts->lease_ms;
    defaults->max_hold_ms = opts->max_hold_ms;
    defaults->token_floor = opts->token_floor;
    defaults->number = opts->permits;
    defaults->drops_number = opts->flags & HLK_PERMITS_DROP;
    defaults->backoff_min_ms = (uint16_t)min_ms;
    defaults->backoff_max_ms = (uint16_t)(max_ms > min_ms ? max_ms : min_ms);
    return defaults;
}

struct hlk_defaults *hlk_defaults_ref(struct hlk_defaults *defaults)
{
    HLK_DEBUG_ASSERT(atomic_load(&defaults->refs) > 0);
    if (defaults != &usual)
        atomic_fetch_add(&defaults->refs, 1);
    return defaults;
}

void hlk_defaults_unref(struct hlk_defaults *defaults)
{
    HLK_DEBUG_ASSERT(!defaults || atomic_load(&defaults->refs) > 0);
    if (defaults && defaults != &usual && atomic_fetch_sub(&defaults->refs, 1) == 1)
        hlk_mem_free(defaults);
}

/* --- errors --- */

enum hlk_status hlk_lock_fail(const hlk_lock *lock, const char *operation, enum hlk_status status, const char *format,
                              ...)
{
    HLK_DEBUG_ASSERT(lock && operation && status != HLK_OK);
    char buf[HLK_ERROR_TEXT];
    struct hlk_text text;
    hlk_text_init(&text, buf, sizeof buf);
    hlk_text_add(&text, "%s ", operation);
    hlk_text_add_quoted(&text, hlk_lock_text(lock), hlk_lock_text_len(lock), 128);
    if (!lock->members)
        hlk_text_add(&text, " at %s",
                     hlk_lock_group(lock) ? lock->client->topology->shown : hlk_lock_node(lock)->endpoint.url.shown);
    hlk_text_add(&text, ": ");
    va_list args;
    va_start(args, format);
    hlk_text_vadd(&text, format, args);
    va_end(args);
    return hlk_last_set(status, "%s", buf);
}

enum hlk_status hlk_lock_refuse(const hlk_lock *lock, const char *operation)
{
    if (!lock)
        return hlk_last_null(operation, "lock");
    return hlk_client_check(lock->client, operation, hlk_lock_text(lock));
}

enum hlk_status hlk_lock_not_of_multilock(const hlk_lock *lock, const char *operation)
{
    return hlk_lock_fail(lock, operation, HLK_E_INVALID, "not of a multilock");
}

enum hlk_status hlk_lock_not_held(const hlk_lock *lock, const char *operation)
{
    enum hlk_status status = hlk_lock_check(lock, operation);
    if (status != HLK_OK)
        return status;
    return hlk_lock_fail(lock, operation, HLK_NOT_HOLDER, "not held by this holder; nothing was changed");
}

enum hlk_status hlk_lock_lost_before(const hlk_lock *lock, struct hlk_entry *e, uint64_t holder)
{
    HLK_DEBUG_ASSERT(e && holder);
    struct hlk_view view;
    hlk_entry_view(e, holder, &view);
    return hlk_lock_fail(lock, "acquire", HLK_LOST,
                         "this holder lost an earlier hold (%s) that it has not released yet",
                         view.lost    ? view.why
                         : view.count ? "the lease is over" /* and the loop has not reported it yet */
                                      : "released meanwhile");
}

void hlk_lock_owner_label(struct hlk_handle *handle, char *buf, size_t size)
{
    HLK_DEBUG_ASSERT(size > 0);
    buf[0] = '\0';
    const struct hlk_handle *root = hlk_handle_root(handle);
    if (!root)
        return;
    hlk_mutex_lock(root->mu);
    const hlk_owner *owner = hlk_lock_owner(HLK_CONTAINER(handle, hlk_lock, handle));
    if (owner)
        (void)snprintf(buf, size, "%s", owner->label);
    hlk_mutex_unlock(root->mu);
}

/* --- locks --- */

void hlk_lock_free(struct hlk_handle *handle)
{
    HLK_DEBUG_ASSERT(atomic_load(&handle->refs) == 0);
    hlk_lock *lock = HLK_CONTAINER(handle, hlk_lock, handle);
    hlk_client *client = lock->client;
    int old = hlk_nocancel_begin();
    if (handle->lost_fd >= 0)
        close(handle->lost_fd);
    hlk_nocancel_end(old);
    if (lock->entry)
        hlk_entry_unref(lock->entry);
    hlk_defaults_unref(lock->defaults);
    hlk_mem_free(lock->members);
    hlk_mem_free(lock);
    hlk_client_unref(client);
}

HLK_OPTS_NO_TAIL(struct hlk_lock_opts, permits);

static bool backoff_ok(int ms)
{
    return ms >= 0 && ms <= BACKOFF_MOST_MS;
}

static const char unknown_kind[] = "unknown kind of lock";

/* NULL: valid; else the reason. */
static const char *handle_bad_opts(const hlk_client *client, const struct hlk_lock_opts *opts)
{
    const struct hlk_kind *kind = hlk_kind_get(opts->kind);
    if (!kind)
        return unknown_kind;
    const char *refused = client->topology ? client->topology->locks->refuse(opts) : NULL;
    if (refused)
        return refused;
    if (!client->pubsub && !kind->polls)
        return "this kind of lock waits by pub/sub, which HLK_OPEN_NO_PUBSUB forbids; use one that polls";
    if (opts->flags & ~HLK_PERMITS_DROP)
        return "unknown flags";
    if (opts->flags && !opts->permits)
        return "HLK_PERMITS_DROP without permits: only an acquire that names their number can set it again";
    if (opts->token_floor < 0 || opts->token_floor > TOKEN_FLOOR_MOST)
        return "token_floor is negative, or larger than 2^52";
    if (opts->owner && opts->owner->client != client)
        return "the owner is another client's";
    if (opts->lease_ms != 0 && (opts->lease_ms < HLK_LEASE_MIN_MS || opts->lease_ms > HLK_LEASE_MAX_MS))
        return "lease_ms is not 0 and not between 100 and a year";
    if (opts->max_hold_ms < 0)
        return "max_hold_ms is negative";
    if (!backoff_ok(opts->backoff_min_ms) || !backoff_ok(opts->backoff_max_ms))
        return "backoff_min_ms or backoff_max_ms is negative, or larger than 60000";
    if (opts->backoff_max_ms != 0 && opts->backoff_min_ms > opts->backoff_max_ms)
        return "backoff_min_ms is larger than backoff_max_ms";
    if (opts->permits < 0 || opts->permits > HLK_PERMITS_MAX)
        return "permits is negative, or larger than 2^31 - 1";
    if (opts->permits && !kind->has_number)
        return "permits is not 0, which is for HLK_LOCK_PERMIT only";
    return NULL;
}

static void init_lock(hlk_lock *lock, hlk_client *client, const struct hlk_lock_opts *opts)
{
    HLK_DEBUG_ASSERT(lock->defaults && !lock->client && hlk_kind_get(opts->kind));
    lock->kind = hlk_kind_get(opts->kind);
    atomic_init(&lock->handle.refs, 1);
    lock->handle.mu = &client->table.handles_mu;
    lock->handle.callback = (struct hlk_callback){ opts->on_event, opts->event_ctx };
    lock->handle.lost_fd = -1;
    lock->handle.free = hlk_lock_free;
    lock->client = client;
    hlk_client_ref(client);
    if (opts->owner) {
        atomic_fetch_add(&opts->owner->refs, 1);
        lock->holder = opts->owner->holder;
        lock->owned = true;
    }
}

/* With `more` bytes behind the lock. NULL: no memory. */
static hlk_lock *alloc_lock(size_t more, const struct hlk_lock_opts *opts)
{
    hlk_lock *lock = hlk_mem_zalloc(sizeof *lock + more);
    if (lock && !(lock->defaults = make_defaults(opts))) {
        hlk_mem_free(lock);
        return NULL;
    }
    return lock;
}

hlk_lock *hlk_lock_make_without_entry(hlk_client *client, const char *name, size_t len,
                                      const struct hlk_lock_opts *opts)
{
    HLK_DEBUG_ASSERT(len > 0 && len <= HLK_NAME_MAX);
    hlk_lock *lock = alloc_lock(len + 1, opts);
    if (!lock)
        return NULL;
    memcpy(lock->name, name, len);
    init_lock(lock, client, opts);
    return lock;
}

hlk_lock *hlk_lock_make(hlk_client *client, const char *name, size_t len, const struct hlk_lock_opts *opts)
{
    HLK_DEBUG_ASSERT(len > 0 && len <= HLK_NAME_MAX);
    const struct hlk_kind *kind = hlk_kind_get(opts->kind);
    struct hlk_node *node = hlk_client_node(client, name, len);
    if (client->topology || (kind->format->per_holder && !opts->owner))
        return hlk_lock_make_without_entry(client, name, len, opts);
    hlk_lock *lock = alloc_lock(0, opts);
    struct hlk_entry *entry = !lock ? NULL
                              : kind->format->per_holder
                                  ? hlk_entry_get_own(node, kind->format, name, len, opts->owner->holder.id, true)
                                  : hlk_entry_get(node, kind->format, name, len);
    if (!entry) {
        hlk_defaults_unref(lock ? lock->defaults : NULL);
        hlk_mem_free(lock);
        return NULL;
    }
    lock->entry = entry;
    init_lock(lock, client, opts);
    return lock;
}

size_t hlk_lock_check_name(hlk_client *client, const char *operation, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len > HLK_NAME_MAX) {
        (void)hlk_last_set(HLK_E_INVALID, "%s: a name has 1 to %d bytes, this one has %zu", operation, HLK_NAME_MAX,
                           len);
        return 0;
    }
    bool breaks = hlk_name_breaks_slots(name, len);
    if (breaks && hlk_client_node(client, name, len)->cluster) {
        (void)hlk_last_set(HLK_E_INVALID,
                           "%s \"%.128s\": its braces would put its keys into different slots of the "
                           "cluster; use a name without braces, or with a {tag} that is not empty",
                           operation, name);
        return 0;
    }
    if (breaks)
        hlk_client_warn_braces(client, name);
    return len;
}

hlk_lock *hlk_lock_create(hlk_client *client, const char *name, const struct hlk_lock_opts *given)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    const char *wrong = NULL;
    if (given && !hlk_opts_copy(&opts, sizeof opts, given, given->size))
        wrong = "options of this size are not known";
    const struct hlk_kind *kind = hlk_kind_get(opts.kind);
    if (kind && kind->no_lock)
        wrong = unknown_kind;
    return hlk_lock_create_as(client, "lock", name, &opts, wrong);
}

hlk_lock *hlk_lock_create_as(hlk_client *client, const char *what, const char *name, const struct hlk_lock_opts *opts,
                             const char *wrong)
{
    HLK_DEBUG_ASSERT(what && opts);
    char operation[32];
    (void)snprintf(operation, sizeof operation, "create %s", what);
    if (hlk_client_check(client, operation, name) != HLK_OK)
        return NULL;
    size_t len = hlk_lock_check_name(client, operation, name);
    if (len == 0)
        return NULL;
    if (!wrong)
        wrong = handle_bad_opts(client, opts);
    if (wrong) {
        (void)hlk_last_set(HLK_E_INVALID, "%s \"%.128s\": %s", operation, name, wrong);
        return NULL;
    }
    hlk_lock *lock = hlk_lock_make(client, name, len, opts);
    if (!lock)
        (void)hlk_last_set(HLK_E_NOMEM, "%s \"%.128s\": no memory", operation, name);
    return lock;
}

void hlk_lock_destroy(hlk_lock *lock)
{
    if (!lock || lock->client->process != hlk_thread_process())
        return;
    const struct hlk_lock_group *group = hlk_lock_group(lock);
    if (group && group->destroy)
        group->destroy(lock);
    if (lock->handle.callback.fn)
        hlk_events_silence(&lock->client->events, &lock->handle);
    hlk_lock_disown(lock);
    hlk_handle_release(&lock->handle);
}

void hlk_lock_disown(hlk_lock *lock)
{
    struct hlk_mutex *mu = hlk_handle_root(&lock->handle)->mu;
    hlk_mutex_lock(mu);
    hlk_owner *owner = hlk_lock_owner(lock);
    lock->owned = false;
    hlk_mutex_unlock(mu);
    hlk_owner_destroy(owner);
}

struct hlk_node *hlk_lock_node(const hlk_lock *lock)
{
    HLK_DEBUG_ASSERT(lock->entry || lock->name[0]);
    return lock->entry ? lock->entry->node : hlk_client_node(lock->client, lock->name, strlen(lock->name));
}

const char *hlk_lock_name(const hlk_lock *lock)
{
    return lock ? hlk_lock_text(lock) : NULL;
}

/* --- entries and holders --- */

struct hlk_entry *hlk_lock_entry(const hlk_lock *lock, const char *operation, uint64_t holder)
{
    HLK_DEBUG_ASSERT(holder && (lock->entry || lock->kind->format->per_holder));
    if (lock->entry)
        return lock->entry;
    struct hlk_entry *e =
        hlk_entry_get_own(hlk_lock_node(lock), lock->kind->format, lock->name, strlen(lock->name), holder, true);
    if (!e)
        (void)hlk_lock_fail(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
    return e;
}

struct hlk_holder hlk_lock_call_holder(const hlk_lock *lock)
{
    return (struct hlk_holder){ hlk_thread_next_id(), &lock->client->table.holds_of_calls };
}

/* --- calls without Redis --- */

struct hlk_entry *hlk_lock_find_entry(const hlk_lock *lock, uint64_t holder)
{
    HLK_DEBUG_ASSERT(holder && (lock->entry || lock->kind->format->per_holder));
    if (!lock->entry) /* each thread has an entry while it holds the lock or has lost it */
        return hlk_entry_get_own(hlk_lock_node(lock), lock->kind->format, lock->name, strlen(lock->name), holder,
                                 false);
    hlk_entry_ref(lock->entry);
    return lock->entry;
}

void hlk_lock_view(const hlk_lock *lock, struct hlk_thread *self, struct hlk_view *view)
{
    HLK_DEBUG_ASSERT(self && view->count == 0 && !view->lost);
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    const struct hlk_lock_group *group = hlk_lock_group(lock);
    struct hlk_entry *e = group ? NULL : hlk_lock_find_entry(lock, holder.id);
    if (group)
        group->view(lock, holder, view);
    if (!e)
        return;
    hlk_entry_view(e, holder.id, view);
    hlk_entry_unref(e);
}

static void look_at_holds(const hlk_lock *lock, struct hlk_view *view)
{
    memset(view, 0, sizeof *view);
    struct hlk_thread *self = hlk_thread_get();
    if (lock && self && lock->client->process == hlk_thread_process())
        hlk_lock_view(lock, self, view);
}

static bool show_hold(const hlk_lock *lock, struct hlk_thread *self, uint64_t h)
{
    HLK_DEBUG_ASSERT(self);
    if (hlk_lock_group(lock)) /* there are no permits over several masters */
        return true;
    uint64_t holder = hlk_lock_holder(lock, self).id;
    struct hlk_entry *e = hlk_lock_find_entry(lock, holder);
    bool held = e && hlk_entry_show_hold(e, holder, h);
    if (e)
        hlk_entry_unref(e);
    return held;
}

void hlk_lock_view_exposing_id(const hlk_lock *lock, struct hlk_view *view)
{
    HLK_DEBUG_ASSERT(lock && !lock->members);
    struct hlk_thread *self = hlk_thread_get();
    do
        look_at_holds(lock, view);
    while (self && view->count > 0 && !view->lost && !show_hold(lock, self, view->h)); /* the hold has just changed */
}

int hlk_lock_holds(const hlk_lock *lock)
{
    struct hlk_view view;
    look_at_holds(lock, &view);
    return (int)view.count;
}

int64_t hlk_lock_held_until(const hlk_lock *lock)
{
    struct hlk_view view;
    look_at_holds(lock, &view);
    return view.lost || view.count == 0 ? 0 : view.until_ms;
}

int64_t hlk_lock_left_ms(const hlk_lock *lock)
{
    int64_t left = hlk_lock_held_until(lock) - hlk_clock_ms();
    return left > 0 ? left : 0;
}

int64_t hlk_lock_token(const hlk_lock *lock)
{
    struct hlk_view view;
    look_at_holds(lock, &view);
    return !lock || !lock->kind->fenced || view.lost || hlk_clock_ms() >= view.until_ms ? 0 : view.token;
}

enum hlk_status hlk_lock_hold_id(const hlk_lock *lock, char *buf, size_t size)
{
    char field[HLK_FIELD_MAX];
    struct hlk_view view;
    enum hlk_status status = hlk_lock_check(lock, "hold id");
    if (status != HLK_OK)
        return status;
    if (!buf || size == 0)
        return hlk_lock_fail(lock, "hold id", HLK_E_INVALID, "no buffer");
    buf[0] = '\0';
    if (lock->members)
        return hlk_lock_fail(lock, "hold id", HLK_E_INVALID, "a multilock has none; each of its members has one");
    hlk_lock_view_exposing_id(lock, &view);
    if (view.lost)
        return hlk_lock_fail(lock, "hold id", HLK_LOST, "the hold was lost (%s)", view.why);
    if (view.count == 0)
        return hlk_lock_not_held(lock, "hold id");
    if (hlk_clock_ms() >= view.until_ms)
        return hlk_lock_fail(lock, "hold id", HLK_LOST, "the lease is over");
    (void)hlk_field(field, lock->client->id, view.h);
    (void)snprintf(buf, size, "%s", field);
    return HLK_OK;
}

int hlk_lock_lost_fd(hlk_lock *lock)
{
    if (hlk_lock_check(lock, "lost fd") != HLK_OK)
        return -1;
    struct hlk_handle *handle = &lock->handle;
    int old = hlk_nocancel_begin();
    hlk_mutex_lock(handle->mu);
    if (handle->lost_fd < 0) {
        handle->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (handle->lost_fd >= 0 && handle->lost > 0)
            (void)eventfd_write(handle->lost_fd, 1);
    }
    int fd = handle->lost_fd, why = errno;
    hlk_mutex_unlock(handle->mu);
    hlk_nocancel_end(old);
    if (fd < 0)
        (void)hlk_lock_fail(lock, "lost fd", HLK_E_OS, "no descriptor: %s", strerror(why));
    return fd;
}

/* --- owners --- */

static bool handle_label_ok(const char *label)
{
    size_t len = strlen(label);
    for (size_t i = 0; i < len; i++)
        if (!isprint((unsigned char)label[i]))
            return false;
    return len <= 64;
}

hlk_owner *hlk_owner_create(hlk_client *client, const char *label)
{
    if (hlk_client_check(client, "create owner", label) != HLK_OK)
        return NULL;
    if (label && !handle_label_ok(label)) {
        (void)hlk_last_set(HLK_E_INVALID, "create owner: a label has up to 64 printable bytes");
        return NULL;
    }
    hlk_owner *owner = hlk_mem_zalloc(sizeof *owner);
    if (!owner) {
        (void)hlk_last_set(HLK_E_NOMEM, "create owner: no memory");
        return NULL;
    }
    atomic_init(&owner->refs, 1);
    owner->holder = (struct hlk_holder){ hlk_thread_next_id(), &owner->holds };
    owner->client = client;
    hlk_client_ref(client);
    (void)snprintf(owner->label, sizeof owner->label, "%s", label ? label : "");
    return owner;
}

void hlk_owner_destroy(hlk_owner *owner)
{
    if (!owner || owner->client->process != hlk_thread_process() || atomic_fetch_sub(&owner->refs, 1) != 1)
        return;
    hlk_client *client = owner->client;
    if (atomic_load(&owner->holds) > 0)
        hlk_holder_orphan(&client->table, owner->holder.id);
    hlk_mem_free(owner);
    hlk_client_unref(client);
}

const char *hlk_owner_label(const hlk_owner *owner)
{
    return owner ? owner->label : NULL;
}
