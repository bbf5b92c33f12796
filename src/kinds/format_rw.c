/* A read/write lock: Redisson's RReadWriteLock. Both halves are one hash; each is a format of its own, in which each
 * holder has a hold id and a lease. Their waiters stand in one queue, which Redisson does not know. lua/rw_*.lua */
#include "base/debug.h"
#include "kinds/kind.h"
#include "script/command.h"
#include "script/shared_commands.h"

#include <string.h>

#define WRITE_ENDING ":write"
#define WRITE_ENDING_LEN (sizeof WRITE_ENDING - 1)

/* Where a reader's lease is: {name}:<field>:rwlock_timeout:1 */
static char *put_timeout_key(char *at, const char *name, size_t name_len, const char *client_id, uint64_t hold)
{
    static const char ending[] = ":rwlock_timeout:1";
    char key[HLK_KEY_MAX + HLK_FIELD_MAX];
    size_t len = hlk_key_tag(key, name, name_len);
    key[len++] = ':';
    len += hlk_field(key + len, client_id, hold);
    memcpy(key + len, ending, sizeof ending);
    return hlk_wire_word(at, key, len + sizeof ending - 1);
}

static char *put_write_field(char *at, const char *client_id, uint64_t hold)
{
    char field[HLK_FIELD_MAX + WRITE_ENDING_LEN];
    size_t len = hlk_field(field, client_id, hold);
    memcpy(field + len, WRITE_ENDING, WRITE_ENDING_LEN);
    return hlk_wire_word(at, field, len + WRITE_ENDING_LEN);
}

/* Lock, queue, and for a reader its lease. */
static char *rw_put_keys(char *at, const struct hlk_command *cmd, enum hlk_script script, char kind, size_t args)
{
    HLK_DEBUG_ASSERT(kind == 'r' || kind == 'w');
    size_t n = kind == 'r' ? 3 : 2;
    at = hlk_put_name(hlk_put_script(at, script, cmd, n + args, n), cmd);
    at = hlk_put_key(at, cmd, hlk_key_rw_queue);
    return kind == 'r' ? put_timeout_key(at, cmd->name, cmd->name_len, cmd->client_id, cmd->hold) : at;
}

static char *put_ticket(char *at, const struct hlk_command *cmd, char kind)
{
    HLK_DEBUG_ASSERT(kind == 'r' || kind == 'w');
    char member[HLK_MEMBER_MAX + 2];
    if (!cmd->member.since_ms)
        return hlk_wire_word(at, "", 0);
    size_t len = hlk_member(member, cmd->client_id, cmd->hold, &cmd->member);
    member[len++] = ' ';
    member[len++] = kind;
    return hlk_wire_word(at, member, len);
}

static char *put_acquire(char *at, struct hlk_command *cmd, char kind)
{
    size_t args = cmd->shares ? 6 : cmd->beside ? 5 : cmd->member.since_ms ? 4 : 3;
    at = rw_put_keys(at, cmd, HLK_SCRIPT_RW_ACQUIRE, kind, args);
    at = hlk_put_field(hlk_wire_number(at, cmd->lease_ms), cmd->client_id, cmd->hold);
    at = hlk_wire_word(at, &kind, 1);
    if (args > 3)
        at = put_ticket(at, cmd, kind);
    if (args > 4)
        at = cmd->beside ? hlk_put_field(at, cmd->client_id, cmd->beside) : hlk_wire_word(at, "", 0);
    return args > 5 ? hlk_wire_word(at, "1", 1) : at;
}

static char *put_release(char *at, struct hlk_command *cmd, char kind)
{
    size_t args = cmd->member.since_ms ? 5 : cmd->tombstone ? 4 : cmd->yield_ms ? 3 : 2;
    at = rw_put_keys(at, cmd, HLK_SCRIPT_RW_RELEASE, kind, args);
    at = hlk_wire_word(hlk_put_field(at, cmd->client_id, cmd->hold), &kind, 1);
    if (args > 2)
        at = hlk_wire_number(at, cmd->yield_ms);
    if (args > 3)
        at = hlk_wire_number(at, cmd->tombstone ? HLK_TOMBSTONE_MS : 0);
    return args > 4 ? put_ticket(at, cmd, kind) : at;
}

/* Of one half as a whole, not of a hold. */
static char *put_both_keys(char *at, const struct hlk_command *cmd, enum hlk_script script, size_t args)
{
    at = hlk_put_name(hlk_put_script(at, script, cmd, 2 + args, 2), cmd);
    return hlk_put_key(at, cmd, hlk_key_rw_queue);
}

static char *read_put_acquire(char *at, struct hlk_command *cmd)
{
    return put_acquire(at, cmd, 'r');
}

static char *write_put_acquire(char *at, struct hlk_command *cmd)
{
    return put_acquire(at, cmd, 'w');
}

static char *read_put_release(char *at, struct hlk_command *cmd)
{
    return put_release(at, cmd, 'r');
}

static char *write_put_release(char *at, struct hlk_command *cmd)
{
    return put_release(at, cmd, 'w');
}

static char *put_break(char *at, const struct hlk_command *cmd, const char *mode)
{
    at = put_both_keys(at, cmd, HLK_SCRIPT_RW_BREAK, cmd->only ? 2 : 1);
    return hlk_put_only(hlk_wire_word(at, mode, strlen(mode)), cmd);
}

static char *read_put_break(char *at, struct hlk_command *cmd)
{
    return put_break(at, cmd, "read");
}

static char *write_put_break(char *at, struct hlk_command *cmd)
{
    return put_break(at, cmd, "write");
}

static char *read_put_query(char *at, struct hlk_command *cmd)
{
    return hlk_wire_number(hlk_wire_word(put_both_keys(at, cmd, HLK_SCRIPT_RW_QUERY, 2), "r", 1), cmd->count);
}

static char *write_put_query(char *at, struct hlk_command *cmd)
{
    return hlk_wire_number(hlk_wire_word(put_both_keys(at, cmd, HLK_SCRIPT_RW_QUERY, 2), "w", 1), cmd->count);
}

/* --- a hold is raised, and many are renewed --- */

static char *read_put_reacquire(char *at, struct hlk_command *cmd)
{
    at = hlk_put_name(hlk_put_script(at, HLK_SCRIPT_RW_REACQUIRE, cmd, 5, 2), cmd);
    at = put_timeout_key(at, cmd->name, cmd->name_len, cmd->client_id, cmd->hold);
    at = hlk_put_field(at, cmd->client_id, cmd->hold);
    return hlk_wire_number(hlk_wire_number(at, cmd->count), cmd->lease_ms);
}

static char *write_put_reacquire(char *at, struct hlk_command *cmd)
{
    at = hlk_put_name(hlk_put_script(at, HLK_SCRIPT_LOCK_REACQUIRE, cmd, 4, 1), cmd);
    at = put_write_field(at, cmd->client_id, cmd->hold);
    return hlk_wire_number(hlk_wire_number(at, cmd->count), cmd->lease_ms);
}

static char *put_names(char *at, const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->renewals && cmd->count > 0);
    for (int64_t i = 0; i < cmd->count; i++)
        at = hlk_wire_word(at, cmd->renewals[i].name, cmd->renewals[i].name_len);
    return at;
}

static char *put_leases(char *at, const struct hlk_command *cmd, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at = hlk_wire_number(at, cmd->renewals[i].lease_ms);
    return at;
}

static char *read_put_renew(char *at, struct hlk_command *cmd)
{
    size_t n = (size_t)cmd->count, leases = hlk_renewal_leases(cmd);
    at = put_names(hlk_put_script(at, HLK_SCRIPT_RW_RENEW, cmd, 3 * n + leases, 2 * n), cmd);
    for (size_t i = 0; i < n; i++)
        at = put_timeout_key(at, cmd->renewals[i].name, cmd->renewals[i].name_len, cmd->client_id,
                             cmd->renewals[i].hold);
    for (size_t i = 0; i < n; i++)
        at = hlk_put_field(at, cmd->client_id, cmd->renewals[i].hold);
    return put_leases(at, cmd, leases);
}

static char *write_put_renew(char *at, struct hlk_command *cmd)
{
    size_t n = (size_t)cmd->count, leases = hlk_renewal_leases(cmd);
    at = put_names(hlk_put_script(at, HLK_SCRIPT_LOCK_RENEW, cmd, 2 * n + leases, n), cmd);
    for (size_t i = 0; i < n; i++)
        at = put_write_field(at, cmd->client_id, cmd->renewals[i].hold);
    return put_leases(at, cmd, leases);
}

/* --- replies --- */

static size_t rw_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    return hlk_key_rw_channel(out, cmd->name, cmd->name_len);
}

static hlk_key_fn *const rw_keys[] = { hlk_key_rw_queue, NULL };
#define RW_RIGHTS                                                                                                      \
    "read/write locks also need its section Read/write locks, and a reader a key "                                     \
    "{name}:<holder>:rwlock_timeout:1"

static const struct hlk_command_type read_reacquire = {
    .script = HLK_SCRIPT_RW_REACQUIRE, .put = read_put_reacquire, .keys = rw_keys, .rights = RW_RIGHTS
};
static const struct hlk_command_type write_reacquire = { .script = HLK_SCRIPT_LOCK_REACQUIRE,
                                                         .put = write_put_reacquire };
static const struct hlk_command_type read_renew = { .script = HLK_SCRIPT_RW_RENEW, .put = read_put_renew };
static const struct hlk_command_type write_renew = { .script = HLK_SCRIPT_LOCK_RENEW, .put = write_put_renew };

const struct hlk_format hlk_format_read = {
    .acquire = { HLK_SCRIPT_RW_ACQUIRE, read_put_acquire, rw_keys, RW_RIGHTS },
    .release = { HLK_SCRIPT_RW_RELEASE, read_put_release, rw_keys, RW_RIGHTS },
    .break_it = { HLK_SCRIPT_RW_BREAK, read_put_break, rw_keys, RW_RIGHTS },
    .query = { HLK_SCRIPT_RW_QUERY, read_put_query, rw_keys, RW_RIGHTS },
    .reacquire = &read_reacquire,
    .renew = &read_renew,
    .read_acquire = hlk_answer_read_foreign,
    .foreign_channel = rw_channel,
    .letter = 'r',
    .per_holder = true,
    .shares_ttl = true,
    .shares_holds = true,
    .beside = &hlk_format_write,
};

const struct hlk_format hlk_format_write = {
    .acquire = { HLK_SCRIPT_RW_ACQUIRE, write_put_acquire, rw_keys, RW_RIGHTS },
    .release = { HLK_SCRIPT_RW_RELEASE, write_put_release, rw_keys, RW_RIGHTS },
    .break_it = { HLK_SCRIPT_RW_BREAK, write_put_break, rw_keys, RW_RIGHTS },
    .query = { HLK_SCRIPT_RW_QUERY, write_put_query, rw_keys, RW_RIGHTS },
    .reacquire = &write_reacquire,
    .renew = &write_renew,
    .read_acquire = hlk_answer_read_foreign,
    .foreign_channel = rw_channel,
    .letter = 'w',
    .per_holder = true,
    .excludes = &hlk_format_read,
};
