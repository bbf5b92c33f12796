#include "script/command.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* --- formatting --- */

#define KEY_SHOWN 64 /* bytes of a key in an error */

/* For each: its name, its field, its lease; and, of some formats, a key that is made of the first two. */
static size_t room_for_renewals(const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(!cmd->renewals || cmd->count >= 0);
    size_t room = 0;
    for (int64_t i = 0; cmd->renewals && i < cmd->count; i++)
        room += 2 * (cmd->renewals[i].name_len + HLK_FIELD_MAX + 24) + 4 * HLK_WIRE_HEAD;
    return room;
}

enum hlk_status hlk_command_write(struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->pipeline && cmd->type && cmd->type->put);
    static const char asking[] =
        "*1\r\n$6\r\nASKING\r\n"; /* the next command may use a slot that is being moved here */
    char brief[HLK_COMMAND_MAX], *bytes = brief;
    size_t before = cmd->asking ? sizeof asking - 1 : 0;
    size_t more = before + (cmd->whole ? hlk_command_script(cmd, cmd->type->script)->len : 0) + room_for_renewals(cmd);
    if (more && !(bytes = hlk_mem_zalloc(HLK_COMMAND_MAX + more)))
        return HLK_E_NOMEM;
    memcpy(bytes, asking, before);
    cmd->call.skips = cmd->asking != NULL;
    cmd->call.text = cmd->whole ? hlk_command_text(cmd) : 0;
    const char *end = cmd->type->put(bytes + before, cmd);
    HLK_DEBUG_ASSERT(end > bytes && (size_t)(end - bytes) <= HLK_COMMAND_MAX + more);
    enum hlk_status status = hlk_pipeline_send(cmd->pipeline, &cmd->call, bytes, (size_t)(end - bytes));
    if (bytes != brief)
        hlk_mem_free(bytes);
    return status;
}

void hlk_command_drop_reply(struct hlk_command *cmd)
{
    if (cmd->call.reply)
        freeReplyObject(cmd->call.reply);
    cmd->call.reply = NULL;
}

bool hlk_command_note_may_be_gone(const struct hlk_command *cmd)
{
    return cmd->doubt_ms && hlk_clock_ms() >= cmd->doubt_ms + HLK_REPEAT_MS;
}

/* --- rights --- */

static void command_add_key(struct hlk_text *text, const struct hlk_command *cmd, hlk_key_fn *key)
{
    char name[HLK_KEY_MAX];
    size_t len = key(name, cmd->name, cmd->name_len);
    HLK_DEBUG_ASSERT(len <= HLK_KEY_MAX);
    hlk_text_add(text, ", ");
    /* cppcheck-suppress uninitvar; it does not look through the pointer */
    hlk_text_add_quoted(text, name, len, KEY_SHOWN);
}

/* The server says that a key is refused, and not which. */
static void command_add_keys(struct hlk_text *text, const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(cmd->type->keys);
    hlk_text_add(text, "; the keys are ");
    hlk_text_add_quoted(text, cmd->name, cmd->name_len, KEY_SHOWN);
    for (hlk_key_fn *const *key = cmd->type->keys; *key; key++)
        command_add_key(text, cmd, *key);
    if (cmd->fenced)
        command_add_key(text, cmd, hlk_key_token);
}

/* What the operator needs to mend it. */
void hlk_command_explain_rights(const struct hlk_command *cmd, struct hlk_error *error)
{
    struct hlk_text text;
    char buf[HLK_ERROR_TEXT];
    if (!error || !strstr(error->text, "acl.md") || !cmd->type->keys)
        return;
    hlk_text_init(&text, buf, sizeof buf);
    hlk_text_add(&text, "%s", error->text);
    if (cmd->type->rights)
        hlk_text_add(&text, "; %s", cmd->type->rights);
    if (strstr(error->text, " key"))
        command_add_keys(&text, cmd);
    (void)hlk_error_set(error, HLK_E_AUTH, "%s", buf);
}
