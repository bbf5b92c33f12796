#include "lease/inbox.h"

#include "base/clock.h"
#include "lease/entry_lose.h"
#include "lease/hold_end.h"
#include "lease/local_queue.h"
#include "lease/shared_hold.h"
#include "script/release_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MOST 4096 /* before the name: of up to 64 holds at once (lua/include_rw.lua) */

/* "<what> <hold id> <ttl>[+<waited>] <token> <lock>"; the name may have any bytes. What is told of several holds of the
 * lock at once has a comma and the same two or three numbers for each after the first. */
struct inbox_message {
    char what[8]; /* with the format's letter before it, if it has one */
    const struct hlk_format *format;
    bool lettered; /* `what` begins with the format's letter */
    uint64_t h;
    int64_t ttl_ms, waited_ms, token;
    char head[HEAD_MOST];
    const char *next; /* in head: the holds after this one */
    const char *name;
    size_t name_len;
};

/* A number after the character `before`, at most `most`; *at is moved behind it. */
static bool inbox_read_number(const char **at, char before, int64_t max, int64_t *out)
{
    char *end;
    if (**at != before || !isdigit((unsigned char)(*at)[1]))
        return false;
    errno = 0;
    *out = strtoll(*at + 1, &end, 10);
    *at = end;
    return errno == 0 && *out <= max;
}

static const struct hlk_format *format_by_letter(const struct hlk_entry_table *table, char letter)
{
    for (unsigned i = 0; i < HLK_FORMATS_MAX; i++)
        if (table->formats[i] && table->formats[i]->letter == letter)
            return table->formats[i];
    return NULL;
}

/* One hold of the message; *at is moved behind it. */
static bool inbox_read_hold(struct inbox_message *inbox_message, const char **at, char before)
{
    int64_t h;
    if (!inbox_read_number(at, before, INT64_MAX, &h) ||
        !inbox_read_number(at, ' ', HLK_LEASE_MAX_MS, &inbox_message->ttl_ms))
        return false;
    inbox_message->h = (uint64_t)h;
    inbox_message->waited_ms = 0;
    return **at != '+' || inbox_read_number(at, '+', INT64_MAX, &inbox_message->waited_ms);
}

/* The next hold of the same message. False: that was the last one. */
static bool inbox_next(struct inbox_message *inbox_message)
{
    return *inbox_message->next == ',' && inbox_read_hold(inbox_message, &inbox_message->next, ',');
}

/* A client that may publish to the inbox can write any word after any letter. A message is valid only if scripts of its
 * format send it. */
static bool is_sent_by_scripts(const struct inbox_message *inbox_message)
{
    const struct hlk_format *format = inbox_message->format;
    return !format->holds_nothing && (!format->sends_only_open || strcmp(inbox_message->what + 1, "open") == 0);
}

static bool read_inbox_head(const struct hlk_entry_table *table, struct inbox_message *inbox_message, const char **at)
{
    const char *head = inbox_message->head;
    size_t word = 0;
    while (islower((unsigned char)head[word]))
        word++;
    if (word == 0 || word >= sizeof inbox_message->what)
        return false;
    memcpy(inbox_message->what, head, word);
    inbox_message->what[word] = '\0';
    inbox_message->format = format_by_letter(table, head[0]);
    inbox_message->lettered = inbox_message->format != NULL;
    if (!inbox_message->format)
        inbox_message->format = format_by_letter(table, 0);
    *at = head + word;
    return is_sent_by_scripts(inbox_message);
}

/* By hand: sscanf took 2 % of the receiver's time for a hand-over. Reads all but the holds after the first. */
static bool read_inbox_message(const struct hlk_entry_table *table, struct inbox_message *inbox_message,
                               const char *message, size_t len)
{
    struct inbox_message later;
    size_t part = len < HEAD_MOST - 1 ? len : HEAD_MOST - 1;
    const char *at;
    memcpy(inbox_message->head, message, part);
    inbox_message->head[part] = '\0';
    if (!read_inbox_head(table, inbox_message, &at) || !inbox_read_hold(inbox_message, &at, ' '))
        return false;
    for (inbox_message->next = at; *at == ',';)
        if (!inbox_read_hold(&later, &at, ','))
            return false;
    if (!inbox_read_number(&at, ' ', INT64_MAX, &inbox_message->token) || *at != ' ')
        return false;
    size_t used = (size_t)(at - inbox_message->head) + 1;
    inbox_message->name = message + used;
    inbox_message->name_len = len - used;
    return inbox_message->name_len > 0 && inbox_message->name_len <= HLK_NAME_MAX;
}

/* No waiter needs the grant any more, so the next one shall have it. A pending release does that too, and it comes
 * first: its reply says whether the holder still had the hold. */
static void hand_back(struct hlk_node *node, const struct inbox_message *inbox_message)
{
    hlk_mutex_assert_none();
    if (atomic_load(&node->table->handing_back) >= HLK_HAND_BACKS_MOST ||
        hlk_releases_has(&node->releases, inbox_message->h))
        return;
    const struct hlk_format *format = inbox_message->format;
    struct hlk_entry *e = format->per_holder
                              ? hlk_entry_get_own(node, format, inbox_message->name, inbox_message->name_len, 0, true)
                              : hlk_entry_get(node, format, inbox_message->name, inbox_message->name_len);
    if (!e)
        return; /* no memory: the grant expires */
    HLK_COUNT(node->table, handed_back);
    struct hlk_release_record record = { .h = inbox_message->h,
                                         .until_ms = hlk_clock_ms() + inbox_message->ttl_ms,
                                         .fenced = inbox_message->token > 0 };
    hlk_hold_hand_back(e, &record);
    hlk_entry_unref(e);
}

/* Before the entries of its holders are looked at, none enters the hold any more. To whoever breaks it a fair lock
 * without waiters looks like a plain one: its holder is found by the hold id. */
static void receive_broken(struct hlk_node *node, const struct inbox_message *inbox_message, struct hlk_entry *e)
{
    static const char why[] = "broken by an operator";
    bool own = inbox_message->format->per_holder;
    hlk_shared_close(node, inbox_message->format, inbox_message->name, inbox_message->name_len);
    if (own || !inbox_message->lettered)
        hlk_entry_lose_own(node, inbox_message->h, why);
    if (e && !own)
        hlk_entry_lose(e, inbox_message->h, why);
}

static void receive_one(struct hlk_node *node, const struct inbox_message *inbox_message)
{
    struct hlk_entry *e =
        inbox_message->format->per_holder
            ? hlk_entry_find_hold(node, inbox_message->h)
            : hlk_entry_find(node, inbox_message->format, inbox_message->name, inbox_message->name_len);
    const char *what = inbox_message->what + inbox_message->lettered;
    bool grant = strcmp(what, "grant") == 0;
    if (grant && !(e && hlk_entry_grant(e, inbox_message->h, inbox_message->ttl_ms, inbox_message->waited_ms,
                                        inbox_message->token)))
        hand_back(node, inbox_message);
    else if (e && strcmp(what, "open") == 0)
        hlk_entry_retry(e, inbox_message->h);
    else if (strcmp(what, "want") == 0)
        hlk_shared_close(node, inbox_message->format, inbox_message->name, inbox_message->name_len);
    else if (strcmp(what, "broken") == 0)
        receive_broken(node, inbox_message, e);
    else if (strcmp(what, "quit") == 0)
        hlk_entry_ask_holder(node, inbox_message->h);
    if (e)
        hlk_entry_unref(e);
}

void hlk_inbox_receive(struct hlk_node *node, const char *message, size_t len)
{
    hlk_mutex_assert_none();
    struct inbox_message inbox_message;
    if (!read_inbox_message(node->table, &inbox_message, message, len)) {
        hlk_log_write(node->table->log, HLK_LOG_WARN, "unknown inbox message, ignored: %.*s", len > 64 ? 64 : (int)len,
                      message);
        return;
    }
    do
        receive_one(node, &inbox_message);
    while (inbox_next(&inbox_message));
}
