/* Release, blocking: what is decided locally, what is sent, what is kept when no reply comes. */
#include "api/release.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "handle/send.h"
#include "lease/ended_hold.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/hold_end.h"
#include "lease/holding.h"
#include "script/release_list.h"

struct hlk_releasing { /* shared by the pending release and its waiter */
    struct hlk_entry *e;
    struct hlk_handle *handle; /* through which the lock was acquired */
    hlk_client *client;        /* lives as long as its pending releases */
    uint64_t h;
    atomic_int refs;     /* one of the waiter, one of the pending release */
    atomic_bool noted;   /* its caller has left: an ended hold may wait for its outcome */
    atomic_bool settled; /* the next two are set */
    enum hlk_status status;
    struct hlk_error error;
    struct hlk_thread *waiter; /* of several releases: the outcome wakes it, even if it waits no more. Else NULL */
};

/* A possible loss is reported as a loss, because no later call would report it. */
static const char never_known[] =
    "sent, and the server was restarted, or is another one, before it answered: not known whether it was lost before";

static void unref_release(struct hlk_releasing *release)
{
    HLK_DEBUG_ASSERT(atomic_load(&release->refs) > 0);
    if (atomic_fetch_sub(&release->refs, 1) != 1)
        return;
    hlk_handle_release(release->handle);
    hlk_entry_unref(release->e);
    hlk_mem_free(release);
}

enum hlk_status hlk_lock_released(hlk_client *client, const struct hlk_release *pending, struct hlk_entry *e,
                                  const struct hlk_handle *handle, enum hlk_release_outcome outcome,
                                  struct hlk_error *error)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(outcome != HLK_RELEASE_PENDING);
    switch (outcome) {
    case HLK_RELEASE_DONE:
    case HLK_RELEASE_ABSENT_REPEATED:
        if (pending->mixed)
            hlk_client_warn_kinds(client, hlk_entry_name(e));
        HLK_COUNT(&client->table, released);
        return HLK_OK;
    case HLK_RELEASE_REFUSED:
        HLK_COUNT(&client->table, release_refused);
        return error->status;
    case HLK_RELEASE_PENDING: /* never an outcome */
    case HLK_RELEASE_GIVEN_UP:
        if (atomic_load(&client->closing))
            return hlk_error_set(error, HLK_E_CLOSED, "the client was closed before an answer came");
        (void)hlk_error_set(error, HLK_LOST, "not answered until its lease was over"); /* no client counts on it now */
        HLK_COUNT(&client->table, lost);
        return HLK_LOST;
    case HLK_RELEASE_ABSENT:
    case HLK_RELEASE_UNSURE: /* of a semaphore only */
    case HLK_RELEASE_UNKNOWN:
        break;
    }
    bool unknown = outcome == HLK_RELEASE_UNKNOWN;
    const char *why = unknown ? never_known : hlk_lease_why_unknown;
    HLK_COUNT(&client->table, lost); /* before the callback can read it */
    hlk_entry_report_gone(e, pending->cmd.hold, handle, why);
    return hlk_error_set(error, unknown ? HLK_E_UNSURE : HLK_LOST, "%s", why);
}

static void on_released(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_releasing *release = pending->ctx;
    if (error)
        release->error = *error;
    release->status =
        hlk_lock_released(release->client, pending, release->e, release->handle, outcome, &release->error);
    atomic_store(&release->settled, true);
    if (atomic_load(&release->noted)) /* mostly not, and then the entry is not locked */
        hlk_entry_settle_unsure(release->e, release->h, release->status);
    if (release->waiter)
        hlk_park_wake(&release->waiter->park, HLK_WAKE_SETTLED);
    unref_release(release);
    hlk_mem_free(pending);
}

static struct hlk_release *make_release(hlk_lock *lock, struct hlk_entry *e, struct hlk_releasing **out)
{
    struct hlk_releasing *release = hlk_mem_zalloc(sizeof *release);
    struct hlk_release *pending = release ? hlk_mem_zalloc(sizeof *pending) : NULL;
    if (!pending) {
        hlk_mem_free(release);
        return NULL;
    }
    release->e = e;
    release->client = lock->client;
    atomic_init(&release->refs, 2);
    hlk_entry_ref(release->e);
    pending->settled = on_released;
    pending->ctx = release;
    *out = release;
    return pending;
}

static const char goes_on[] = "not held any more, never renewed, and repeated in the background";

/* Not done in time: the release continues in the background, and the holder's next call may learn its outcome. */
static enum hlk_status release_unsure(hlk_lock *lock, struct hlk_holder holder, struct hlk_releasing *release,
                                      const struct hlk_error *why)
{
    HLK_DEBUG_ASSERT(why->status != HLK_OK);
    HLK_COUNT(&lock->client->table, release_unsure);
    if (atomic_load(&lock->client->closing))
        return hlk_lock_fail(lock, "release", HLK_E_CLOSED, "the client is being closed");
    atomic_store(&release->noted, true);
    if (hlk_entry_note_unsure(release->e, holder, release->h) && atomic_load(&release->settled))
        hlk_entry_settle_unsure(release->e, release->h, release->status);
    if (why->text[0])
        return hlk_lock_fail(lock, "release", why->status, "%s (%s)", why->text, goes_on);
    return hlk_lock_fail(lock, "release", why->status, "%s %lld ms; %s",
                         why->status == HLK_E_CONNECT ? "no connection for" : "sent, not answered in",
                         (long long)lock->client->reply_timeout_ms, goes_on);
}

static enum hlk_status settled(hlk_lock *lock, const struct hlk_releasing *release)
{
    HLK_DEBUG_ASSERT(atomic_load(&release->settled));
    enum hlk_status status = release->status;
    return status == HLK_OK ? status : hlk_lock_fail(lock, "release", status, "%s", release->error.text);
}

/* waiter NULL: of several, which `release` has the thread of. NULL: no memory; the thread's error is set. */
static struct hlk_release *start_last(hlk_lock *lock, struct hlk_entry *e, const struct hlk_release_record *record,
                                      struct hlk_thread *waiter, struct hlk_thread *wakes, struct hlk_releasing **out)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(record->h);
    struct hlk_release *pending = make_release(lock, e, out);
    if (!pending) {
        hlk_entry_keep(e);
        (void)hlk_lock_fail(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent, still held");
        return NULL;
    }
    (*out)->h = record->h;
    (*out)->handle = hlk_entry_handle(e);
    (*out)->waiter = wakes;
    hlk_hold_end_fill(pending, e, record);
    hlk_release_start(&e->node->releases, pending, waiter, false);
    hlk_entry_release_finish(e);
    return pending;
}

static enum hlk_status release_last(hlk_lock *lock, struct hlk_entry *e, struct hlk_thread *self,
                                    struct hlk_holder holder, const struct hlk_release_record *record)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self);
    struct hlk_releasing *release;
    struct hlk_release *pending = start_last(lock, e, record, self, NULL, &release);
    if (!pending)
        return HLK_E_NOMEM;
    struct hlk_error why = { .status = HLK_OK };
    why.status = hlk_release_wait(pending, self, hlk_clock_ms() + lock->client->reply_timeout_ms, &why);
    enum hlk_status status =
        why.status == HLK_OK ? settled(lock, release) : release_unsure(lock, holder, release, &why);
    unref_release(release);
    return status;
}

/* Lowers the count in Redis: a nested hold with a fixed lease. The outer hold remains, whatever the outcome, unless the
 * server no longer knows it, or its owner's other thread has just released it. */
static enum hlk_status release_write(hlk_lock *lock, struct hlk_entry *e, const struct hlk_release_record *record)
{
    HLK_DEBUG_ASSERT(record->count > 0);
    enum hlk_status status = hlk_lock_reacquire(lock, e, "release", record->h, record->count, 0,
                                                &(struct hlk_send_limits){ .max_ms = lock->client->reply_timeout_ms });
    return status == HLK_LOST ? status : HLK_OK;
}

static enum hlk_status release_again(hlk_lock *lock, struct hlk_entry *e, struct hlk_thread *self,
                                     struct hlk_holder holder)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(self && holder.id);
    hlk_client *client = lock->client;
    struct hlk_error why;
    uint64_t h; /* 0: settled */
    enum hlk_status status = hlk_entry_wait_unsure(e, holder.id, self, hlk_clock_ms() + client->reply_timeout_ms, &h);
    if (status == HLK_OK)
        return status;
    if (status == HLK_NOT_HOLDER)
        return hlk_lock_not_held(lock, "release");
    if (status == HLK_E_UNSURE && hlk_releases_refused(&e->node->releases, h, &why))
        return hlk_lock_fail(lock, "release", why.status, "%s (%s)", why.text, goes_on);
    return hlk_lock_fail(lock, "release", status, "%s",
                         status == HLK_E_UNSURE && h ? "still not answered; repeated in the background"
                         : status == HLK_E_UNSURE    ? never_known
                         : status == HLK_LOST        ? "the earlier release found nothing to release"
                                                     : "the earlier release was refused, or ended by close; not held");
}

static enum hlk_status settle_unsure_release(hlk_lock *lock, struct hlk_entry *e, struct hlk_thread *self,
                                             struct hlk_holder holder, enum hlk_release_verdict verdict,
                                             const struct hlk_release_record *record)
{
    HLK_DEBUG_ASSERT(verdict == HLK_VERDICT_WRITE || verdict == HLK_VERDICT_UNSURE || verdict == HLK_VERDICT_LAST);
    enum hlk_status status;
    int old = hlk_nocancel_begin(); /* a release sleeps, but is no cancellation point */
    if (verdict == HLK_VERDICT_WRITE)
        status = release_write(lock, e, record);
    else if (verdict == HLK_VERDICT_UNSURE)
        status = release_again(lock, e, self, holder);
    else
        status = release_last(lock, e, self, holder, record);
    hlk_nocancel_end(old);
    return status;
}

/* begun: of several releases. *begun is set, with HLK_OK: this release is on its way. begun NULL: the release is waited
 * for. */
static enum hlk_status release_of(hlk_lock *lock, struct hlk_entry *e, struct hlk_thread *self,
                                  struct hlk_holder holder, struct hlk_releasing **begun)
{
    HLK_DEBUG_ASSERT(self && holder.id);
    struct hlk_release_record record;
    enum hlk_release_verdict verdict = hlk_entry_release(e, holder.id, &record);
    if (verdict == HLK_VERDICT_LAST && begun)
        return start_last(lock, e, &record, NULL, self, begun) ? HLK_OK : HLK_E_NOMEM;
    switch (verdict) {
    case HLK_VERDICT_NOT_HOLDER:
        return hlk_lock_not_held(lock, "release");
    case HLK_VERDICT_LOST:
        return hlk_lock_fail(lock, "release", HLK_LOST, "the hold was lost (%s); this release was counted", record.why);
    case HLK_VERDICT_NESTED:
        return HLK_OK;
    case HLK_VERDICT_PASSED:
        HLK_COUNT(&lock->client->table, released);
        return HLK_OK;
    default:
        return settle_unsure_release(lock, e, self, holder, verdict, &record);
    }
}

static enum hlk_status release(hlk_lock *lock, struct hlk_thread *self, struct hlk_releasing **begun)
{
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    struct hlk_entry *e = hlk_lock_entry(lock, "release", holder.id);
    if (!e)
        return HLK_E_NOMEM;
    enum hlk_status status = release_of(lock, e, self, holder, begun);
    hlk_lock_drop_entry(lock, e);
    return status;
}

enum hlk_status hlk_lock_release(hlk_lock *lock)
{
    enum hlk_status status = hlk_lock_check(lock, "release");
    if (status != HLK_OK)
        return status;
    if (hlk_lock_group(lock))
        return hlk_lock_group(lock)->release(lock);
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    return release(lock, self, NULL);
}

/* --- several at once --- */

bool hlk_release_is_unsure(const hlk_lock *lock, struct hlk_thread *self)
{
    HLK_DEBUG_ASSERT(self && !hlk_lock_group(lock));
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    struct hlk_entry *e = hlk_lock_find_entry(lock, holder.id);
    bool unsure = e && hlk_entry_is_unsure(e, holder.id);
    if (e)
        hlk_entry_unref(e);
    return unsure;
}

enum hlk_status hlk_release_begin(hlk_lock *lock, struct hlk_thread *self, struct hlk_releasing **begun)
{
    HLK_DEBUG_ASSERT(self && !hlk_lock_group(lock));
    *begun = NULL;
    int old = hlk_nocancel_begin();
    enum hlk_status status = release(lock, self, begun);
    hlk_nocancel_end(old);
    return status;
}

bool hlk_release_is_settled(const struct hlk_releasing *release)
{
    return atomic_load(&release->settled);
}

enum hlk_status hlk_release_end(hlk_lock *lock, struct hlk_thread *self, struct hlk_releasing *release)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(release->waiter == self);
    struct hlk_error why = { .status = HLK_E_UNSURE, .text = "not answered in time" };
    enum hlk_status status;
    if (hlk_release_is_settled(release)) {
        status = settled(lock, release);
    } else {
        (void)hlk_releases_refused(&release->e->node->releases, release->h, &why);
        status = release_unsure(lock, hlk_lock_holder(lock, self), release, &why);
    }
    unref_release(release);
    return status;
}
