/* Permits with leases: Redisson's RPermitExpirableSemaphore. A string is the number of free ones, and a zset has the
 * end of each lease. Each holder has one permit, whose id is its hold. Waiters stand in a queue as of a plain lock,
 * which Redisson does not know. lua/permit_*.lua */
#include "base/debug.h"
#include "kinds/kind.h"
#include "script/command.h"
#include "script/shared_commands.h"

/* Permits, queue, leases. */
static char *permit_head(char *at, const struct hlk_command *cmd, size_t args)
{
    at = hlk_put_script(at, cmd->type->script, cmd, 3 + args, 3);
    at = hlk_put_key(hlk_put_name(at, cmd), cmd, hlk_key_queue);
    return hlk_put_key(at, cmd, hlk_key_leases);
}

static char *permit_put_channel(char *at, const struct hlk_command *cmd)
{
    return hlk_put_key(at, cmd, hlk_key_semaphore_channel);
}

static char *put_id(char *at, const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(!cmd->id || cmd->id_len > 0);
    return cmd->id ? hlk_wire_word(at, cmd->id, cmd->id_len) : hlk_put_field(at, cmd->client_id, cmd->hold);
}

static char *permit_put_ticket(char *at, const struct hlk_command *cmd)
{
    char text[HLK_MEMBER_MAX];
    size_t len = cmd->member.since_ms ? hlk_member(text, cmd->client_id, cmd->hold, &cmd->member) : 0;
    return hlk_wire_word(at, text, len);
}

static char *permit_put_acquire(char *at, struct hlk_command *cmd)
{
    at = put_id(hlk_wire_number(permit_head(at, cmd, 5), cmd->lease_ms), cmd);
    return permit_put_ticket(hlk_wire_number(permit_put_channel(at, cmd), cmd->count), cmd);
}

static char *permit_put_release(char *at, struct hlk_command *cmd)
{
    at = permit_put_channel(put_id(permit_head(at, cmd, cmd->drops ? 6 : 5), cmd), cmd);
    at = hlk_wire_number(at, cmd->yield_ms);
    at = permit_put_ticket(hlk_wire_number(at, cmd->tombstone ? HLK_TOMBSTONE_MS : 0), cmd);
    return cmd->drops ? hlk_wire_number(at, 1) : at;
}

static char *permit_put_query(char *at, struct hlk_command *cmd)
{
    at = permit_put_channel(hlk_wire_number(permit_head(at, cmd, 3), cmd->count), cmd);
    return cmd->id || cmd->hold ? put_id(at, cmd) : hlk_wire_word(at, "", 0);
}

static char *permit_put_change(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->change >= 0 && cmd->change <= HLK_PERMITS_DELETE);
    static const char *const names[] = { "try_set", "set", "add", "get", "delete" };
    at = permit_head(at, cmd, 3);
    at = hlk_wire_word(at, names[cmd->change], strlen(names[cmd->change]));
    return permit_put_channel(hlk_wire_number(at, cmd->count), cmd);
}

/* --- a hold is raised, and many are renewed --- */

static char *permit_put_extend(char *at, struct hlk_command *cmd)
{
    at = hlk_put_key(hlk_put_script(at, HLK_SCRIPT_PERMIT_EXTEND, cmd, 4, 1), cmd, hlk_key_leases);
    return hlk_wire_number(hlk_wire_number(put_id(at, cmd), cmd->count), cmd->lease_ms);
}

static char *permit_put_renew(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->renewals && cmd->count > 0);
    size_t n = (size_t)cmd->count, leases = hlk_renewal_leases(cmd);
    at = hlk_put_script(at, HLK_SCRIPT_PERMIT_RENEW, cmd, 2 * n + leases, n);
    for (size_t i = 0; i < n; i++) {
        char key[HLK_KEY_MAX];
        size_t len = hlk_key_leases(key, cmd->renewals[i].name, cmd->renewals[i].name_len);
        at = hlk_wire_word(at, key, len);
    }
    for (size_t i = 0; i < n; i++)
        at = hlk_put_field(at, cmd->client_id, cmd->renewals[i].hold);
    for (size_t i = 0; i < leases; i++)
        at = hlk_wire_number(at, cmd->renewals[i].lease_ms);
    return at;
}

/* --- replies --- */

static void permit_describe(struct hlk_text *text, const char *held)
{
    if (strcmp(held, "none") == 0)
        hlk_text_add(text, HLK_NO_PERMITS);
    else
        hlk_text_add(text, "%s permits are held, and none is free", held);
}

static size_t permit_channel(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd)
{
    return hlk_key_semaphore_channel(out, cmd->name, cmd->name_len);
}

static hlk_key_fn *const permit_keys[] = { hlk_key_queue, hlk_key_leases, NULL };
static hlk_key_fn *const lease_keys[] = { hlk_key_leases, NULL };
#define PERMIT_RIGHTS "permits also need its sections Semaphores and Permits"

static const struct hlk_command_type permit_extend = { HLK_SCRIPT_PERMIT_EXTEND, permit_put_extend, lease_keys,
                                                       PERMIT_RIGHTS };
static const struct hlk_command_type permit_renew = { .script = HLK_SCRIPT_PERMIT_RENEW, .put = permit_put_renew };
const struct hlk_command_type hlk_permits_command = { HLK_SCRIPT_PERMIT_CHANGE, permit_put_change, permit_keys,
                                                      PERMIT_RIGHTS };

const struct hlk_format hlk_format_permit = {
    .acquire = { HLK_SCRIPT_PERMIT_ACQUIRE, permit_put_acquire, permit_keys, PERMIT_RIGHTS },
    .release = { HLK_SCRIPT_PERMIT_RELEASE, permit_put_release, permit_keys, PERMIT_RIGHTS },
    .query = { HLK_SCRIPT_PERMIT_QUERY, permit_put_query, permit_keys, PERMIT_RIGHTS },
    .reacquire = &permit_extend,
    .renew = &permit_renew,
    .read_acquire = hlk_answer_read_foreign,
    .foreign_channel = permit_channel,
    .letter = 'e',
    .per_holder = true,
    .describe = permit_describe,
};
