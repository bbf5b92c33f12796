/* Acquire and release of a semaphore by a blocked thread. */
#include "semaphore/semaphore_call.h"

#include "acquire/acquire_blocking.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "lease/pass_permits.h"
#include "node/topology.h"

#include <pthread.h>

/* --- acquire --- */

static void end_semaphore_terms(void *terms)
{
    hlk_acquire_terms_end(terms);
}

enum hlk_status hlk_semaphore_acquire_with(hlk_semaphore *semaphore, int64_t permits,
                                           const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = hlk_semaphore_check_acquire(semaphore, permits, given, &opts);
    if (status != HLK_OK)
        return status;
    struct hlk_thread *self = hlk_thread_get();
    struct hlk_acquire_terms terms;
    if (!self)
        return hlk_lock_fail(semaphore->lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
    if (!hlk_semaphore_terms(semaphore, permits, opts.wait_ms == 0, &terms))
        return HLK_E_NOMEM;
    pthread_cleanup_push(end_semaphore_terms, &terms);
    status = hlk_acquire_on(&terms, &opts, self);
    pthread_cleanup_pop(1);
    return status;
}

enum hlk_status hlk_semaphore_acquire(hlk_semaphore *semaphore, int64_t permits, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_semaphore_acquire_with(semaphore, permits, &opts);
}

/* --- release --- */

struct give_back { /* of the waiter and of the pending release */
    struct hlk_release pending;
    hlk_semaphore *semaphore; /* referenced */
    atomic_int refs;
    atomic_bool one_has_left; /* the waiter, or the pending release: the next two are set */
    enum hlk_status status;
    struct hlk_error error;
    char drop_notes[HLK_NOTES_TEXT(HLK_NOTES_SENT)];
};

static void unref_give_back(struct give_back *back)
{
    HLK_DEBUG_ASSERT(atomic_load(&back->refs) > 0);
    if (atomic_fetch_sub(&back->refs, 1) != 1)
        return;
    hlk_semaphore_unref(back->semaphore);
    hlk_mem_free(back);
}

/* If its caller has left before, the outcome is logged. */
static void on_permits_given_back(struct hlk_release *pending, enum hlk_release_outcome outcome,
                                  const struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct give_back *back = HLK_CONTAINER(pending, struct give_back, pending);
    back->status = hlk_semaphore_released(back->semaphore, pending, outcome, error);
    if (back->status != HLK_OK)
        (void)hlk_error_set(&back->error, back->status, "%s", hlk_last_error());
    if (atomic_exchange(&back->one_has_left, true) && back->status != HLK_OK)
        hlk_log(&hlk_lock_node(back->semaphore->lock)->endpoint.log, HLK_LOG_WARN, "%s", back->error.text);
    unref_give_back(back);
}

static struct give_back *make_give_back(hlk_semaphore *semaphore, int64_t permits, int change)
{
    HLK_DEBUG_ASSERT(permits > 0);
    struct give_back *back = hlk_mem_zalloc(sizeof *back);
    if (!back)
        return NULL;
    atomic_init(&back->refs, 2);
    back->semaphore = semaphore;
    hlk_semaphore_ref(semaphore);
    (void)hlk_notes_take(semaphore->notes, back->drop_notes, HLK_NOTES_SENT);
    hlk_semaphore_fill_release(&back->pending, semaphore->lock, permits, change, back->drop_notes);
    back->pending.settled = on_permits_given_back;
    return back;
}

static enum hlk_status given_back(const struct give_back *back)
{
    HLK_DEBUG_ASSERT(atomic_load(&back->one_has_left));
    return back->status == HLK_OK ? HLK_OK : hlk_last_set(back->status, "%s", back->error.text);
}

static enum hlk_status not_given_back_yet(struct give_back *back, const struct hlk_error *why)
{
    HLK_DEBUG_ASSERT(why->status != HLK_OK);
    static const char goes_on[] = "it is repeated in the background, and happens once";
    hlk_lock *lock = back->semaphore->lock;
    if (atomic_exchange(&back->one_has_left, true)) /* settled this moment */
        return given_back(back);
    HLK_COUNT(&lock->client->table, release_unsure);
    if (why->status == HLK_E_UNSURE || why->status == HLK_E_CONNECT)
        return hlk_lock_fail(lock, "release", why->status, "%s in %lld ms; %s",
                             why->status == HLK_E_UNSURE ? "sent, not answered" : "no connection",
                             (long long)lock->client->reply_timeout_ms, goes_on);
    return hlk_lock_fail(lock, "release", HLK_E_UNSURE, "refused: %s; %s", why->text, goes_on);
}

static enum hlk_status release_permits(hlk_semaphore *semaphore, int64_t permits, int change)
{
    enum hlk_status status = hlk_semaphore_check(semaphore, "release", permits, 1);
    if (status != HLK_OK)
        return status;
    hlk_lock *lock = semaphore->lock;
    if (change == HLK_SEMAPHORE_RELEASE_IF)
        hlk_entry_note_given_back(semaphore->line, permits);
    else if (hlk_semaphore_passes(semaphore, permits))
        return HLK_OK;
    struct hlk_thread *self = hlk_thread_get();
    struct give_back *back = self ? make_give_back(semaphore, permits, change) : NULL;
    if (!back)
        return hlk_lock_fail(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    struct hlk_error why;
    int old = hlk_nocancel_begin();
    hlk_release_start(&hlk_lock_node(lock)->releases, &back->pending, self, false);
    why.status = hlk_release_wait(&back->pending, self, hlk_clock_ms() + lock->client->reply_timeout_ms, &why);
    status = why.status == HLK_OK ? given_back(back) : not_given_back_yet(back, &why);
    unref_give_back(back);
    hlk_nocancel_end(old);
    return status;
}

enum hlk_status hlk_semaphore_release(hlk_semaphore *semaphore, int64_t permits)
{
    return release_permits(semaphore, permits, HLK_SEMAPHORE_RELEASE);
}

enum hlk_status hlk_semaphore_release_if_exists(hlk_semaphore *semaphore, int64_t permits)
{
    return release_permits(semaphore, permits, HLK_SEMAPHORE_RELEASE_IF);
}
