/* What the scripts tell this client: a lock is its own now, it is to ask, or a hold of its was broken. */
#include "lease/table.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct letter { /* "<what> <hold id> <ttl> <token> <lock>"; the name may have any bytes */
    char what[8];
    uint64_t h;
    int64_t ttl_ms, token;
    const char *name;
    size_t name_len;
};

static bool read_letter(struct letter *letter, const char *message, size_t len)
{
    char head[8 + 3 * 24];
    int used = 0;
    size_t part = len < sizeof head - 1 ? len : sizeof head - 1;
    memcpy(head, message, part);
    head[part] = '\0';
    if (sscanf(head, "%7[a-z] %" SCNu64 " %" SCNd64 " %" SCNd64 "%n", letter->what, &letter->h, &letter->ttl_ms,
               &letter->token, &used) != 4 ||
        (size_t)used + 1 >= len || message[used] != ' ')
        return false;
    letter->name = message + used + 1;
    letter->name_len = len - (size_t)used - 1;
    return letter->name_len <= HLK_NAME_MAX;
}

/* Nobody waits for it any more: the next one shall have it. An end that is on its way does that too, and by its answer
 * a holder learns whether the hold was still its own: it must not come second. */
static void hand_back(struct hlk_table *table, const struct letter *letter)
{
    if (hlk_undos_owe(table->undos, letter->h))
        return;
    struct hlk_session *s = hlk_session_get(table, letter->name, letter->name_len);
    if (!s)
        return; /* no memory: the grant runs out */
    HLK_COUNT(table, handed_back);
    struct hlk_parting parting = { .h = letter->h,
                                   .until_ms = hlk_clock_ms() + letter->ttl_ms,
                                   .fenced = letter->token > 0 };
    hlk_table_end(table, s, &parting);
    hlk_session_unref(s);
}

static void broken(struct hlk_session *s, uint64_t h)
{
    struct hlk_parting parting;
    if (!hlk_session_lose(s, h, "broken by an operator", &parting))
        return;
    hlk_table_end_lost(s->table, s, &parting);
    hlk_session_ended(s);
}

void hlk_table_hear(struct hlk_table *table, const char *message, size_t len)
{
    struct letter letter;
    if (!read_letter(&letter, message, len)) {
        hlk_log_write(table->log, HLK_LOG_WARN, "a message in the inbox that is none of ours: %.*s",
                      len > 64 ? 64 : (int)len, message);
        return;
    }
    struct hlk_session *s = hlk_session_find(table, letter.name, letter.name_len);
    bool grant = strcmp(letter.what, "grant") == 0;
    if (grant && !(s && hlk_session_grant(s, letter.h, letter.ttl_ms, letter.token)))
        hand_back(table, &letter);
    else if (s && strcmp(letter.what, "open") == 0)
        hlk_session_open(s, letter.h);
    else if (s && strcmp(letter.what, "broken") == 0)
        broken(s, letter.h);
    if (s)
        hlk_session_unref(s);
}
