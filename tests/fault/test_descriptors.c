/* No file descriptors: at each step of opening, for a reconnect, for the subscriber, for a caller's request. Open
 * returns HLK_E_OS at once. An open client keeps trying, and returns HLK_E_CONNECT if no attempt within
 * reconnect_timeout_ms got a descriptor. The text has the reason. Nothing leaks, open connections keep working, and
 * with descriptors everything works again.
 *
 * asks A1 redisson 5761: a wait without a subscription ends by the ttl. A10 hiredis 946: reconnects by itself. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* By TCP and by a socket. A name, and also an address, is looked up first, which takes descriptors too. */
static void start(void)
{
    fault_up(SERVER_TCP | SERVER_NOACL);
}

TestSuite(descriptors, .init = start, .fini = fixture_end, .timeout = 60);

static rlim_t set_limit(rlim_t now)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = now;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* Uses up all descriptors except `left`. */
struct hoard {
    int fds[512], n;
    rlim_t before;
};

static void hoard_take(struct hoard *hoard, int left)
{
    int fd;
    hoard->n = 0;
    hoard->before = set_limit(128);
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        hoard->fds[hoard->n++] = fd;
    cr_assert_eq(errno, EMFILE);
    while (left-- > 0)
        close(hoard->fds[--hoard->n]);
}

static void hoard_give(struct hoard *hoard)
{
    set_limit(hoard->before);
    while (hoard->n > 0)
        close(hoard->fds[--hoard->n]);
}

/* From here on nothing can be opened, whatever is closed. */
static rlim_t forbid(void)
{
    return set_limit(3);
}

#define says_why(text) (strstr((text), strerror(EMFILE)) || strstr((text), "descriptor"))

/* --- opening */

/* False: there were enough. Otherwise open fails at once, because nothing in this process would free one meanwhile. */
static bool open_with(const char *url, int left, unsigned flags)
{
    struct hlk_client_opts opts = fault_opts();
    struct hoard hoard;
    hlk_client *client = NULL;
    opts.reconnect_timeout_ms = WAIT_MS;
    opts.flags = flags;
    int before = open_descriptors();
    int64_t began = test_now_ms();
    hoard_take(&hoard, left);
    enum hlk_status status = hlk_client_open(&client, url, &opts);
    char text[512];
    snprintf(text, sizeof text, "%s", hlk_last_error());
    hoard_give(&hoard);
    cr_assert(ONE_OF(status, HLK_OK, HLK_E_OS), "%s, %d left: %s: %s", url, left, hlk_status_name(status), text);
    cr_assert_lt(running_ms(began), WAIT_MS / 2, "%s, %d left", url, left);
    cr_assert(status == HLK_OK || says_why(text), "%d left: %s: %s", left, hlk_status_name(status), text);
    cr_assert_eq(client != NULL, status == HLK_OK);
    hlk_client_close(client);
    WAIT_FOR(open_descriptors() == before); /* an abandoned lookup ends by itself */
    return status != HLK_OK;
}

Test(descriptors, that_run_out_while_opening)
{
    const unsigned flags[] = { 0, HLK_OPEN_DISPATCH };
    char name[64];
    snprintf(name, sizeof name, "redis://localhost:%d", fixture.server->port);
    const char *const urls[] = { fixture.server->unix_url, fixture.url, name };
    for (int i = 0; i < 6; i++) {
        int left = 0;
        while (open_with(urls[i / 2], left, flags[i % 2]))
            left++;
        cr_assert_geq(left, 3);
        cr_assert_leq(left, 12);
    }
}

/* --- acquiring */

static hlk_client *open_short(int64_t watchdog_ms)
{
    struct hlk_client_opts opts = fault_opts();
    opts.watchdog_ms = watchdog_ms;
    opts.reconnect_timeout_ms = 400;
    return fixture_open(&opts);
}

/* A try needs no descriptor. A wait needs one for the subscriber. Without it the wait ends by the ttl or its deadline,
 * not later. */
Test(descriptors, that_run_out_while_acquiring)
{
    hlk_client *client = open_short(LEASE_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *other = fixture_lock(client, "t2", NULL);
    for (int left = 0; left < 3; left++) {
        struct hoard hoard;
        hoard_take(&hoard, left);
        cr_assert_eq(hlk_lock_acquire(other, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
        raw(fixture.redis, "HSET t b983c153-7421-469a-addb-44fb92259a1b:1 1");
        int64_t began = test_now_ms();
        enum hlk_status status = hlk_lock_acquire(lock, 250);
        cr_assert_eq(status, HLK_TIMEOUT, "%s", hlk_last_error());
        cr_assert_geq(test_now_ms() - began, 250);
        cr_assert_lt(running_ms(began), 1250);
        raw(fixture.redis, "PEXPIRE t 300");
        began = test_now_ms();
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert_lt(running_ms(began), 1500);
        cr_assert_eq(hlk_lock_release(other), HLK_OK, "%s", hlk_last_error());
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        hoard_give(&hoard);
    }
}

/* When there is a descriptor again the client subscribes, and the waiter gets its messages. */
Test(descriptors, that_come_back_bring_the_subscription_back)
{
    hlk_lock *theirs = held_by_bystander(bystander(), "t", 0);
    hlk_client *client = open_short(LEASE_MS);
    rlim_t before = forbid();
    struct actor *waiter = actor_start(fixture_lock(client, "t", NULL), NULL);
    WAIT_FOR_WAITERS(client, 1);
    WAIT_FOR(fixture_logged(strerror(EMFILE)));
    cr_assert_eq(raw_listeners(fixture.redis, "t"), 0);
    set_limit(before);
    WAIT_FOR(raw_listeners(fixture.redis, "t") == 1);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(fixture_counters(client).woken_by_ttl, 0u);
}

Test(descriptors, that_are_asked_for_by_a_caller_are_refused_by_name)
{
    hlk_client *client = open_short(LEASE_MS);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.flags = HLK_ACQUIRE_EINTR;
    rlim_t before = forbid();
    hlk_cancel *cancel = hlk_cancel_create(client);
    cr_assert(!cancel && hlk_last_status() == HLK_E_OS && says_why(hlk_last_error()), "%s", hlk_last_error());
    cr_assert(hlk_lock_lost_fd(lock) == -1 && hlk_last_status() == HLK_E_OS, "%s", hlk_last_error());
    enum hlk_status status = hlk_lock_acquire_with(lock, &opts);
    cr_assert(ONE_OF(status, HLK_E_OS, HLK_OK), "%s", hlk_last_error());
    if (status == HLK_OK)
        cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    set_limit(before);
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
    cr_assert_geq(hlk_lock_lost_fd(lock), 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- reconnecting */

Test(descriptors, missing_for_a_reconnect_cost_only_short_leases)
{
    hlk_client *client = open_short(LEASE_MS), *patient = open_short(30000);
    hlk_lock *lock = fixture_lock(client, "t", NULL), *kept = fixture_lock(patient, "t-kept", NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK);
    cr_assert_eq(hlk_lock_acquire(kept, HLK_NOWAIT), HLK_OK);
    rlim_t before = forbid();
    raw(fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
    enum hlk_status status = hlk_lock_acquire(fixture_lock(client, "t2", NULL), HLK_NOWAIT);
    cr_assert(status == HLK_E_OS || NOT_GOT(status), "%s", hlk_last_error());
    WAIT_FOR(
        (status = hlk_lock_acquire(fixture_lock(patient, "t2", NULL), 300), ONE_OF(status, HLK_E_CONNECT, HLK_E_OS)));
    cr_assert(says_why(hlk_last_error()), "%s", hlk_last_error());
    struct fixture_event risk = fixture_wait_event(HLK_EVENT_AT_RISK, "t"),
                         lost = fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_leq(risk.reported_at_ms, lost.reported_at_ms);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    set_limit(before);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    WAIT_FOR(fixture_counters(patient).reconnects == 1);
    cr_assert_null(disagreement(kept, "t-kept", 1));
    cr_assert_eq(hlk_lock_release(kept), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, "t-kept"), 0u);
}
