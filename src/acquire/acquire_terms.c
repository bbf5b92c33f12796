#include "acquire/acquire_terms.h"

#include "base/debug.h"
#include "base/opts.h"

/* --- options --- */

HLK_OPTS_NO_TAIL(struct hlk_acquire_opts, reserved);

static bool lease_ok(int64_t lease_ms)
{
    return lease_ms == 0 || lease_ms == HLK_RENEWED || (lease_ms >= HLK_LEASE_MIN_MS && lease_ms <= HLK_LEASE_MAX_MS);
}

enum hlk_status hlk_acquire_read_opts(hlk_lock *lock, const char *operation, const struct hlk_acquire_opts *given,
                                      struct hlk_acquire_opts *opts)
{
    HLK_DEBUG_ASSERT(opts && opts != given);
    struct hlk_acquire_opts defaults = HLK_ACQUIRE_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_lock_fail(lock, operation, HLK_E_INVALID, "acquire options of size %zu are not known", given->size);
    if (!lease_ok(opts->lease_ms))
        return hlk_lock_fail(lock, operation, HLK_E_INVALID,
                             "lease_ms %lld is not HLK_RENEWED, nor between %d and a year", (long long)opts->lease_ms,
                             HLK_LEASE_MIN_MS);
    if (opts->flags & ~HLK_ACQUIRE_EINTR)
        return hlk_lock_fail(lock, operation, HLK_E_INVALID, "unknown flags 0x%x", opts->flags);
    if (opts->reserved != 0)
        return hlk_lock_fail(lock, operation, HLK_E_INVALID, "reserved is not 0");
    opts->wait_ms = hlk_opts_wait_ms(opts->wait_ms);
    return HLK_OK;
}

/* --- terms --- */

bool hlk_acquire_terms_of(hlk_lock *lock, struct hlk_thread *self, struct hlk_acquire_terms *out)
{
    HLK_DEBUG_ASSERT(!hlk_lock_group(lock));
    if (!self) {
        (void)hlk_lock_fail(lock, "acquire", HLK_E_NOMEM, "no memory; nothing was sent");
        return false;
    }
    struct hlk_holder holder = hlk_lock_holder(lock, self);
    *out = (struct hlk_acquire_terms){ .lock = lock, .holder = holder };
    out->entry = hlk_lock_entry(lock, "acquire", holder.id);
    return out->entry;
}

/* A lease of its own, or an end of its own, would be one for all. In a cluster each lock has its inbox, and nothing
 * would say in time that another client waits. */
bool hlk_acquire_shares(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts)
{
    HLK_DEBUG_ASSERT(terms->lock && terms->entry);
    const hlk_lock *lock = terms->lock;
    const struct hlk_node *node = terms->entry->node;
    int64_t lease = opts->lease_ms ? opts->lease_ms : lock->defaults->lease_ms;
    return lock->kind->format->shares_holds && lease <= 0 && lock->defaults->max_hold_ms == 0 &&
           !lock->client->wait_replicas && node->table->local_passes > 0 && !node->cluster;
}
