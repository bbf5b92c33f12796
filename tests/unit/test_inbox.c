/* What the client's inbox is told about its locks: grants, open windows and breaks; and letters that are none. */
#include "people.h"

static int warnings;

static void on_log(int level, const char *line, void *ctx)
{
    (void)line, (void)ctx;
    warnings += level == HLK_LOG_WARN;
}

static void init(void)
{
    people_meet();
    peer_up(&world.peer);
    world.log.fn = on_log;
    warnings = 0;
}

TestSuite(inbox, .init = init, .fini = people_part, .timeout = 20);

static void hear_bytes(const char *letter, size_t len)
{
    char *copy = hlk_mem_memdup(letter, len); /* a NUL only after it */
    copy[len] = '7';
    hlk_table_hear(&world.table, copy, len);
    hlk_mem_free(copy);
}

static void hear(const char *what, uint64_t h, const char *rest)
{
    char letter[1024];
    int len = snprintf(letter, sizeof letter, "%s %llu %s", what, (unsigned long long)h, rest);
    hear_bytes(letter, (size_t)len);
}

static uint64_t handed_back(void)
{
    return atomic_load(&world.table.counts.handed_back);
}

static const char *sent(void)
{
    return peer_hears(&world.peer);
}

static void leaves(struct person *p)
{
    if (hlk_session_leave(s, &p->turn, false))
        hlk_session_left(s);
}

/* --- grants --- */

Test(inbox, a_grant_is_the_waiters)
{
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h, "5000 0 a");
    cr_assert_eq(hlk_session_look(s, &ann.turn), HLK_ENTER_GOT);
    cr_assert_eq(s->lease.until_ms, hlk_lease_until(world_now_ms(), 5000));
    cr_assert_eq(handed_back(), 0u);
    cr_assert_str_eq(sent(), "");
    release(&ann);
}

Test(inbox, a_grant_has_its_token)
{
    ann.turn.fenced = true;
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h, "5000 4711 a");
    cr_assert_eq(token_of(&ann), 4711);
    release(&ann);
}

Test(inbox, a_grant_of_a_lock_that_nobody_knows_is_handed_back)
{
    hear("grant", 7, "5000 0 other");
    cr_assert_eq(handed_back(), 1u);
    cr_assert_eq(hlk_undos_count(&world.undos), 1u);
    const char *end = sent();
    cr_assert_not_null(strstr(end, "$5\r\nother\r\n"));
    cr_assert_not_null(strstr(end, "hlk-t-1-a:7\r\n"));
    cr_assert_not_null(strstr(end, "\r\n$1\r\n2\r\n")); /* two keys: without a token */
    peer_answers(&world.peer, ":1\r\n");
    cr_assert_eq(hlk_undos_count(&world.undos), 0u);
    cr_assert_eq(world.table.map.count, 1u);
}

/* The end may be sent again (NOSCRIPT), and would come behind this one: its holder would be told LOST. */
Test(inbox, a_grant_of_a_hold_whose_end_is_on_its_way_is_left_to_that)
{
    hear("grant", 7, "5000 0 other");
    (void)sent();
    hear("grant", 7, "5000 0 other");
    cr_assert_str_eq(sent(), "");
    cr_assert_eq(handed_back(), 1u);
    peer_answers(&world.peer, ":1\r\n");
    hear("grant", 7, "5000 0 other");
    cr_assert_eq(handed_back(), 2u);
    (void)sent();
    peer_answers(&world.peer, ":1\r\n");
}

Test(inbox, a_grant_of_a_wait_that_is_over_is_handed_back)
{
    uint64_t h = wait_in_queue(&ann);
    leaves(&ann);
    hear("grant", h, "5000 12 a");
    cr_assert_eq(handed_back(), 1u);
    const char *end = sent();
    cr_assert_not_null(strstr(end, "redisson_lock_token:{a}")); /* its block's successors come from there */
    peer_answers(&world.peer, ":1\r\n");
}

Test(inbox, a_grant_for_another_hold_leaves_the_wait_alone)
{
    uint64_t h = wait_in_queue(&ann);
    hear("grant", h + 1, "5000 0 a");
    cr_assert_eq(handed_back(), 1u);
    cr_assert_eq(s->state, HLK_SESSION_WAITING);
    cr_assert_eq(ann.woken + ann.asked, 0);
    peer_answers(&world.peer, ":1\r\n");
    leaves(&ann);
}

Test(inbox, a_grant_that_cannot_be_handed_back_runs_out)
{
    hlk_mem_fail_after(2); /* the test's own copy is the first */
    hear("grant", 7, "5000 0 other");
    hlk_mem_fail_after(-1);
    cr_assert_eq(handed_back(), 0u);
    cr_assert_str_eq(sent(), "");
}

Test(inbox, a_grant_is_handed_back_until_it_has_run_out)
{
    peer_breaks(&world.peer);
    hear("grant", 7, "5000 0 other");
    cr_assert_eq(hlk_undos_count(&world.undos), 1u);
    peer_passes(&world.peer, 5000);
    world.undos.tick.run(&world.undos.tick, world_now_ms());
    cr_assert_eq(hlk_undos_count(&world.undos), 1u);
    peer_passes(&world.peer, 101);
    world.undos.tick.run(&world.undos.tick, world_now_ms());
    cr_assert_eq(hlk_undos_count(&world.undos), 0u);
}

/* --- open, broken --- */

Test(inbox, an_open_window_makes_the_waiter_ask)
{
    uint64_t h = wait_in_queue(&ann);
    hear("open", h, "3 0 a");
    cr_assert_eq(ann.asked, 1);
    hear("open", h + 1, "3 0 a");
    hear("open", h, "3 0 other");
    cr_assert_eq(ann.asked, 1);
    leaves(&ann);
}

Test(inbox, a_broken_hold_is_lost_and_then_ended)
{
    hold(&ann);
    enter(&bob);
    hear("broken", s->h, "0 0 a");
    cr_assert(is_lost(&ann));
    cr_assert_str_eq(sent(), "");
    cr_assert_str_eq(world_tells(), "LOST a;");
    cr_assert_not_null(strstr(sent(), "hlk-t-1-a:")); /* once it was told */
    cr_assert_eq(hlk_session_look(s, &bob.turn), HLK_ENTER_TURN);
    cr_assert_eq(let_go(&ann), HLK_LET_LOST);
    leaves(&bob);
    peer_answers(&world.peer, ":0\r\n");
}

Test(inbox, a_break_of_another_hold_is_nothing)
{
    hold(&ann);
    hear("broken", s->h + 1, "0 0 a");
    hear("broken", s->h, "0 0 other");
    cr_assert_eq(count_of(&ann), 1u);
    cr_assert_str_eq(world_tells(), "");
    release(&ann);
}

Test(inbox, a_break_before_the_answer_takes_the_grant_away)
{
    enter(&ann);
    (void)queue(&ann);
    hear("grant", ann.turn.h, "5000 0 a");
    hear("broken", ann.turn.h, "0 0 a");
    cr_assert_not(hlk_session_waits(s, &ann.turn, false));
    leaves(&ann);
}

/* --- letters --- */

Test(inbox, a_name_may_have_any_bytes)
{
    static const char *const names[] = { "with spaces", " ", "\n", "5000 0 a", "{tag}x", "\xff\xfe" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hlk_session *other = world_session(names[i]);
        struct person p;
        char rest[64];
        born(&p);
        cr_assert_eq(hlk_session_enter(other, &p.turn), HLK_ENTER_TURN);
        (void)snprintf(rest, sizeof rest, "5000 0 %s", names[i]);
        hear("open", p.turn.h, rest);
        cr_assert_eq(p.asked, 1);
        hlk_session_leave(other, &p.turn, false);
        hlk_session_unref(other);
    }
    cr_assert_eq(handed_back(), 0u);
}

Test(inbox, a_name_may_have_a_nul)
{
    hear_bytes("grant 7 5000 0 a\0b", 18);
    cr_assert_eq(handed_back(), 1u);
    struct hlk_session *other = hlk_session_find(&world.table, "a\0b", 3);
    cr_assert_not_null(other);
    hlk_session_unref(other);
    peer_answers(&world.peer, ":1\r\n");
}

Test(inbox, the_longest_name_is_read_and_no_longer_one)
{
    char letter[HLK_NAME_MAX + 64];
    size_t head = strlen("grant 7 5000 0 ");
    memset(letter, 'n', sizeof letter);
    memcpy(letter, "grant 7 5000 0 ", head);
    hear_bytes(letter, head + HLK_NAME_MAX + 1);
    cr_assert_eq(handed_back(), 0u);
    cr_assert_eq(warnings, 1);
    hear_bytes(letter, head + HLK_NAME_MAX);
    cr_assert_eq(handed_back(), 1u);
    peer_answers(&world.peer, ":1\r\n");
}

Test(inbox, what_is_no_letter_is_logged_and_changes_nothing)
{
    static const char *const texts[] = { "",
                                         " ",
                                         "grant",
                                         "grant 7",
                                         "grant 7 5000",
                                         "grant 7 5000 0",
                                         "grant 7 5000 0 ",
                                         "grant 7 5000 0\na",
                                         "grant 7 5000 0xa",
                                         "grant seven 5000 0 a",
                                         "GRANT 7 5000 0 a",
                                         "grantgrant 7 5000 0 a",
                                         "7 5000 0 a",
                                         "0" };
    uint64_t h = wait_in_queue(&ann);
    int n = (int)(sizeof texts / sizeof *texts);
    for (int i = 0; i < n; i++)
        hear_bytes(texts[i], strlen(texts[i]));
    cr_assert_eq(warnings, n);
    hear("thank", h, "5000 0 a"); /* of a later version's, perhaps */
    cr_assert_eq(handed_back(), 0u);
    cr_assert_eq(s->state, HLK_SESSION_WAITING);
    cr_assert_eq(ann.woken + ann.asked, 0);
    cr_assert_str_eq(sent(), "");
    leaves(&ann);
}
