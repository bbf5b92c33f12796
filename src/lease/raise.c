#include "lease/raise.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/entry_lose.h"
#include "lease/entry_table.h"
#include "lease/hold_end.h"
#include "lease/holding.h"
#include "net/pipeline_link.h"
#include "script/format.h"
#include "script/release_list.h"

bool hlk_raise_begin(struct hlk_raise *raise, struct hlk_entry *e, const struct hlk_command *cmd, bool watchdog)
{
    HLK_DEBUG_ASSERT(cmd->lease_ms >= 0);
    if (!hlk_entry_raise_begin(e, cmd->hold, cmd->lease_ms, &raise->end))
        return false;
    raise->entry = e;
    hlk_entry_ref(e);
    raise->lease_ms = cmd->lease_ms;
    raise->watchdog = watchdog;
    return true;
}

/* Redis had the hold when the attempt ran. If the hold is over here and its release was given up, or had no memory,
 * only this one ends it before the new ttl does. */
static void end_if_over(struct hlk_raise *raise)
{
    hlk_mutex_assert_none();
    struct hlk_entry *e = raise->entry;
    if (hlk_entry_has_hold(e, raise->end.h) || hlk_releases_has(&e->node->releases, raise->end.h))
        return;
    raise->end.until_ms = hlk_clock_after(hlk_clock_ms(), raise->lease_ms);
    hlk_hold_end(e, &raise->end);
}

bool hlk_raise_answer(struct hlk_raise *raise, const struct hlk_command *cmd)
{
    HLK_DEBUG_ASSERT(raise->entry && !raise->answered);
    struct hlk_entry *e = raise->entry;
    raise->answered = true;
    enum hlk_raised raised = hlk_answer_read_raised(cmd);
    if (raised == HLK_RAISED_NONE)
        hlk_pipeline_distrust(cmd->pipeline, cmd->call.epoch);
    if (raised != HLK_RAISED_YES)
        hlk_entry_lose(e, raise->end.h, hlk_lease_why_unknown);
    else if (hlk_entry_raise_done(e, raise->end.h, (unsigned)cmd->count, hlk_command_sent_ms(cmd), raise->lease_ms,
                                  raise->watchdog))
        return true;
    else
        end_if_over(raise);
    return false;
}

void hlk_raise_end(struct hlk_raise *raise, const struct hlk_command *cmd)
{
    if (!raise->entry)
        return;
    enum hlk_raised raised = hlk_answer_read_raised(cmd);
    if (raised == HLK_RAISED_YES && !raise->answered)
        end_if_over(raise);
    bool known = raised != HLK_RAISED_NONE && !cmd->doubt && atomic_load(&cmd->call.end) != HLK_CALL_BROKEN;
    if (known) /* whether it has run */
        hlk_entry_raise_settle(raise->entry, raise->end.h, raise->lease_ms, raised == HLK_RAISED_YES);
    hlk_entry_unref(raise->entry);
}
