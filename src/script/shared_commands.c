#include "script/shared_commands.h"

#include "base/debug.h"
#include "script/format.h"

#include <stdio.h>
#include <string.h>

/* For SCAN, all of whose patterns' bytes mean themselves. */
static char *put_pattern(char *at, const char *prefix)
{
    HLK_DEBUG_ASSERT(strlen(prefix) <= HLK_NAME_MAX);
    char pattern[2 * HLK_NAME_MAX + 1];
    size_t len = 0;
    for (; *prefix; prefix++) {
        if (strchr("*?[]\\", *prefix))
            pattern[len++] = '\\';
        pattern[len++] = *prefix;
    }
    pattern[len++] = '*';
    return hlk_wire_word(at, pattern, len);
}

static char *put_list(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->prefix);
    char cursor[24];
    int len = snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)cmd->cursor);
    bool patterned = !cmd->list_type || strcmp(cmd->list_type, "string") == 0;
    at = hlk_put_script(at, HLK_SCRIPT_LOCK_LIST, cmd, cmd->list_type ? 4 : 3, 0);
    at = hlk_wire_word(at, cursor, (size_t)len);
    at = patterned ? put_pattern(at, cmd->prefix) : hlk_wire_word(at, cmd->prefix, strlen(cmd->prefix));
    at = hlk_wire_number(at, cmd->count);
    return cmd->list_type ? hlk_wire_word(at, cmd->list_type, strlen(cmd->list_type)) : at;
}

const struct hlk_command_type hlk_command_list = { .script = HLK_SCRIPT_LOCK_LIST, .put = put_list };

static char *put_find(char *at, struct hlk_command *cmd)
{
    return hlk_put_name(hlk_put_script(at, HLK_SCRIPT_LOCK_FIND, cmd, 1, 1), cmd);
}

static char *put_ask(char *at, struct hlk_command *cmd)
{
    at = hlk_put_name(hlk_put_script(at, HLK_SCRIPT_LOCK_ASK, cmd, 2, 1), cmd);
    return hlk_put_only(at, cmd);
}

const struct hlk_command_type hlk_command_ask = { .script = HLK_SCRIPT_LOCK_ASK, .put = put_ask };

const struct hlk_command_type hlk_command_find = { .script = HLK_SCRIPT_LOCK_FIND, .put = put_find };

static hlk_key_fn *const note_keys[] = { hlk_key_note, NULL };

static char *put_note_key(char *at, const struct hlk_command *cmd)
{
    char key[HLK_KEY_MAX + 1 + HLK_FIELD_MAX];
    size_t len = hlk_key_note(key, cmd->name, cmd->name_len), more = cmd->only ? strlen(cmd->only) : 0;
    HLK_DEBUG_ASSERT(more < HLK_FIELD_MAX);
    key[len++] = ':';
    if (cmd->only)
        memcpy(key + len, cmd->only, more);
    else
        more = hlk_field(key + len, cmd->client_id, cmd->hold);
    return hlk_wire_word(at, key, len + more);
}

static char *put_write_note(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->note && cmd->lease_ms > 0);
    at = hlk_wire_word(hlk_wire_count(at, '*', 5), "SET", 3);
    at = hlk_wire_word(put_note_key(at, cmd), cmd->note, strlen(cmd->note));
    return hlk_wire_number(hlk_wire_word(at, "PX", 2), cmd->lease_ms);
}

static char *put_remove_note(char *at, struct hlk_command *cmd)
{
    return put_note_key(hlk_wire_word(hlk_wire_count(at, '*', 2), "DEL", 3), cmd);
}

static char *put_read_note(char *at, struct hlk_command *cmd)
{
    return put_note_key(hlk_put_script(at, HLK_SCRIPT_LOCK_NOTE, cmd, 1, 1), cmd);
}

const struct hlk_command_type hlk_command_write_note = { .put = put_write_note, .keys = note_keys };

const struct hlk_command_type hlk_command_remove_note = { .put = put_remove_note, .keys = note_keys };

const struct hlk_command_type hlk_command_read_note = { .script = HLK_SCRIPT_LOCK_NOTE,
                                                        .put = put_read_note,
                                                        .keys = note_keys };

char *hlk_put_reacquire(char *at, struct hlk_command *cmd)
{
    at = hlk_put_script(at, cmd->type->script, cmd, 4, 1);
    at = hlk_put_field(hlk_put_name(at, cmd), cmd->client_id, cmd->hold);
    return hlk_wire_number(hlk_wire_number(at, cmd->count), cmd->lease_ms);
}

static hlk_key_fn *const reacquire_keys[] = { hlk_key_queue, NULL };

const struct hlk_command_type hlk_command_reacquire = { .script = HLK_SCRIPT_LOCK_REACQUIRE,
                                                        .put = hlk_put_reacquire,
                                                        .keys = reacquire_keys };

size_t hlk_renewal_leases(const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->renewals && cmd->count > 0);
    size_t leases = (size_t)cmd->count;
    while (leases > 1 && cmd->renewals[leases - 1].lease_ms == cmd->renewals[leases - 2].lease_ms)
        leases--;
    return leases;
}

char *hlk_put_renew(char *at, struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->renewals && cmd->count > 0);
    const struct hlk_renewal *renewals = cmd->renewals;
    size_t n = (size_t)cmd->count, leases = hlk_renewal_leases(cmd);
    at = hlk_put_script(at, cmd->type->script, cmd, 2 * n + leases, n);
    for (size_t i = 0; i < n; i++)
        at = hlk_wire_word(at, renewals[i].name, renewals[i].name_len);
    for (size_t i = 0; i < n; i++)
        at = hlk_put_field(at, cmd->client_id, renewals[i].hold);
    for (size_t i = 0; i < leases; i++)
        at = hlk_wire_number(at, renewals[i].lease_ms);
    return at;
}

const struct hlk_command_type hlk_command_renew = { .script = HLK_SCRIPT_LOCK_RENEW, .put = hlk_put_renew };
