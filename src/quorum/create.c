/* Handles: making them, and what needs no server. */
#include "quorum/quorum.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "quorum/opts.h"
#include "quorum/release.h"
#include "quorum/round.h"

#include <string.h>

/* --- making --- */

hlk_quorum *hlk_quorum_create(hlk_client *client, const char *name, const struct hlk_quorum_opts *given)
{
    struct hlk_quorum_opts opts;
    if (hlk_client_check(client, "create quorum", name) != HLK_OK)
        return NULL;
    size_t len = name ? strnlen(name, HLK_NAME_MAX + 1) : 0;
    if (!client->topology) {
        (void)hlk_last_set(HLK_E_INVALID, "create quorum: the client is none of hlk_quorum_open");
        return NULL;
    }
    if (len == 0 || len > HLK_NAME_MAX) {
        (void)hlk_last_set(HLK_E_INVALID, "create quorum: a name has 1 to %d bytes", HLK_NAME_MAX);
        return NULL;
    }
    if (hlk_quorum_opts_read(given, &opts) != HLK_OK)
        return NULL;
    struct hlk_quorum *quorum = hlk_quorum_make(client, name, len, 0, &opts);
    if (!quorum)
        (void)hlk_last_set(HLK_E_NOMEM, "create quorum: no memory");
    return quorum;
}

void hlk_quorum_destroy(hlk_quorum *quorum)
{
    if (!quorum || quorum->client->process != hlk_thread_process())
        return;
    int old = hlk_nocancel_begin();
    if (!atomic_load(&quorum->client->closing))
        hlk_quorum_release_nowait(quorum, true);
    hlk_events_silence(&quorum->client->events, quorum);
    hlk_quorum_unref(quorum);
    hlk_nocancel_end(old);
}

/* --- what needs no server --- */

/* Of a hold that is valid now; else 0. */
static int64_t valid_until(hlk_quorum *quorum, int64_t now_ms)
{
    if (!quorum || quorum->client->process != hlk_thread_process())
        return 0;
    hlk_mutex_lock(&quorum->all->mu);
    int64_t until = quorum->state == HLK_QUORUM_HELD ? quorum->validity.until_ms : 0;
    hlk_mutex_unlock(&quorum->all->mu);
    return now_ms < until ? until : 0;
}

int64_t hlk_quorum_held_until(hlk_quorum *quorum)
{
    return valid_until(quorum, hlk_clock_ms());
}

int64_t hlk_quorum_left_ms(hlk_quorum *quorum)
{
    int64_t now = hlk_clock_ms(), until = valid_until(quorum, now);
    return until ? until - now : 0;
}

int hlk_quorum_is_lost(hlk_quorum *quorum)
{
    if (!quorum || quorum->client->process != hlk_thread_process())
        return 0;
    int64_t now = hlk_clock_ms();
    hlk_mutex_lock(&quorum->all->mu);
    bool lost =
        quorum->state == HLK_QUORUM_LOST || (quorum->state == HLK_QUORUM_HELD && now >= quorum->validity.until_ms);
    hlk_mutex_unlock(&quorum->all->mu);
    return lost;
}

const char *hlk_quorum_name(const hlk_quorum *quorum)
{
    return quorum ? quorum->name : NULL;
}

enum hlk_status hlk_quorum_hold_id(hlk_quorum *quorum, char *buf, size_t size)
{
    char holder[HLK_FIELD_MAX] = "";
    if (buf && size)
        buf[0] = '\0';
    enum hlk_status status = hlk_quorum_check(quorum, "hold id");
    if (status != HLK_OK)
        return status;
    if (!buf || size == 0)
        return hlk_quorum_fail(quorum, "hold id", HLK_E_INVALID, "no room for it");
    if (hlk_quorum_is_lost(quorum))
        return hlk_quorum_fail(quorum, "hold id", HLK_LOST, "the hold was lost");
    hlk_mutex_lock(&quorum->all->mu);
    bool held = quorum->state == HLK_QUORUM_HELD;
    size_t len = held ? hlk_field(holder, quorum->client->id, quorum->round->hold) : 0;
    hlk_mutex_unlock(&quorum->all->mu);
    if (!held)
        return hlk_quorum_fail(quorum, "hold id", HLK_NOT_HOLDER, "not held by this handle");
    len = len < size - 1 ? len : size - 1;
    memcpy(buf, holder, len);
    buf[len] = '\0';
    return HLK_OK;
}
