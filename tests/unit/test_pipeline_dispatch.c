/* The shared connection of a client with dispatch: what the user's loop writes, and when it is asked to. */
#include "net/pipeline.h"
#include "net/pipeline_lead.h"
#include "pipeline_fixture.h"

TestSuite(pipeline_dispatch, .init = calls_begin, .fini = calls_end, .timeout = 20);

static int works;

static void note_work(void *ctx)
{
    (void)ctx;
    works++;
}

/* The user's loop writes them all at once. It is asked to for each, and once more when the round is over. */
Test(pipeline_dispatch, calls_during_a_loop_round_leave_in_one_write)
{
    static struct asked asked[3];
    peer_up(&peer);
    peer.pipeline->owner.on_work = note_work;
    hlk_mutex_lock(&peer.pipeline->mu);
    hlk_pipeline_set_lead(peer.pipeline, HLK_LEAD_TAKEN, NULL);
    hlk_mutex_unlock(&peer.pipeline->mu);
    uint64_t writes = peer.pipeline->counts.writes;
    for (int i = 0; i < 3; i++) {
        asked[i].call.done = on_done;
        cr_assert_eq(hlk_pipeline_send(peer.pipeline, &asked[i].call, "PING\r\n", 6), HLK_OK);
    }
    cr_assert_eq(peer.pipeline->counts.writes, writes);
    cr_assert_eq(works, 3);
    hlk_mutex_lock(&peer.pipeline->mu);
    hlk_pipeline_give_lead(peer.pipeline);
    hlk_mutex_unlock(&peer.pipeline->mu);
    cr_assert_eq(works, 4);
    hlk_pipeline_dispatch(peer.pipeline);
    cr_assert_eq(peer.pipeline->counts.writes, writes + 1);
}
