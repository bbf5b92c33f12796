/* What the engine does with MOVED and ASK: two servers, and a router in the test's hands. */
#include "peer.h"
#include "script/engine.h"
#include "script/shared_commands.h"

#include <string.h>

static struct peer here, there;
static struct hlk_command cmd;
static struct hlk_error error;
static hlk_pipeline *keeper; /* of the slot */
static hlk_pipeline *named;  /* what redirect answers */
static unsigned refreshes;
static char words[64];

static hlk_pipeline *find(struct hlk_router *router, unsigned slot)
{
    (void)router;
    cr_assert_eq(slot, 7);
    return keeper;
}

static hlk_pipeline *redirect(struct hlk_router *router, const hlk_pipeline *from, const char *text)
{
    (void)router;
    cr_assert_eq(from, cmd.pipeline);
    strncpy(words, text, sizeof words - 1);
    if (*text == 'M' && named)
        keeper = named;
    return named;
}

static void refresh(struct hlk_router *router)
{
    (void)router;
    refreshes++;
}

static struct hlk_router router = { .find = find, .redirect = redirect, .refresh = refresh };

static void on_end(struct hlk_call *call)
{
    (void)call;
}

static void init(void)
{
    peer_open(&here);
    peer_open(&there);
    peer_up(&here);
    peer_up(&there);
    keeper = here.pipeline;
    named = there.pipeline;
    cmd = (struct hlk_command){ .type = &hlk_command_reacquire,
                                .router = &router,
                                .slot = 7,
                                .limits = { .at_ms = INT64_MAX, .reconnect_timeout_ms = 10000 },
                                .client_id = "hlk-t-1-a",
                                .name = "n",
                                .name_len = 1,
                                .hold = 7 };
    cmd.call.done = on_end;
    cmd.call.lazy = true;
}

static void fini(void)
{
    hlk_command_drop_reply(&cmd);
    peer_close(&here);
    peer_close(&there);
    peer_free(&here);
    peer_free(&there);
}

TestSuite(redirect, .init = init, .fini = fini, .timeout = 20);

/* It is sent to p, which answers so. */
static enum hlk_progress sent_to(struct peer *p, const char *answer)
{
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    cr_assert_str_neq(peer_hears(p), "");
    peer_answers(p, answer);
    return hlk_command_end(&cmd, &error);
}

Test(redirect, moved_is_followed_and_remembered)
{
    cr_assert_eq(sent_to(&here, "-MOVED 7 10.0.0.2:6379\r\n"), HLK_COMMAND_RESEND);
    cr_assert_str_eq(words, "MOVED 7 10.0.0.2:6379");
    cr_assert_eq(sent_to(&there, ":1\r\n"), HLK_COMMAND_ANSWERED);
    cr_assert_not(cmd.doubt);
    hlk_command_drop_reply(&cmd);
    cr_assert_eq(sent_to(&there, ":1\r\n"), HLK_COMMAND_ANSWERED);
}

static const char asking[] = "*1\r\n$6\r\nASKING\r\n";

Test(redirect, ask_is_for_one_command_behind_asking)
{
    cr_assert_eq(sent_to(&here, "-ASK 7 10.0.0.2:6379\r\n"), HLK_COMMAND_RESEND);
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    const char *said = peer_hears(&there);
    cr_assert_arr_eq(said, asking, sizeof asking - 1);
    cr_assert_arr_eq(said + sizeof asking - 1, "*", 1);
    peer_answers(&there, "+OK\r\n");
    cr_assert_eq(atomic_load(&cmd.call.end), HLK_CALL_IN_FLIGHT, "the reply to ASKING was taken for its own");
    peer_answers(&there, ":1\r\n");
    cr_assert_eq(hlk_command_end(&cmd, &error), HLK_COMMAND_ANSWERED);
    cr_assert_eq(cmd.call.reply->integer, 1);
    hlk_command_drop_reply(&cmd);
    cr_assert_eq(sent_to(&here, ":1\r\n"), HLK_COMMAND_ANSWERED, "the next one went there as well");
}

Test(redirect, an_unknown_script_is_sent_behind_asking_too)
{
    cr_assert_eq(sent_to(&here, "-ASK 7 10.0.0.2:6379\r\n"), HLK_COMMAND_RESEND);
    cr_assert_eq(sent_to(&there, "+OK\r\n-NOSCRIPT No matching script\r\n"), HLK_COMMAND_RESEND);
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_IN_FLIGHT);
    const char *said = peer_hears(&there);
    cr_assert_arr_eq(said, asking, sizeof asking - 1);
    cr_assert_not_null(strstr(said, "EVAL\r\n"));
}

Test(redirect, servers_that_name_each_other_get_a_pause)
{
    for (int i = 0; i < 5; i++) {
        named = i % 2 ? here.pipeline : there.pipeline;
        cr_assert_eq(sent_to(i % 2 ? &there : &here, "-MOVED 7 10.0.0.2:6379\r\n"), HLK_COMMAND_RESEND);
    }
    cr_assert_eq(sent_to(&there, "-MOVED 7 10.0.0.2:6379\r\n"), HLK_COMMAND_PAUSED);
    cr_assert(cmd.resends);
}

Test(redirect, a_server_that_is_not_known_yet_is_waited_for)
{
    named = NULL;
    cr_assert_eq(sent_to(&here, "-MOVED 7 10.0.0.3:6379\r\n"), HLK_COMMAND_PAUSED);
    cr_assert(cmd.resends);
    keeper = NULL; /* nor any other */
    cr_assert_eq(hlk_command_send(&cmd, &error), HLK_COMMAND_PAUSED);
    cr_assert_eq(error.status, HLK_E_CONNECT);
}

Test(redirect, refusals_that_may_pass_have_the_map_read_again)
{
    cr_assert_eq(sent_to(&here, "-CLUSTERDOWN Hash slot not served\r\n"), HLK_COMMAND_PAUSED);
    cr_assert_eq(sent_to(&here, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"), HLK_COMMAND_PAUSED);
    cr_assert_eq(refreshes, 2);
}

Test(redirect, without_a_router_is_a_fault_that_says_what_to_use)
{
    cmd.router = NULL;
    cmd.pipeline = here.pipeline;
    cr_assert_eq(sent_to(&here, "-MOVED 7 10.0.0.2:6379\r\n"), HLK_COMMAND_FAILED);
    cr_assert_eq(error.status, HLK_E_SERVER);
    cr_assert_not_null(strstr(error.text, "redis+cluster://"));
}

/* What broke may have run: a command that is not to be repeated is not. */
Test(redirect, one_that_is_in_doubt_and_sent_once_is_unsure)
{
    cmd.limits.once = true;
    cmd.doubt = true;
    cr_assert_eq(sent_to(&here, "-MOVED 7 10.0.0.2:6379\r\n"), HLK_COMMAND_FAILED);
    cr_assert_eq(error.status, HLK_E_UNSURE);
}
