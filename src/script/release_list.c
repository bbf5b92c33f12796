#include "script/release_list.h"

#include "base/clock.h"

#include <stdio.h>

size_t hlk_releases_count(struct hlk_releases *releases)
{
    size_t n = 0;
    hlk_mutex_lock(&releases->mu);
    for (struct hlk_list *node = releases->all.next; node != &releases->all; node = node->next)
        n += !HLK_CONTAINER(node, struct hlk_release, link)->announced;
    hlk_mutex_unlock(&releases->mu);
    return n;
}

size_t hlk_releases_awaited(struct hlk_releases *releases)
{
    size_t n = 0;
    hlk_mutex_lock(&releases->mu);
    for (struct hlk_list *node = releases->all.next; node != &releases->all; node = node->next) {
        const struct hlk_release *pending = HLK_CONTAINER(node, struct hlk_release, link);
        n += !pending->announced && !(pending->parked && atomic_load(&pending->optional));
    }
    hlk_mutex_unlock(&releases->mu);
    return n;
}

static bool has_release(struct hlk_releases *releases, uint64_t hold, bool announced)
{
    bool found = false;
    hlk_mutex_lock(&releases->mu);
    for (struct hlk_list *node = releases->all.next; node != &releases->all && !found; node = node->next) {
        const struct hlk_release *pending = HLK_CONTAINER(node, struct hlk_release, link);
        found = pending->cmd.hold == hold && (announced || !pending->announced);
    }
    hlk_mutex_unlock(&releases->mu);
    return found;
}

bool hlk_releases_has(struct hlk_releases *releases, uint64_t hold)
{
    return has_release(releases, hold, true);
}

bool hlk_releases_has_started(struct hlk_releases *releases, uint64_t hold)
{
    return has_release(releases, hold, false);
}

bool hlk_releases_refused(struct hlk_releases *releases, uint64_t hold, struct hlk_error *error)
{
    bool refused = false;
    hlk_mutex_lock(&releases->mu);
    for (struct hlk_list *node = releases->all.next; node != &releases->all && !refused; node = node->next) {
        const struct hlk_release *pending = HLK_CONTAINER(node, struct hlk_release, link);
        refused = pending->cmd.hold == hold && pending->refusal;
        if (refused)
            *error = *pending->refusal;
    }
    hlk_mutex_unlock(&releases->mu);
    return refused;
}

void hlk_releases_log_unanswered(struct hlk_releases *releases)
{
    hlk_mutex_assert_none();
    char name[129] = "";
    unsigned count = 0;
    int64_t now = hlk_clock_ms(), until_ms = now;
    hlk_mutex_lock(&releases->mu);
    for (struct hlk_list *node = releases->all.next; node != &releases->all; node = node->next) {
        struct hlk_release *pending = HLK_CONTAINER(node, struct hlk_release, link);
        if (!pending->parked || atomic_load(&pending->optional))
            continue;
        if (!count++)
            (void)snprintf(name, sizeof name, "%.*s", (int)pending->cmd.name_len, pending->cmd.name);
        if (pending->until_ms > until_ms)
            until_ms = pending->until_ms;
    }
    hlk_mutex_unlock(&releases->mu);
    if (count && releases->log)
        hlk_log(
            releases->log, HLK_LOG_WARN,
            "close: releases that are not answered: %u, the first one of \"%s\"; their leases end in %lld ms at most",
            count, name, (long long)(until_ms - now));
}
