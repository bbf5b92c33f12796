#include "multilock/multilock_release.h"

#include "acquire/multi_wait.h"
#include "acquire/outcome.h"
#include "api/release.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/nocancel.h"
#include "net/pipeline_lead.h"
#include "node/topology.h"

#include <stdio.h>
#include <string.h>

struct releases {
    const struct hlk_members *members;
    struct hlk_multi_wait wait;
    struct hlk_releasing *begun[HLK_MULTILOCK_MAX]; /* NULL: over */
    bool again;            /* an earlier release is unsure: members that are not held were released by it */
    enum hlk_status worst; /* of all of them (acquire/outcome.h) */
    size_t worst_at;
    char text[HLK_ERROR_TEXT];
};

static void note_release(struct releases *releases, size_t i, enum hlk_status status)
{
    HLK_DEBUG_ASSERT(i < releases->members->count);
    int rank = hlk_release_rank(status), worst = hlk_release_rank(releases->worst);
    if (status == HLK_NOT_HOLDER && releases->again)
        return;
    if (rank < worst || (rank == worst && (rank == 0 || i > releases->worst_at)))
        return;
    releases->worst = status;
    releases->worst_at = i;
    (void)snprintf(releases->text, sizeof releases->text, "%s", hlk_last_error());
}

static bool all_settled(void *ctx)
{
    const struct releases *releases = ctx;
    for (size_t i = 0; i < releases->members->count; i++)
        if (releases->begun[i] && !hlk_release_is_settled(releases->begun[i]))
            return false;
    return true;
}

static void begin_releases(struct releases *releases, size_t i)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!releases->begun[i] && !hlk_lock_group(releases->members->locks[i]));
    hlk_lock *member = releases->members->locks[i];
    const struct hlk_node *server =
        hlk_node_of(hlk_lock_node(member), hlk_lock_text(member), hlk_lock_text_len(member));
    if (hlk_multi_wait_add(&releases->wait, server->pipeline))
        hlk_pipeline_hold_back(server->pipeline, true);
    enum hlk_status status = hlk_release_begin(member, releases->wait.self, &releases->begun[i]);
    if (!releases->begun[i])
        note_release(releases, i, status);
}

static void wait_for_all(struct releases *releases)
{
    hlk_mutex_assert_none();
    const struct hlk_members *members = releases->members;
    int64_t now = hlk_clock_ms(), at_ms = now;
    for (size_t i = 0; i < members->count; i++) {
        int64_t until = hlk_clock_after(now, members->locks[i]->client->reply_timeout_ms);
        at_ms = until > at_ms ? until : at_ms;
    }
    hlk_multi_wait_run(&releases->wait, hlk_multi_wait_spin_ns(&releases->wait), at_ms);
}

/* A member over several masters is released when the others are on their way. */
static void release_all(struct releases *releases)
{
    const struct hlk_members *members = releases->members;
    for (size_t i = 0; i < members->count && !releases->again; i++)
        releases->again =
            !hlk_lock_group(members->locks[i]) && hlk_release_is_unsure(members->locks[i], releases->wait.self);
    for (size_t i = members->count; i-- > 0;)
        if (!hlk_lock_group(members->locks[i]))
            begin_releases(releases, i);
    hlk_multi_wait_hold_back(&releases->wait, false); /* all leave in one write */
    for (size_t i = members->count; i-- > 0;)
        if (hlk_lock_group(members->locks[i]))
            note_release(releases, i, hlk_lock_release(members->locks[i]));
    wait_for_all(releases);
    for (size_t i = members->count; i-- > 0;)
        if (releases->begun[i])
            note_release(releases, i, hlk_release_end(members->locks[i], releases->wait.self, releases->begun[i]));
}

enum hlk_status hlk_multilock_release(hlk_lock *multilock)
{
    HLK_DEBUG_ASSERT(multilock->members);
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(multilock, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    struct releases releases = { .members = multilock->members };
    releases.wait.self = self;
    releases.wait.over = all_settled;
    releases.wait.ctx = &releases;
    int old = hlk_nocancel_begin(); /* a release sleeps, but is no cancellation point */
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    release_all(&releases);
    hlk_nocancel_end(old);
    return releases.worst == HLK_OK
               ? HLK_OK
               : hlk_last_set(releases.worst, "multilock of %zu: %s", releases.members->count, releases.text);
}
