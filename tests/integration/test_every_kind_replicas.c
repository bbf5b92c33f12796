/* What holds for each kind of lock, with wait_replicas: a master and a replica, both real. */
/* Shows: P53 */
#include "every_promise.h"

static struct server *replica;
static redisContext *seen;

/* A new replica acknowledges nothing for up to a second, and may count as one that has all before its time: it has to
 * have what was written since it is attached. */
static bool is_replicated(void)
{
    static int n;
    bool attached = raw_stat(fixture.redis, "master_repl_offset") > 0;
    raw(fixture.redis, "SET probe %d", ++n);
    bool has = attached && raw_int(fixture.redis, "WAIT 1 100") == 1 &&
               strcmp(raw(seen, "GET probe"), raw(fixture.redis, "GET probe")) == 0;
    raw(fixture.redis, "DEL probe");
    return has;
}

static void begin(unsigned flags)
{
    static char port[8];
    static const char *extra[] = { "--replicaof", "127.0.0.1", port, NULL };
    fixture_begin(flags | SERVER_TCP | SERVER_NOACL);
    raw(fixture.redis, "CONFIG SET repl-diskless-sync-delay 0");
    (void)snprintf(port, sizeof port, "%d", fixture.server->port);
    replica = server_start(SERVER_TCP | SERVER_NOACL, extra);
    seen = raw_open(replica);
    WAIT_FOR(is_replicated());
}

static void end(void)
{
    fixture_end();
    redisFree(seen);
    server_stop(replica);
}

static hlk_client *open_waiting(const struct hlk_client_opts *given)
{
    struct hlk_client_opts opts = *given;
    opts.wait_replicas = 1;
    opts.wait_replicas_timeout_ms = WAIT_MS; /* an answer after it would be a failure */
    return fixture_open(&opts);
}

static void restart(bool keep_data)
{
    every_one_server.restart(keep_data);
    raw(fixture.redis, "CONFIG SET repl-diskless-sync-delay 0");
    WAIT_FOR(is_replicated());
}

static struct every_place place;

__attribute__((constructor)) static void choose(void)
{
    place = every_one_server;
    place.begin = begin;
    place.end = end;
    place.open = open_waiting;
    place.restart = restart;
    every_place = &place;
}

/* The replica has what the holder counts on, and a hold that it does not have is given back. */
static void is_confirmed_by_a_replica(const struct every_kind *kind)
{
    struct every_handle own = every_handle(kind, every_open(NULL), NULL), other = every_other(kind, every_open(NULL));
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    cr_assert_eq(every_acquire(own, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_str_eq(raw(seen, "DUMP t"), raw(fixture.redis, "DUMP t"));
    cr_assert_eq(every_release(own), HLK_OK, "%s", hlk_last_error());
    server_pause(replica);
    opts.wait_ms = 300;
    cr_assert_eq(every_acquire_with(own, &opts), HLK_NOT_REPLICATED, "%s", hlk_last_error());
    server_resume(replica);
    cr_assert_eq(every_acquire(other, WAIT_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(every_release(other), HLK_OK, "%s", hlk_last_error());
}

#define CALLS(kind) EACH_PROMISE_OF_CALLS(EVERY_TEST, kind) EVERY_TEST(kind, is_confirmed_by_a_replica, 0)
#define HOLDS(kind) EACH_PROMISE_OF_HOLDS(EVERY_TEST, kind)
#define FAULTS(kind)                                                                                                   \
    EVERY_TEST(kind, survives_a_cut_before_its_answer, STAGE_PROXY)                                                    \
    EVERY_TEST(kind, survives_an_answer_that_never_comes, STAGE_PROXY)
#define RESTARTS(kind) EACH_PROMISE_OF_RESTARTS(EVERY_TEST, kind)
#define KILLS(kind) EACH_PROMISE_OF_KILLS(EVERY_TEST, kind)

EACH_KIND(EVERY_SUITE)
EACH_KIND(CALLS)
EACH_KIND(FAULTS)
EACH_LOCK(HOLDS)
EACH_FORMAT_OF_LOCKS(RESTARTS)
RESTARTS(semaphore)
EACH_FORMAT_OF_LOCKS(KILLS)
