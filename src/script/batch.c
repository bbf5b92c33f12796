#include "script/batch.h"

#include "base/debug.h"
#include "script/table.h"
#include "script/wire.h"

static bool batch_add(struct hlk_buffer *to, const char *from, const char *end)
{
    HLK_DEBUG_ASSERT(end >= from);
    return hlk_buffer_add(to, from, (size_t)(end - from));
}

static bool add_head(struct hlk_buffer *to, unsigned n, bool whole)
{
    HLK_DEBUG_ASSERT(n > 1 && n <= HLK_BATCH_MAX);
    const struct hlk_script_text *script = &hlk_script_table[HLK_SCRIPT_LOCK_BATCH];
    char head[4 * HLK_WIRE_HEAD + 64], *at = hlk_wire_count(head, '*', 4 + 4 * (size_t)n);
    if (whole) {
        at = hlk_wire_count(hlk_wire_word(at, "EVAL", 4), '$', script->len);
        if (!batch_add(to, head, at) || !hlk_buffer_add(to, script->text, script->len))
            return false;
        at = head;
        *at++ = '\r';
        *at++ = '\n';
    } else {
        at = hlk_wire_word(hlk_wire_word(at, "EVALSHA", 7), script->sha1, 40);
    }
    return batch_add(to, head, hlk_wire_number(at, 2 * (int64_t)n));
}

static bool batch_add_keys(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n)
{
    for (unsigned i = 0; i < n; bytes += calls[i++]->len)
        if (!batch_add(to, bytes + calls[i]->keys_at, bytes + calls[i]->args_at))
            return false;
    return true;
}

static bool add_letters(struct hlk_buffer *to, struct hlk_call *const *calls, unsigned n)
{
    HLK_DEBUG_ASSERT(n > 1 && n <= HLK_BATCH_MAX);
    char letters[HLK_BATCH_MAX] = { 0 }, word[HLK_BATCH_MAX + HLK_WIRE_HEAD];
    for (unsigned i = 0; i < n; i++)
        letters[i] = calls[i]->batch_letter;
    const char *end = hlk_wire_word(word, letters, n);
    return batch_add(to, word, end);
}

static bool add_arguments(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n)
{
    for (unsigned i = 0; i < n; bytes += calls[i++]->len)
        if (!batch_add(to, bytes + calls[i]->args_at, bytes + calls[i]->args_end))
            return false;
    return true;
}

bool hlk_batch_build(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n, bool whole)
{
    HLK_DEBUG_ASSERT(bytes && n > 1 && n <= HLK_BATCH_MAX);
    size_t before = to->len;
    if (add_head(to, n, whole) && batch_add_keys(to, bytes, calls, n) && add_letters(to, calls, n) &&
        add_arguments(to, bytes, calls, n))
        return true;
    to->len = before;
    return false;
}
