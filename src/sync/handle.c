/* Lock handles and owners: making them, and the questions that need no Redis. */
#include "sync/handle.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "base/opts.h"
#include "lease/holder.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TOKEN_FLOOR_MOST (INT64_C(1) << 52) /* Lua counts in doubles */

/* --- errors --- */

enum hlk_status hlk_lock_fails(const hlk_lock *lock, const char *operation, enum hlk_status status, const char *format,
                               ...)
{
    char buf[HLK_ERROR_TEXT];
    struct hlk_text text;
    hlk_text_init(&text, buf, sizeof buf);
    hlk_text_add(&text, "%s ", operation);
    hlk_text_add_quoted(&text, hlk_lock_text(lock), hlk_lock_text_len(lock), 128);
    hlk_text_add(&text, " at %s: ", lock->client->endpoint.url.shown);
    va_list args;
    va_start(args, format);
    hlk_text_vadd(&text, format, args);
    va_end(args);
    return hlk_last_set(status, "%s", buf);
}

enum hlk_status hlk_lock_check(const hlk_lock *lock, const char *operation)
{
    if (!lock)
        return hlk_last_set(HLK_E_INVALID, "%s: lock is NULL", operation);
    return hlk_client_check(lock->client, operation, hlk_lock_text(lock));
}

enum hlk_status hlk_lock_not_held(const hlk_lock *lock, const char *operation)
{
    enum hlk_status status = hlk_lock_check(lock, operation);
    if (status != HLK_OK)
        return status;
    return hlk_lock_fails(lock, operation, HLK_NOT_HOLDER, "not held by this holder; nothing was changed");
}

enum hlk_status hlk_lock_lost_before(const hlk_lock *lock, struct hlk_holder holder)
{
    struct hlk_view view;
    hlk_session_view(lock->session, holder.id, &view);
    return hlk_lock_fails(lock, "acquire", HLK_LOST,
                          "this holder lost an earlier hold (%s) that it has not released yet",
                          view.lost    ? view.why
                          : view.count ? "the lease is over" /* and the loop has not come round to saying so */
                                       : "released meanwhile");
}

void hlk_lock_owner_label(struct hlk_via *via, char *buf, size_t size)
{
    buf[0] = '\0';
    if (!via || !via->mu) /* a seat: a thread's */
        return;
    hlk_mutex_lock(via->mu);
    const hlk_owner *owner = HLK_CONTAINER(via, hlk_lock, via)->owner;
    if (owner)
        (void)snprintf(buf, size, "%s", owner->label);
    hlk_mutex_unlock(via->mu);
}

/* --- locks --- */

static void free_lock(struct hlk_via *via)
{
    hlk_lock *lock = HLK_CONTAINER(via, hlk_lock, via);
    hlk_client *client = lock->client;
    int old = hlk_nocancel_begin();
    if (via->lost_fd >= 0)
        close(via->lost_fd);
    hlk_nocancel_end(old);
    if (lock->session)
        hlk_session_unref(lock->session);
    hlk_mem_free(lock);
    hlk_client_unref(client);
}

/* NULL: all is well; else what is wrong. */
static const char *bad_opts(const hlk_client *client, const struct hlk_lock_opts *opts)
{
    if (opts->kind < HLK_LOCK_PLAIN || opts->kind > HLK_LOCK_FAIR)
        return "unknown kind of lock";
    if (opts->token_floor < 0 || opts->token_floor > TOKEN_FLOOR_MOST)
        return "token_floor is negative, or larger than 2^52";
    if (opts->owner && opts->owner->client != client)
        return "the owner is another client's";
    if (opts->lease_ms != 0 && (opts->lease_ms < HLK_LEASE_MIN_MS || opts->lease_ms > HLK_LEASE_MAX_MS))
        return "lease_ms is not 0 and not between 100 and a year";
    if (opts->max_hold_ms < 0)
        return "max_hold_ms is negative";
    return NULL;
}

static hlk_lock *make_lock(hlk_client *client, const char *name, size_t len, const struct hlk_lock_opts *opts)
{
    bool fair = opts->kind == HLK_LOCK_FAIR, seats = fair && !opts->owner;
    hlk_lock *lock = hlk_mem_zalloc(sizeof *lock + (seats ? len + 1 : 0));
    struct hlk_session *session = !lock || seats ? NULL
                                  : fair ? hlk_session_get_fair(&client->table, name, len, opts->owner->holder.id, true)
                                         : hlk_session_get(&client->table, name, len);
    if (!lock || (!session && !seats)) {
        hlk_mem_free(lock);
        return NULL;
    }
    if (seats)
        memcpy(lock->name, name, len);
    lock->fair = fair;
    atomic_init(&lock->via.refs, 1);
    lock->via.mu = &client->table.vias_mu;
    lock->via.hook = (struct hlk_hook){ opts->on_event, opts->event_ctx };
    lock->via.lost_fd = -1;
    lock->via.free = free_lock;
    lock->session = session;
    lock->client = client;
    hlk_client_ref(client);
    lock->owner = opts->owner;
    if (lock->owner) {
        atomic_fetch_add(&lock->owner->refs, 1);
        lock->holder = lock->owner->holder;
    }
    lock->lease_ms = opts->lease_ms;
    lock->max_hold_ms = opts->max_hold_ms;
    lock->fenced = opts->kind == HLK_LOCK_FENCED;
    lock->token_floor = opts->token_floor;
    return lock;
}

hlk_lock *hlk_lock_create(hlk_client *client, const char *name, const struct hlk_lock_opts *given)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    if (hlk_client_check(client, "create lock", name) != HLK_OK)
        return NULL;
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len > HLK_NAME_MAX) {
        (void)hlk_last_set(HLK_E_INVALID, "create lock: a name has 1 to %d bytes, this one has %zu", HLK_NAME_MAX, len);
        return NULL;
    }
    const char *wrong = given && !hlk_opts_copy(&opts, sizeof opts, given, given->size)
                            ? "options of this size are not known"
                            : bad_opts(client, &opts);
    if (wrong) {
        (void)hlk_last_set(HLK_E_INVALID, "create lock \"%.128s\": %s", name, wrong);
        return NULL;
    }
    hlk_lock *lock = make_lock(client, name, len, &opts);
    if (!lock)
        (void)hlk_last_set(HLK_E_NOMEM, "create lock \"%.128s\": no memory", name);
    else if (hlk_name_breaks_slots(name, len))
        hlk_client_warn_braces(client, name);
    return lock;
}

void hlk_lock_destroy(hlk_lock *lock)
{
    if (!lock || lock->client->process != hlk_self_process())
        return;
    if (lock->via.hook.fn)
        hlk_events_silence(&lock->client->events, &lock->via);
    hlk_mutex_lock(lock->via.mu);
    hlk_owner *owner = lock->owner;
    lock->owner = NULL;
    hlk_mutex_unlock(lock->via.mu);
    hlk_owner_destroy(owner);
    hlk_via_unref(&lock->via);
}

const char *hlk_lock_name(const hlk_lock *lock)
{
    return lock ? hlk_lock_text(lock) : NULL;
}

/* --- questions without Redis --- */

void hlk_lock_view(const hlk_lock *lock, struct hlk_self *self, struct hlk_view *view)
{
    uint64_t holder = hlk_lock_holder(lock, self).id;
    struct hlk_session *s = lock->session;
    if (!s) /* a fair lock that threads hold: a session each, as long as they hold it or have lost it */
        s = hlk_session_get_fair(&lock->client->table, lock->name, strlen(lock->name), holder, false);
    if (s)
        hlk_session_view(s, holder, view);
    if (s && !lock->session)
        hlk_session_unref(s);
}

static void look(const hlk_lock *lock, struct hlk_view *view)
{
    memset(view, 0, sizeof *view);
    struct hlk_self *self = hlk_self_get();
    if (lock && self && lock->client->process == hlk_self_process())
        hlk_lock_view(lock, self, view);
}

int hlk_lock_holds(const hlk_lock *lock)
{
    struct hlk_view view;
    look(lock, &view);
    return view.lost || hlk_clock_ms() >= view.until_ms ? 0 : (int)view.count;
}

int64_t hlk_lock_held_until(const hlk_lock *lock)
{
    struct hlk_view view;
    look(lock, &view);
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
    look(lock, &view);
    return !lock || !lock->fenced || view.lost || hlk_clock_ms() >= view.until_ms ? 0 : view.token;
}

enum hlk_status hlk_lock_hold_id(const hlk_lock *lock, char *buf, size_t size)
{
    char field[HLK_FIELD_MAX];
    struct hlk_view view;
    enum hlk_status status = hlk_lock_check(lock, "hold id");
    if (status != HLK_OK)
        return status;
    if (!buf || size == 0)
        return hlk_lock_fails(lock, "hold id", HLK_E_INVALID, "no buffer");
    buf[0] = '\0';
    look(lock, &view);
    if (view.lost)
        return hlk_lock_fails(lock, "hold id", HLK_LOST, "the hold was lost (%s)", view.why);
    if (view.count == 0)
        return hlk_lock_not_held(lock, "hold id");
    if (hlk_clock_ms() >= view.until_ms)
        return hlk_lock_fails(lock, "hold id", HLK_LOST, "the lease is over");
    (void)hlk_field(field, lock->client->id, view.h);
    (void)snprintf(buf, size, "%s", field);
    return HLK_OK;
}

int hlk_lock_lost_fd(hlk_lock *lock)
{
    if (hlk_lock_check(lock, "lost fd") != HLK_OK)
        return -1;
    struct hlk_via *via = &lock->via;
    int old = hlk_nocancel_begin();
    hlk_mutex_lock(via->mu);
    if (via->lost_fd < 0) {
        via->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (via->lost_fd >= 0 && via->lost > 0)
            (void)eventfd_write(via->lost_fd, 1);
    }
    int fd = via->lost_fd, why = errno;
    hlk_mutex_unlock(via->mu);
    hlk_nocancel_end(old);
    if (fd < 0)
        (void)hlk_lock_fails(lock, "lost fd", HLK_E_OS, "no descriptor: %s", strerror(why));
    return fd;
}

/* --- owners --- */

static bool label_ok(const char *label)
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
    if (label && !label_ok(label)) {
        (void)hlk_last_set(HLK_E_INVALID, "create owner: a label has up to 64 printable bytes");
        return NULL;
    }
    hlk_owner *owner = hlk_mem_zalloc(sizeof *owner);
    if (!owner) {
        (void)hlk_last_set(HLK_E_NOMEM, "create owner: no memory");
        return NULL;
    }
    atomic_init(&owner->refs, 1);
    owner->holder = (struct hlk_holder){ hlk_self_number(), &owner->holds };
    owner->client = client;
    hlk_client_ref(client);
    (void)snprintf(owner->label, sizeof owner->label, "%s", label ? label : "");
    return owner;
}

void hlk_owner_destroy(hlk_owner *owner)
{
    if (!owner || owner->client->process != hlk_self_process() || atomic_fetch_sub(&owner->refs, 1) != 1)
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
