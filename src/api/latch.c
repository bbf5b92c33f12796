/* The count-down latch: short commands about its count, and waits that are acquires which hold nothing
 * (src/kinds/format_latch.c). */
#include "hasplock/latch.h"

#include "acquire/async_acquire.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "handle/send.h"
#include "hasplock/async.h"
#include "kinds/kinds.h"

struct hlk_latch {
    hlk_lock *lock; /* held by threads: each wait has an entry of its own */
};

static enum hlk_status latch_check(const hlk_latch *latch, const char *operation)
{
    return latch ? hlk_lock_check(latch->lock, operation) : hlk_last_null(operation, "latch");
}

hlk_latch *hlk_latch_create(hlk_client *client, const char *name)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = hlk_kind_of(&hlk_format_latch);
    hlk_lock *lock = hlk_lock_create_as(client, "latch", name, &opts, NULL);
    hlk_latch *latch = lock ? hlk_mem_zalloc(sizeof *latch) : NULL;
    if (latch) {
        latch->lock = lock;
        return latch;
    }
    if (lock)
        (void)hlk_last_set(HLK_E_NOMEM, "create latch \"%.128s\": no memory", name);
    hlk_lock_destroy(lock);
    return NULL;
}

void hlk_latch_destroy(hlk_latch *latch)
{
    if (latch)
        hlk_lock_destroy(latch->lock);
    hlk_mem_free(latch);
}

const char *hlk_latch_name(const hlk_latch *latch)
{
    return latch ? hlk_lock_text(latch->lock) : NULL;
}

/* --- the count --- */

static enum hlk_status check_number(const hlk_latch *latch, const char *operation, int64_t number)
{
    enum hlk_status status = latch_check(latch, operation);
    if (status == HLK_OK && (number < 1 || number > HLK_LATCH_MAX))
        status =
            hlk_lock_fail(latch->lock, operation, HLK_E_INVALID, "%lld is not between 1 and 2^52", (long long)number);
    return status;
}

static enum hlk_status ask_latch(const hlk_latch *latch, const char *operation, const struct hlk_command_type *type,
                                 int64_t count, bool changes, int64_t *answer)
{
    HLK_DEBUG_ASSERT(type->put && count >= 0);
    const struct hlk_command cmd = { .type = type, .count = count };
    return hlk_lock_ask_number(latch->lock, operation, &cmd, changes, answer);
}

enum hlk_status hlk_latch_try_set(hlk_latch *latch, int64_t count)
{
    int64_t set = 0;
    enum hlk_status status = check_number(latch, "set latch", count);
    if (status == HLK_OK)
        status = ask_latch(latch, "set latch", &hlk_latch_set, count, true, &set);
    if (status == HLK_OK && !set)
        return hlk_lock_fail(latch->lock, "set latch", HLK_BUSY, "it has a count that is not 0; nothing was changed");
    return status;
}

enum hlk_status hlk_latch_count(hlk_latch *latch, int64_t *count)
{
    int64_t now = 0;
    enum hlk_status status = latch_check(latch, "count latch");
    if (status == HLK_OK && !count)
        return hlk_lock_fail(latch->lock, "count latch", HLK_E_INVALID, "no room for the count");
    if (status == HLK_OK)
        status = ask_latch(latch, "count latch", &hlk_format_latch.query, 0, false, &now);
    if (status == HLK_OK)
        *count = now;
    return status;
}

enum hlk_status hlk_latch_count_down(hlk_latch *latch, int64_t n, int64_t *left)
{
    int64_t now = 0;
    enum hlk_status status = check_number(latch, "count down", n);
    if (status == HLK_OK)
        status = ask_latch(latch, "count down", &hlk_latch_down, n, true, &now);
    if (status == HLK_OK && left)
        *left = now;
    return status;
}

enum hlk_status hlk_latch_delete(hlk_latch *latch)
{
    int64_t deleted = 0;
    enum hlk_status status = latch_check(latch, "delete latch");
    if (status == HLK_OK)
        status = ask_latch(latch, "delete latch", &hlk_format_latch.break_it, 0, true, &deleted);
    if (status == HLK_OK && !deleted)
        return hlk_lock_fail(latch->lock, "delete latch", HLK_NOT_HOLDER, "it has no count; nothing was changed");
    return status;
}

/* --- waits --- */

static enum hlk_status check_latch_wait(hlk_latch *latch, const struct hlk_acquire_opts *given,
                                        struct hlk_acquire_opts *opts)
{
    enum hlk_status status = latch_check(latch, "await");
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(latch->lock, "await", given, opts);
    if (status == HLK_OK && opts->lease_ms != 0)
        status = hlk_lock_fail(latch->lock, "await", HLK_E_INVALID, "a latch has no lease: lease_ms is not 0");
    return status;
}

enum hlk_status hlk_latch_await_with(hlk_latch *latch, const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = check_latch_wait(latch, given, &opts);
    return status == HLK_OK ? hlk_lock_acquire_with(latch->lock, &opts) : status;
}

enum hlk_status hlk_latch_await(hlk_latch *latch, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_latch_await_with(latch, &opts);
}

struct awaited { /* one async wait, of a holder of its own: any number wait at once */
    hlk_latch *latch;
    hlk_latch_done_fn *done;
    void *ctx;
};

static void on_latch_awaited(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    hlk_mutex_assert_none();
    const struct awaited *awaited = ctx;
    (void)lock;
    awaited->done(awaited->latch, status, awaited->ctx);
}

static const struct hlk_acquire_hooks awaited_hooks = { .free = hlk_mem_free };

enum hlk_status hlk_latch_await_async(hlk_latch *latch, const struct hlk_acquire_opts *given, hlk_latch_done_fn *done,
                                      void *ctx)
{
    struct hlk_acquire_opts opts;
    enum hlk_status status = check_latch_wait(latch, given, &opts);
    if (status == HLK_OK && !done)
        status = hlk_lock_fail(latch->lock, "await", HLK_E_INVALID, "an async wait needs a completion");
    if (status != HLK_OK)
        return status;
    hlk_lock *lock = latch->lock;
    struct awaited *awaited = hlk_mem_zalloc(sizeof *awaited);
    if (!awaited)
        return hlk_lock_fail(lock, "await", HLK_E_NOMEM, "no memory; nothing was sent");
    *awaited = (struct awaited){ latch, done, ctx };
    struct hlk_acquire_terms terms = {
        .lock = lock, .holder = hlk_lock_call_holder(lock), .hooks = &awaited_hooks, .with = awaited
    };
    terms.entry = hlk_lock_entry(lock, "await", terms.holder.id);
    if (!terms.entry) {
        hlk_acquire_terms_drop(&terms);
        return HLK_E_NOMEM;
    }
    struct hlk_entry *ref = hlk_lock_entry_ref(lock, terms.entry);
    status = hlk_acquire_async_on(&terms, &opts, NULL, on_latch_awaited, awaited);
    if (ref)
        hlk_entry_unref(ref);
    return status;
}
