/* What every file of a quorum uses: errors and references. */
#include "quorum/quorum.h"

#include "base/mem.h"

#include <stdarg.h>

/* --- errors --- */

enum hlk_status hlk_quorum_fail(const struct hlk_quorum *quorum, const char *operation, enum hlk_status status,
                                const char *format, ...)
{
    char buf[HLK_ERROR_TEXT];
    struct hlk_text text;
    hlk_text_init(&text, buf, sizeof buf);
    hlk_text_add(&text, "%s ", operation);
    hlk_text_add_quoted(&text, quorum->name, quorum->name_len, 128);
    hlk_text_add(&text, " at %u masters: ", quorum->client->node_count);
    va_list args;
    va_start(args, format);
    hlk_text_vadd(&text, format, args);
    va_end(args);
    return hlk_last_set(status, "%s", buf);
}

enum hlk_status hlk_quorum_check(const struct hlk_quorum *quorum, const char *operation)
{
    if (!quorum)
        return hlk_last_set(HLK_E_INVALID, "%s: quorum is NULL", operation);
    return hlk_client_check(quorum->client, operation, quorum->name);
}

/* --- references --- */

static void quorum_free(struct hlk_quorum *quorum)
{
    hlk_client *client = quorum->client;
    hlk_mutex_lock(&quorum->all->mu);
    hlk_list_remove(&quorum->link);
    hlk_mutex_unlock(&quorum->all->mu);
    hlk_mem_free(quorum);
    hlk_client_unref(client);
}

void hlk_quorum_on_end(struct hlk_post *post)
{
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
    if (atomic_fetch_sub(&quorum->refs, 1) == 1 && !hlk_loop_try_post(quorum->client->loop, &quorum->end))
        quorum_free(quorum);
}
