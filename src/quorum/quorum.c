/* What every file of a quorum uses: errors, making, references. */
#include "quorum/quorum.h"

#include "base/debug.h"
#include "base/mem.h"
#include "quorum/hold.h"

#include <stdarg.h>
#include <string.h>

/* --- errors --- */

enum hlk_status hlk_quorum_fail(const struct hlk_quorum *quorum, const char *operation, enum hlk_status status,
                                const char *format, ...)
{
    HLK_DEBUG_ASSERT(quorum && operation && status != HLK_OK);
    char buf[HLK_ERROR_TEXT];
    struct hlk_text text;
    hlk_text_init(&text, buf, sizeof buf);
    hlk_text_add(&text, "%s ", operation);
    hlk_text_add_quoted(&text, quorum->name, quorum->name_len, 128);
    hlk_text_add(&text, " at %s: ", quorum->all->topology.shown);
    va_list args;
    va_start(args, format);
    hlk_text_vadd(&text, format, args);
    va_end(args);
    return hlk_last_set(status, "%s", buf);
}

enum hlk_status hlk_quorum_check(const struct hlk_quorum *quorum, const char *operation)
{
    if (!quorum)
        return hlk_last_null(operation, "quorum");
    return hlk_client_check(quorum->client, operation, quorum->name);
}

/* --- making --- */

struct hlk_quorum *hlk_quorum_make(hlk_client *client, const char *name, size_t len, size_t extra,
                                   const struct hlk_quorum_opts *opts)
{
    HLK_DEBUG_ASSERT(len > 0 && len <= HLK_NAME_MAX && hlk_quorum_layout_get(opts->format));
    struct hlk_quorum *quorum = hlk_mem_zalloc(sizeof *quorum + len + 1 + extra);
    if (!quorum)
        return NULL;
    atomic_init(&quorum->refs, 1);
    hlk_client_ref(client);
    quorum->client = client;
    quorum->all = hlk_quorums_of(client);
    quorum->layout = hlk_quorum_layout_get(opts->format);
    quorum->opts = *opts;
    quorum->end.run = hlk_quorum_on_end;
    quorum->alarm.fire = hlk_quorum_on_alarm;
    hlk_list_init(&quorum->reports);
    quorum->name_len = len;
    memcpy(quorum->name, name, len);
    hlk_mutex_lock(&quorum->all->mu);
    hlk_list_push_back(&quorum->all->all, &quorum->link);
    hlk_mutex_unlock(&quorum->all->mu);
    return quorum;
}

/* --- references --- */

static void quorum_free(struct hlk_quorum *quorum)
{
    HLK_DEBUG_ASSERT(!quorum->round);
    hlk_client *client = quorum->client;
    hlk_mutex_lock(&quorum->all->mu);
    hlk_list_remove(&quorum->link);
    hlk_mutex_unlock(&quorum->all->mu);
    hlk_mem_free(quorum);
    hlk_client_unref(client);
}

void hlk_quorum_on_end(struct hlk_post *post)
{
    hlk_loop_assert_here(HLK_CONTAINER(post, struct hlk_quorum, end)->client->loop);
    struct hlk_quorum *quorum = HLK_CONTAINER(post, struct hlk_quorum, end);
    hlk_loop_cancel(quorum->client->loop, &quorum->alarm);
    quorum_free(quorum);
}

void hlk_quorum_ref(struct hlk_quorum *quorum)
{
    atomic_fetch_add(&quorum->refs, 1);
}

/* The loop may have the alarm in its hands. */
void hlk_quorum_unref(struct hlk_quorum *quorum)
{
    HLK_DEBUG_ASSERT(atomic_load(&quorum->refs) > 0);
    if (atomic_fetch_sub(&quorum->refs, 1) == 1 && !hlk_loop_try_post(quorum->client->loop, &quorum->end))
        quorum_free(quorum);
}

void hlk_quorum_unlock(struct hlk_quorum *quorum)
{
    struct hlk_quorums *all = quorum->all;
    hlk_mutex_assert_held(&all->mu);
    bool idle =
        quorum->node.key && quorum->users == 0 && quorum->state == HLK_QUORUM_FREE && hlk_list_empty(&quorum->reports);
    if (idle) {
        hlk_map_remove(&all->holders, &quorum->node);
        quorum->node.key = NULL;
    }
    hlk_mutex_unlock(&all->mu);
    if (idle)
        hlk_quorum_unref(quorum);
}
