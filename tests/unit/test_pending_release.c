/* Pending releases: repeated until they are answered, or their lease is over. */
#include "script/pending_release.h"

#include "kinds/kind.h"
#include "net/pipeline_link.h"
#include "peer.h"
#include "script/release_list.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define UNTIL 30000 /* ms from the start */

static struct peer peer;
static struct hlk_releases releases;

static struct owed {
    struct hlk_release pending;
    int settled;
    enum hlk_release_outcome outcome;
    struct hlk_error error;
} a, b;

static void init(void)
{
    peer_open(&peer);
    hlk_releases_init(&releases, peer.loop, "hlk-t-1-a");
    releases.pipeline = peer.pipeline;
    releases.yield_every = 4;
    releases.yield_ms = 3;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
}

static void fini(void)
{
    peer_close(&peer);
    hlk_releases_fini(&releases);
    peer_free(&peer);
}

TestSuite(pending, .init = init, .fini = fini, .timeout = 20);

static void on_settled(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    struct owed *owed = HLK_CONTAINER(pending, struct owed, pending);
    owed->settled++;
    owed->outcome = outcome;
    if (error)
        owed->error = *error;
}

static void start_for(struct owed *owed, uint64_t hold, struct hlk_thread *waiter)
{
    owed->pending.cmd.type = &hlk_format_lock.release;
    owed->pending.cmd.name = "a";
    owed->pending.cmd.name_len = 1;
    owed->pending.cmd.hold = hold;
    owed->pending.until_ms = hlk_clock_ms() + UNTIL;
    owed->pending.settled = on_settled;
    hlk_release_start(&releases, &owed->pending, waiter, false);
}

static void start(struct owed *owed)
{
    start_for(owed, 7, NULL);
}

static void tick(void)
{
    releases.tick.run(&releases.tick, hlk_clock_ms());
}

/* The releases that arrived: "hold", or "hold!" with a tombstone; by text ("EVAL hold") or by SHA-1. */
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
        bool tombstone = strstr(at, "\r\n600000") != NULL;
        size_t len = strlen(out);
        (void)snprintf(out + len, sizeof out - len, "%s%s%.*s%s", len ? " " : "", strstr(at, "EVAL\r\n") ? "EVAL " : "",
                       hold ? (int)strcspn(hold + 10, "\r") : 0, hold ? hold + 10 : "", tombstone ? "!" : "");
    }
    return out;
}

static bool settled_as(const struct owed *owed, enum hlk_release_outcome outcome)
{
    return owed->settled == 1 && owed->outcome == outcome && hlk_releases_count(&releases) == 0;
}

/* --- replies --- */

Test(pending, an_end_that_was_done)
{
    peer_up(&peer);
    start(&a);
    cr_assert_str_eq(ends(), "7");
    cr_assert_eq(hlk_releases_count(&releases), 1u);
    cr_assert_eq(a.settled, 0);
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, an_end_of_what_was_in_queue)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, ":2\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, an_end_of_what_was_not_held)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_ABSENT));
}

Test(pending, an_end_that_is_refused_for_good)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_REFUSED));
    cr_assert_eq(a.error.status, HLK_E_SERVER);
}

/* --- again --- */

Test(pending, an_attempt_that_broke_is_sent_again)
{
    peer_up(&peer);
    start(&a);
    ends();
    peer_breaks(&peer);
    cr_assert_eq(a.settled, 0);
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, absent_after_a_broken_attempt_may_be_done_by_it)
{
    peer_up(&peer);
    start(&a);
    peer_breaks(&peer);
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_ABSENT_REPEATED));
}

static void meets(uint64_t server)
{
    peer_up(&peer);
    hlk_mutex_lock(&peer.pipeline->mu);
    hlk_pipeline_begin_epoch(peer.pipeline, server, 0);
    hlk_mutex_unlock(&peer.pipeline->mu);
}

/* The release breaks, and the next attempt finds nothing to release. */
static enum hlk_release_outcome ends_twice(int64_t known_ms, uint64_t second)
{
    memset(&a, 0, sizeof a);
    a.pending.known_ms = known_ms;
    start(&a);
    peer_breaks(&peer);
    peer_passes(&peer, 10);
    meets(second);
    hlk_releases_on_up(&releases);
    peer_answers(&peer, ":0\r\n");
    cr_assert_eq(a.settled, 1);
    return a.outcome;
}

/* If the same process answers, the broken attempt has done it. If another one does, the hold may also have been lost
 * with its data. */
Test(pending, absent_after_a_restart_is_not_known)
{
    meets(7);
    int64_t known = hlk_clock_ms();
    peer_passes(&peer, 1000);
    cr_assert_eq(ends_twice(known, 7), HLK_RELEASE_ABSENT_REPEATED);
    cr_assert_eq(ends_twice(known, 8), HLK_RELEASE_UNKNOWN);
    cr_assert_eq(ends_twice(known, 8), HLK_RELEASE_UNKNOWN,
                 "the first copy went to the new one, the hold was on the old one");
    known = hlk_clock_ms();
    cr_assert_eq(ends_twice(known, 8), HLK_RELEASE_ABSENT_REPEATED, "renewed by the new one");
    cr_assert_eq(ends_twice(hlk_clock_ms(), 0), HLK_RELEASE_UNKNOWN, "a user without the right to ask");
}

Test(pending, done_after_a_restart_is_done)
{
    meets(7);
    a.pending.known_ms = hlk_clock_ms();
    start(&a);
    peer_breaks(&peer);
    meets(8);
    hlk_releases_on_up(&releases);
    peer_answers(&peer, ":1\r\n"); /* it has kept its data */
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, absent_after_an_unsent_attempt_is_absent)
{
    start(&a);
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_ABSENT));
}

Test(pending, parked_ends_go_in_their_order)
{
    start_for(&a, 7, NULL);
    start_for(&b, 8, NULL);
    cr_assert_eq(releases.parked, 2u);
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    cr_assert_str_eq(ends(), "7 8");
    peer_answers(&peer, ":1\r\n:1\r\n");
    cr_assert_eq(releases.parked, 0u);
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, one_attempt_flies_at_a_time)
{
    peer_up(&peer);
    start(&a);
    ends();
    hlk_releases_on_up(&releases);
    peer_passes(&peer, 1000);
    tick();
    cr_assert_str_eq(ends(), "");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, a_server_without_the_script_is_sent_its_text)
{
    peer_up(&peer);
    start(&a);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    cr_assert_str_eq(ends(), "EVAL 7");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_ABSENT)); /* the first attempt did not run */
}

Test(pending, a_server_that_cannot_now_is_asked_later)
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
    cr_assert(settled_as(&a, HLK_RELEASE_ABSENT)); /* none of the attempts ran */
}

Test(pending, ticks_do_not_hurry_a_server_that_refuses)
{
    int attempts = 0;
    peer_up(&peer);
    start(&a);
    ends();
    peer_answers(&peer, "-LOADING Redis is loading the dataset in memory\r\n");
    for (int ms = 0; ms < 1000; ms += 10, peer_passes(&peer, 10)) {
        tick();
        if (*ends()) {
            attempts++;
            peer_answers(&peer, "-LOADING Redis is loading the dataset in memory\r\n");
        }
    }
    cr_assert_eq(attempts, 10);
}

Test(pending, ticks_are_needed_while_something_is_parked)
{
    cr_assert_eq(releases.tick.due_ms(&releases.tick), INT64_MAX);
    start(&a);
    cr_assert_leq(releases.tick.due_ms(&releases.tick), hlk_clock_ms());
    peer_up(&peer);
    tick();
    cr_assert_eq(releases.tick.due_ms(&releases.tick), INT64_MAX); /* it is in flight */
    peer_answers(&peer, ":1\r\n");
}

Test(pending, is_given_up_when_its_lease_is_over)
{
    start(&a);
    peer_passes(&peer, UNTIL);
    tick();
    cr_assert_eq(a.settled, 0);
    peer_passes(&peer, 101);
    tick();
    cr_assert(settled_as(&a, HLK_RELEASE_GIVEN_UP));
}

static size_t others;
static bool other_owed;

static void on_first_settled(struct hlk_release *pending, enum hlk_release_outcome outcome,
                             const struct hlk_error *error)
{
    others = hlk_releases_count(&releases);
    other_owed = hlk_releases_has(&releases, 2);
    on_settled(pending, outcome, error);
}

/* Close waits for all that are counted. A grant for a pending release is not handed back. */
Test(pending, is_counted_while_another_one_is_dealt_with)
{
    start(&a);
    start_for(&b, 2, NULL);
    a.pending.settled = on_first_settled;
    peer_passes(&peer, UNTIL + 101);
    tick();
    cr_assert(settled_as(&a, HLK_RELEASE_GIVEN_UP));
    cr_assert_eq(others, 1u);
    cr_assert(other_owed);
    cr_assert(settled_as(&b, HLK_RELEASE_GIVEN_UP));
}

Test(pending, is_given_up_when_the_client_closes)
{
    start(&a);
    peer_close(&peer);
    hlk_releases_settle_all(&releases);
    cr_assert(settled_as(&a, HLK_RELEASE_GIVEN_UP));
}

Test(pending, what_flies_is_given_up_when_the_client_closes)
{
    peer_up(&peer);
    start(&a);
    peer_close(&peer);
    hlk_releases_settle_all(&releases);
    cr_assert(settled_as(&a, HLK_RELEASE_GIVEN_UP));
}

/* --- holds whose acquire is in doubt --- */

Test(pending, a_doubtful_hold_leaves_a_tombstone)
{
    peer_up(&peer);
    a.pending.doubt = true;
    start(&a);
    cr_assert_str_eq(ends(), "7!");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_ABSENT));
}

Test(pending, an_acquire_in_the_same_stream_is_no_doubt)
{
    peer_up(&peer);
    a.pending.acquire_epoch = hlk_pipeline_epoch(peer.pipeline);
    start(&a);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, an_acquire_in_a_broken_stream_leaves_a_tombstone)
{
    peer_up(&peer);
    a.pending.acquire_epoch = hlk_pipeline_epoch(peer.pipeline);
    start(&a);
    ends();
    peer_breaks(&peer);
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    cr_assert_str_eq(ends(), "7!");
    peer_answers(&peer, ":0\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_ABSENT_REPEATED));
}

Test(pending, an_answer_without_a_tombstone_settles_no_doubt)
{
    peer_up(&peer);
    start(&a);
    ends();
    a.pending.doubt = true; /* learned while the attempt was in flight */
    peer_answers(&peer, ":1\r\n");
    cr_assert_eq(a.settled, 0);
    cr_assert_str_eq(ends(), "7!");
    peer_answers(&peer, ":0\r\n");
    cr_assert_eq(a.settled, 1);
}

/* --- a yield window for Redisson's clients --- */

/* Whether the release of this hold opens a yield window. All its attempts do the same. */
static bool opens(uint64_t hold)
{
    char first[4096];
    memset(&a, 0, sizeof a);
    start_for(&a, hold, NULL);
    (void)snprintf(first, sizeof first, "%.4000s", peer_hears(&peer));
    peer_breaks(&peer);
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    cr_assert_str_eq(peer_hears(&peer), first);
    peer_answers(&peer, ":1\r\n");
    bool open = strncmp(first, "*9\r\n", 4) == 0;
    size_t len = strlen(first);
    if (open)
        cr_assert_str_eq(first + len - 14, "$1\r\n0\r\n$1\r\n3\r\n");
    return open;
}

Test(pending, one_end_in_four_has_an_yield_window)
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

Test(pending, an_end_of_a_ticket_in_the_queue_names_it)
{
    peer_up(&peer);
    a.pending.cmd.member = (struct hlk_member){ .ttl_ms = 5000, .since_ms = 77 };
    start(&a);
    cr_assert_not_null(strstr(peer_hears(&peer), "hlk-t-1-a:7 5000 0 0 77\r\n"));
    peer_answers(&peer, ":2\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

/* --- with a waiter --- */

static struct hlk_error why;

Test(pending, who_waits_gets_the_outcome)
{
    struct hlk_thread *self = hlk_thread_get();
    peer_up(&peer);
    start_for(&a, 7, self);
    peer_says(&peer, ":1\r\n");
    cr_assert_eq(hlk_release_wait(&a.pending, self, INT64_MAX, &why), HLK_OK);
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

static void *wait_for_end(void *arg)
{
    struct hlk_thread *self = hlk_thread_get();
    start_for(&a, 7, self);
    *(bool *)arg = hlk_release_wait(&a.pending, self, INT64_MAX, &why) == HLK_OK;
    return NULL;
}

static const char *next_end(void)
{
    const char *end;
    while (!*(end = ends()))
        sched_yield();
    return end;
}

Test(pending, who_waits_sends_the_text_too)
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
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, who_stops_waiting_leaves_it_to_the_background)
{
    struct hlk_thread *self = hlk_thread_get();
    peer_up(&peer);
    start_for(&a, 7, self);
    cr_assert_eq(hlk_release_wait(&a.pending, self, hlk_clock_ms(), &why), HLK_E_UNSURE);
    cr_assert_eq(a.settled, 0);
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, who_stops_waiting_may_have_sent_nothing)
{
    struct hlk_thread *self = hlk_thread_get();
    start_for(&a, 7, self);
    cr_assert_eq(hlk_release_wait(&a.pending, self, hlk_clock_ms(), &why), HLK_E_CONNECT);
    cr_assert_eq(releases.parked, 1u);
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
}

Test(pending, what_a_thread_drives_is_not_settled_by_close)
{
    struct hlk_thread *self = hlk_thread_get();
    start_for(&a, 7, self);
    peer_close(&peer);
    hlk_releases_settle_all(&releases);
    cr_assert_eq(a.settled, 0); /* its waiter parks it on finding the client closed */
    cr_assert_eq(hlk_release_wait(&a.pending, self, INT64_MAX, &why), HLK_E_CONNECT);
    hlk_releases_settle_all(&releases);
    cr_assert(settled_as(&a, HLK_RELEASE_GIVEN_UP));
}

/* --- refused --- */

static const char full[] = "-NOREPLICAS Not enough good replicas to write.\r\n";

/* Its waiter has no time for another attempt. */
static enum hlk_status is_refused(void)
{
    struct hlk_thread *self = hlk_thread_get();
    peer_up(&peer);
    start_for(&a, 7, self);
    cr_assert_str_eq(ends(), "7");
    peer_answers(&peer, full);
    memset(&why, 0, sizeof why);
    return hlk_release_wait(&a.pending, self, hlk_clock_ms(), &why);
}

/* Each attempt was refused, and that is known. "Sent, may have run" would be wrong. */
Test(pending, who_waits_is_told_what_the_server_said)
{
    struct hlk_error later;
    cr_assert_eq(is_refused(), HLK_E_SERVER);
    cr_assert_str_eq(ends(), "");
    cr_assert_eq(why.status, HLK_E_SERVER);
    cr_assert_str_eq(why.text, "NOREPLICAS Not enough good replicas to write.");
    cr_assert_eq(a.settled, 0);
    cr_assert(hlk_releases_refused(&releases, 7, &later));
    cr_assert_str_eq(later.text, why.text);
    cr_assert_not(hlk_releases_refused(&releases, 8, &later));
    peer_passes(&peer, 100);
    tick();
    cr_assert_str_eq(ends(), "7", "it goes on in the background");
    peer_answers(&peer, ":1\r\n");
    cr_assert(settled_as(&a, HLK_RELEASE_DONE));
    cr_assert_not(hlk_releases_refused(&releases, 7, &later));
}

Test(pending, refused_after_an_attempt_that_broke_is_unsure)
{
    struct hlk_error later;
    cr_assert_eq(is_refused(), HLK_E_SERVER);
    peer_passes(&peer, 100);
    tick();
    peer_breaks(&peer); /* this one may have run */
    cr_assert_not(hlk_releases_refused(&releases, 7, &later));
    peer_up(&peer);
    hlk_releases_on_up(&releases);
    peer_answers(&peer, full);
    cr_assert_not(hlk_releases_refused(&releases, 7, &later));
    peer_passes(&peer, UNTIL);
    tick();
    cr_assert(settled_as(&a, HLK_RELEASE_GIVEN_UP));
}

Test(pending, refused_until_its_lease_is_over_is_refused)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, full);
    peer_breaks(&peer);
    peer_passes(&peer, UNTIL + 101);
    tick();
    cr_assert(settled_as(&a, HLK_RELEASE_REFUSED));
    cr_assert_eq(a.error.status, HLK_E_SERVER);
    cr_assert_str_eq(a.error.text, "NOREPLICAS Not enough good replicas to write.");
}

Test(pending, refused_when_the_client_closes_is_given_up)
{
    peer_up(&peer);
    start(&a);
    peer_answers(&peer, full);
    peer_close(&peer);
    hlk_releases_settle_all(&releases);
    cr_assert(settled_as(&a, HLK_RELEASE_GIVEN_UP));
}
