#include "acquire/acquire_confirm.h"

#include "base/clock.h"
#include "base/debug.h"
#include "lease/holding.h"
#include "node/topology.h"

static void on_outcome(void *ctx)
{
    struct hlk_acquire_op *op = ctx;
    hlk_waker_wake(op->waker, HLK_WAKE_SETTLED);
}

/* A hold that was passed on within the process, or that is nested, is the same hold in Redis. Replicas that have
 * confirmed it need not be asked again. */
enum hlk_acquire_event hlk_acquire_op_confirm(struct hlk_acquire_op *op)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(!op->confirmation);
    struct hlk_entry *e = op->entry;
    struct hlk_view view;
    hlk_entry_view(e, op->waiter.holder.id, &view);
    if (view.replicated)
        return HLK_ACQUIRE_ON_CONFIRMED;
    op->unconfirmed = true;
    enum hlk_status status = hlk_acquire_op_wait(op);
    if (status != HLK_OK)
        return HLK_ACQUIRE_ON_ABORT;
    if (view.count == 0 || view.lost)
        return HLK_ACQUIRE_ON_UNCONFIRMED;
    hlk_channel_leave(&op->server->channels, &op->listener); /* the next message is another wait's */
    if (op->machine.until_ms > view.until_ms)
        op->machine.until_ms = view.until_ms;
    struct hlk_node *server = hlk_node_of(op->node, hlk_entry_name(e), hlk_entry_len(e));
    op->confirmation = hlk_replicas_begin(server->replicas, op->lock->kind->format->reacquire, hlk_entry_name(e),
                                          hlk_entry_len(e), view.h, op->machine.until_ms, on_outcome, op);
    if (op->confirmation)
        return hlk_acquire_op_confirmed(op);
    (void)hlk_error_set(&op->error, HLK_E_NOMEM, "no memory to wait for replicas; it is released");
    return HLK_ACQUIRE_ON_ABORT;
}

enum hlk_acquire_event hlk_acquire_op_confirmed(struct hlk_acquire_op *op)
{
    HLK_DEBUG_ASSERT(op->confirmation);
    switch (hlk_replicas_outcome(op->confirmation, &op->acknowledged, &op->error)) {
    case HLK_REPLICATED_PENDING:
        return HLK_ACQUIRE_ON_JOINED;
    case HLK_REPLICATED_DONE:
        hlk_entry_note_replicated(op->entry, op->confirmation->cmd.hold);
        op->unconfirmed = false;
        return HLK_ACQUIRE_ON_CONFIRMED;
    case HLK_REPLICATED_FAILED:
        return HLK_ACQUIRE_ON_ABORT;
    default:
        return HLK_ACQUIRE_ON_UNCONFIRMED;
    }
}
