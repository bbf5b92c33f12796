/* Release, blocking: what is decided locally, what Redis is told, what is remembered when it does not answer. */
#include "sync/handle.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"

struct release { /* what the undo tells its waiter */
    struct hlk_session *s;
    struct hlk_via *via; /* through which it was taken */
    hlk_client *client;  /* lives as long as its undos */
    uint64_t h;
    atomic_int refs;     /* the waiter's and the undo's */
    atomic_bool settled; /* the two below are there */
    enum hlk_status status;
    struct hlk_error error;
};

static void unref_release(struct release *release)
{
    if (atomic_fetch_sub(&release->refs, 1) != 1)
        return;
    hlk_via_unref(release->via);
    hlk_session_unref(release->s);
    hlk_mem_free(release);
}

enum hlk_status hlk_lock_released(hlk_client *client, const struct hlk_undo *undo, struct hlk_session *s,
                                  const struct hlk_via *via, enum hlk_undo_outcome outcome, struct hlk_error *error)
{
    switch (outcome) {
    case HLK_UNDO_DONE:
    case HLK_UNDO_ABSENT_REPEATED:
        HLK_COUNT(&client->table, released);
        return HLK_OK;
    case HLK_UNDO_REFUSED:
        HLK_COUNT(&client->table, release_refused);
        return error->status;
    case HLK_UNDO_OWED: /* never told */
    case HLK_UNDO_GIVEN_UP:
        if (atomic_load(&client->closing))
            return hlk_error_set(error, HLK_E_CLOSED, "the client was closed before an answer came");
        (void)hlk_error_set(error, HLK_LOST, "not answered until its lease was over"); /* nobody holds by it any more */
        HLK_COUNT(&client->table, lost);
        return HLK_LOST;
    case HLK_UNDO_ABSENT:
        break;
    }
    HLK_COUNT(&client->table, lost); /* before the callback can ask for it */
    hlk_session_tell_gone(s, undo->q.hold, via);
    return hlk_error_set(error, HLK_LOST, "%s", hlk_lease_why_unknown);
}

static void on_released(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    struct release *release = undo->ctx;
    if (error)
        release->error = *error;
    release->status = hlk_lock_released(release->client, undo, release->s, release->via, outcome, &release->error);
    atomic_store(&release->settled, true);
    hlk_session_settle(release->s, release->h, release->status);
    unref_release(release);
    hlk_mem_free(undo);
}

static struct hlk_undo *make_release(hlk_lock *lock, struct release **out)
{
    struct release *release = hlk_mem_zalloc(sizeof *release);
    struct hlk_undo *undo = release ? hlk_mem_zalloc(sizeof *undo) : NULL;
    if (!undo) {
        hlk_mem_free(release);
        return NULL;
    }
    release->s = lock->session;
    release->client = lock->client;
    atomic_init(&release->refs, 2);
    hlk_session_ref(release->s);
    undo->settled = on_released;
    undo->ctx = release;
    *out = release;
    return undo;
}

/* Not answered in time: it goes on in the background, and the holder may come back for the outcome. */
static enum hlk_status release_unsure(hlk_lock *lock, struct hlk_holder holder, struct release *release, bool sent)
{
    HLK_COUNT(&lock->client->table, release_unsure);
    if (atomic_load(&lock->client->closing))
        return hlk_lock_fails(lock, "release", HLK_E_CLOSED, "the client is being closed");
    if (hlk_session_owe(lock->session, holder, release->h) && atomic_load(&release->settled))
        hlk_session_settle(lock->session, release->h, release->status);
    if (!sent)
        return hlk_lock_fails(lock, "release", HLK_E_CONNECT,
                              "no connection for %lld ms; not held any more, never renewed, "
                              "and repeated in the background",
                              (long long)lock->client->reply_ms);
    return hlk_lock_fails(lock, "release", HLK_E_UNSURE,
                          "sent, not answered in %lld ms; not held any more, never renewed, "
                          "and repeated in the background",
                          (long long)lock->client->reply_ms);
}

static enum hlk_status release_last(hlk_lock *lock, struct hlk_self *self, struct hlk_holder holder,
                                    const struct hlk_parting *parting)
{
    struct release *release;
    struct hlk_undo *undo = make_release(lock, &release);
    if (!undo) {
        hlk_session_keep(lock->session);
        return hlk_lock_fails(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent, still held");
    }
    hlk_client *client = lock->client;
    release->h = parting->h;
    release->via = hlk_session_via(lock->session);
    hlk_table_fill_end(undo, lock->session, parting);
    hlk_undo_start(&client->undos, undo, self, false);
    hlk_session_ended(lock->session);
    bool sent;
    bool settled = hlk_undo_wait(&client->undos, undo, self, hlk_clock_ms() + client->reply_ms, &sent);
    enum hlk_status status = settled ? release->status : release_unsure(lock, holder, release, sent);
    if (settled && status != HLK_OK)
        status = hlk_lock_fails(lock, "release", status, "%s", release->error.text);
    unref_release(release);
    return status;
}

/* One hold less in Redis' count too: a nested hold with a fixed lease. The outer hold remains whatever becomes of it,
 * unless the server does not know it, or its owner's other thread releases it just now. */
static enum hlk_status release_write(hlk_lock *lock, const struct hlk_parting *parting)
{
    enum hlk_status status = hlk_lock_reacquire(lock, "release", parting->h, parting->count, 0, false,
                                                &(struct hlk_patience){ .most_ms = lock->client->reply_ms });
    return status == HLK_LOST ? status : HLK_OK;
}

static enum hlk_status release_again(hlk_lock *lock, struct hlk_self *self, struct hlk_holder holder)
{
    enum hlk_status status =
        hlk_session_wait_owed(lock->session, holder.id, self, hlk_clock_ms() + lock->client->reply_ms);
    if (status == HLK_OK)
        return status;
    if (status == HLK_NOT_HOLDER)
        return hlk_lock_not_held(lock, "release");
    return hlk_lock_fails(lock, "release", status, "%s",
                          status == HLK_E_UNSURE ? "still not answered; repeated in the background"
                          : status == HLK_LOST   ? "the earlier release found nothing to release"
                                                 : "the earlier release was refused, or ended by close; not held");
}

static enum hlk_status release_by_asking(hlk_lock *lock, struct hlk_self *self, struct hlk_holder holder,
                                         enum hlk_let_go verdict, const struct hlk_parting *parting)
{
    enum hlk_status status;
    int old = hlk_nocancel_begin(); /* a release sleeps, and is no cancellation point */
    if (verdict == HLK_LET_WRITE)
        status = release_write(lock, parting);
    else if (verdict == HLK_LET_OWED)
        status = release_again(lock, self, holder);
    else
        status = release_last(lock, self, holder, parting);
    hlk_nocancel_end(old);
    return status;
}

static enum hlk_status release(hlk_lock *lock, struct hlk_self *self)
{
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    struct hlk_parting parting;
    enum hlk_let_go verdict = hlk_session_let_go(lock->session, holder.id, &parting);
    switch (verdict) {
    case HLK_LET_NOT_HOLDER:
        return hlk_lock_not_held(lock, "release");
    case HLK_LET_LOST:
        return hlk_lock_fails(lock, "release", HLK_LOST, "the hold was lost (%s); it is off this holder's account now",
                              parting.why);
    case HLK_LET_NESTED:
        return HLK_OK;
    case HLK_LET_PASSED:
        HLK_COUNT(&lock->client->table, released);
        return HLK_OK;
    default:
        return release_by_asking(lock, self, holder, verdict, &parting);
    }
}

enum hlk_status hlk_lock_release(hlk_lock *lock)
{
    enum hlk_status status = hlk_lock_check(lock, "release");
    if (status != HLK_OK)
        return status;
    struct hlk_self *self = hlk_self_get();
    if (!self)
        return hlk_lock_fails(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    hlk_lock *seat = hlk_lock_seat(lock, "release");
    status = seat ? release(seat, self) : HLK_E_NOMEM;
    hlk_lock_unseat(lock, seat);
    return status;
}
