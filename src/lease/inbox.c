/* What the scripts tell this client: a lock is its own now, it is to ask, or a hold of its was broken. */
#include "lease/table.h"

#include "base/clock.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct letter { /* "<what> <hold id> <ttl> <token> <lock>"; the name may have any bytes */
    char what[8];
    uint64_t h;
    int64_t ttl_ms, token;
    const char *name;
    size_t name_len;
};

/* " <number>"; *at is moved behind it. */
static bool read_number(const char **at, int64_t *out)
{
    char *end;
    if (**at != ' ' || !isdigit((unsigned char)(*at)[1]))
        return false;
    *out = strtoll(*at + 1, &end, 10);
    *at = end;
    return true;
}

/* By hand: sscanf was a fiftieth of what a hand-over costs the one who gets it. */
static bool read_letter(struct letter *letter, const char *message, size_t len)
{
    char head[sizeof letter->what + 3 * 24];
    size_t part = len < sizeof head - 1 ? len : sizeof head - 1;
    memcpy(head, message, part);
    head[part] = '\0';
    size_t word = 0;
    while (islower((unsigned char)head[word]))
        word++;
    if (word == 0 || word >= sizeof letter->what)
        return false;
    memcpy(letter->what, head, word);
    letter->what[word] = '\0';
    const char *at = head + word;
    int64_t h;
    if (!read_number(&at, &h) || !read_number(&at, &letter->ttl_ms) || !read_number(&at, &letter->token) || *at != ' ')
        return false;
    letter->h = (uint64_t)h;
    size_t used = (size_t)(at - head) + 1;
    letter->name = message + used;
    letter->name_len = len - used;
    return letter->name_len > 0 && letter->name_len <= HLK_NAME_MAX;
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
    hlk_table_end(s, &parting);
    hlk_session_unref(s);
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
        hlk_table_lose(s, letter.h, "broken by an operator");
    if (s)
        hlk_session_unref(s);
}
