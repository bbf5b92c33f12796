#include "script/keys.h"

#include "base/debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Redisson's rule: a name that has a '{' anywhere stays as it is. */
static bool is_bare(const char *name, size_t len)
{
    return memchr(name, '{', len) != NULL;
}

/* Behind the first n bytes. Returns the length of all. */
static size_t put_name(char out[HLK_KEY_MAX], size_t n, const char *name, size_t len, bool bare)
{
    HLK_DEBUG_ASSERT(len <= HLK_NAME_MAX && n + len + 2 <= HLK_KEY_MAX);
    if (!bare)
        out[n++] = '{';
    memcpy(out + n, name, len);
    n += len;
    if (!bare)
        out[n++] = '}';
    return n;
}

static size_t prefixed(char out[HLK_KEY_MAX], const char *prefix, const char *name, size_t len)
{
    size_t n = strlen(prefix);
    memcpy(out, prefix, n);
    return put_name(out, n, name, len, is_bare(name, len));
}

size_t hlk_key_channel(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "redisson_lock__channel:", name, len);
}

/* Not Redisson's rule, by which "a" and "{a}" share one key: then a release of one could grant it to a waiter of the
 * other. hasplock_queue:{a} and hasplock_queue::{a} differ in the byte after the prefix, '{' or ':'. So a name with a
 * '{' never has the key of a name without one. Within each group the key minus prefix and ending is the name. The slot
 * is the same as by Redisson's rule, because the prefix has no brace. */
size_t hlk_key_own(char out[HLK_KEY_MAX], const char *prefix, const char *name, size_t len)
{
    bool bare = is_bare(name, len);
    size_t n = strlen(prefix);
    memcpy(out, prefix, n);
    out[n++] = ':';
    if (bare)
        out[n++] = ':';
    return put_name(out, n, name, len, bare);
}

size_t hlk_key_queue(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_queue", name, len);
}

size_t hlk_key_note(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_note", name, len);
}

size_t hlk_key_semaphore_channel(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "redisson_sc:", name, len);
}

size_t hlk_key_leases(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    static const char ending[] = ":timeout";
    size_t n = prefixed(out, "", name, len);
    memcpy(out + n, ending, sizeof ending - 1);
    return n + sizeof ending - 1;
}

size_t hlk_key_token(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "redisson_lock_token:", name, len);
}

size_t hlk_key_inbox(char out[HLK_KEY_MAX], const char *client_id)
{
    return (size_t)snprintf(out, HLK_KEY_MAX, HLK_INBOX_PREFIX "%s", client_id);
}

size_t hlk_key_lock_inbox(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const char *name, size_t len, const char *client_id)
{
    size_t n = prefixed(out, HLK_INBOX_PREFIX, name, len), more = strlen(client_id);
    out[n++] = ':';
    memcpy(out + n, client_id, more);
    return n + more;
}

#define LATCH_CHANNEL "redisson_countdownlatch__channel__"

size_t hlk_key_latch(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    HLK_DEBUG_ASSERT(len <= HLK_NAME_MAX);
    size_t n = sizeof LATCH_CHANNEL "{" - 1;
    memcpy(out, LATCH_CHANNEL "{", n);
    memcpy(out + n, name, len);
    out[n + len] = '}';
    return n + len + 1;
}

size_t hlk_key_latch_in_slot(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, LATCH_CHANNEL, name, len);
}

size_t hlk_key_barrier(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_barrier", name, len);
}

size_t hlk_key_arrived(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_arrived", name, len);
}

size_t hlk_key_fair_queue(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "redisson_lock_queue:", name, len);
}

size_t hlk_key_fair_scores(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "redisson_lock_timeout:", name, len);
}

size_t hlk_key_fair(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "hasplock_fair:", name, len);
}

size_t hlk_key_rw_queue(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_rwlock", name, len);
}

size_t hlk_key_rw_channel(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "redisson_rwlock:", name, len);
}

size_t hlk_key_tag(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return prefixed(out, "", name, len);
}

size_t hlk_key_waiter(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const char *name, size_t len, const char *client_id,
                      uint64_t hold)
{
    size_t n = hlk_key_channel(out, name, len);
    out[n++] = ':';
    return n + hlk_field(out + n, client_id, hold);
}

bool hlk_name_breaks_slots(const char *name, size_t len)
{
    const char *open = memchr(name, '{', len);
    if (!open)
        return memchr(name, '}', len) != NULL; /* prefix:{a}b}: its hash tag is "a", but the lock's key has none */
    size_t rest = len - (size_t)(open + 1 - name);
    const char *close = memchr(open + 1, '}', rest);
    return !close || close == open + 1;
}

size_t hlk_field(char out[HLK_FIELD_MAX], const char *client_id, uint64_t hold)
{
    size_t n = strlen(client_id);
    HLK_DEBUG_ASSERT(n + 22 <= HLK_FIELD_MAX);
    memcpy(out, client_id, n);
    out[n++] = ':';
    n += hlk_text_number(out + n, (int64_t)hold);
    out[n] = '\0';
    return n;
}

size_t hlk_member(char out[HLK_MEMBER_MAX], const char *client_id, uint64_t hold, const struct hlk_member *member)
{
    const int64_t parts[] = { member->ttl_ms, member->tokens, member->floor, member->since_ms };
    size_t n = hlk_field(out, client_id, hold);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        out[n++] = ' ';
        n += hlk_text_number(out + n, parts[i]);
    }
    out[n] = '\0';
    return n;
}

bool hlk_field_is_ours(const char *field)
{
    return strncmp(field, "hlk-", 4) == 0;
}

bool hlk_field_is_of(const char *field, size_t len, const char *client_id)
{
    size_t n = strlen(client_id);
    return len > n && field[n] == ':' && memcmp(field, client_id, n) == 0;
}

/* hlk-<host>-<pid>-<random>:<hold>; the host may contain dashes */
static bool describe_ours(struct hlk_text *text, const char *field, size_t len)
{
    char copy[HLK_FIELD_MAX];
    if (len >= sizeof copy || !hlk_field_is_ours(field))
        return false;
    memcpy(copy, field, len);
    copy[len] = '\0';
    char *colon = strrchr(copy, ':');
    if (!colon)
        return false;
    *colon = '\0';
    char *random = strrchr(copy, '-');
    if (!random || random < copy + 4)
        return false;
    *random = '\0';
    char *pid = strrchr(copy, '-');
    if (!pid || pid < copy + 4 || !pid[1] || strspn(pid + 1, "0123456789") != strlen(pid + 1))
        return false;
    *pid = '\0';
    hlk_text_add(text, "%s pid %s (hold %s)", copy + 4, pid + 1, colon + 1);
    return true;
}

void hlk_field_describe(struct hlk_text *text, const char *field, size_t len)
{
    if (!describe_ours(text, field, len))
        hlk_text_add_quoted(text, field, len, 128);
}
