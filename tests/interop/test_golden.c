/* The golden transcripts of Redisson's wire format, G1 (one holder) and G2 (a contended lock), by their effects:
 * hasplock plays one part or both, and after each step the server, the channel and Java's view are as Redisson's own
 * step leaves them. Our scripts are not Redisson's, so their commands are not compared; the keys and channels are. */
#include "interop/fixture.h"

#include <criterion/criterion.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

TestSuite(golden, .init = fixture_open, .fini = fixture_close, .timeout = FIXTURE_SECONDS);

/* The transcripts' leases. SLACK: what a slow machine may need between a write and the look at its ttl. */
enum { LEASE = 30000, SHORT = 5000, SLACK = 2500 };

/* --- which names a script of ours may name */

struct names {
    char lock[128], queue[160], token[160], channel[640];
};

static struct names names_of(const char *lock)
{
    struct names names;
    snprintf(names.lock, sizeof names.lock, "%s", lock);
    snprintf(names.queue, sizeof names.queue, "hasplock_queue:{%s}", lock);
    snprintf(names.token, sizeof names.token, "redisson_lock_token:{%s}", lock);
    raw_channel(names.channel, sizeof names.channel, lock);
    return names;
}

static bool is_key(const struct names *names, const char *word)
{
    return strcmp(word, names->lock) == 0 || strcmp(word, names->queue) == 0 || strcmp(word, names->token) == 0;
}

static bool keys_are_ours(const struct names *names, const char *line)
{
    char word[640];
    int keys = 0, at = 0;
    if (sscanf(line, "%*s %*s %*s %d %n", &keys, &at) != 1)
        return false;
    for (int len = 0; keys > 0; keys--, at += len)
        if (sscanf(line + at, "%639s %n", word, &len) != 1 || !is_key(names, word))
            return false;
    return true;
}

static bool is_inbox(const char *word)
{
    return strncmp(word, "hasplock_inbox:hlk-", 19) == 0;
}

static bool may_say(const struct names *names, const char *line)
{
    char command[32] = "", first[640] = "", second[640] = "";
    sscanf(line + 3, "%31s %639s %639s", command, first, second);
    if (strncmp(command, "eval", 4) == 0)
        return keys_are_ours(names, line);
    if (strstr(command, "subscribe"))
        return is_inbox(first) || strcmp(first, names->channel) == 0;
    if (line[1] == '>')
        return true; /* the test's own questions; ours are counted by requests() */
    if (strcmp(command, "publish") == 0)
        return is_inbox(first) || (strcmp(first, names->channel) == 0 && strcmp(second, "0") == 0);
    if (strcmp(command, "pubsub") == 0)
        return strcmp(first, "numsub") == 0 && (is_inbox(second) || strcmp(second, names->channel) == 0);
    return strcmp(command, "time") == 0 || is_key(names, first);
}

/* Between two marks, hasplock named the lock, its queue, its counter of tokens, its channel and inboxes as the format
 * has them, and nothing else. */
static void expect_only_its_names(const struct watch *watch, size_t from, size_t to, const char *lock)
{
    struct names names = names_of(lock);
    for (size_t i = from; i < to; i++) {
        const char *line = watch_line(watch, i);
        cr_assert(line[0] != 'C' || may_say(&names, line), "%s", line);
    }
}

/* Requests of hasplock between two marks in which the test itself asked nothing. */
static size_t requests(const struct watch *watch, size_t from, size_t to)
{
    return watch_count(watch, from, to - 1, "C> *");
}

/* --- what else the steps need */

/* A lock of a client whose watchdog's lease is Redisson's default. */
static hlk_lock *golden_lock(const char *name)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    opts.watchdog_ms = LEASE;
    hlk_lock *lock = hlk_lock_create(fixture_client(&opts), name, NULL);
    cr_assert_not_null(lock, "%s", hlk_last_error());
    return lock;
}

static void acquire_for(hlk_lock *lock, int64_t lease_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.lease_ms = lease_ms;
    cr_assert_eq(hlk_lock_acquire_with(lock, &opts), HLK_OK, "%s", hlk_last_error());
}

static void expect_zero(redisContext *listener, const char *lock)
{
    char channel[640], message[800];
    raw_channel(channel, sizeof channel, lock);
    snprintf(message, sizeof message, "[\"message\", \"%s\", \"0\"]", channel);
    cr_assert_str_eq(raw_next(listener), message);
}

/* The first call of each script may load it: that is not part of the transcripts. */
static void warm_up(hlk_lock *lock)
{
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
}

/* --- G1: lock, reenter, queries, unlock, unlock, unlock when not held, forced release */

Test(golden, g1_one_holder)
{
    static const char name[] = "lk:plain";
    char hold[192];
    hlk_lock *lock = golden_lock(name);
    warm_up(lock);
    struct watch *watch = watch_start(fixture.server);
    size_t from = watch_mark(watch), to;

    /* lock: one request; one field <client>:<number> = 1; ttl 30000 */
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    to = watch_mark(watch);
    cr_assert_eq(requests(watch, from, to), 1);
    expect_only_its_names(watch, from, to, name);
    cr_assert_eq(hlk_lock_hold_id(lock, hold, sizeof hold), HLK_OK);
    cr_assert_eq(fnmatch("hlk-*:[0-9]*", hold, 0), 0, "%s", hold);
    cr_assert_str_eq(raw_holder(fixture.redis, name), hold);
    expect_held(name, hold, 1, LEASE - SLACK, LEASE);

    /* reenter: Redisson writes the count 2; ours is at home, and Java sees the lock held as before */
    from = watch_mark(watch);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    to = watch_mark(watch);
    cr_assert_eq(requests(watch, from, to), 0);
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 islocked %s", name), "true");
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 held %s", name), "false");

    /* unlock 1: held as before. unlock 2: one request, gone; nobody listens, so nobody is told */
    from = watch_mark(watch);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    to = watch_mark(watch);
    cr_assert_eq(requests(watch, from, to), 0);
    expect_held(name, hold, 1, 1, LEASE);
    from = watch_mark(watch);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    to = watch_mark(watch);
    cr_assert_eq(requests(watch, from, to), 1);
    cr_assert_eq(watch_count(watch, from, to, "C. publish redisson_lock__channel:*"), 0);
    expect_only_its_names(watch, from, to, name);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);

    /* unlock when not held: Redisson asks the server; ours knows */
    from = watch_mark(watch);
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    to = watch_mark(watch);
    cr_assert_eq(requests(watch, from, to), 0);
    watch_stop(watch);
    hlk_lock_destroy(lock);
}

Test(golden, g1_messages)
{
    static const char name[] = "lk:plain";
    hlk_lock *lock = golden_lock(name);
    redisContext *listener = raw_open(fixture.server);
    struct watch *watch = watch_start(fixture.server);
    size_t from = watch_mark(watch);
    raw(listener, "SUBSCRIBE redisson_lock__channel:{%s}", name);

    /* unlock, somebody listens: "0", once */
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    expect_zero(listener, name);

    /* forceUnlock on held: gone, and "0", once; on free: nothing */
    cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
    expect_free(name);
    expect_zero(listener, name);
    cr_assert_eq(hlk_lock_break(lock), HLK_NOT_HOLDER);
    cr_assert_eq(hlk_lock_release(lock), HLK_LOST);

    size_t to = watch_mark(watch);
    cr_assert_eq(watch_count(watch, from, to, "*publish redisson_lock__channel:*"), 2);
    expect_only_its_names(watch, from, to, name);
    redisFree(listener);
    watch_stop(watch);
    hlk_lock_destroy(lock);
}

/* --- G2: A locks for 5 s, B waits, A unlocks, B has it; A tries for 200 ms; B breaks it */

Test(golden, g2_a_is_c_b_is_java)
{
    static const char name[] = "lk:contended";
    char uuid[64];
    hlk_lock *lock = golden_lock(name);
    peer_ask(fixture.java, "- open B %s %d", fixture.java_url, LEASE);
    snprintf(uuid, sizeof uuid, "%s", peer_ask(fixture.java, "- uuid B"));
    struct watch *watch = watch_start(fixture.server);
    size_t from = watch_mark(watch);

    /* A lock lease 5 s */
    acquire_for(lock, SHORT);
    expect_held(name, "hlk-", 1, SHORT - SLACK, SHORT);

    /* B lock() waits; A unlock: "0" once; B has it for 30 s */
    peer_tell(fixture.java, "B.1 lock %s", name);
    await_parked(watch, 'J', name);
    expect_held(name, "hlk-", 1, 1, SHORT);
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    watch_for(watch, "C. publish redisson_lock__channel:{%s} 0", name);
    watch_for(watch, "J. hincrby %s %s:* 1", name, uuid);
    watch_for(watch, "J> unsubscribe redisson_lock__channel:{%s}", name);
    cr_assert_str_eq(peer_answer(fixture.java, "B.1")->text, "ok");
    expect_held(name, uuid, 1, LEASE - SLACK, LEASE);

    /* A tryLock(200 ms): asks, subscribes, asks, leaves; B's hold is as it was */
    cr_assert_eq(hlk_lock_acquire(lock, 200), HLK_TIMEOUT);
    await_parked(watch, 'C', name);
    watch_for(watch, "C> unsubscribe redisson_lock__channel:{%s}", name);
    expect_held(name, uuid, 1, LEASE - 2 * SLACK, LEASE);

    /* B force: gone; nobody listens, but Redisson publishes always */
    cr_assert_str_eq(peer_ask(fixture.java, "B.2 forceunlock %s", name), "true");
    expect_free(name);
    size_t to = watch_mark(watch);
    cr_assert_eq(watch_count(watch, from, to, "C. publish redisson_lock__channel:*"), 1);
    expect_only_its_names(watch, from, to, name);
    watch_stop(watch);
    hlk_lock_destroy(lock);
}

Test(golden, g2_a_is_java_b_is_c)
{
    static const char name[] = "lk:contended";
    struct c_waiter b;
    hlk_lock *lock = golden_lock(name);
    const char *uuid = peer_ask(fixture.java, "- uuid A");
    struct watch *watch = watch_start(fixture.server);
    size_t from = watch_mark(watch);

    /* A lock lease 5 s; B lock() waits: asks, subscribes, asks; A's hold is as it was */
    peer_ask(fixture.java, "A.1 lock %s %d", name, SHORT);
    c_waiter_start(&b, lock, HLK_FOREVER);
    watch_for(watch, "C> evalsha * %s *", name);
    await_parked(watch, 'C', name);
    expect_held(name, uuid, 1, 1, SHORT);

    /* A unlock: "0"; B has it for 30 s under a field of its own, and stops listening */
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 unlock %s", name), "ok");
    cr_assert_eq(c_waiter_answer(&b), HLK_OK);
    expect_held(name, "hlk-", 1, LEASE - SLACK, LEASE);
    watch_for(watch, "J. publish redisson_lock__channel:{%s} 0", name);
    watch_for(watch, "C> unsubscribe redisson_lock__channel:{%s}", name);

    /* A tryLock(200 ms): false, and B's hold is as it was */
    cr_assert_str_eq(peer_ask(fixture.java, "A.1 trylock %s 200", name), "false");
    expect_held(name, "hlk-", 1, LEASE - 2 * SLACK, LEASE);

    /* B force: gone; nobody is told, since nobody listens */
    watch_for(watch, "J> unsubscribe redisson_lock__channel:{%s}", name);
    cr_assert_eq(hlk_lock_break(lock), HLK_OK);
    expect_free(name);
    cr_assert_eq(c_waiter_end(&b), HLK_LOST);
    size_t to = watch_mark(watch);
    cr_assert_eq(watch_count(watch, from, to, "C. publish redisson_lock__channel:*"), 0);
    expect_only_its_names(watch, from, to, name);
    watch_stop(watch);
    hlk_lock_destroy(lock);
}
