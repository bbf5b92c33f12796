/* Ends that are owed to Redis: repeated until they are answered, or their lease is over. */
#include "script/undo.h"

#include "peer.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define UNTIL 30000 /* ms from the start */

static struct peer peer;
static struct hlk_undos undos;

static struct owed {
    struct hlk_undo undo;
    int settled;
    enum hlk_undo_outcome outcome;
    struct hlk_error error;
} a, b;

static void init(void)
{
    peer_open(&peer);
    hlk_undos_init(&undos, peer.loop, "hlk-t-1-a");
    undos.mux = peer.mux;
    undos.open_every = 4;
    undos.open_ms = 3;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
}

static void fini(void)
{
    peer_close(&peer);
    hlk_undos_fini(&undos);
    peer_free(&peer);
}

TestSuite(undo, .init = init, .fini = fini, .timeout = 20);

static void on_settled(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    struct owed *owed = HLK_CONTAINER(undo, struct owed, undo);
    owed->settled++;
    owed->outcome = outcome;
    if (error)
        owed->error = *error;
}

static void start_for(struct owed *owed, uint64_t hold, struct hlk_self *waiter)
{
    owed->undo.q.name = "a";
    owed->undo.q.name_len = 1;
    owed->undo.q.hold = hold;
    owed->undo.until_ms = hlk_clock_ms() + UNTIL;
    owed->undo.settled = on_settled;
    hlk_undo_start(&undos, &owed->undo, waiter, false);
}

static void start(struct owed *owed)
{
    start_for(owed, 7, NULL);
}

static void tick(void)
{
    undos.tick.run(&undos.tick, hlk_clock_ms());
}

/* The ends that came: "hold" without the void set, "hold!" with it, by text ("EVAL hold") or by SHA-1. */
static const char *ends(void)
{
    static char out[256];
    char *at = (char *)(uintptr_t)peer_hears(&peer), *next;
    out[0] = '\0';
    for (; at && *at; at = next) {
        next = strstr(at + 1, "\r\n*");
        if (next) {
            *next = '\0';
            next += 2;
        }
        const char *hold = strstr(at, "hlk-t-1-a:");
        bool voids = strstr(at, "\r\n600000") != NULL;
        size_t len = strlen(out);
        (void)snprintf(out + len, sizeof out - len, "%s%s%.*s%s", len ? " " : "", strstr(at, "EVAL\r\n") ? "EVAL " : "",
                       hold ? (int)strcspn(hold + 10, "\r") : 0, hold ? hold + 10 : "", voids ? "!" : "");
    }
    return out;
}

static bool settled_as(const struct owed *owed, enum hlk_undo_outcome outcome)
{
    return owed->settled == 1 && owed->outcome == outcome && hlk_undos_count(&undos) == 0;
}

/* --- answers --- */

Test(undo, an_end_that_was_done)
{
    peer_up(&peer);
    start(&a);
    cr_assert_str_eq(ends(), "7");
    cr_assert_eq(hlk_undos_count(&undos), 1u);
    cr_assert_eq(a.settled, 0);
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, an_end_of_what_was_in_line)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, ":2\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, an_end_of_what_was_not_held)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_ABSENT));
}

Test(undo, an_end_that_is_refused_for_good)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_REFUSED));
    cr_assert_eq(a.error.status, HLK_E_SERVER);
}

/* --- again --- */

Test(undo, a_copy_that_broke_is_sent_again)
{
    peer_up(&peer);
    start(&a);
    ends();
    peer_breaks(&peer);
    cr_assert_eq(a.settled, 0);
    peer_up(&peer);
    hlk_undos_on_up(&undos);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, absent_after_a_copy_that_broke_may_have_been_done_by_it)
{
    peer_up(&peer);
    start(&a);
    peer_breaks(&peer);
    peer_up(&peer);
    hlk_undos_on_up(&undos);
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_ABSENT_REPEATED));
}

Test(undo, absent_after_a_copy_that_was_never_sent_is_absent)
{
    start(&a);
    peer_up(&peer);
    hlk_undos_on_up(&undos);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_ABSENT));
}

Test(undo, parked_ends_go_in_their_order)
{
    start_for(&a, 7, NULL);
    start_for(&b, 8, NULL);
    cr_assert_eq(undos.parked, 2u);
    peer_up(&peer);
    hlk_undos_on_up(&undos);
    cr_assert_str_eq(ends(), "7 8");
    peer_answers(&peer, ":1\r\n:1\r\n");
    cr_assert_eq(undos.parked, 0u);
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, one_copy_flies_at_a_time)
{
    peer_up(&peer);
    start(&a);
    ends();
    hlk_undos_on_up(&undos);
    peer_passes(&peer, 1000);
    tick();
    cr_assert_str_eq(ends(), "");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, a_server_without_the_script_is_sent_its_text)
{
    peer_up(&peer);
    start(&a);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_str_eq(ends(), "EVAL 7");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_ABSENT)); /* the first copy did not run */
}

Test(undo, a_server_that_cannot_now_is_asked_later)
{
    static const char *const refusals[] = { "-LOADING Redis is loading the dataset in memory\r\n",
                                            "-BUSY Redis is busy running a script.\r\n",
                                            "-READONLY You can't write against a read only replica.\r\n",
                                            "-OOM command not allowed when used memory > 'maxmemory'.\r\n" };
    peer_up(&peer);
    start(&a);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        ends();
        peer_answers(&peer, refusals[i]);
        cr_assert_eq(a.settled, 0);
        cr_assert_str_eq(ends(), "");
        peer_passes(&peer, 200);
        tick();
        cr_assert_str_eq(ends(), "7");
    }
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_ABSENT)); /* none of the copies ran */
}

Test(undo, ticks_do_not_hurry_a_server_that_refuses)
{
    int copies = 0;
    peer_up(&peer);
    start(&a);
    ends();
    peer_answers(&peer, "-LOADING Redis is loading the dataset in memory\r\n");
    for (int ms = 0; ms < 1000; ms += 10, peer_passes(&peer, 10)) {
        tick();
        if (*ends()) {
            copies++;
            peer_answers(&peer, "-LOADING Redis is loading the dataset in memory\r\n");
        }
    }
    cr_assert_eq(copies, 10);
}

Test(undo, ticks_are_needed_while_something_is_parked)
{
    cr_assert(undos.tick.idle(&undos.tick));
    start(&a);
    cr_assert_not(undos.tick.idle(&undos.tick));
    peer_up(&peer);
    tick();
    cr_assert(undos.tick.idle(&undos.tick)); /* it flies */
    peer_answers(&peer, ":1\r\n");
}

Test(undo, is_given_up_when_its_lease_is_over)
{
    start(&a);
    peer_passes(&peer, UNTIL);
    tick();
    cr_assert_eq(a.settled, 0);
    peer_passes(&peer, 101);
    tick();
    cr_assert(settled_as(&a, HLK_UNDO_GIVEN_UP));
}

static size_t others;
static bool other_owed;

static void on_first_settled(struct hlk_undo *undo, enum hlk_undo_outcome outcome, const struct hlk_error *error)
{
    others = hlk_undos_count(&undos);
    other_owed = hlk_undos_owe(&undos, 2);
    on_settled(undo, outcome, error);
}

/* Close waits for all that are counted; a grant of one that is owed is not handed back. */
Test(undo, is_counted_while_another_one_is_dealt_with)
{
    start(&a);
    start_for(&b, 2, NULL);
    a.undo.settled = on_first_settled;
    peer_passes(&peer, UNTIL + 101);
    tick();
    cr_assert(settled_as(&a, HLK_UNDO_GIVEN_UP));
    cr_assert_eq(others, 1u);
    cr_assert(other_owed);
    cr_assert(settled_as(&b, HLK_UNDO_GIVEN_UP));
}

Test(undo, is_given_up_when_the_client_closes)
{
    start(&a);
    peer_close(&peer);
    hlk_undos_settle_all(&undos);
    cr_assert(settled_as(&a, HLK_UNDO_GIVEN_UP));
}

Test(undo, what_flies_is_given_up_when_the_client_closes)
{
    peer_up(&peer);
    start(&a);
    peer_close(&peer);
    hlk_undos_settle_all(&undos);
    cr_assert(settled_as(&a, HLK_UNDO_GIVEN_UP));
}

/* --- holds whose acquire is in doubt --- */

Test(undo, a_doubtful_hold_is_voided)
{
    peer_up(&peer);
    a.undo.doubt = true;
    start(&a);
    cr_assert_str_eq(ends(), "7!");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_ABSENT));
}

Test(undo, an_acquire_in_the_same_stream_is_no_doubt)
{
    peer_up(&peer);
    a.undo.acquire_epoch = hlk_mux_epoch(peer.mux);
    start(&a);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, an_acquire_in_a_stream_that_broke_is_voided)
{
    peer_up(&peer);
    a.undo.acquire_epoch = hlk_mux_epoch(peer.mux);
    start(&a);
    ends();
    peer_breaks(&peer);
    peer_up(&peer);
    hlk_undos_on_up(&undos);
    cr_assert_str_eq(ends(), "7!");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_ABSENT_REPEATED));
}

Test(undo, an_answer_that_did_not_void_a_doubtful_hold_does_not_settle_it)
{
    peer_up(&peer);
    start(&a);
    ends();
    a.undo.doubt = true; /* learnt while the copy flew */
    peer_answers(&peer, ":1\r\n");
    cr_assert_eq(a.settled, 0);
    cr_assert_str_eq(ends(), "7!");
    peer_answers(&peer, ":0\r\n");
    cr_assert_eq(a.settled, 1);
}

/* --- an open window for Redisson's clients --- */

/* What is sent for this hold: whether with an open window, and the same in all copies. */
static bool opens(uint64_t hold)
{
    char first[4096];
    memset(&a, 0, sizeof a);
    start_for(&a, hold, NULL);
    (void)snprintf(first, sizeof first, "%.4000s", peer_hears(&peer));
    peer_breaks(&peer);
    peer_up(&peer);
    hlk_undos_on_up(&undos);
    cr_assert_str_eq(peer_hears(&peer), first);
    peer_answers(&peer, ":1\r\n");
    bool open = strncmp(first, "*9\r\n", 4) == 0;
    size_t len = strlen(first);
    if (open)
        cr_assert_str_eq(first + len - 14, "$1\r\n0\r\n$1\r\n3\r\n");
    return open;
}

Test(undo, one_end_in_four_has_an_open_window)
{
    int open = 0, in_a_row = 0, most = 0;
    peer_up(&peer);
    for (uint64_t hold = 1; hold <= 400; hold++) {
        in_a_row = opens(hold) ? 0 : in_a_row + 1;
        open += in_a_row == 0;
        most = in_a_row > most ? in_a_row : most;
    }
    cr_assert(open >= 90 && open <= 110, "%d of 400", open);
    cr_assert_leq(most, 8, "%d ends in a row without", most);
}

Test(undo, an_end_of_a_place_in_the_queue_names_it)
{
    peer_up(&peer);
    a.undo.q.place = (struct hlk_member){ .ttl_ms = 5000, .since_ms = 77 };
    start(&a);
    cr_assert_not_null(strstr(peer_hears(&peer), "hlk-t-1-a:7 5000 0 0 77\r\n"));
    peer_answers(&peer, ":2\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

/* --- with somebody who waits --- */

Test(undo, who_waits_gets_the_outcome)
{
    bool sent = false;
    struct hlk_self *self = hlk_self_get();
    peer_up(&peer);
    start_for(&a, 7, self);
    peer_says(&peer, ":1\r\n");
    cr_assert(hlk_undo_wait(&undos, &a.undo, self, INT64_MAX, &sent));
    cr_assert(sent);
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

static void *wait_for_end(void *arg)
{
    struct hlk_self *self = hlk_self_get();
    start_for(&a, 7, self);
    *(bool *)arg = hlk_undo_wait(&undos, &a.undo, self, INT64_MAX, (bool[]){ false });
    return NULL;
}

static const char *next_end(void)
{
    const char *end;
    while (!*(end = ends()))
        sched_yield();
    return end;
}

Test(undo, who_waits_sends_the_text_too)
{
    pthread_t thread;
    bool settled = false;
    peer_up(&peer);
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_end, &settled), 0);
    cr_assert_str_eq(next_end(), "7");
    peer_says(&peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_str_eq(next_end(), "EVAL 7");
    peer_says(&peer, ":1\r\n");
    pthread_join(thread, NULL);
    cr_assert(settled);
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, who_stops_waiting_leaves_it_to_the_background)
{
    bool sent = false;
    struct hlk_self *self = hlk_self_get();
    peer_up(&peer);
    start_for(&a, 7, self);
    cr_assert_not(hlk_undo_wait(&undos, &a.undo, self, hlk_clock_ms(), &sent));
    cr_assert(sent);
    cr_assert_eq(a.settled, 0);
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, who_stops_waiting_may_have_sent_nothing)
{
    bool sent = true;
    struct hlk_self *self = hlk_self_get();
    start_for(&a, 7, self);
    cr_assert_not(hlk_undo_wait(&undos, &a.undo, self, hlk_clock_ms(), &sent));
    cr_assert_not(sent);
    cr_assert_eq(undos.parked, 1u);
    peer_up(&peer);
    hlk_undos_on_up(&undos);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_UNDO_DONE));
}

Test(undo, what_a_thread_drives_is_not_settled_by_close)
{
    bool sent = false;
    struct hlk_self *self = hlk_self_get();
    start_for(&a, 7, self);
    peer_close(&peer);
    hlk_undos_settle_all(&undos);
    cr_assert_eq(a.settled, 0);
    cr_assert_not(
        hlk_undo_wait(&undos, &a.undo, self, INT64_MAX, &sent)); /* it parks it on finding the client closed */
    hlk_undos_settle_all(&undos);
    cr_assert(settled_as(&a, HLK_UNDO_GIVEN_UP));
}
