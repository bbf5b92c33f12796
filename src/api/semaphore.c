/* The semaphore: acquires by the operation of all locks, releases by that of all ends, and short commands. */
#include "api/semaphore_call.h"

#include "api/lock.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "node/cluster.h"

#include <pthread.h>
#include <string.h>

#define LINE_HOLDER 0 /* no holder has this number */

enum hlk_status hlk_semaphore_check(const hlk_semaphore *semaphore, const char *operation, int64_t permits, int64_t min)
{
    if (!semaphore)
        return hlk_last_null(operation, "semaphore");
    enum hlk_status status = hlk_lock_check(semaphore->lock, operation);
    if (status == HLK_OK && (permits < min || permits > HLK_PERMITS_MAX))
        return hlk_lock_fail(semaphore->lock, operation, HLK_E_INVALID, "%lld permits; %lld to %d are possible",
                             (long long)permits, (long long)min, HLK_PERMITS_MAX);
    return status;
}

/* --- the handle --- */

void hlk_semaphore_ref(hlk_semaphore *semaphore)
{
    atomic_fetch_add(&semaphore->refs, 1);
}

void hlk_semaphore_unref(hlk_semaphore *semaphore)
{
    if (atomic_fetch_sub(&semaphore->refs, 1) > 1)
        return;
    if (semaphore->line)
        hlk_entry_unref(semaphore->line);
    hlk_notes_free(semaphore->notes);
    hlk_lock *lock = semaphore->lock;
    hlk_mem_free(semaphore);
    if (lock)
        hlk_handle_release(&lock->handle);
}

/* NULL: no memory. */
static hlk_semaphore *make_semaphore(hlk_client *client, const char *name, size_t len, const struct hlk_lock_opts *opts)
{
    hlk_semaphore *semaphore = hlk_mem_zalloc(sizeof *semaphore);
    if (!semaphore)
        return NULL;
    atomic_init(&semaphore->refs, 1);
    hlk_lock *lock = semaphore->lock = hlk_lock_make(client, name, len, opts);
    semaphore->notes = lock ? hlk_notes_make() : NULL;
    if (semaphore->notes)
        semaphore->line = hlk_entry_get_own(hlk_lock_node(lock), lock->kind->format, name, len, LINE_HOLDER, true);
    if (semaphore->line)
        return semaphore;
    hlk_semaphore_unref(semaphore);
    return NULL;
}

hlk_semaphore *hlk_semaphore_create(hlk_client *client, const char *name)
{
    static const char operation[] = "create semaphore";
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_KIND_SEMAPHORE;
    opts.lease_ms = HLK_LEASE_MAX_MS; /* of a call, which ends before */
    if (hlk_client_check(client, operation, name) != HLK_OK)
        return NULL;
    if (client->topology || !client->pubsub) {
        (void)hlk_last_set(HLK_E_INVALID, "%s: it needs a client with pub/sub, of servers that are one", operation);
        return NULL;
    }
    size_t len = hlk_lock_check_name(client, operation, name);
    if (len == 0)
        return NULL;
    hlk_semaphore *semaphore = make_semaphore(client, name, len, &opts);
    if (semaphore)
        return semaphore;
    (void)hlk_last_set(HLK_E_NOMEM, "%s \"%.128s\": no memory", operation, name);
    return NULL;
}

void hlk_semaphore_destroy(hlk_semaphore *semaphore)
{
    if (!semaphore || semaphore->lock->client->process != hlk_thread_process())
        return;
    hlk_notes_close(semaphore->notes);
    hlk_semaphore_drop_notes(semaphore);
    hlk_semaphore_unref(semaphore);
}

const char *hlk_semaphore_name(const hlk_semaphore *semaphore)
{
    return semaphore ? hlk_lock_name(semaphore->lock) : NULL;
}

/* --- acquire --- */

enum hlk_status hlk_semaphore_check_acquire(const hlk_semaphore *semaphore, int64_t permits,
                                            const struct hlk_acquire_opts *given, struct hlk_acquire_opts *opts)
{
    enum hlk_status status = hlk_semaphore_check(semaphore, "acquire", permits, 1);
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(semaphore->lock, "acquire", given, opts);
    if (status == HLK_OK && opts->lease_ms != 0)
        return hlk_lock_fail(semaphore->lock, "acquire", HLK_E_INVALID,
                             "lease_ms is not 0: permits of a semaphore have no lease");
    return status;
}

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
    if (atomic_fetch_sub(&back->refs, 1) != 1)
        return;
    hlk_semaphore_unref(back->semaphore);
    hlk_mem_free(back);
}

/* If its caller has left before, the outcome is logged. */
static void on_permits_given_back(struct hlk_release *pending, enum hlk_release_outcome outcome,
                                  const struct hlk_error *error)
{
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
    return back->status == HLK_OK ? HLK_OK : hlk_last_set(back->status, "%s", back->error.text);
}

static enum hlk_status not_given_back_yet(struct give_back *back, const struct hlk_error *why)
{
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

/* Not if replicas have to confirm what is taken. */
bool hlk_semaphore_passes(const hlk_semaphore *semaphore, int64_t permits)
{
    hlk_client *client = semaphore->lock->client;
    if (client->wait_replicas || !hlk_entry_pass_permits(semaphore->line, permits))
        return false;
    HLK_COUNT(&client->table, released);
    return true;
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

/* --- short commands --- */

static void read_permit_count(const struct hlk_command *cmd, void *number)
{
    const redisReply *reply = cmd->call.reply;
    *(int64_t *)number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
}

/* A write is sent once: what happened twice could not be told. */
static enum hlk_status change(hlk_semaphore *semaphore, const char *operation, const struct hlk_command *given,
                              int64_t *number)
{
    struct hlk_command cmd = *given;
    struct hlk_send_limits limits = { .once = cmd.change != HLK_SEMAPHORE_GET };
    cmd.type = &hlk_semaphore_command;
    return hlk_lock_send(semaphore->lock, operation, &cmd, &limits, read_permit_count, number);
}

enum hlk_status hlk_semaphore_try_set(hlk_semaphore *semaphore, int64_t permits, int64_t ttl_ms)
{
    static const char operation[] = "set permits of";
    int64_t made = 0;
    enum hlk_status status = hlk_semaphore_check(semaphore, operation, permits, 0);
    if (status != HLK_OK)
        return status;
    if (ttl_ms < 0)
        return hlk_lock_fail(semaphore->lock, operation, HLK_E_INVALID, "ttl_ms is negative");
    status =
        change(semaphore, operation,
               &(struct hlk_command){ .change = HLK_SEMAPHORE_TRY_SET, .count = permits, .lease_ms = ttl_ms }, &made);
    return status == HLK_OK && !made
               ? hlk_lock_fail(semaphore->lock, operation, HLK_BUSY, "it exists already; nothing was changed")
               : status;
}

enum hlk_status hlk_semaphore_add(hlk_semaphore *semaphore, int64_t permits)
{
    static const char operation[] = "add permits to";
    int64_t sum;
    enum hlk_status status = hlk_semaphore_check(semaphore, operation, permits, -(int64_t)HLK_PERMITS_MAX);
    if (status == HLK_OK && permits == 0)
        return hlk_lock_fail(semaphore->lock, operation, HLK_E_INVALID, "0 permits; nothing was sent");
    return status == HLK_OK ? change(semaphore, operation,
                                     &(struct hlk_command){ .change = HLK_SEMAPHORE_ADD, .count = permits }, &sum)
                            : status;
}

enum hlk_status hlk_semaphore_drain(hlk_semaphore *semaphore, int64_t *drained)
{
    int64_t number = 0;
    enum hlk_status status = hlk_semaphore_check(semaphore, "drain", 0, 0);
    if (status == HLK_OK)
        status = change(semaphore, "drain", &(struct hlk_command){ .change = HLK_SEMAPHORE_DRAIN }, &number);
    if (drained)
        *drained = number;
    return status;
}

enum hlk_status hlk_semaphore_delete(hlk_semaphore *semaphore)
{
    static const char operation[] = "delete";
    int64_t deleted = 0;
    enum hlk_status status = hlk_semaphore_check(semaphore, operation, 0, 0);
    if (status == HLK_OK)
        status = change(semaphore, operation, &(struct hlk_command){ .change = HLK_SEMAPHORE_DELETE }, &deleted);
    return status == HLK_OK && !deleted ? hlk_lock_fail(semaphore->lock, operation, HLK_NOT_HOLDER, "it does not exist")
                                        : status;
}

enum hlk_status hlk_semaphore_available(hlk_semaphore *semaphore, int64_t *permits)
{
    int64_t number = 0;
    enum hlk_status status = hlk_semaphore_check(semaphore, "available permits of", 0, 0);
    if (status == HLK_OK)
        status =
            change(semaphore, "available permits of", &(struct hlk_command){ .change = HLK_SEMAPHORE_GET }, &number);
    if (permits)
        *permits = number;
    return status;
}
