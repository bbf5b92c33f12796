/* The semaphore's handle, its notes in Redis that are needed no more, and its short commands. */
#include "semaphore/semaphore.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "handle/send.h"
#include "kinds/kinds.h"
#include "lease/entry_table.h"
#include "lease/pass_permits.h"

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
    HLK_DEBUG_ASSERT(atomic_load(&semaphore->refs) > 0);
    atomic_fetch_add(&semaphore->refs, 1);
}

void hlk_semaphore_unref(hlk_semaphore *semaphore)
{
    HLK_DEBUG_ASSERT(atomic_load(&semaphore->refs) > 0);
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

/* --- notes --- */

void hlk_semaphore_send_drop_notes(hlk_lock *lock, const char *drop_notes)
{
    HLK_DEBUG_ASSERT(*drop_notes);
    const struct hlk_command cmd = { .type = &hlk_semaphore_command,
                                     .change = HLK_SEMAPHORE_DROP_NOTES,
                                     .drop_notes = drop_notes };
    hlk_lock_send_and_forget(lock, &cmd);
}

void hlk_semaphore_drop_notes(hlk_semaphore *semaphore)
{
    char drop_notes[HLK_NOTES_TEXT(HLK_NOTES_KEPT)];
    if (hlk_notes_take(semaphore->notes, drop_notes, HLK_NOTES_KEPT) > 0)
        hlk_semaphore_send_drop_notes(semaphore->lock, drop_notes);
}

/* --- making --- */

/* NULL: no memory. */
static hlk_semaphore *make_semaphore(hlk_client *client, const char *name, size_t len, const struct hlk_lock_opts *opts)
{
    HLK_DEBUG_ASSERT(len > 0);
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
    opts.kind = hlk_kind_of(&hlk_format_semaphore);
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

/* --- short commands --- */

/* A write is sent once: what happened twice could not be told. */
static enum hlk_status change(hlk_semaphore *semaphore, const char *operation, enum hlk_semaphore_change change,
                              int64_t permits, int64_t ttl_ms, int64_t *number)
{
    HLK_DEBUG_ASSERT(change <= HLK_SEMAPHORE_DELETE);
    const struct hlk_command cmd = {
        .type = &hlk_semaphore_command, .change = change, .count = permits, .lease_ms = ttl_ms
    };
    return hlk_lock_ask_number(semaphore->lock, operation, &cmd, change != HLK_SEMAPHORE_GET, number);
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
    status = change(semaphore, operation, HLK_SEMAPHORE_TRY_SET, permits, ttl_ms, &made);
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
    return status == HLK_OK ? change(semaphore, operation, HLK_SEMAPHORE_ADD, permits, 0, &sum) : status;
}

/* *count (may be NULL): the answer, or 0. */
static enum hlk_status count_permits(hlk_semaphore *semaphore, const char *operation, enum hlk_semaphore_change what,
                                     int64_t *count)
{
    int64_t number = 0;
    enum hlk_status status = hlk_semaphore_check(semaphore, operation, 0, 0);
    if (status == HLK_OK)
        status = change(semaphore, operation, what, 0, 0, &number);
    if (count)
        *count = number;
    return status;
}

enum hlk_status hlk_semaphore_drain(hlk_semaphore *semaphore, int64_t *drained)
{
    return count_permits(semaphore, "drain", HLK_SEMAPHORE_DRAIN, drained);
}

enum hlk_status hlk_semaphore_available(hlk_semaphore *semaphore, int64_t *permits)
{
    return count_permits(semaphore, "available permits of", HLK_SEMAPHORE_GET, permits);
}

enum hlk_status hlk_semaphore_delete(hlk_semaphore *semaphore)
{
    int64_t deleted = 0;
    enum hlk_status status = count_permits(semaphore, "delete", HLK_SEMAPHORE_DELETE, &deleted);
    return status == HLK_OK && !deleted ? hlk_lock_fail(semaphore->lock, "delete", HLK_NOT_HOLDER, "it does not exist")
                                        : status;
}
