/* When the map of slots is read again. The test is the server's connection. */
#include "base/clock.h"
#include "node/cluster_read.h"

#include <criterion/criterion.h>

enum { CALLS = 3, LONG_MS = 1000 };

static struct hlk_cluster cluster;
static struct hlk_node node;
static int64_t now_ns = INT64_C(1000000) * 1000000;

static int64_t play(void)
{
    return now_ns;
}

/* --- the connection */

static struct hlk_call *sent[2 * CALLS];
static int count, refused_at; /* refused_at: this one is not sent, for lack of memory; 0: none */

enum hlk_status __wrap_hlk_pipeline_health(hlk_pipeline *pipeline, struct hlk_error *error);
enum hlk_status __wrap_hlk_pipeline_health(hlk_pipeline *pipeline, struct hlk_error *error)
{
    (void)pipeline, (void)error;
    return HLK_OK;
}

enum hlk_status __wrap_hlk_pipeline_send(hlk_pipeline *pipeline, struct hlk_call *call, const char *bytes, size_t len);
enum hlk_status __wrap_hlk_pipeline_send(hlk_pipeline *pipeline, struct hlk_call *call, const char *bytes, size_t len)
{
    (void)pipeline, (void)bytes, (void)len;
    if (count + 1 == refused_at)
        return HLK_E_NOMEM;
    sent[count++] = call;
    return HLK_OK;
}

static void breaks(struct hlk_call *call)
{
    atomic_store(&call->end, HLK_CALL_BROKEN);
    call->done(call);
}

static void passes(int64_t ms)
{
    now_ns += ms * 1000000;
    hlk_loop_tick(cluster.loop);
}

static void begin(void)
{
    struct hlk_error error;
    hlk_clock_play(play);
    cr_assert_eq(hlk_loop_create(&cluster.loop, &error), HLK_OK);
    hlk_mutex_init(&cluster.mu, HLK_RANK_LEAF);
    cluster.home = cluster.servers[0] = &node;
    atomic_store(&cluster.count, 1);
    hlk_cluster_read_init(&cluster);
}

static void end(void)
{
    hlk_mutex_fini(&cluster.mu);
    hlk_loop_destroy(cluster.loop);
    hlk_clock_play(NULL);
}

TestSuite(cluster_read, .init = begin, .fini = end, .timeout = 20);

Test(cluster_read, asks_all_that_it_needs_at_once)
{
    cluster.post.run(&cluster.post);
    cr_assert_eq(count, CALLS);
    cluster.post.run(&cluster.post);
    passes(LONG_MS);
    cr_assert_eq(count, CALLS, "the answers are due");
}

/* A call that is sent a second time before it has ended would be in two lists. */
Test(cluster_read, cut_short_is_repeated_when_its_calls_have_ended)
{
    refused_at = 2;
    cluster.post.run(&cluster.post);
    cr_assert_eq(count, 1);
    refused_at = 0;
    passes(LONG_MS);
    cluster.post.run(&cluster.post);
    passes(LONG_MS);
    cr_assert_eq(count, 1, "the answer to the first one is due");
    breaks(sent[0]);
    passes(LONG_MS);
    cr_assert_eq(count, 1 + CALLS);
}
