/* What a client does with what sentinels say. The sentinels are the test's own; the servers that they name are real,
 * and replicate nothing. */
#include "support/fake_sentinel.h"
#include "support/fixture.h"
#include "support/port.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server *old, *new;
static redisContext *at_old, *at_new;
static struct fake_sentinel *fakes[3];

static void start(void)
{
    old = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    new = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    at_old = raw_open(old);
    at_new = raw_open(new);
}

static void stop(void)
{
    fixture_end();
    for (int i = 0; i < 3; i++)
        if (fakes[i])
            fake_sentinel_stop(fakes[i]);
    if (old->pid > 0)
        raw(at_old, "FLUSHALL");
    redisFree(at_old);
    redisFree(at_new);
    server_finish(old);
    server_finish(new);
}

TestSuite(answers, .init = start, .fini = stop, .timeout = 120);

static const char *url_of(const int *ports, int n)
{
    static char url[256];
    size_t len = (size_t)snprintf(url, sizeof url, "redis+sentinel://");
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(url + len, sizeof url - len, "%s127.0.0.1:%d", i ? "," : "", ports[i]);
    snprintf(url + len, sizeof url - len, "/tmaster");
    return url;
}

/* n sentinels that name the old one. */
static const char *fake_url(int n)
{
    int ports[3];
    for (int i = 0; i < n; i++) {
        fakes[i] = fake_sentinel_start(old->port, 1);
        ports[i] = fake_sentinel_port(fakes[i]);
    }
    return url_of(ports, n);
}

static int free_port(void)
{
    int port;
    close(port_reserve(&port));
    return port;
}

static void name_the_new_one(int i, uint64_t epoch)
{
    char payload[96];
    fake_sentinel_set(fakes[i], new->port, epoch);
    snprintf(payload, sizeof payload, "tmaster 127.0.0.1 %d 127.0.0.1 %d", old->port, new->port);
    fake_sentinel_publish(fakes[i], payload);
}

static bool is_held_at(redisContext *view, hlk_lock *lock, const char *name)
{
    char holder[192];
    return hlk_lock_hold_id(lock, holder, sizeof holder) == HLK_OK && raw_int(view, "HEXISTS %s %s", name, holder) == 1;
}

static hlk_lock *held(hlk_client *client, const char *name)
{
    hlk_lock *lock = fixture_lock(client, name, NULL);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    return lock;
}

/* What an open ends with that gives up after this time. */
static enum hlk_status refused_open(const char *url, int64_t ms)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client;
    opts.reconnect_timeout_ms = ms;
    enum hlk_status status = hlk_client_open(&client, url, &opts);
    cr_assert_null(client);
    fprintf(stderr, "%s\n", hlk_last_error());
    return status;
}

static bool error_has(const char *text)
{
    return strstr(hlk_last_error(), text) != NULL;
}

Test(answers, lead_to_the_master)
{
    hlk_client *client = fixture_open_at(fake_url(3), NULL);
    hlk_lock *lock = held(client, "t");
    cr_assert(is_held_at(at_old, lock, "t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(raw_int(at_old, "EXISTS t"), 0);
}

Test(answers, of_one_are_enough)
{
    int ports[3] = { free_port(), free_port(), 0 };
    fakes[0] = fake_sentinel_start(old->port, 1);
    ports[2] = fake_sentinel_port(fakes[0]);
    hlk_client *client = fixture_open_at(url_of(ports, 3), NULL);
    hlk_lock *lock = held(client, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(answers, of_one_are_not_delayed_by_one_that_hangs)
{
    int ports[2], hanging = port_reserve(&ports[0]);
    cr_assert_eq(listen(hanging, 1), 0);
    fakes[0] = fake_sentinel_start(old->port, 1);
    ports[1] = fake_sentinel_port(fakes[0]);
    struct hlk_client_opts opts = fixture_opts();
    opts.reconnect_timeout_ms = 900; /* a sentinel has 1000 */
    (void)fixture_open_at(url_of(ports, 2), &opts);
    close(hanging);
}

Test(answers, missing_are_an_error_that_names_each_sentinel)
{
    int ports[2], hanging = port_reserve(&ports[0]);
    char text[96];
    cr_assert_eq(listen(hanging, 1), 0);
    ports[1] = free_port();
    cr_assert_eq(refused_open(url_of(ports, 2), 1500), HLK_E_CONNECT);
    snprintf(text, sizeof text, "no sentinel of 2 answered (127.0.0.1:%d: no answer", ports[0]);
    cr_assert(error_has(text), "%s", hlk_last_error());
    snprintf(text, sizeof text, "127.0.0.1:%d: Connection refused)", ports[1]);
    cr_assert(error_has(text), "%s", hlk_last_error());
    cr_assert(error_has("open redis+sentinel://") && error_has("/tmaster"), "%s", hlk_last_error());
    close(hanging);
}

Test(answers, that_there_is_no_such_service_are_an_error_at_once)
{
    int ports[2];
    for (int i = 0; i < 2; i++) {
        fakes[i] = fake_sentinel_start(0, 0);
        ports[i] = fake_sentinel_port(fakes[i]);
    }
    cr_assert_eq(refused_open(url_of(ports, 2), -1), HLK_E_SERVER);
    cr_assert(error_has("the sentinels do not know a master \"tmaster\""), "%s", hlk_last_error());
}

Test(answers, that_name_a_replica_are_not_followed)
{
    char text[96];
    raw(at_old, "REPLICAOF 127.0.0.1 1");
    const char *url = fake_url(1);
    cr_assert_eq(refused_open(url, 500), HLK_E_CONNECT);
    snprintf(text, sizeof text, "the sentinels' master 127.0.0.1:%d is a replica", old->port);
    cr_assert(error_has(text), "%s", hlk_last_error());
    raw(at_old, "REPLICAOF NO ONE");
    hlk_client *client = fixture_open_at(url, NULL);
    hlk_lock *lock = held(client, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(answers, that_name_nobody_say_where_they_led)
{
    char text[96];
    fakes[0] = fake_sentinel_start(free_port(), 1);
    int port = fake_sentinel_port(fakes[0]);
    cr_assert_eq(refused_open(url_of(&port, 1), 300), HLK_E_CONNECT);
    snprintf(text, sizeof text, "the sentinels' master 127.0.0.1:");
    cr_assert(error_has(text) && error_has(": Connection refused"), "%s", hlk_last_error());
}

/* --- another master */

/* Nobody closed a connection, and the old one takes writes: what counts is who the sentinels say is the master. */
/* Shows: S8 */
Test(answers, that_change_move_all_away_from_a_living_master)
{
    const char *url = fake_url(2);
    hlk_client *client = fixture_open_at(url, NULL), *other = fixture_open_at(url, NULL);
    hlk_lock *lost = held(client, "tl"), *kept = held(client, "tk");
    struct actor *waiter = actor_start(fixture_lock(other, "tl", NULL), NULL);
    struct actor *patient = actor_start(fixture_lock(other, "tk", NULL), NULL);
    WAIT_FOR(raw_int(at_old, "EXISTS hasplock_queue:{tl} hasplock_queue:{tk}") == 2);
    char holder[192];
    cr_assert_eq(hlk_lock_hold_id(kept, holder, sizeof holder), HLK_OK);
    raw(at_new, "HSET tk %s 1", holder); /* this one was replicated */
    raw(at_new, "PEXPIRE tk 30000");
    name_the_new_one(0, 2);
    (void)fixture_wait_event(HLK_EVENT_LOST, "tl");
    cr_assert_eq(actor_status(waiter), HLK_OK, "%s", actor_error(waiter));
    cr_assert_eq(raw_int(at_new, "EXISTS tl tk"), 2);
    cr_assert_not(actor_answered(patient));
    cr_assert_eq(hlk_lock_release(kept), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(actor_status(patient), HLK_OK, "%s", actor_error(patient));
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 1);
    cr_assert_eq(hlk_lock_release(lost), HLK_LOST);
    cr_assert_eq(actor_end(patient), HLK_OK);
    cr_assert_eq(actor_end(waiter), HLK_OK);
    cr_assert_eq(raw_clients(at_old, "pubsub"), 0);
}

Test(answers, that_change_are_followed_when_the_old_master_hangs)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.reply_timeout_ms = 3600000; /* the old one is not given up for its silence */
    hlk_client *client = fixture_open_at(fake_url(1), &opts);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    server_allow(new, SERVER_TOMBSTONES); /* of what was in doubt */
    server_pause(old);
    struct actor *actor = actor_start(lock, NULL); /* what it sends there is not answered */
    WAIT_FOR(fixture_counters(client).commands > 0);
    name_the_new_one(0, 2);
    cr_assert_eq(actor_status(actor), HLK_OK, "%s", actor_error(actor));
    cr_assert(raw_int(at_new, "EXISTS t") == 1);
    cr_assert_eq(actor_end(actor), HLK_OK);
    server_resume(old);
}

/* Nor does a sentinel that names another server without being asked or having a newer configuration: a message about
 * ours would make the client ask, and follow. */
Test(answers, about_another_service_move_nobody)
{
    hlk_client *client = fixture_open_at(fake_url(3), NULL);
    hlk_lock *lock = held(client, "t");
    char payload[96];
    fake_sentinel_set(fakes[0], new->port, 1);
    snprintf(payload, sizeof payload, "tmaster2 127.0.0.1 %d 127.0.0.1 %d", old->port, new->port);
    fake_sentinel_publish(fakes[0], payload);
    int asked = fake_sentinel_asked(fakes[0]);
    WAIT_FOR(fake_sentinel_asked(fakes[0]) >= asked + 2); /* polls: what the message led to is over */
    cr_assert_eq(fixture_counters(client).reconnects, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* No message of it came: it is found out by asking, now and then. */
Test(answers, that_change_without_a_word_are_followed_too)
{
    hlk_client *client = fixture_open_at(fake_url(1), NULL);
    hlk_lock *lock = held(client, "t");
    fake_sentinel_set(fakes[0], new->port, 2);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_held_at(at_new, lock, "t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

Test(answers, of_an_older_epoch_do_not_count)
{
    const char *url = fake_url(3);
    server_allow(new, SERVER_TOMBSTONES);      /* of what was in doubt */
    fake_sentinel_set(fakes[1], new->port, 2); /* the first one still names the old one, and so does the third */
    hlk_client *client = fixture_open_at(url, NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    WAIT_FOR(fake_sentinel_asked(fakes[0]) > 0 && fake_sentinel_asked(fakes[1]) > 0 &&
             fake_sentinel_asked(fakes[2]) > 0);
    WAIT_FOR(raw_clients(at_new, "normal") == 2 && raw_clients(at_old, "normal") == 1); /* ours, and the test's own */
    for (int i = 0; i < 10; i++) {
        int asked = fake_sentinel_asked(fakes[0]);
        raw(at_new, "CLIENT KILL TYPE normal SKIPME yes");
        cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
        cr_assert(is_held_at(at_new, lock, "t"), "round %d", i);
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
        WAIT_FOR(fake_sentinel_asked(fakes[0]) > asked);
    }
    char text[64];
    snprintf(text, sizeof text, "the master is 127.0.0.1:%d now", old->port);
    cr_assert_not(fixture_logged(text));
}

/* --- a service that was removed, and is monitored anew: its epochs begin at 0 again */

/* Until two more rounds of each sentinel were answered, and the answers were read: it is asked for the third time. */
static void await_rounds(void)
{
    int asked[3];
    for (int i = 0; i < 3; i++)
        asked[i] = fake_sentinel_asked(fakes[i]);
    for (int round = 1; round <= 3; round++)
        for (int i = 0; i < 3; i++)
            WAIT_FOR(fake_sentinel_asked(fakes[i]) >= asked[i] + round);
}

static const char *url_of_epoch_5(void)
{
    const char *url = fake_url(3);
    for (int i = 0; i < 3; i++)
        fake_sentinel_set(fakes[i], old->port, 5);
    return url;
}

static hlk_client *open_when_all_have_answered(const char *url)
{
    hlk_client *client = fixture_open_at(url, NULL);
    for (int i = 0; i < 3; i++)
        WAIT_FOR(fake_sentinel_asked(fakes[i]) > 1);
    return client;
}

/* The third sentinel was forgotten by whoever did it, and still names the old master, which lives. */
/* Shows: S11 */
Test(answers, of_most_that_monitor_the_service_anew_are_followed)
{
    hlk_client *client = open_when_all_have_answered(url_of_epoch_5());
    hlk_lock *lock = held(client, "t");
    fake_sentinel_set(fakes[0], new->port, 0);
    fake_sentinel_set(fakes[1], new->port, 0);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_held_at(at_new, lock, "t"));
    uint64_t reconnects = fixture_counters(client).reconnects;
    await_rounds();
    cr_assert_eq(fixture_counters(client).reconnects, reconnects);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* Then a failover: two sentinels have not heard of it yet. */
/* Shows: S11 */
Test(answers, of_a_failover_count_after_monitoring_began_anew)
{
    hlk_client *client = open_when_all_have_answered(url_of_epoch_5());
    hlk_lock *lock = held(client, "t");
    for (int i = 0; i < 3; i++)
        fake_sentinel_set(fakes[i], new->port, 0);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    fixture_forget_events();
    raw(at_old, "FLUSHALL");
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    fake_sentinel_set(fakes[2], old->port, 1);
    (void)fixture_wait_event(HLK_EVENT_LOST, "t");
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);
    raw(at_new, "FLUSHALL");
    await_rounds();
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_held_at(at_old, lock, "t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* Shows: S11 */
Test(answers, of_one_that_monitors_the_service_anew_are_ignored)
{
    hlk_client *client = open_when_all_have_answered(url_of_epoch_5());
    hlk_lock *lock = held(client, "t");
    fake_sentinel_set(fakes[0], new->port, 0);
    await_rounds();
    cr_assert_eq(fixture_counters(client).reconnects, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* Shows: S11 */
Test(answers, of_one_round_that_name_a_master_anew_are_ignored)
{
    hlk_client *client = open_when_all_have_answered(url_of_epoch_5());
    hlk_lock *lock = held(client, "t");
    for (int i = 0; i < 3; i++)
        fake_sentinel_set_once(fakes[i], new->port, 0);
    await_rounds();
    cr_assert_eq(fixture_counters(client).reconnects, 0);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}

/* --- too much */

/* Each renewal is sent by the loop thread, which reads the flood, too. Of a flood that nobody reads the kernel keeps up
 * to 4 MiB to be sent, and as much as a new connection has room for. */
/* Shows: S28 */
Test(answers, that_never_end_leave_the_loop_to_its_other_work)
{
    enum { MORE_THAN_THE_KERNEL_KEEPS = 8 * 1024 * 1024 };
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = 3000;
    hlk_client *client = fixture_open_at(fake_url(1), &opts);
    hlk_lock *lock = held(client, "t");
    fake_sentinel_flood(fakes[0], true);
    WAIT_FOR(fake_sentinel_flooded(fakes[0]) > MORE_THAN_THE_KERNEL_KEEPS);
    uint64_t renewed = fixture_counters(client).renewals;
    WAIT_FOR(fixture_counters(client).renewals >= renewed + 3);
    size_t flooded = fake_sentinel_flooded(fakes[0]);
    WAIT_FOR(fake_sentinel_flooded(fakes[0]) > flooded);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

/* --- nobody to ask */

Test(answers, that_end_leave_the_client_with_the_known_master)
{
    hlk_client *client = fixture_open_at(fake_url(2), NULL);
    hlk_lock *lock = fixture_lock(client, "t", NULL);
    fake_sentinel_stop(fakes[0]);
    fake_sentinel_stop(fakes[1]);
    fakes[0] = fakes[1] = NULL;
    WAIT_FOR(fixture_logged("staying with the master that is known"));
    cr_assert(fixture_logged("no sentinel of 2 answered"));
    uint64_t before = fixture_counters(client).reconnects;
    raw(at_old, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert_eq(hlk_lock_acquire(lock, 5000), HLK_OK, "%s", hlk_last_error());
    WAIT_FOR(fixture_counters(client).reconnects > before);
    cr_assert(is_held_at(at_old, lock, "t"));
    cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s", hlk_last_error());
}
